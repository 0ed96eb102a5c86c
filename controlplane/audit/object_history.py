"""The stories that the log of a scheduler has: a pod with its candidate and its victims, and a PodGroup as a gang.

In: a reader and a name. Out: an `ObjectHistory`, its `Explanation`, and where its moments stand. A Candidate and its
Pod have one name and one history; a pod of that name that is not the candidate's has its own."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from controlplane.audit.offered import explain_candidate
from controlplane.controllers.candidates.target.state import candidate_stream
from controlplane.controllers.scheduling.events import PendingPodObserved, SchedulingFailed, VictimChosen, VictimGone
from controlplane.controllers.scheduling.explain import explain_gang, explain_scheduled, pod_state
from controlplane.controllers.scheduling.state import gang_stream, pod_stream, victim_stream
from controlplane.log.event import Recorded
from controlplane.runtime.stories import HistoryReader, ObjectHistory, ObjectStories


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


STORIES = ObjectStories(
    words=dict.fromkeys(("candidate", "candidates"), "candidate"),
    streams=streams_of,
    find=scheduler_history,
    explain={
        "gang": lambda found: explain_gang(found.stream, found.events),
        "candidate": lambda found: explain_candidate(found.stream, found.events),
        "scheduled": lambda found: explain_scheduled(found.stream, found.events, found.around),
    },
    absent={
        "candidate": "candidates are in the log of the scheduler beside their target; in their source's, "
        "`controlplane why pod/NAMESPACE/NAME` tells of the pod that they stand for"
    },
)
