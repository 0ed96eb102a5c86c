"""What the log says exists of a kind on a cluster, by which a reflector notices what vanished while nobody watched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.events import Observation
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, WORKLOADS

if TYPE_CHECKING:
    from controlplane.controllers.multikueue.index import WorkloadIndex


def existing(index: WorkloadIndex, cluster: str, kind: str) -> Iterable[Observation]:
    """Return the objects of a kind on a cluster, as they were seen last."""
    if cluster == MANAGEMENT:
        named: dict[str, Iterable[Observation]] = {
            WORKLOADS.name: [state.local for state in index.workloads.values() if state.local is not None],
            ADMISSION_CHECKS.name: index.checks.values(),
            MULTIKUEUE_CONFIGS.name: index.configs.values(),
            MULTIKUEUE_CLUSTERS.name: index.clusters.values(),
            CLUSTER_QUEUES.name: index.queues.values(),
        }
        return named.get(kind, [job for job in index.jobs.values() if job.kind == kind])
    remotes = [state.remotes[cluster] for state in index.workloads.values() if cluster in state.remotes]
    if kind == WORKLOADS.name:
        return [remote.clone for remote in remotes if remote.clone is not None]
    return [remote.job for remote in remotes if remote.job is not None and remote.job.kind == kind]
