"""What holds of any log: one process writes, positions have no holes, decisions have causes and reasons, a target has
one open write at most, and what was refused waits.

In: the events of one log, each with the writes that were open before it, and what a scene says of its events
(`EventMeanings`). Out: a violation. Decisions are appended against the version of the state they were taken on, so what
is looked at here is what the decider looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from controlplane.controllers.connectivity.events import LeadRequested, ServiceStarted
from controlplane.dst.engine.trace import Trace
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.controller import OpenWrite
from controlplane.runtime.manifest import Manifest
from controlplane.runtime.writes import WriteFailed

ONE_WRITER, NO_HOLES, READABLE = "one process writes", "positions have no holes", "every event can be read"
REASON, CAUSE = "every decision has a reason", "every decision has a cause"
ONE_TARGET, ONE_WRITE = "every write has one target", "one open write to a target"
PAUSE = "a refused write waits"
_SHORTEST_PAUSE = timedelta(seconds=0.9)
_FIRST_PAUSE = timedelta(seconds=1.0)


class EventMeanings(NamedTuple):
    """What the events of a log mean.

    `decisions` are looked at for reason and cause, those of them that are `writes` for their target as well.
    `replaces`: what takes the place of what is still open to the same target. `may_cause`: whether an event on one
    stream can be what a decision on another rests on. `nowhere`: what is recorded
    instead of a write's cluster where there is only one."""

    decisions: tuple[type[Event], ...]
    writes: tuple[type[Event], ...]
    reasons: frozenset[str]
    may_cause: Callable[[str, str], bool]
    replaces: tuple[type[Event], ...] = ()
    nowhere: tuple[str, ...] = ("",)


class LogRules:
    """Looks at each event of one log before it is folded. `open_writes(stream)` is of the state before it."""

    def __init__(
        self,
        trace: Trace,
        meanings: EventMeanings,
        open_writes: Callable[[str], Iterable[OpenWrite]],
        name: str = "",
    ) -> None:
        self._trace, self._meanings, self._open_writes = trace, meanings, open_writes
        self._of = f" of {name}" if name else ""
        self._versions: dict[str, int] = {}
        self._streams: dict[int, str] = {}
        self._position, self._writer = 0, ""
        self._failed: dict[tuple[str, str, str], datetime] = {}

    def before_fold(self, recorded: Recorded, writer: str) -> None:
        """Look at one event and at the process that appended it."""
        event: Any = recorded.event
        what = f"{type(event).__name__} at {recorded.position}{self._of} on {recorded.stream}"
        if isinstance(event, ServiceStarted):
            self._writer = writer
        elif not self._may_write(recorded, writer):
            self._trace.violate(ONE_WRITER, f"{writer}: {what}, while {self._writer} leads")
        expected = self._versions.get(recorded.stream, 0) + 1
        if recorded.position != self._position + 1 or recorded.version != expected:
            self._trace.violate(NO_HOLES, f"{what}: after {self._position}, version {recorded.version} not {expected}")
        self._note(recorded)
        if isinstance(event, Unknown):
            self._trace.violate(READABLE, f"{event.type}: {event.error}")
        elif isinstance(event, self._meanings.decisions):
            self._decision(recorded, event, what)
        elif isinstance(event, WriteFailed):
            self._failure(recorded, event)

    def _note(self, recorded: Recorded) -> None:
        self._position, self._versions[recorded.stream] = recorded.position, recorded.version
        self._streams[recorded.position] = recorded.stream

    def _may_write(self, recorded: Recorded, writer: str) -> bool:
        return writer == self._writer or isinstance(recorded.event, LeadRequested)  # which one that follows appends

    def _decision(self, recorded: Recorded, event: Any, what: str) -> None:
        if event.reason not in self._meanings.reasons:
            self._trace.violate(REASON, what)
        if not 0 < recorded.caused_by < recorded.position:
            self._trace.violate(CAUSE, f"{what}: caused by {recorded.caused_by}")
        elif not self._may_cause(self._streams[recorded.caused_by], recorded.stream):
            where = f"caused by {recorded.caused_by} on {self._streams[recorded.caused_by]}"
            self._trace.violate(CAUSE, f"{what}: {where}")
        if isinstance(event, self._meanings.writes):
            self._write(recorded, event, what)

    def _may_cause(self, cause: str, stream: str) -> bool:
        return self._meanings.may_cause(cause, stream)

    def _write(self, recorded: Recorded, event: Any, what: str) -> None:
        cluster, _, rest = event.target.partition("/")
        if not cluster or not rest or recorded.cluster not in (*self._meanings.nowhere, event.cluster):
            self._trace.violate(ONE_TARGET, f"{what}: {event.target!r} by {recorded.cluster!r}")
        opened = [write for write in self._open_writes(recorded.stream) if write.target == event.target]
        if opened and not isinstance(event, self._meanings.replaces):
            self._trace.violate(ONE_WRITE, f"{what}: {opened[0].action} to {event.target} is open")

    def _failure(self, recorded: Recorded, event: WriteFailed) -> None:
        """What an API server refused is not asked of it again at once."""
        key = (recorded.stream, event.target, event.action)
        before = self._failed.get(key)
        if event.failures > 1 and before is not None and recorded.recorded_at - before < _SHORTEST_PAUSE:
            self._trace.violate(PAUSE, f"{event.action} to {event.target}, {event.failures} times")
        # It may be recorded later, when the database answers again: the pause has begun all the same.
        self._failed[key] = min(recorded.recorded_at, event.retry_at - _FIRST_PAUSE)


def meanings_of(manifests: Sequence[Manifest], replaces: tuple[type[Event], ...] = ()) -> EventMeanings:
    """Return what the events of a log mean in which these controllers record."""
    return EventMeanings(
        decisions=tuple(one.decision for one in manifests if one.decision is not None),
        writes=tuple(one.write for one in manifests if one.write is not None),
        reasons=frozenset(reason for one in manifests for reason in one.reasons),
        may_cause=by_first_word(*(one.causes.load() for one in manifests if one.causes is not None)),
        replaces=replaces,
    )


def by_first_word(*rooms: Any) -> Callable[[str, str], bool]:
    """Return the answer of the first module of causes that knows a stream's first word, or else of the last."""

    def may_cause(cause: str, stream: str) -> bool:
        first = stream.partition("/")[0]
        room = next((one for one in rooms[:-1] if first in one.MAY_CAUSE), rooms[-1])
        found: bool = room.may_cause(cause, stream)
        return found

    return may_cause
