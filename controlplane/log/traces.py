"""One id from a watch line to the request that follows from it, and back: what ties the events of the log, and the
messages, together.

In: events on their way into the log, and events that were read from it. Out: the same events with a trace. What was
seen begins one, made of its identity, so that the same line gives the same id; a decision, an outcome and a refusal
have that of the event that they rest on; what a write's answer showed is known again when the watch shows it, and goes
on with the write's. Only so many are remembered: a trace that is forgotten is left empty, and `caused_by` still leads
back."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from controlplane.log.event import Append, NewEvent, Recorded

_POSITIONS, _EXPECTED = 1 << 17, 1 << 12


class Traces:
    """The traces that one process knows of one log."""

    GIVEN = ("_expected",)

    def __init__(self) -> None:
        # The oldest goes when there are too many. Of a plain dict, the search for it passes all that went before.
        self._at: OrderedDict[int, str] = OrderedDict()
        self._expected: OrderedDict[tuple[str, int], str] = OrderedDict()

    def of(self, position: int) -> str:
        """Return the trace of an event, "" if it has none or is long past."""
        return self._at.get(position, "")

    def expect(self, uid: str, mark: int | None, trace: str) -> None:
        """Note that a write of this trace made this version of an object: what shows it next belongs to it."""
        if trace and uid and mark:
            self._expected[uid, mark] = trace
            if len(self._expected) > _EXPECTED:
                self._expected.popitem(last=False)

    def read(self, events: Iterable[Recorded]) -> None:
        """Remember the traces of events that were read."""
        for recorded in events:
            if recorded.trace:
                self._at[recorded.position] = recorded.trace
                if len(self._at) > _POSITIONS:
                    self._at.popitem(last=False)

    def given(self, request: Append) -> Append:
        """Return a request whose events have their traces."""
        return Append([self._given(event) for event in request.events], request.expected)

    def _given(self, event: NewEvent) -> NewEvent:
        trace = self.of_new(event)
        return event if trace == event.trace else msgspec.structs.replace(event, trace=trace)

    def of_new(self, event: NewEvent) -> str:
        """Return the trace of an event on its way into the log, "" if none is known. To be asked once."""
        return event.trace or (self.of(event.caused_by) if event.caused_by else self._begun(event))

    def _begun(self, event: NewEvent) -> str:
        if not event.source:
            return ""
        known = self._expected.pop((event.source.rpartition("/")[2], event.mark), "")
        identity = f"{event.source} {event.mark % (1 << 64)}".encode(errors="backslashreplace")
        return known or hashlib.blake2b(identity, digest_size=8).hexdigest()
