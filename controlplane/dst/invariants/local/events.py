"""The general rules of a log: one writer, no holes, a reason, a cause, one open write to a target, pauses after a no.

In: the events of one log as they reach it, and the controller that a fold of the log beside it has come to. Out: a
violation. Decisions are appended against the version of the state they were taken on, so what is looked at here is what
the decider looked at."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from controlplane.controllers.connectivity.events import ServiceStarted
from controlplane.controllers.coscheduling import causes as run_causes
from controlplane.controllers.coscheduling.events import CoschedulingFailed
from controlplane.controllers.coscheduling.events import CoschedulingWrite as RunWrite
from controlplane.controllers.coscheduling.reasons import CoschedulingReason as RunReason
from controlplane.controllers.podgroups import causes as group_causes
from controlplane.controllers.podgroups.events import GroupWrite, GroupWriteFailed
from controlplane.controllers.podgroups.reasons import PodGroupReason as GroupReason
from controlplane.controllers.scheduling import causes as scheduler_causes
from controlplane.controllers.scheduling.events import (
    GangConditionDecided,
    PodStatusDecided,
    SchedulingWrite,
    SchedulingWriteFailed,
)
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.local.trace_text import DECISIONS
from controlplane.log.event import Recorded, Unknown
from controlplane.runtime.router import ControllerRouter

_REASONS: tuple[frozenset[str], ...] = (frozenset(GroupReason), frozenset(RunReason), frozenset(SchedulingReason))
_SHORTEST_PAUSE = timedelta(seconds=0.9)
_REPLACED = (GangConditionDecided, PodStatusDecided)  # what is to be said now takes the place of what was to be said
PAUSE = "a refused write waits"


def _may_cause(cause: str, stream: str) -> bool:
    """Whether an event on one stream can be what a decision on another rests on."""
    first = stream.partition("/")[0]
    if first in group_causes.MAY_CAUSE:
        return group_causes.may_cause(cause, stream)
    if first in run_causes.MAY_CAUSE:
        return run_causes.may_cause(cause, stream)
    return scheduler_causes.may_cause(cause, stream)


class Events:
    """Looks at each event of one log before it is folded into `controller`."""

    def __init__(self, trace: Trace, controller: ControllerRouter) -> None:
        self._trace, self._controller = trace, controller
        self._versions: dict[str, int] = {}
        self._position = 0
        self._streams = [""]
        self._writer = ""
        self._failed: dict[tuple[str, str, str], datetime] = {}

    def before_fold(self, recorded: Recorded, writer: str) -> None:
        """Look at one event and at the process that appended it."""
        event: Any = recorded.event
        if isinstance(event, ServiceStarted):
            self._writer = writer
        elif writer != self._writer:
            self._trace.violate("one process writes", f"{writer} at {recorded.position}, while {self._writer} leads")
        expected = self._versions.get(recorded.stream, 0) + 1
        if recorded.position != self._position + 1 or recorded.version != expected:
            place = f"position {recorded.position} after {self._position}, version {recorded.version} not {expected}"
            self._trace.violate("positions have no holes", place)
        self._position, self._versions[recorded.stream] = recorded.position, recorded.version
        self._streams.append(recorded.stream)
        if isinstance(event, Unknown):
            self._trace.violate("every event can be read", f"{event.type}: {event.error}")
        elif isinstance(event, DECISIONS):
            self._decision(recorded, event)
        elif isinstance(event, GroupWriteFailed | CoschedulingFailed | SchedulingWriteFailed):
            self._failure(recorded, event)

    def _decision(self, recorded: Recorded, event: Any) -> None:
        what = f"{type(event).__name__} at {recorded.position} on {recorded.stream}"
        if not any(event.reason in reasons for reasons in _REASONS):
            self._trace.violate("every decision has a reason", what)
        if not 0 < recorded.caused_by < recorded.position:
            self._trace.violate("every decision has a cause", f"{what}: caused by {recorded.caused_by}")
        elif not _may_cause(self._streams[recorded.caused_by], recorded.stream):
            where = f"caused by {recorded.caused_by} on {self._streams[recorded.caused_by]}"
            self._trace.violate("every decision has a cause", f"{what}: {where}")
        if not isinstance(event, GroupWrite | RunWrite | SchedulingWrite):
            return
        if not event.target or recorded.cluster not in ("", event.cluster):
            self._trace.violate("every write has one target", f"{what}: {event.target!r} by {recorded.cluster!r}")
        busy = {write.target for write in self._controller.open_writes(recorded.stream)}
        if event.target in busy and not isinstance(event, _REPLACED):
            self._trace.violate("one open write to a target", f"{what}: {event.target}")

    def _failure(self, recorded: Recorded, event: Any) -> None:
        """What an API server refused is not asked of it again at once."""
        key = (recorded.stream, event.target, event.action)
        before = self._failed.get(key)
        if event.failures > 1 and before is not None and recorded.recorded_at - before < _SHORTEST_PAUSE:
            self._trace.violate(PAUSE, f"{event.action} to {event.target}, {event.failures} times")
        self._failed[key] = recorded.recorded_at
