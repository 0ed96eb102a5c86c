"""Says which event a decision about a job rests on: of all that had to be so, what came last.

In: a decision, the state of its job, what is around it. Out: a position in the log, for `caused_by`. Pure."""

from __future__ import annotations

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework import pod_events as of_pods
from controlplane.controllers.jobframework.index import JobIndex
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.state import QueuedJobState
from controlplane.kube import kinds
from controlplane.log.event import Event

_BY_PLURAL = {one.kind: one.name for one in (kinds.WORKLOAD_PRIORITY_CLASSES, kinds.PRIORITY_CLASSES)}


def cause(index: JobIndex, state: QueuedJobState, decision: Event, stream: str = "") -> int:
    """Return the position that a decision rests on; 0 if that is not known. `stream` is that of the decision."""
    at, catalog = state.workloads_at, index.catalog
    found = [state.job_at]
    match decision:
        case events.JobWorkloadCreationDecided() | events.JobWorkloadUpdateDecided():
            named = decision.priority_class
            found += [catalog.at.get((_BY_PLURAL.get(named.kind, ""), named.name), 0), at.get("", 0)]
            found.append(at.get(decision.uid, 0))
            if state.job is not None:
                found += [index.runtimes.at.get(state.job.rests_on, 0), index.state(state.job.sized_by).job_at]
        case events.JobStartDecided() | of_pods.PodStartDecided():
            uids = [uid for uid, one in state.workloads.items() if one.name == decision.workload]
            found += [at[uid] for uid in uids]
            flavors = {
                flavor for uid in uids for one in state.workloads[uid].assignments for flavor in one.flavors.values()
            }
            found += [catalog.at.get((kinds.RESOURCE_FLAVORS.name, name), 0) for name in flavors]
        case events.JobStopDecided() if decision.reason == JobReason.ANCESTOR_NOT_ADMITTED:
            if state.job is not None:
                found.append(index.ancestor(state.job).position)
        case events.JobStopDecided() | events.JobNoticeDecided() | events.JobDeletionDecided() | of_pods.PodWrite():
            found += at.values()
        case events.JobWrite():
            found.append(at.get(decision.uid, 0))
    if stream:
        found.append(index.sets.position(stream))
    return max(found)
