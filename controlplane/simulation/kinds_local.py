"""The kinds that a simulated cluster serves where pods are looked after beside it: owners, PodGroups, claims, and Tekton's.

Pure data, as `kinds`. Added to a cluster's kinds where the controllers `podgroups` and `coscheduling` run; a cluster without them
answers as one on which nobody installed Volcano or Tekton.
"""

from __future__ import annotations

from controlplane import kube
from controlplane.kube import Kind
from controlplane.simulation.kinds import AGE, DEFAULT_KINDS, Column, ServedKind, pod_lists

DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
REPLICA_SETS = Kind("apps", "v1", "ReplicaSet", "replicasets")
STATEFUL_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets")
CLAIMS = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
POD_GROUPS = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
TASK_RUNS = Kind("tekton.dev", "v1", "TaskRun", "taskruns")
WORKFLOWS = Kind("argoproj.io", "v1alpha1", "Workflow", "workflows")

_CONDITIONS = {"status.conditions": ("type",)}
_TEMPLATE = {**_CONDITIONS, **pod_lists("spec.template.spec")}
_READY = (Column("Ready", ".status.readyReplicas", "integer"), Column("Desired", ".spec.replicas", "integer"), AGE)

LOCAL_KINDS: tuple[ServedKind, ...] = (
    *DEFAULT_KINDS,
    ServedKind(DEPLOYMENTS, short_names=("deploy",), columns=_READY, list_map_keys=_TEMPLATE),
    ServedKind(REPLICA_SETS, short_names=("rs",), columns=_READY, list_map_keys=_TEMPLATE),
    ServedKind(STATEFUL_SETS, short_names=("sts",), columns=_READY, list_map_keys=_TEMPLATE),
    ServedKind(
        CLAIMS,
        short_names=("pvc",),
        columns=(Column("Status", ".status.phase"), AGE),
        list_map_keys=_CONDITIONS,
        generation=False,
    ),
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
    ServedKind(
        kube.PIPELINE_RUNS, short_names=("pr", "prs"), columns=(Column("StartTime", ".status.startTime", "date"), AGE)
    ),
    ServedKind(TASK_RUNS, short_names=("tr", "trs"), columns=(Column("StartTime", ".status.startTime", "date"), AGE)),
    ServedKind(WORKFLOWS, status_subresource=False, short_names=("wf",), columns=(AGE,)),
)
"""Everything that a cluster with Deployments, Volcano's PodGroups, Tekton and Argo serves, as far as this system touches it."""
