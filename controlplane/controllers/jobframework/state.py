"""Folds a job with its Workloads: as they were seen, what is open, what was said.

In: the events of a job's stream. Out: `QueuedJobState`. A write is open until its object is seen to change; then what
follows is decided anew, by what is there."""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.controllers.jobframework import events
from controlplane.log.event import Recorded
from controlplane.runtime.writes import OpenWrites, WriteFailure, dropped, opened, refused

_replace = msgspec.structs.replace


class QueuedJobState(OpenWrites[events.JobWrite, WriteFailure]):
    """A job, its Workloads by UID, and at which positions they were seen. `job_since`: when the job was
    seen first; `said`: the last note of each reason.
    `vain`: at which version of a target a write changed nothing, so that it is not tried again."""

    version: int = 0
    position: int = 0
    job: events.QueuedJobObserved | None = None
    job_at: int = 0
    job_since: datetime | None = None
    workloads: dict[str, events.JobWorkloadObserved] = {}
    workloads_at: dict[str, int] = {}
    said: dict[str, str] = {}
    vain: dict[str, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of it."""
        return self.job is None and not self.workloads


def fold(state: QueuedJobState, recorded: Recorded) -> QueuedJobState:
    """Return the state after one more event of its stream."""
    event = recorded.event
    state = _replace(state, version=recorded.version, position=recorded.position)
    match event:
        case events.QueuedJobObserved():
            if state.job is None or state.job.uid != event.uid:
                state = _replace(state, said={}, job_since=recorded.recorded_at)
            return _settled(_replace(state, job=event, job_at=recorded.position), ("Job/",))
        case events.QueuedJobGone():
            if state.job is None or state.job.uid != event.uid:
                return state
            return _settled(_replace(state, job=None, job_at=recorded.position, said={}), ("Job/", "Event/"))
        case events.JobWorkloadObserved():
            return _with_workload(state, event, recorded.position)
        case events.JobWorkloadGone():
            return _settled(without_workload(state, event.uid, recorded.position), (f"Workload/{event.name}",))
        case events.JobNoticeDecided():
            said = {**state.said, event.event_reason: event.note}
            return opened(_replace(state, said=said), event, recorded)
        case events.JobWrite():
            return opened(state, event, recorded)
        case events.JobWriteFailed():
            return refused(state, event)
        case events.JobWriteUnneeded():
            vain = {**state.vain, event.target: event.resource_version}
            return dropped(_replace(state, vain=vain), event.target)
    return state


def _with_workload(state: QueuedJobState, event: events.JobWorkloadObserved, position: int) -> QueuedJobState:
    state = _replace(
        state,
        workloads={**state.workloads, event.uid: event},
        workloads_at={**state.workloads_at, event.uid: position},
    )
    return _settled(state, (f"Workload/{event.name}",))


def without_workload(state: QueuedJobState, uid: str, position: int) -> QueuedJobState:
    """Return the state without a Workload; the position of its end counts for what follows from that."""
    if uid not in state.workloads:
        return state
    return _replace(
        state,
        workloads={key: one for key, one in state.workloads.items() if key != uid},
        workloads_at={**{key: at for key, at in state.workloads_at.items() if key != uid}, "": position},
    )


def _settled(state: QueuedJobState, targets: tuple[str, ...]) -> QueuedJobState:
    """Return the state without open writes to what was seen to change, and without conflicts about them."""

    def of(target: str) -> bool:
        return any(target == one or (one.endswith("/") and target.startswith(one)) for one in targets)

    if not any(of(target) for target in (*state.effects, *state.trouble, *state.vain)):
        return state
    return _replace(
        state,
        vain={target: one for target, one in state.vain.items() if not of(target)},
        effects={target: one for target, one in state.effects.items() if not of(target)},
        trouble={target: one for target, one in state.trouble.items() if not (of(target) and one.error == "Conflict")},
    )
