"""What `candidates describe` says of a source pod: its place, its permit, and each target with what it said and since
when.

In: the history of a source pod. Out: a `Description`, of the folds by which the service decides. Nothing is asked of
any cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.audit.description import Description, Rows, explained
from controlplane.audit.local import history_moments
from controlplane.audit.pods_now import one_of
from controlplane.audit.shown import place
from controlplane.audit.words import what
from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.candidates.source.candidate import Candidate
from controlplane.controllers.candidates.source.events import (
    CandidateDropped,
    CandidateRequested,
    Elected,
    PlacementFound,
)
from controlplane.controllers.candidates.source.explain import (
    clusters_of,
    connections,
    folded,
    gang_of,
    said_by_target,
)
from controlplane.controllers.candidates.source.explain import explained as explained_pod
from controlplane.controllers.candidates.source.phrases import pod_because
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.connectivity.state import Connection
from controlplane.log.event import Recorded
from controlplane.runtime.stories import ObjectHistory

_WORDS: Mapping[type, str] = {
    seen.CandidateWaiting: "Waiting",
    seen.CandidateRefused: "Refused",
    seen.CandidateUnschedulable: "Unschedulable",
    seen.CandidateReserved: "Reserved",
    seen.CandidateUnreserved: "Unreserved",
    seen.CandidateBound: "Bound",
    seen.DelegateStatus: "Bound",
    seen.DelegateMissing: "Missing",
}
COLUMNS = ("cluster", "state", "candidate", "epoch", "node", "score", "permit", "since", "says")


def candidacy(history: ObjectHistory) -> Description:
    """Describe a source pod by its history."""
    events = history.events
    state = folded(events)
    connected = connections(clusters_of(state), history.around)
    explanation = explained_pod(history)
    one = one_of(events, connected, gang_of(history))
    candidates = [found for name in clusters_of(state) for found in _in_target(state, name, connected, events)]
    value = {
        **one,
        **{key: text for key, text in explained(explanation).items() if key != "waits_for"},
        "uid": state.pod.uid if state.pod is not None else state.uid,
        "delegate_phase": _phase(state),
        "epoch_since": _epoch_since(state, events),
        "permit": _permit(state),
        "scale_up": {"cluster": state.scale_up.cluster, "until": state.scale_up.until} if state.scale_up else None,
        "candidates": candidates,
    }
    return Description(
        value=value, fields=_fields(value), tables=[_table(candidates)], moments=history_moments(history)
    )


def _fields(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    permit, scale_up = value["permit"], value["scale_up"]
    return [
        ("Name", value["name"]),
        ("Namespace", value["namespace"]),
        ("UID", value["uid"]),
        ("State", value["state"]),
        ("Cluster", place(value["cluster"])),
        ("Node", value["node"]),
        (
            "Delegate",
            " ".join(filter(None, [value["candidate"], value["delegate_phase"] and f"({value['delegate_phase']})"])),
        ),
        ("First Seen", value["since"]),
        ("Epoch", value["epoch"] or ""),
        ("Epoch Since", value["epoch_since"]),
        *([("PodGroup", value["group"])] if value["group"] else []),
        ("Permit", _permit_said(permit) if permit else ""),
        *(
            [
                (
                    "Autoscaler",
                    f"{scale_up['cluster']} alone may add nodes for it, until {scale_up['until']:%H:%M:%S} UTC",
                )
            ]
            if scale_up
            else []
        ),
        ("Waits For", value["waits_for"]),
        ("Why", value["sentence"]),
    ]


def _permit_said(permit: Mapping[str, Any]) -> str:
    may = "bind it" if permit["kind"] == "Bind" else "make room for it"
    back = ", and is being taken back" if permit["revoking"] else ""
    return f"number {permit['number']}: {permit['cluster']} may {may} until {permit['until']:%H:%M:%S} UTC{back}"


def _permit(state: SourceState) -> dict[str, Any] | None:
    """Return the open permit as plain values."""
    permit = state.permit
    if permit is None:
        return None
    return {
        "cluster": permit.cluster,
        "candidate": permit.candidate,
        "number": permit.number,
        "kind": permit.kind,
        "reservation": permit.reservation,
        "until": permit.until,
        "revoking": permit.revoking,
    }


def _phase(state: SourceState) -> str:
    """Return the phase of the delegate's pod, "" if there is none or it has said nothing."""
    chosen = state.chosen
    return chosen.seen.pod_phase if chosen is not None and isinstance(chosen.seen, seen.DelegateStatus) else ""


def _epoch_since(state: SourceState, events: Sequence[Recorded]) -> datetime | None:
    """Return when the attempt to place the pod began."""
    for recorded in events:
        event = recorded.event
        if isinstance(event, Elected | PlacementFound) and (event.uid, event.epoch) == (state.uid, state.epoch):
            return recorded.recorded_at
    return None


def _in_target(
    state: SourceState, cluster: str, connected: Mapping[str, Connection], events: Sequence[Recorded]
) -> list[dict[str, Any]]:
    """Return each candidate in a target as plain values; where there is none, that there is none."""
    here = [(name, known) for name, known in sorted(state.candidates.items()) if known.cluster == cluster]
    link = connected.get(cluster)
    reached = link is not None and link.connected
    head = {"cluster": cluster, "reachable": reached, "failures": state.failures.get(cluster, 0)}
    if not here:
        nothing = dict.fromkeys(("node", "reason"), "") | dict.fromkeys(("score", "since", "expires"), None)
        numbers = {"epoch": 0, "reservation": 0, "permit": 0}
        return [
            {
                **head,
                **nothing,
                **numbers,
                "state": "None",
                "candidate": "",
                **_of_none(state, cluster, connected, events),
            }
        ]
    return [{**head, **_candidate(state, name, known, events, reached)} for name, known in here]


def _of_none(
    state: SourceState, cluster: str, connected: Mapping[str, Connection], events: Sequence[Recorded]
) -> dict[str, Any]:
    """Return why nothing is in a target: what was there is gone, or it was not asked in this attempt."""
    here = [one for one in events if one.cluster == cluster]
    last = next((one for one in reversed(here) if isinstance(one.event, CandidateRequested | seen.CandidateGone)), None)
    if last is None or not isinstance(last.event, seen.CandidateGone):
        return {"message": said_by_target(state, cluster, connected) if cluster in state.targets else ""}
    name = last.event.name
    dropped = next((one.event for one in reversed(here) if _drops(one.event, name)), None)
    told = {"state": "Gone", "candidate": name, "since": last.recorded_at}
    if not isinstance(dropped, CandidateDropped):
        return {**told, "message": "it is gone, and nobody here removed it"}
    return {**told, "reason": str(dropped.reason), "message": f"removed, because {pod_because(dropped)}"}


def _drops(event: object, name: str) -> bool:
    return isinstance(event, CandidateDropped) and event.candidate == name


def _candidate(
    state: SourceState, name: str, known: Candidate, events: Sequence[Recorded], reached: bool
) -> dict[str, Any]:
    found = {
        "state": _state(state, name, known),
        "candidate": name,
        "epoch": known.epoch,
        "since": _since(name, known, events),
        "message": _said(state, name, known, reached),
    }
    return {**found, **_shown(known.seen)}


def _said(state: SourceState, name: str, known: Candidate, reached: bool) -> str:
    """Return what was said of a candidate, and what is on its way to it."""
    key = f"{known.cluster}/{name}"
    said = [what(known.seen)] if known.seen is not None else []
    if key in state.trouble:
        said.append(state.trouble[key].message)
    if key in state.effects:
        said.append(what(state.effects[key].decision))
    if not reached:
        said.append("the cluster cannot be reached, so this is what it said last")
    return "; ".join(filter(None, said)) or "has not answered"


def _shown(now: seen.CandidateSeen | None) -> dict[str, Any]:
    """Return what a target shows of a candidate, as plain values."""
    found = {"node": "", "score": None, "reservation": 0, "permit": 0, "expires": None, "reason": ""}
    if now is None:
        return found
    found |= {"reservation": now.reservation, "permit": now.permit, "reason": now.why}
    if isinstance(now, seen.CandidateReserved):
        return {**found, "node": now.node, "score": now.score, "expires": now.expires}
    return {**found, "node": now.node} if isinstance(now, seen.CandidateBound) else found


def _state(state: SourceState, name: str, known: Candidate) -> str:
    """Return in one word how far a candidate is."""
    now = known.seen
    if now is None:
        return "Asked"
    if now.deleting:
        return "Deleting"
    if isinstance(now, seen.CandidateReserved) and state.permit is not None and state.permit.candidate == name:
        return "Permitted"
    return _WORDS[type(now)]


def _since(name: str, known: Candidate, events: Sequence[Recorded]) -> datetime | None:
    """Return since when a candidate says what it says: what repeats it began nothing."""
    if known.seen is None:
        return known.waits_since
    since, last = None, None
    for recorded in events:
        event = recorded.event
        if isinstance(event, seen.CandidateSeen) and event.name == name and recorded.cluster == known.cluster:
            said = what(event), event.deleting
            since = recorded.recorded_at if said != last or since is None else since
            last = said
    return since


def _table(candidates: Sequence[Mapping[str, Any]]) -> Rows:
    rows = [
        (
            one["cluster"],
            one["state"],
            one["candidate"],
            one["epoch"] or "",
            one["node"],
            one["score"],
            one["permit"] or "",
            one["since"],
            one["message"],
        )
        for one in candidates
    ]
    return Rows(label="Targets", columns=COLUMNS, rows=rows)
