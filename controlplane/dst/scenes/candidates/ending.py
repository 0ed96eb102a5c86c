"""Judges whether everything is settled: what must hold half an hour after the last fault, and what may no longer be
there (L1, L2 and L5 of docs/explanation/candidates.md).

In: the environment, the states that the logs give, which pods users still want. Out: the first thing that is left to
do, in words; "" when nothing is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATES,
    HINT_CLUSTER,
    SOURCE_LABEL,
)
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.candidates.acts import group_of
from controlplane.dst.scenes.candidates.changes import unlike
from controlplane.dst.scenes.candidates.environment import CAMPUS, NAMESPACE, CandidateEnvironment
from controlplane.kube.kinds import POD_GROUPS, PODS, SECRETS, SERVICES, Json, meta
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.runtime.controller import Controller
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import CONFIG_MAPS


def unfinished(
    environment: CandidateEnvironment,
    source: HostedControllers,
    targets: Mapping[str, SchedulerControllers],
    wanted: Mapping[str, Step],
    away: Collection[str] = (),
) -> str:
    """Return what is not settled yet; targets that are `away` were given up, and what is left there does not count."""
    placing = source.sources
    assert placing is not None
    return (
        _pods(environment, placing, wanted, away)
        or _left_behind(environment, placing, away)
        or _owed(placing, wanted, away)
        or _logs(source, targets, away)
    )


def _owed(placing: SourceController, wanted: Mapping[str, Step], away: Collection[str]) -> str:
    """Of a pod that nobody has any more the source knows no more than what it has to remove on targets that were given
    up (L4, L5).
    """
    for stream, state in placing.sources.items():
        if state.name in wanted:
            continue
        if state.pod is not None or not any(known.cluster in away for known in state.candidates.values()):
            return f"{stream} is not closed"
        left = sorted({known.cluster for known in state.candidates.values()} - set(away))
        if left:
            return f"{stream} still has candidates on {left[0]}"
    return ""


def _pods(
    environment: CandidateEnvironment, placing: SourceController, wanted: Mapping[str, Step], away: Collection[str]
) -> str:
    """Every pod that nobody took back runs exactly once and says so, or has ended, or is too large for any node and
    says that.
    """
    there = {record.name: record.obj for record in environment.management.store.records(PODS)}
    if more := sorted(there.keys() - wanted.keys()):
        return f"pods {more} are there"
    if less := sorted(wanted.keys() - there.keys()):
        return f"pods {less} are gone"
    return _each(environment, placing, there, away) or _apart(environment, placing, there, away)


def _each(
    environment: CandidateEnvironment, placing: SourceController, there: Mapping[str, Json], away: Collection[str]
) -> str:
    return next(filter(None, (_one(environment, placing, there, away, name) for name in there)), "")


def _one(
    environment: CandidateEnvironment,
    placing: SourceController,
    there: Mapping[str, Json],
    away: Collection[str],
    name: str,
) -> str:
    pod = there[name]
    running = [(target, record) for target, record in runs_of(environment, name) if target not in away]
    if name.startswith("huge") or (not running and _waits_for_its_gang(environment, there, name)):
        shown = not running and scheduled(pod).get("status") == "False"
        return "" if shown else f"{name} cannot run, and does not say so"
    if away and not running and finds_no_place_apart(pod):
        return ""  # it runs when those that are away are back
    return (
        _over(name, pod, placing, running) if pod["status"].get("phase") in ENDED_PHASES else _runs(name, pod, running)
    )


def finds_no_place_apart(pod: Json) -> bool:
    """Whether a pod says that the nodes that are left have no room for it where its spread allows it."""
    said = scheduled(pod)
    return said.get("status") == "False" and "pod topology spread constraints" in str(said.get("message"))


def _over(name: str, pod: Json, placing: SourceController, running: Collection[tuple[str, Record]]) -> str:
    """A pod that has ended runs nowhere, and one that has failed says why: the log, or the pod itself, which a backup
    may have brought back when all of it was over for the log."""
    if any(phase_of(record) == "Running" for _, record in running):
        return f"{name} has ended, and still runs"
    known = placing.sources.get(stream_of(name))
    told = known is not None and (known.shown is not None or bool(pod["status"].get("message")))
    if pod["status"]["phase"] == "Failed" and not told:
        return f"{name} has failed, and nobody says why"
    return ""


def _runs(name: str, pod: Json, running: Sequence[tuple[str, Record]]) -> str:
    """A pod that does not end by itself runs once, and says where."""
    if name.startswith("task"):
        return f"{name} has not ended"
    if [phase_of(record) for _, record in running] != ["Running"]:
        return f"{name} runs {len(running)} times"
    where, phase = running[0][0], pod["status"].get("phase")
    hint = (meta(pod).get("annotations") or {}).get(HINT_CLUSTER)
    if phase != "Running" or hint != where or scheduled(pod).get("status") != "True":
        return f"{name} runs on {where}, and says that it is {phase} on {hint}"
    return unlike(name, pod, running[0][1].obj)


def _waits_for_its_gang(environment: CandidateEnvironment, there: Mapping[str, Json], name: str) -> bool:
    """Whether a pod is of a group that is not there, or has fewer members than have to start together."""
    group = group_of(name)
    if not group or _has_failed(there[name]):
        return False
    found = [record for record in environment.management.store.records(POD_GROUPS) if record.name == group]
    members = [other for other, pod in there.items() if group_of(other) == group and not _has_failed(pod)]
    return not found or len(members) < found[0].obj["spec"]["minMember"]


def _has_failed(pod: Json) -> bool:
    """Whether a pod was on a virtual Node, and went with its delegate: it counts for no gang any more."""
    return bool(pod["status"].get("phase") == "Failed")


def _apart(
    environment: CandidateEnvironment, placing: SourceController, there: Mapping[str, Json], away: Collection[str]
) -> str:
    """All of a gang that run are in one target, and a quorum has been; those of a smaller one are taken back after a
    while.
    """
    for group in placing.gangs.groups.values():
        if group.placed is not None and not group.placed.formed:
            return f"{group.name} has not come together in {group.placed.cluster}"
    places: dict[str, set[str]] = {}
    for name in filter(group_of, there):
        places.setdefault(group_of(name), set()).update(t for t, _ in runs_of(environment, name) if t not in away)
    return next((f"{group} is in {sorted(where)}" for group, where in places.items() if len(where) > 1), "")


def runs_of(environment: CandidateEnvironment, name: str) -> list[tuple[str, Record]]:
    """Return the delegates of the source pods of a name that are on a node: target and Pod."""
    found = []
    for target, place in sorted(environment.workers.items()):
        names = {
            record.name
            for record in place.store.records(CANDIDATES)
            if record.obj["spec"]["source"]["name"] == name and record.obj["spec"]["source"]["cluster"] == CAMPUS
        }
        here = (record for record in place.store.records(PODS) if record.labels.get(CANDIDATE_LABEL) in names)
        found += [(target, record) for record in here if record.obj["spec"].get("nodeName")]
    return found


def phase_of(record: Record) -> str:
    """Return the phase of a Pod."""
    return str(record.obj["status"].get("phase"))


def scheduled(pod: Json) -> Json:
    """Return the PodScheduled condition of a pod."""
    found = pod["status"].get("conditions") or []
    return next((entry for entry in found if entry["type"] == "PodScheduled"), {})


def stream_of(name: str) -> str:
    """Return the stream of the source pods of a name."""
    return f"sourcepod/{NAMESPACE}/{name}"


def _left_behind(environment: CandidateEnvironment, placing: SourceController, away: Collection[str]) -> str:
    """Of every source pod there is its delegate and nothing else, of one that nobody has everybody's no; copies only
    where named.
    """
    for target, store in [(name, place.store) for name, place in environment.workers.items() if name not in away]:
        every = store.records(CANDIDATES)
        candidates = [record for record in every if record.labels.get(SOURCE_LABEL) == CAMPUS]
        wrong = next(filter(None, (_candidate(record, placing, target, away) for record in candidates)), "")
        if wrong:
            return wrong
        names = {record.name for record in every}
        for record in store.records(PODS):
            if CANDIDATE_LABEL in record.labels and record.labels[CANDIDATE_LABEL] not in names:
                return f"Pod {record.name} is on {target}, and its Candidate is gone"
        if copy := _unnamed_copy(store, candidates):
            return f"a copy of {copy} is still on {target}"
    return ""


def _unnamed_copy(store: Store, candidates: Collection[Record]) -> str:
    """Return a copy of the source's in a target that no Candidate names any more, "" if there is none."""
    if any(record.obj["spec"]["source"]["name"].startswith("conf") for record in candidates):
        return ""
    records = (*store.records(CONFIG_MAPS), *store.records(SECRETS), *store.records(SERVICES))
    copies = (f"{copy.kind.kind} {copy.name}" for copy in records if copy.labels.get(SOURCE_LABEL) == CAMPUS)
    return next(copies, "")


def _candidate(record: Record, placing: SourceController, target: str, away: Collection[str]) -> str:
    """A Candidate is of a pod that is there, and its delegate, or waits with the pod: for ever, or, of one that is to
    be spread, for those that are away.
    """
    source = record.obj["spec"]["source"]
    state = placing.sources.get(stream_of(source["name"]))
    if state is None or state.pod is None or state.pod.uid != source["uid"]:
        return f"Candidate {record.name} of a pod that is gone is still on {target}"
    waits = ("huge", "spread") if away and not state.delegate else ("huge",)
    if state.delegate != record.name and not source["name"].startswith(waits):
        return f"Candidate {record.name} is still on {target}, and {state.delegate or 'nobody'} is the delegate"
    return ""


def _logs(source: HostedControllers, targets: Mapping[str, SchedulerControllers], away: Collection[str]) -> str:
    """Every cluster is in view, and no write is open."""
    placing = source.sources
    assert placing is not None
    for name in sorted(targets.keys() - set(away)):
        connection = placing.connections.get(name)
        if connection is None or not connection.connected:
            return f"{name} is not connected to the source"
    if source.unseen:
        return source.unseen
    for name, controllers in targets.items():
        if not controllers.here.connection.connected:
            return f"{name} is not connected to its scheduler"
        wrong = _open(
            controllers.router,
            [*controllers.targets.candidates, *controllers.placements.states, *controllers.evictions.states],
        )
        if wrong:
            return f"{wrong} in the log of {name}"
    return _open(source.router, [*placing.sources, *_copies(source)], away)


def _copies(source: HostedControllers) -> list[str]:
    return source.copies._streams() if source.copies is not None else []


def _open(controller: Controller, streams: list[str], away: Collection[str] = ()) -> str:
    for stream in streams:
        for write in controller.open_writes(stream):
            if write.cluster in away:
                continue
            return f"{write.action} to {write.target} of {stream} is open"
    return ""
