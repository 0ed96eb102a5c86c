"""Folds a job with its Workloads: as they were seen, what is open, what was said. Of pods the job is what they are
together.

In: the events of a job's stream. Out: `QueuedJobState`. A write is open until its object is seen to change; then what
follows is decided remain, by what is there."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.names import WORD
from controlplane.controllers.jobframework.pod_events import (
    PodDeletionDecided,
    PodTerminationDecided,
    QueuedPodGone,
    QueuedPodObserved,
)
from controlplane.controllers.jobframework.pods import as_job
from controlplane.log.event import Recorded
from controlplane.runtime.streams import Folded, StreamFolds
from controlplane.runtime.writes import OpenWrites, WriteFailure, dropped, is_late, opened, refused

_replace = msgspec.structs.replace

_APART = timedelta(minutes=2)
_LONGEST_WAIT = timedelta(minutes=1)


class QueuedJobState(OpenWrites[events.JobWrite, WriteFailure]):
    """A job, its Workloads by UID, and at which positions they were seen. `pods`: those that the job is made of, by
    UID, if it is made of pods. `job_since`: when the job was seen first; `said`: the last note of each reason. `vain`:
    at which version of a target a write changed nothing, so that it is not tried again. `lost`: how many Workloads
    others deleted one soon after the other, the last of them at `lost_at`."""

    version: int = 0
    position: int = 0
    job: events.QueuedJobObserved | None = None
    job_at: int = 0
    job_since: datetime | None = None
    pods: dict[str, QueuedPodObserved] = {}
    workloads: dict[str, events.JobWorkloadObserved] = {}
    workloads_at: dict[str, int] = {}
    said: dict[str, str] = {}
    vain: dict[str, str] = {}
    lost: int = 0
    lost_at: datetime | None = None

    @property
    def next_workload(self) -> datetime | None:
        """When the job may get the next Workload, None for at once. One whose Workloads go again and again may be gone
        itself, and out of sight: the garbage collector takes what it owns."""
        if self.lost_at is None or self.lost < 2:
            return None
        return self.lost_at + min(timedelta(seconds=2 ** min(self.lost - 2, 6)), _LONGEST_WAIT)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of it."""
        return self.job is None and not self.pods and not self.workloads


def fold(state: QueuedJobState, recorded: Recorded) -> QueuedJobState:
    """Return the state after one more event of its stream."""
    event = recorded.event
    state = _replace(state, version=recorded.version, position=recorded.position)
    if isinstance(event, (QueuedPodObserved, QueuedPodGone)):
        return _fold_pod(state, event, recorded)
    match event:
        case events.QueuedJobObserved():
            if state.job is None or state.job.uid != event.uid:
                state = _replace(state, said={}, job_since=recorded.recorded_at, lost=0, lost_at=None)
            return _settled(_replace(state, job=event, job_at=recorded.position), ("Job/",))
        case events.QueuedJobGone():
            if state.job is None or state.job.uid != event.uid:
                return state
            return _settled(_replace(state, job=None, job_at=recorded.position, said={}), ("Job/", "Event/"))
        case events.JobWorkloadObserved():
            return _with_workload(state, event, recorded.position)
        case events.JobWorkloadGone():
            return _settled(_lost(state, event, recorded), (f"Workload/{event.name}",))
        case events.JobNoticeDecided():
            said = {**state.said, event.name: event.note}
            return opened(_replace(state, said=said), event, recorded)
        case events.JobWrite():
            return opened(state, event, recorded)
        case events.JobWriteFailed() | events.JobWriteUnneeded() if not is_late(state, event.target, recorded):
            return _fold_outcome(state, event)
    return state


def _fold_outcome(state: QueuedJobState, event: events.JobWriteFailed | events.JobWriteUnneeded) -> QueuedJobState:
    if isinstance(event, events.JobWriteFailed):
        return refused(state, event)
    vain = {**state.vain, event.target: event.resource_version}
    return dropped(_replace(state, vain=vain), event.target)


def _fold_pod(state: QueuedJobState, event: QueuedPodObserved | QueuedPodGone, recorded: Recorded) -> QueuedJobState:
    if isinstance(event, QueuedPodGone):
        return without_pod(state, event.uid, recorded)
    if _is_awaited(state, event):
        pods = {**state.pods, event.uid: event}
        return _replace(state, pods=pods, job=as_job(pods), job_at=recorded.position)
    others = {uid: one for uid, one in state.pods.items() if one.name != event.name}
    return _with_pods(state, {**others, event.uid: event}, event.name, recorded)


def _is_awaited(state: QueuedJobState, event: QueuedPodObserved) -> bool:
    """Whether what was decided about a pod is still to be carried out: the pod is the very version that it was decided
    on, seen once more by a process that begins; or it has changed, but not in what was decided, which holds for any
    version.
    """
    known, effect = state.pods.get(event.uid), state.effects.get(f"Pod/{event.name}")
    if known is None or effect is None:
        return False
    if known.resource_version == event.resource_version:
        return True
    if isinstance(effect.decision, PodDeletionDecided):
        return not event.deleting
    return isinstance(effect.decision, PodTerminationDecided) and not (event.terminating or event.deleting)


def without_pod(state: QueuedJobState, uid: str, recorded: Recorded) -> QueuedJobState:
    """Return the state without a pod."""
    gone = state.pods.get(uid)
    if gone is None:
        return state
    return _with_pods(state, {key: one for key, one in state.pods.items() if key != uid}, gone.name, recorded)


def _with_pods(
    state: QueuedJobState, pods: dict[str, QueuedPodObserved], name: str, recorded: Recorded
) -> QueuedJobState:
    """Return the state with other pods, of which the one of this name has changed."""
    targets, remain = (f"Pod/{name}",), bool(pods.keys() & state.pods.keys())
    state = _replace(state, pods=pods, job=as_job(pods), job_at=recorded.position)
    return _settled(state if remain else _replace(state, said={}), targets if pods else (*targets, "Event/"))


def _with_workload(state: QueuedJobState, event: events.JobWorkloadObserved, position: int) -> QueuedJobState:
    state = _replace(
        state,
        workloads={**state.workloads, event.uid: event},
        workloads_at={**state.workloads_at, event.uid: position},
    )
    return _settled(state, (f"Workload/{event.name}",))


def _lost(state: QueuedJobState, event: events.JobWorkloadGone, recorded: Recorded) -> QueuedJobState:
    if event.uid not in state.workloads:
        return state
    effect = state.effects.get(f"Workload/{event.name}")
    if effect is not None and isinstance(effect.decision, events.JobWorkloadRemovalDecided):
        return without_workload(state, event.uid, recorded.position)  # it was to go
    again = state.lost_at is not None and recorded.recorded_at - state.lost_at < _APART
    state = _replace(state, lost=state.lost + 1 if again else 1, lost_at=recorded.recorded_at)
    return without_workload(state, event.uid, recorded.position)


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


FOLDS: StreamFolds = {f"{WORD}/job": Folded(lambda stream: QueuedJobState(), fold)}
