"""Says what those Workloads had of which place that are not simulated: slices of elastic jobs, groups of pods, jobs
with several Workloads, those that were made again under a name; and what simulated ones had a second time.

In: what the log says of Workloads. Out: for each place the times for which something was held there, and how much. A
slice that takes the place of another one asks for what it has more; what that one had is held as long as the last of
them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.whatif.past import PastWorkload, Stay

Request = Mapping[str, float]


def queue_place(queue: str) -> str:
    """Return the place of a ClusterQueue of the management cluster."""
    return f"{MANAGEMENT}/{queue}"


class HeldCapacity:
    """Something that is held at a place: how much of what, from when until when (None: to the end of the log), since
    when it was waited for, and its place in the order of the log. `again`: by a Workload that is simulated."""

    __slots__ = ("again", "came", "order", "past", "place", "request", "since", "until", "wait")

    def __init__(self, place: str, past: PastWorkload, stay: Stay, came: datetime, request: Request) -> None:
        self.place, self.past, self.request = place, past, request
        self.came, self.since, self.until, self.order = came, stay.since, stay.until, stay.order
        self.again = False
        self.wait = 0.0


def held(pasts: Sequence[PastWorkload], request: Callable[[str], dict[str, float]]) -> Iterator[HeldCapacity]:
    """Yield what is held beside the first room that a simulated Workload, or a copy of it, had."""
    streams = {one.stream: one for one in pasts}
    heirs = {f"workload/{one.first.replaces}": one for one in pasts if one.first.replaces}
    for past in pasts:
        asked: Request = request(past.stream)
        before = streams.get(f"workload/{past.first.replaces}")
        if before is not None:
            known = request(before.stream)
            asked = {name: max(amount - known.get(name, 0.0), 0.0) for name, amount in asked.items()}
        for place, came, stay, again in _stays(past):
            one = HeldCapacity(place, past, stay, came, asked)
            one.again, one.until = again, _until(one, heirs)
            yield one


def _stays(past: PastWorkload) -> Iterator[tuple[str, datetime, Stay, bool]]:
    came = past.arrived
    for number, stay in enumerate(past.stays):
        if past.is_elsewhere or number:
            yield queue_place(stay.queue), came, stay, not past.is_elsewhere
        came = stay.until or stay.since
    for cluster, copies in past.copies.items():
        for copy in copies:
            for number, stay in enumerate(copy.stays):
                if past.why_not or number:
                    yield cluster, stay.since if number else copy.created or stay.since, stay, not past.why_not


def _until(one: HeldCapacity, heirs: Mapping[str, PastWorkload]) -> datetime | None:
    """Return until when it is held: by the slices that took its place as well."""
    until, heir, seen = one.until, heirs.get(one.past.stream), {one.past.stream}
    while heir is not None and until is not None and heir.stream not in seen:
        seen.add(heir.stream)
        found = [stay for stay in _at(heir, one.place) if stay.since <= until or stay is heir.stays[0]]
        if not found:
            break
        until = None if any(stay.until is None for stay in found) else max(until, *_ends(found))
        heir = heirs.get(heir.stream)
    return until


def _at(past: PastWorkload, place: str) -> list[Stay]:
    """Return the times in which a Workload had something of a place."""
    copies = [stay for copy in past.copies.get(place, ()) for stay in copy.stays]
    return copies or [stay for stay in past.stays if queue_place(stay.queue) == place]


def _ends(stays: Iterable[Stay]) -> list[datetime]:
    return [stay.until for stay in stays if stay.until is not None]
