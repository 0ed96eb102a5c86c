"""Is everything settled? What must have happened an hour after the last trouble, and what may no longer be there.

In: the cluster, and the states that the two logs give. Out: the first thing that is left to do, in words; "" when
nothing is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import CANDIDATE_KINDS, SchedulerControllers
from controlplane.controllers.connectivity.state import Connection
from controlplane.dst.scenes.local.environment import OwnClusterEnvironment
from controlplane.dst.scenes.local.hosted import (
    falling_back,
    group_of,
    groups_in,
    is_placeholder,
    labels_of,
    notes_of,
    problem_of,
    run_in,
    runs_in,
)
from controlplane.dst.scenes.local.manifests import GANGS
from controlplane.kube.kinds import PIPELINE_RUNS, PODS, Json, meta
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.runtime.writes import WriteFailure
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.controllers.workload_owners import controller_of
from controlplane.simulation.kinds.own_cluster import CLAIMS, POD_GROUPS, STATEFUL_SETS

SOON = timedelta(minutes=5)
"""More than is waited for something to happen once everything is settled."""


def unfinished(
    environment: OwnClusterEnvironment,
    shadow: HostedControllers,
    placed: SchedulerControllers,
    stranded: Collection[str],
    modes: Mapping[str, str],
    now: datetime,
    soon: timedelta,
) -> str:
    """Return what is not settled yet. `stranded`: UIDs of runs that nobody expects to end; `modes`: what each run was
    pinned to; `soon`: how long no group may fall back for.
    """
    return (
        _in_view(shadow, placed)
        or _open(shadow, placed)
        or _resting(shadow, placed, now)
        or _expiring(shadow, now, soon)
        or _pods(environment, stranded)
        or _runs(environment, stranded)
        or _made(environment, modes)
        or _held(placed)
    )


def _in_view(shadow: HostedControllers, placed: SchedulerControllers) -> str:
    """Everything can be seen by everybody."""
    kinds = [spec.kind.name for spec in shadow.home]
    seen = [
        spec.kind.name for spec in placed.watches if spec.kind not in CANDIDATE_KINDS
    ]  # nobody installed Candidates here
    connections: list[tuple[str, Connection, Iterable[str]]] = [
        ("rooms", groups_in(shadow).index.connection, kinds),
        ("scheduler", placed.here.connection, seen),
    ]
    for sort, connection, wanted in connections:
        if not connection.connected:
            return f"the {sort} are not connected"
        missing = [kind for kind in wanted if not connection.in_view(kind)]
        if missing:
            return f"{missing[0]} is not in view of the {sort}"
    return ""


def _open(shadow: HostedControllers, placed: SchedulerControllers) -> str:
    """No write is open."""
    groups, runs = groups_in(shadow), runs_in(shadow)
    for stream in [*groups.index.members, *groups.index.groups, "podgroup-rules"]:
        if groups.open_writes(stream):
            return f"a write on {stream} is open"
    for stream in runs.runs:
        if runs.open_writes(stream):
            return f"a write on {stream} is open"
    for controller in (placed.placements, placed.evictions, placed.pod_group_conditions):
        for stream, state in controller.states.items():
            if state.effects:
                return f"a write on {stream} is open"
    return ""


def _resting(shadow: HostedControllers, placed: SchedulerControllers, now: datetime) -> str:
    """No write waits for its next try, which may be minutes after the last refusal."""
    groups, runs = groups_in(shadow), runs_in(shadow)
    refused: dict[str, Iterable[WriteFailure]] = {stream: state.trouble.values() for stream, state in runs.runs.items()}
    for controller in (placed.placements, placed.evictions, placed.pod_group_conditions):
        refused |= {stream: state.trouble.values() for stream, state in controller.states.items()}
    slots = {stream: member.slot for stream, member in groups.index.members.items()}
    slots |= {stream: group.slot for stream, group in groups.index.groups.items()}
    refused |= {
        stream: [slot.trouble] for stream, slot in slots.items() if slot.trouble is not None and slot.trouble.code
    }
    for stream, failures in refused.items():
        if any(failure.until > now for failure in failures):
            return f"a refused write on {stream} rests"
    return ""


def _expiring(shadow: HostedControllers, now: datetime, soon: timedelta) -> str:
    """No group falls back soon, for having been admitted and not started."""
    for stream, ends in falling_back(groups_in(shadow)):
        if ends - now < soon:
            return f"{stream} falls back at {ends:%H:%M:%S}"
    return ""


def _held(placed: SchedulerControllers) -> str:
    """No node is taken for a pod that is not on it."""
    for stream, state in placed.placements.states.items():
        if state.held is not None:
            return f"{state.held.node} is still taken for {stream}"
    return ""


def _pods(environment: OwnClusterEnvironment, stranded: Collection[str]) -> str:
    """Every pod that can be is on a node, and every pod that asks for gangs names its group."""
    pods = [record.obj for record in environment.records(PODS)]
    groups = {record.name: record.obj for record in environment.records(POD_GROUPS)}
    names = {record.name for record in environment.records(PIPELINE_RUNS) if record.uid in stranded}
    for pod in pods:
        if "deletionTimestamp" in meta(pod):
            return f"pod {meta(pod)['name']} is still going"
        if (pod.get("status") or {}).get("phase") in ENDED_PHASES or run_in(labels_of(pod)) in names:
            continue
        if wrong := _runs_or_waits(pod, pods, groups):
            return wrong
    return ""


def _runs_or_waits(pod: Json, pods: Collection[Json], groups: Mapping[str, Json]) -> str:
    """A pod is on a node, unless its group has fewer members than have to start together, or is not its owner's."""
    name, group = meta(pod)["name"], group_of(pod)
    if pod["spec"]["schedulerName"] == GANGS and not group:
        # Its owner was taken away from under it, and the group of that name is nobody's: a person has to remove that.
        waits = "belongs to nobody" in problem_of(pod)
        return "" if waits else f"pod {name} has no group"
    if group and group not in groups:
        return f"PodGroup {group} of pod {name} is not there"
    mates = sum(group_of(one) == group for one in pods)
    if not pod["spec"].get("nodeName") and not (group and mates < groups[group]["spec"].get("minMember", 1)):
        return f"pod {name} is on no node"
    return ""


def ended(run: Json) -> bool:
    """Whether a PipelineRun is over."""
    conditions = (run.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Succeeded" and one["status"] != "Unknown" for one in conditions)


def _runs(environment: OwnClusterEnvironment, stranded: Collection[str]) -> str:
    """Every run has ended."""
    for record in environment.records(PIPELINE_RUNS):
        if record.uid not in stranded and not ended(record.obj):
            return f"PipelineRun {record.name} has not ended"
    return ""


def _made(environment: OwnClusterEnvironment, modes: Mapping[str, str]) -> str:
    """Nothing is left that was made for a run that is over."""
    runs = environment.records(PIPELINE_RUNS)
    live = {record.uid: record.name for record in runs if not ended(record.obj)}
    tidied = {record.uid for record in runs if _is_tidied(record, modes)} - live.keys()
    for record in environment.records(STATEFUL_SETS):
        if is_placeholder(record.labels) and controller_of(record.obj).get("uid") not in live:
            return f"placeholder {record.name} is still there"
    for record in environment.records(CLAIMS):
        ours = is_placeholder(record.labels)
        owners = [str(owner["uid"]) for owner in meta(record.obj).get("ownerReferences") or ()]
        if (ours and run_in(record.labels) not in live.values()) or tidied.intersection(owners[:1]):
            return f"claim {record.name} is still there"
    return ""


def _is_tidied(run: Record, modes: Mapping[str, str]) -> bool:
    """Whether the claims of a run are deleted when it is over."""
    return notes_of(run.obj).get("tekton.dev/auto-cleanup-pvc") == "true" and modes.get(run.uid) == "workspaces"
