"""Says why a job has no Workload.

In: the events of the job, as MultiKueue and the job framework recorded it. Out: an `Explanation`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.jobframework.events import (
    JobNoticeDecided,
    JobWriteFailed,
    QueuedJobGone,
    QueuedJobObserved,
)
from controlplane.controllers.jobframework.pod_events import QueuedPodGone, QueuedPodObserved
from controlplane.controllers.multikueue.observations import JobGone, JobObserved
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation, Standing, last, last_seen

_OURS = (QueuedJobObserved, QueuedPodObserved)
_OURS_GONE = (QueuedJobGone, QueuedPodGone)
_LABEL = "the label kueue.x-k8s.io/queue-name"
_OF_OTHERS = "Where multikueue.recordedWorkloads is own, those of queues that lead to another service are not recorded."


def without_workload(events: Sequence[Recorded]) -> Explanation:
    """Return why a job that was seen has no Workload: `events` are those of the job, by position.

    Where this service makes Workloads, what it saw of the job for that counts, and not what MultiKueue saw."""
    seen = last_seen(events, _OURS, _OURS_GONE) or last_seen(events, (JobObserved,), (JobGone,))
    if seen is not None and isinstance(seen.event, (JobGone, *_OURS_GONE)):
        text = "The job is gone, and no Workload of it was ever seen."
        return Explanation(Standing("Deleted", "", ""), text, [seen])
    stands = Standing("Pending", "", "its Workload to be made")
    told = last(events, JobNoticeDecided, JobWriteFailed)
    if told is not None and seen is not None and told.position > seen.position:
        return Explanation(stands, f"The job has no Workload: {_said(told)}.", [seen, told])
    if seen is not None and isinstance(seen.event, _OURS):
        text = f"The job has no Workload: this service makes one for a job with {_LABEL}."
        return Explanation(stands, text, [seen])
    text = f"The job has no Workload that was seen: Kueue makes one for a job with {_LABEL}. {_OF_OTHERS}"
    return Explanation(stands, text, [seen] if seen is not None else [])


def _said(told: Recorded) -> str:
    event = told.event
    if isinstance(event, JobNoticeDecided):
        return event.note.rstrip(".")
    assert isinstance(event, JobWriteFailed)
    return f"the write of it was refused ({event.error}: {event.message.rstrip('.')})"
