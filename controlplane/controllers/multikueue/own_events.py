"""Which events of a Workload's stream are about the objects that it has.

In: recorded events, in order. Out: the same without the ends of objects that another one of the same name had followed,
without copies that were made for another management cluster, and without the pods of a group but its first, which
stands for all. A new list shows the new object before it says that the old one is gone. The views of `audit` leave the
same out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controlplane.controllers.multikueue import observations
from controlplane.kube.kinds import PODS
from controlplane.log.event import Event, Recorded

_ENDS: dict[type[Event], type[Event]] = {
    observations.WorkloadGone: observations.WorkloadObserved,
    observations.CloneGone: observations.CloneObserved,
    observations.RemoteJobGone: observations.RemoteJobObserved,
}


def _without_theirs(events: Iterable[Recorded], stream: str) -> Iterator[Recorded]:
    """Yield the events but those of a Workload's stream about copies that were made for another management cluster."""
    theirs: set[str] = set()
    for recorded in events:
        event = recorded.event
        if recorded.stream != stream:
            yield recorded
            continue
        if isinstance(event, observations.CloneObserved | observations.RemoteJobObserved):
            (theirs.add if event.made_for else theirs.discard)(event.uid)
        if not isinstance(event, observations.ObjectGone | observations.Observation) or event.uid not in theirs:
            yield recorded


def of_own_objects(events: Iterable[Recorded], stream: str) -> Iterator[Recorded]:
    """Yield the events but those of a Workload's stream that tell nothing of its own objects."""
    seen: dict[tuple[type[Event], str, str], str] = {}
    jobs: dict[str, str] = {}
    owner = ""
    for recorded in _without_theirs(events, stream):
        event = recorded.event
        if recorded.stream != stream or not isinstance(event, observations.ObjectGone | observations.Observation):
            yield recorded
            continue
        if isinstance(event, observations.WorkloadObserved) and event.owner is not None:
            owner = event.owner.name
        kind = _ENDS.get(type(event))
        key = kind or type(event), recorded.cluster, event.name
        if kind is None:
            seen[key] = event.uid
        elif seen.get(key, event.uid) != event.uid:
            continue
        if isinstance(event, observations.RemoteJobObserved | observations.RemoteJobGone) and event.kind == PODS.name:
            if owner and event.name != owner and (kind is None or jobs.get(recorded.cluster) != event.name):
                continue  # another pod of the group; one that was the first before may still end
            jobs[recorded.cluster] = event.name
        yield recorded
