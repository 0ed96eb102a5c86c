"""What cannot be read is in the log as such, by name and with the field that is wrong; and nothing else is.

In: the commits of what is watched, the observations as they reach the log. Out: a violation when an object that makes
no sense is recorded as if it did, when one that does is refused, or when at the end one is there of which the log says
nothing."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.connectivity.events import EventRefused
from controlplane.controllers.multikueue.observations import ObjectGone, ObservationRefused
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.environment import place_of
from controlplane.dst.scenes.workloads.oddities import odd
from controlplane.log.event import NewEvent
from controlplane.simulation.apiserver.history import Record

RULE = "what cannot be read is refused"


class RefusalRules:
    """Which versions of which objects are odd, and which of them the log has.

    A version may be both, one in the era before a restore and one after it.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._odd: set[tuple[str, str, int]] = set()
        self._plain: set[tuple[str, str, int]] = set()
        self._told: set[tuple[str, str, int]] = set()

    def committed(self, place: str, cluster: str, record: Record) -> None:
        """Take note of a change: of which object, by the name of its place, and by that which the log gives the
        cluster.
        """
        (self._odd if odd(place, record) else self._plain).add((cluster, record.uid, record.version))

    def forget_told(self) -> None:
        """The log went back: what it has is told to it anew."""
        self._told.clear()

    def appended(self, new: NewEvent) -> None:
        """Look at an observation that reached the log."""
        if not new.source or isinstance(new.event, (ObjectGone, EventRefused)):
            return
        cluster, uid = place_of(new.source.partition("/")[0]), new.source.rpartition("/")[2]
        key, refused = (cluster, uid, new.mark), isinstance(new.event, ObservationRefused)
        if refused:
            self._told.add(key)
        if key not in (self._odd if refused else self._plain):
            what = "is refused although it can be read" if refused else "cannot be read and is not refused"
            self._trace.violate(RULE, f"{new.stream} at {new.mark} on {cluster}: it {what}")
        elif isinstance(new.event, ObservationRefused) and not (new.event.name and new.event.field and new.event.error):
            self._trace.violate(
                RULE, f"{new.stream} at {new.mark} on {cluster}: without its name, the field or what is wrong"
            )

    def finish(self, cluster: str, records: Iterable[Record]) -> None:
        """Look for what is there and was never told."""
        for record in records:
            key = (cluster, record.uid, record.version)
            if key in self._odd and key not in self._plain and key not in self._told:
                self._trace.violate(
                    RULE, f"{record.kind.kind} {record.name} on {cluster} at {record.version}: the log does not say so"
                )
