"""Finds objects as they were seen last, on all clusters: which job a Workload owns, which clusters its check leads to,
what exists of a kind on a cluster.

In: the states that `controlplane.controllers.multikueue.index` keeps. Out: answers; nothing is folded here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.conditions import route_of
from controlplane.controllers.multikueue.context import MultiKueuePolicy, Route
from controlplane.controllers.multikueue.observations import (
    AdmissionCheckObserved,
    ClusterQueueObserved,
    JobObserved,
    LocalQueueGone,
    LocalQueueObserved,
    MultiKueueClusterObserved,
    MultiKueueConfigObserved,
    Observation,
    ObservationRefused,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.observe import Queue, job_stream, local_queue_stream
from controlplane.controllers.multikueue.unread_copies import UnreadCopies, made_for_others
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    PODS,
    WORKLOADS,
)
from controlplane.log.event import Recorded
from controlplane.runtime.observations import forget


def is_slice(state: WorkloadState) -> bool:
    """Whether a Workload is, or was, one of an elastic job's."""
    return state.slice_of is not None or (state.local is not None and state.local.sliced)


class ExistingObjects:
    """What exists, by stream or by name; `_remote_jobs` has the stream that a job's copy was recorded on."""

    GIVEN = ("policy",)

    def __init__(self, policy: MultiKueuePolicy) -> None:
        self.policy = policy
        self.workloads: dict[str, WorkloadState] = {}
        self.jobs: dict[str, JobObserved] = {}
        self.checks: dict[str, AdmissionCheckObserved] = {}
        self.configs: dict[str, MultiKueueConfigObserved] = {}
        self.clusters: dict[str, MultiKueueClusterObserved] = {}
        self.queues: dict[str, ClusterQueueObserved] = {}
        self.local_queues: dict[str, LocalQueueObserved] = {}
        self._remote_jobs: dict[tuple[str, str], str] = {}
        self._groups: dict[tuple[str, str], set[str]] = {}
        self.unread = UnreadCopies()

    def stream_of_job(self, state: WorkloadState | None) -> str:
        """Return the stream of the job of a Workload, "" if that cannot be told."""
        if state is None or state.owner is None:
            return ""
        adapter = self.policy.adapters.get(state.owner.gvk)
        return job_stream(adapter.kind.name, state.namespace, state.owner.name) if adapter else ""

    def job_of(self, state: WorkloadState) -> JobObserved | None:
        """Return the user's job of a Workload, if it is the one that the owner reference means."""
        stream, owner = self.stream_of_job(state), state.owner
        job = self.jobs.get(stream) if stream else None
        if job is None or owner is None or (owner.uid and owner.uid != job.uid):
            return None
        return job

    def composed(self, state: WorkloadState) -> bool:
        """Whether the job of a Workload has several of them, and one copy for all."""
        adapter = self.policy.adapters.get(state.owner.gvk) if state.owner is not None else None
        return adapter is not None and adapter.composed

    def group_of(self, job: JobObserved | None) -> set[str]:
        """Return the streams of the pods of a job's group; none of a job that is in none."""
        return self._groups.get((job.namespace, job.group), set()) if job is not None and job.group else set()

    def members_of(self, state: WorkloadState) -> tuple[JobObserved, ...]:
        """Return the pods of a Workload's group beside the one that its job is, also once that one is gone: Kueue gives
        the Workload the group's name."""
        job, own = self.job_of(state), self.stream_of_job(state)
        if job is None and state.owner is not None and state.owner.gvk == PODS.gvk:
            group = self._groups.get((state.namespace, state.name), set())
        else:
            group = self.group_of(job)
        return tuple(self.jobs[stream] for stream in sorted(group) if stream != own)

    def written(self, state: WorkloadState, member: str) -> JobObserved | None:
        """Return the user's job, or the pod of its group of this name."""
        if not member:
            return self.job_of(state)
        return next((one for one in self.members_of(state) if one.name == member), None)

    def is_over(self, state: WorkloadState) -> bool:
        """Whether nothing is left to do about a Workload: it has finished, or is gone, nothing of it is left on a
        cluster, and its job shows how it ended, which one does not that was put back with its cluster, or that it
        rests."""
        if (
            state.remotes
            or state.effects
            or state.left
            or (state.local is not None and not state.local.is_true("Finished"))
        ):
            return False
        job = self.job_of(state) if state.ended else None
        return job is None or job.finished

    def slices_of(self, state: WorkloadState, streams: Iterable[str]) -> tuple[WorkloadState, ...]:
        """Return the other Workloads, of these streams, of the elastic job that a Workload is of; none of any other."""
        owner = state.owner
        if owner is None or not owner.uid or not is_slice(state):
            return ()
        found = (self.workloads.get(stream) for stream in sorted(streams))
        return tuple(
            other
            for other in found
            if other is not None
            and (other.namespace, other.name) != (state.namespace, state.name)
            and other.owner is not None
            and other.owner.uid == owner.uid
        )

    def strays_of(self, state: WorkloadState, streams: Iterable[str]) -> tuple[WorkloadState, ...]:
        """Return the Workloads, of these streams, of which nothing is known but copies that have the name of the
        elastic job that a Workload is of; none for any other."""
        if not is_slice(state):
            return ()
        return tuple(self.workloads[stream] for stream in sorted(streams) if stream in self.workloads)

    def stream_of_remote_job(self, cluster: str, uid: str) -> str:
        """Return the stream that a job's copy was recorded on, or its refusal; "" if it is not known."""
        return self._remote_jobs.get((cluster, uid), "") or self.unread.stream_of(cluster, uid)

    def unread_of(self, state: WorkloadState) -> Mapping[str, ObservationRefused]:
        """Return the clusters on which there is something of a Workload that nobody has read, or that may be another's,
        and what was wrong with it."""
        copies = [(WORKLOADS.name, state.namespace, state.name)]
        adapter = self.policy.adapters.get(state.owner.gvk) if state.owner is not None else None
        if adapter is not None and state.owner is not None:
            jobs = (state.owner.name, *(member.name for member in self.members_of(state)))
            copies += [(adapter.kind.name, state.namespace, name) for name in jobs]
        return self.unread.of(copies, state.remotes) | made_for_others(state)

    def route(self, local: WorkloadObserved) -> Route | None:
        """Return the check of ours that a Workload has, and the clusters that it leads to; None if it has none."""
        for entry in local.checks:
            check = self.checks.get(entry.name)
            if check is not None and check.controller_name == self.policy.controller_name:
                clusters, error = route_of(check, self.configs)
                return Route(entry.name, clusters, error)
        return None

    def queue(self, stream: str) -> Queue | None:
        """Return a ClusterQueue or LocalQueue by its stream, None if it is not known."""
        return self.local_queues.get(stream) or self.queues.get(stream.partition("/")[2])

    def leads_to_us(self, namespace: str, local_queue: str) -> bool | None:
        """Return whether a LocalQueue leads to a ClusterQueue with an admission check of ours; None if that is not
        known.
        """
        seen = self.local_queues.get(local_queue_stream(namespace, local_queue))
        queue = self.queues.get(seen.cluster_queue) if seen is not None else None
        if queue is None or queue.checks is None:
            return None
        controllers = {self.checks[name].controller_name if name in self.checks else None for name in queue.checks}
        if self.policy.controller_name in controllers:
            return True
        return None if None in controllers else False

    def _fold_local_queue(self, recorded: Recorded) -> None:
        if isinstance(recorded.event, LocalQueueObserved):
            self.local_queues[recorded.stream] = recorded.event
        elif isinstance(recorded.event, LocalQueueGone):
            forget(self.local_queues, recorded.stream, recorded.event)

    def queue_policy(self, local: WorkloadObserved | None) -> str:
        """Return the execution policy that the ClusterQueue of a Workload asks for, "" for none."""
        queue = self.queues.get(local.cluster_queue) if local else None
        return queue.execution_policy if queue else ""

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion).

        A reflector that starts with it notices what vanished while nobody watched.
        """
        unread = {one.uid: (one.namespace, one.name, one.resource_version) for one in self.unread.seen(cluster, kind)}
        read = {seen.uid: (seen.namespace, seen.name, seen.resource_version) for seen in self._existing(cluster, kind)}
        return unread | read

    def _existing(self, cluster: str, kind: str) -> Iterable[Observation]:
        if cluster == MANAGEMENT:
            named: dict[str, Iterable[Observation]] = {
                WORKLOADS.name: [state.local for state in self.workloads.values() if state.local is not None],
                ADMISSION_CHECKS.name: self.checks.values(),
                MULTIKUEUE_CONFIGS.name: self.configs.values(),
                MULTIKUEUE_CLUSTERS.name: self.clusters.values(),
                CLUSTER_QUEUES.name: self.queues.values(),
                LOCAL_QUEUES.name: self.local_queues.values(),
            }
            return named.get(kind, [job for job in self.jobs.values() if job.kind == kind])
        remotes = [state.remotes[cluster] for state in self.workloads.values() if cluster in state.remotes]
        if kind == WORKLOADS.name:
            return [remote.clone for remote in remotes if remote.clone is not None]
        jobs = [job for remote in remotes for job in remote.jobs]
        return [job for job in jobs if job.kind == kind]
