"""The kinds that a simulated cluster serves where pods are looked after beside it: owners, PodGroups, claims, and
Tekton's.

Pure data, as `kinds`. Added to a cluster's kinds where the controllers of one's own cluster run; a cluster without
them answers as one on which nobody installed Volcano or Tekton."""

from __future__ import annotations

from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.kinds import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from controlplane.kube.kinds import POD_GROUPS, REPLICA_SETS, STATEFUL_SETS, Kind
from controlplane.simulation.kinds.base import AGE, DEFAULT_KINDS, Column, ServedKind, served
from controlplane.simulation.kinds.nodes import OWNING_KINDS, READY, SCHEDULING_KINDS, TEMPLATE

__all__ = [
    "CLAIMS",
    "DEPLOYMENTS",
    "LOCAL_KINDS",
    "POD_GROUPS",
    "REPLICA_SETS",
    "STATEFUL_SETS",
    "TASK_RUNS",
    "WHOLE_KINDS",
    "WORKFLOWS",
]

DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
TASK_RUNS = Kind("tekton.dev", "v1", "TaskRun", "taskruns")
WORKFLOWS = Kind("argoproj.io", "v1alpha1", "Workflow", "workflows")

LOCAL_KINDS: tuple[ServedKind, ...] = (
    *DEFAULT_KINDS,
    ServedKind(DEPLOYMENTS, short_names=("deploy",), columns=READY, list_map_keys=TEMPLATE),
    *OWNING_KINDS,
    # Its CRD has no status subresource: the status is patched with the rest.
    ServedKind(
        POD_GROUPS,
        status_subresource=False,
        short_names=("pg",),
        columns=(
            Column("Status", ".status.phase"),
            Column("minMember", ".spec.minMember", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            AGE,
        ),
    ),
    served(JOB_KINDS["tekton.dev/pipelinerun"]),
    ServedKind(TASK_RUNS, short_names=("tr", "trs"), columns=(Column("StartTime", ".status.startTime", "date"), AGE)),
    ServedKind(WORKFLOWS, status_subresource=False, short_names=("wf",), columns=(AGE,)),
)
"""What a cluster with Deployments, Volcano's PodGroups, Tekton and Argo serves, as far as this system touches it."""

WHOLE_KINDS: tuple[ServedKind, ...] = (*LOCAL_KINDS, *(kind for kind in SCHEDULING_KINDS if kind not in OWNING_KINDS))
"""The same where a scheduler of ours places the pods."""
