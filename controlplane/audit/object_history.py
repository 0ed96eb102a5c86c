"""The stories that the log of a scheduler has: a pod with its candidate and its victims, and a PodGroup as a gang.

In: a reader and a name. Out: an `ObjectHistory`, its `Explanation`, and where its moments stand. A Candidate and its
Pod have one name and one history; a pod of that name that is not the candidate's has its own."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from controlplane.audit.offered import explain_candidate
from controlplane.controllers.candidates.target.events import (
    BindStarted,
    NotSchedulable,
    Reserved,
    StatusReported,
    TargetDecision,
    Unreserved,
)
from controlplane.controllers.candidates.target.state import candidate_stream
from controlplane.controllers.scheduling.events import (
    BindingDecided,
    NodeReserved,
    PendingPodObserved,
    PodStatusDecided,
    ReservationDropped,
    SchedulingDecision,
    SchedulingFailed,
    VictimChosen,
    VictimGone,
)
from controlplane.controllers.scheduling.explain import explain_gang, explain_scheduled, pod_state
from controlplane.controllers.scheduling.phrases import IN_A_LINE
from controlplane.controllers.scheduling.refusals import refusing_nodes
from controlplane.controllers.scheduling.state import gang_stream, pod_stream, victim_stream
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.stories import HistoryReader, ObjectHistory, ObjectStories, chain_of

BINDINGS = (BindingDecided.__name__, BindStarted.__name__)
_SAYS = StatusReported | PodStatusDecided
"""What is said of a pod to others, and repeats what the event before it said."""
_FINDINGS = NodeReserved | ReservationDropped | SchedulingFailed | Reserved | Unreserved | NotSchedulable
"""What a cycle found or what became of that: the same words twice are news if other ones stand between."""
_KINDS = ("gang", "candidate", "scheduled")


def streams_of(kind: str, namespace: str, name: str) -> list[str]:
    """Return the streams of a scheduler's log in which an object of this kind and name may have its history."""
    if kind == "podgroup":
        return [gang_stream(namespace, name)]
    if kind == "candidate":
        return [candidate_stream(namespace, name)]
    if kind != "pod":
        return []
    return [pod_stream(namespace, name), candidate_stream(namespace, name), victim_stream(namespace, name)]


def scheduler_history(reader: HistoryReader, kind: str, namespace: str, name: str) -> ObjectHistory | None:
    """Return the history of a pod, a candidate or a PodGroup in the log of a scheduler; None if it has none."""
    streams = streams_of(kind, namespace, name)
    events = reader.of(*streams) if streams else []
    if not events:
        return None
    if kind == "podgroup":
        return ObjectHistory("gang", streams[0], events)
    own, offered, evicted = (stream(namespace, name) for stream in (pod_stream, candidate_stream, victim_stream))
    of_pod = _of_stream(events, own)
    if kind == "candidate" and not of_pod:
        of_pod = reader.of(own)
    of_candidate = _of_stream(events, offered)
    victims = _victims(reader, of_pod, evicted)
    if of_candidate and (kind == "candidate" or _is_candidate(own, of_pod)):
        return ObjectHistory("candidate", offered, _merged(of_candidate, of_pod), victims, victims)
    around = _merged(_of_stream(events, evicted), victims)
    return ObjectHistory("scheduled", own, of_pod, around, around)


class PodPlace(NamedTuple):
    """Where a pod is, by the log of its scheduler, and since when."""

    node: str
    since: datetime


def node_of(found: ObjectHistory) -> PodPlace | None:
    """Return the node of a pod that has one and has not ended, None of any other: another one may have had its name and
    node before."""
    if found.kind != "scheduled":
        return None
    pod = pod_state(found.stream, found.events).pod
    if pod is None or not pod.node or pod.over:
        return None
    seen = ((e.recorded_at, e.event) for e in found.events if isinstance(e.event, PendingPodObserved))
    since = next((at for at, one in seen if (one.uid, one.node) == (pod.uid, pod.node)), None)
    return PodPlace(pod.node, since) if since is not None else None


def _of_stream(events: Sequence[Recorded], stream: str) -> list[Recorded]:
    return [recorded for recorded in events if recorded.stream == stream]


def _merged(some: Sequence[Recorded], others: Sequence[Recorded]) -> list[Recorded]:
    return list(heapq.merge(some, others, key=lambda recorded: recorded.position))


def _is_candidate(stream: str, events: Sequence[Recorded]) -> bool:
    """Whether the newest pod of a name is a Candidate's, as far as the log has any."""
    seen = [e.event for e in events if isinstance(e.event, PendingPodObserved)]
    return not seen or seen[-1].candidate or pod_state(stream, events).pod is None


def _victims(reader: HistoryReader, events: Sequence[Recorded], own: str) -> list[Recorded]:
    """Return the events of the pods that were evicted for this one, each from its choice to its end."""
    nominated = [e for e in events if isinstance(e.event, SchedulingFailed) and e.event.nominated]
    uids = {e.event.uid for e in events if isinstance(e.event, PendingPodObserved)}
    if not nominated:
        return []
    chosen = [
        e
        for e in reader.of(after=nominated[0].position - 1, kind=VictimChosen.__name__)
        if isinstance(e.event, VictimChosen) and e.event.preemptor_uid in uids and e.stream != own
    ]
    if not chosen:
        return []
    streams = sorted({e.stream for e in chosen})
    return list(_evictions(reader.of(*streams, after=chosen[0].position - 1), uids))


def _evictions(events: Iterable[Recorded], preemptors: set[str]) -> Iterator[Recorded]:
    """Yield of the victims' events those of evictions for these pods."""
    open_now: dict[str, bool] = {}
    for recorded in events:
        if isinstance(recorded.event, VictimChosen):
            open_now[recorded.stream] = recorded.event.preemptor_uid in preemptors
        if open_now.get(recorded.stream):
            yield recorded
        if isinstance(recorded.event, VictimGone):
            open_now[recorded.stream] = False


def _nodes_of(found: ObjectHistory) -> Callable[[Event | Unknown], str]:
    """Return what tells the nodes that refused a candidate, by reason, in brackets: the cycle of its pod has them."""
    every = (recorded.event for recorded in (*found.events, *found.others))
    failures = {event.message: event for event in every if isinstance(event, SchedulingFailed)}

    def nodes(event: Event | Unknown) -> str:
        failed = failures.get(event.message) if isinstance(event, NotSchedulable) else None
        which = refusing_nodes(failed.message, failed.nodes, IN_A_LINE) if failed is not None else ""
        return f" ({which})" if which else ""

    return nodes


def _repeats(found: ObjectHistory, recorded: Recorded) -> bool:
    """Whether an event says what the one before it said; of a candidate's Pod, what the candidate's own stream says."""
    event = recorded.event
    if isinstance(event, _SAYS):
        return True
    if found.kind != "candidate" or recorded.stream == found.stream:
        return False
    return isinstance(event, SchedulingFailed) or (isinstance(event, PendingPodObserved) and not event.gates)


def _chain(recorded: Recorded) -> Hashable:
    event = recorded.event
    found = isinstance(event, _FINDINGS)
    return "found" if found else chain_of(event, decided=isinstance(event, SchedulingDecision | TargetDecision))


STORIES = ObjectStories(
    words=dict.fromkeys(("candidate", "candidates"), "candidate"),
    streams=streams_of,
    find=scheduler_history,
    explain={
        "gang": lambda found: explain_gang(found.stream, found.events),
        "candidate": lambda found: explain_candidate(found.stream, found.events),
        "scheduled": lambda found: explain_scheduled(found.stream, found.events, found.around, found.lost),
    },
    chain=dict.fromkeys(_KINDS, _chain),
    repeats=dict.fromkeys(_KINDS, _repeats),
    detail=dict.fromkeys(_KINDS, _nodes_of),
    absent={
        "candidate": "candidates are in the log of the scheduler beside their target; in their source's, "
        "`controlplane why pod/NAMESPACE/NAME` tells of the pod that they stand for"
    },
)
