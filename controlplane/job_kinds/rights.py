"""Writes what a service has to be allowed for the kinds of job, as a ClusterRole and its binding.

In: `management`, `worker`, `jobframework` (the first with `quota.mode: builtin`, where jobs are started and stopped
too), `jobframework-pods` (the same, for what is deleted where it has to stop), or `deletion` (there, where jobs are
deleted too). Out: YAML. The kinds are those of Kueue's own; an external one brings rights of its own
(deploy/pipelineruns)."""

from __future__ import annotations

from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kinds import PODS

_INTRO = {
    "management": "Jobs of users are read; a job's status is that of its copy on a worker, since its own controller "
    "leaves it alone.",
    "worker": "The copies of users' jobs are created, watched and deleted.",
    "deletion": "Only where `quota.objectRetention.afterDeactivated` is not `never`: jobs are deleted some time after "
    "they were\n"
    "# deactivated. Not part of the kustomization: apply it beside.",
    "jobframework": "Only where `quota.mode` is `builtin`: Workloads are made of jobs, and jobs are started and\n"
    "# stopped, by this service in the place of Kueue's manager. Not part of the kustomization: apply it beside.",
    "jobframework-pods": "Only where `quota.mode` is `builtin` and `multikueue.kinds` names `pod`: a pod that has to "
    "stop is deleted.\n"
    "# Not part of the kustomization: apply it beside.",
}
_WORKER = "controlplane-worker"
_BESIDE = """\
  - apiGroups: [kueue.x-k8s.io]
    resources: [workloads]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [kueue.x-k8s.io]
    resources: [workloads/status]
    verbs: [patch]
  # What an admitted job gets, and with which priority its Workload waits.
  - apiGroups: [kueue.x-k8s.io]
    resources: [resourceflavors, workloadpriorityclasses]
    verbs: [get, list, watch]
  - apiGroups: [scheduling.k8s.io]
    resources: [priorityclasses]
    verbs: [get, list, watch]
  # Pods of jobs that are admitted to domains of a Topology are let run, each in its domain; those of elastic jobs as far as there
  # is quota for them.
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch, patch]
  - apiGroups: [events.k8s.io]
    resources: [events]
    verbs: [create]
"""


def cluster_role(place: str) -> str:
    """Return the documents of `deploy/rbac/PLACE/jobs.yaml`, or of `deploy/rbac/management/jobframework.yaml`,
    `jobframework-pods.yaml` and `job-deletion.yaml`; `KeyError` for another place.
    """
    kinds = sorted((one for one in JOB_KINDS.values() if not one.external), key=lambda one: one.kind.name)
    rules = "".join(_rule(one, *right) for one in kinds for right in rights(one, place))
    beside = f"{_documents('controlplane-jobframework', _BESIDE, place)}---\n" if place == "jobframework" else ""
    name = f"controlplane-{place}" if place == "jobframework-pods" else f"controlplane-{place}-jobs"
    return f"""\
# {_INTRO[place]}
# Made by `python -m controlplane.job_kinds {place}`. Kinds that are not dispatched may be left out.
{beside}{_documents(name, rules, place)}"""


def _documents(name: str, rules: str, place: str) -> str:
    return f"""\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {name}
rules:
{rules}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {name}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {name}
subjects:
  - kind: ServiceAccount
    name: {_WORKER if place == "worker" else "controlplane"}
    namespace: kueue-system
"""


def rights(one: JobKind, place: str) -> list[tuple[str, str]]:
    """Return what is done with a kind in a place: resources, each with its verbs (`get, list`)."""
    plural = one.kind.plural
    if not one.dispatched and place in ("management", "worker"):
        return []
    if place == "deletion":
        return [(plural, "delete")] if one.reconciled and not one.ends_by_deletion else []
    if place.startswith("jobframework"):
        return _to_reconcile(one, of_pods=place.endswith("-pods"))
    if place == "worker":
        # Of a pod whose Workload is gone, nobody else takes Kueue's finalizer off.
        patched = one.synced or one.elastic or one.kind == PODS
        return [(plural, f"get, list, watch, create, {'patch, ' if patched else ''}delete")]
    return [(plural, "get, list, watch"), *([(f"{plural}/status", "patch")] if one.relays else [])]


def _to_reconcile(one: JobKind, *, of_pods: bool) -> list[tuple[str, str]]:
    """Return what the job framework does with a kind: with those that end by being deleted, or with the others."""
    plural = one.kind.plural
    if one.grouped and not of_pods:
        return [(plural, "get, list, watch")]
    if not one.reconciled or one.ends_by_deletion != of_pods:
        return []
    # The owner of a Workload blocks its own deletion for it, which asks for a right to the owner's finalizers.
    verbs = "get, list, watch, patch, delete" if one.ends_by_deletion else "get, list, watch, patch"
    status = [(f"{plural}/status", "patch")] if one.stops_by_steps or one.ends_by_deletion else []
    runtimes = [(kind.plural, "get, list, watch") for kind in one.runtimes]
    return [(plural, verbs), (f"{plural}/finalizers", "update"), *status, *runtimes]


def _rule(one: JobKind, resource: str, verbs: str) -> str:
    group = one.kind.group or '""'
    return f"  - apiGroups: [{group}]\n    resources: [{resource}]\n    verbs: [{verbs}]\n"
