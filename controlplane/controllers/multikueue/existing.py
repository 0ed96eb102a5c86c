"""Finds objects as they were seen last, on all clusters: which job a Workload owns, which clusters its check leads to,
what exists of a kind on a cluster.

In: the states that `controlplane.controllers.multikueue.index` keeps. Out: answers; nothing is folded here."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.conditions import route_of
from controlplane.controllers.multikueue.context import MultiKueuePolicy, Route
from controlplane.controllers.multikueue.observations import (
    AdmissionCheckObserved,
    ClusterQueueObserved,
    JobObserved,
    MultiKueueClusterObserved,
    MultiKueueConfigObserved,
    Observation,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.observe import job_stream
from controlplane.controllers.multikueue.state import WorkloadState
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, WORKLOADS


class ExistingObjects:
    """What exists, by stream or by name; `_remote_jobs` has the stream that a job's copy was recorded on."""

    def __init__(self, policy: MultiKueuePolicy) -> None:
        self.policy = policy
        self.workloads: dict[str, WorkloadState] = {}
        self.jobs: dict[str, JobObserved] = {}
        self.checks: dict[str, AdmissionCheckObserved] = {}
        self.configs: dict[str, MultiKueueConfigObserved] = {}
        self.clusters: dict[str, MultiKueueClusterObserved] = {}
        self.queues: dict[str, ClusterQueueObserved] = {}
        self._remote_jobs: dict[tuple[str, str], str] = {}

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

    def stream_of_remote_job(self, cluster: str, uid: str) -> str:
        """Return the stream that a job's copy was recorded on; "" if it is not known."""
        return self._remote_jobs.get((cluster, uid), "")

    def route(self, local: WorkloadObserved) -> Route | None:
        """Return the check of ours that a Workload has, and the clusters that it leads to; None if it has none."""
        for entry in local.checks:
            check = self.checks.get(entry.name)
            if check is not None and check.controller_name == self.policy.controller_name:
                clusters, error = route_of(check, self.configs)
                return Route(entry.name, clusters, error)
        return None

    def queue_policy(self, local: WorkloadObserved | None) -> str:
        """Return the execution policy that the ClusterQueue of a Workload asks for, "" for none."""
        queue = self.queues.get(local.cluster_queue) if local else None
        return queue.execution_policy if queue else ""

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion).

        A reflector that starts with it notices what vanished while nobody watched.
        """
        return {seen.uid: (seen.namespace, seen.name, seen.resource_version) for seen in self._existing(cluster, kind)}

    def _existing(self, cluster: str, kind: str) -> Iterable[Observation]:
        if cluster == MANAGEMENT:
            named: dict[str, Iterable[Observation]] = {
                WORKLOADS.name: [state.local for state in self.workloads.values() if state.local is not None],
                ADMISSION_CHECKS.name: self.checks.values(),
                MULTIKUEUE_CONFIGS.name: self.configs.values(),
                MULTIKUEUE_CLUSTERS.name: self.clusters.values(),
                CLUSTER_QUEUES.name: self.queues.values(),
            }
            return named.get(kind, [job for job in self.jobs.values() if job.kind == kind])
        remotes = [state.remotes[cluster] for state in self.workloads.values() if cluster in state.remotes]
        if kind == WORKLOADS.name:
            return [remote.clone for remote in remotes if remote.clone is not None]
        return [remote.job for remote in remotes if remote.job is not None and remote.job.kind == kind]
