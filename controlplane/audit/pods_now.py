"""The pods that are placed on other clusters as a list shows them: how far each is, where, and what it waits for.

In: a reader; or the events of a source pod, how the clusters are connected, and what was decided about its PodGroup.
Out: dicts, of the folds by which the service decides and in the words of `why`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString

from controlplane.audit.reads import Filter, LogReader
from controlplane.audit.words import what
from controlplane.controllers.candidates.source.explain import (
    clusters_of,
    connections,
    explain_pod,
    folded,
    gang_decision,
    of_targets,
    said_by_target,
)
from controlplane.controllers.candidates.source.gang_state import group_stream
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateReserved,
    SourcePodObserved,
)
from controlplane.controllers.candidates.source.state import STREAM, SourceState, fold
from controlplane.controllers.connectivity.events import cluster_stream
from controlplane.controllers.connectivity.state import Connection
from controlplane.log.event import Recorded

# A stream is over when it says so last, and begins anew with the next pod of that name.
_LEFT: LiteralString = """
SELECT s.stream FROM audit.streams s
WHERE s.log = %(log)s AND s.kind = %(kind)s AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s)
  AND (SELECT e.type FROM audit.events e WHERE e.log = s.log AND e.stream = s.stream ORDER BY e.position DESC LIMIT 1)
      <> 'CleanupDone'
ORDER BY s.stream"""


def load(reader: LogReader, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return the source pods that are there, or of which something is left in a target, as plain values, by namespace
    and name.
    """
    streams = [row["stream"] for row in reader.rows(_LEFT, kind=STREAM, namespace=namespace)]
    told = _by_stream(reader, streams)
    states = {stream: folded(events) for stream, events in told.items()}
    left = {stream: state for stream, state in states.items() if state.pod is not None or state.candidates}
    clusters = sorted({name for state in left.values() for name in clusters_of(state)})
    connected = connections(clusters, reader.of(*map(cluster_stream, clusters)) if clusters else ())
    groups = {stream: group_stream(state.pod.namespace, state.pod.group) for stream, state in left.items() if state.pod}
    gangs = _by_stream(reader, sorted({groups[stream] for stream in groups if _group(left[stream])}))
    return [one_of(told[stream], connected, gangs.get(groups.get(stream, ""), [])) for stream in sorted(left)]


def one_of(
    events: Sequence[Recorded], connected: Mapping[str, Connection], gang: Sequence[Recorded] = ()
) -> dict[str, Any]:
    """Return one source pod as plain values. `targets` has what each of its candidates' clusters last said."""
    state = folded(events)
    stands = explain_pod(events, connected).standing
    pod = state.pod
    return {
        "namespace": state.namespace,
        "name": state.name,
        "state": stands.word,
        "cluster": stands.cluster,
        "node": _node(state),
        "since": _since(events, pod.uid if pod is not None else state.uid),
        "waits_for": stands.waits_for
        if stands.word != "Pending" or state.chosen is not None
        else _waits_for(state, connected, gang),
        "epoch": state.epoch,
        "candidate": state.delegate,
        "group": _group(state),
        "targets": {name: said_by_target(state, name, connected) for name in clusters_of(state)},
        "position": state.position,
    }


def placed_on(reader: LogReader, cluster: str) -> list[str]:
    """Return the streams of the source pods that a target has bound, or that have its permit."""
    states: dict[str, SourceState] = {}
    for recorded in reader.events(Filter(streams=reader.streams(STREAM))):
        states[recorded.stream] = fold(states.get(recorded.stream) or SourceState.initial(recorded.stream), recorded)
    return [
        stream
        for stream, state in sorted(states.items())
        if cluster in (there.cluster for there in (state.chosen, state.permit) if there is not None)
    ]


def _waits_for(state: SourceState, connected: Mapping[str, Connection], gang: Sequence[Recorded]) -> str:
    """Return what a pod without a place waits for, in a few words."""
    if state.refused is not None and not state.electing:
        return state.refused.message
    if state.permit is not None:
        use = "bind it" if state.permit.kind == "Bind" else "make room"
        return f"{state.permit.cluster} to {use}" + (", taken back" if state.permit.revoking else "")
    said = of_targets(state, connected)
    decided = gang_decision(gang)
    if group := _group(state):
        return f"PodGroup {group}: {what(decided) if decided is not None else 'a cluster for all of it'}; {said}"
    return said if state.targets else "targets"


def _node(state: SourceState) -> str:
    """Return the node that a pod is bound to, or that is held under its permit; "" if there is none."""
    held = state.chosen or (state.candidates.get(state.permit.candidate) if state.permit is not None else None)
    seen = held.seen if held is not None else None
    return seen.node if isinstance(seen, (CandidateBound, CandidateReserved)) else ""


def _since(events: Sequence[Recorded], uid: str) -> datetime:
    """Return when the pod was first seen: not one of its name before it."""
    seen = (one for one in events if isinstance(one.event, SourcePodObserved) and one.event.uid == uid)
    return next(seen, events[0]).recorded_at


def _group(state: SourceState) -> str:
    return state.pod.group if state.pod is not None else ""


def _by_stream(reader: LogReader, streams: Sequence[str]) -> dict[str, list[Recorded]]:
    found: dict[str, list[Recorded]] = {}
    if streams:
        for recorded in reader.events(Filter(streams=streams)):
            found.setdefault(recorded.stream, []).append(recorded)
    return found
