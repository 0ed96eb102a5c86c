"""What Kueue has to know of a kind of job: its pod sets, whether it is suspended, active or finished, how to start and
to stop it.

In: Job and JobSet objects. Out: pod sets for a Workload, answers, and patches for the job. These are the integrations
`batch/job` and `jobset.x-k8s.io/jobset`, with the rules of Kueue's job framework.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from controlplane.kube.kinds import JOBS, JOBSETS, Json, Kind
from controlplane.simulation.kueue.common import condition, difference

_JOB_CONTROLLER_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid")


class JobOutcome(NamedTuple):
    """How a finished job ended: the message of its last condition, and whether it succeeded."""

    message: str
    success: bool


class Integration(Protocol):
    """One kind of job as Kueue's job framework sees it."""

    kind: Kind
    own_controller: str

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod templates, in the order of the pod sets."""

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return the part of a spec that puts these templates in place (for a merge patch)."""

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the Workload's `spec.podSets` for the job."""

    def active(self, job: Mapping[str, Any]) -> bool:
        """Return whether pods of the job still run, going by its status."""

    def finished(self, job: Mapping[str, Any]) -> JobOutcome | None:
        """Return how the job ended, or None while it has not."""

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return whether the job waits to be started."""

    def started(self) -> Json:
        """Return the part of a spec that lets a suspended job start."""

    def stopped(self, job: Mapping[str, Any]) -> Json:
        """Return the part of a spec that stops a job; empty if it is being stopped."""


def suspended(job: Mapping[str, Any]) -> bool:
    """Return `spec.suspend`."""
    return job["spec"].get("suspend") is True


def _pods(spec: Mapping[str, Any]) -> int:
    parallelism = spec.get("parallelism")
    parallelism = 1 if parallelism is None else int(parallelism)
    completions = spec.get("completions")
    return parallelism if completions is None else min(parallelism, int(completions))


def _template_without_bookkeeping(template: Mapping[str, Any]) -> Json:
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not any(name in labels for name in _JOB_CONTROLLER_LABELS):
        return dict(template)
    kept = {name: value for name, value in labels.items() if name not in _JOB_CONTROLLER_LABELS}
    return {**template, "metadata": {**template["metadata"], "labels": kept}}


class Suspends:
    """What is the same for every kind with a field `spec.suspend`."""

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return `spec.suspend`."""
        return suspended(job)

    def started(self) -> Json:
        """Return that it is not suspended."""
        return {"suspend": False}

    def stopped(self, job: Mapping[str, Any]) -> Json:
        """Return that it is suspended."""
        return {"suspend": True}


class JobIntegration(Suspends):
    """`batch/v1 Job`: one pod set named `main`."""

    kind = JOBS
    own_controller = "kubernetes.io/job-controller"

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the one template."""
        return [job["spec"]["template"]]

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return the difference to `template`, so that what is gone from it goes."""
        return {"template": difference(job["spec"]["template"], templates[0])}

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod set: as many pods as run at once, never more than have to complete."""
        template = copy.deepcopy(_template_without_bookkeeping(job["spec"]["template"]))
        return [{"name": "main", "count": _pods(job["spec"]), "template": template}]

    def active(self, job: Mapping[str, Any]) -> bool:
        """Return whether `status.active` is not zero."""
        return bool((job.get("status") or {}).get("active"))

    def finished(self, job: Mapping[str, Any]) -> JobOutcome | None:
        """Return the Complete or Failed condition."""
        for found in (job.get("status") or {}).get("conditions") or ():
            if found["type"] in ("Complete", "Failed") and found["status"] == "True":
                return JobOutcome(found.get("message", ""), found["type"] == "Complete")
        return None


class JobSetIntegration(Suspends):
    """`jobset.x-k8s.io/v1alpha2 JobSet`: one pod set for each replicated job."""

    kind = JOBSETS
    own_controller = "jobset.sigs.k8s.io/jobset-controller"

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod template of every replicated job."""
        return [replicated["template"]["spec"]["template"] for replicated in job["spec"]["replicatedJobs"]]

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return `replicatedJobs` with these templates; a list, so it is always whole."""
        replaced = []
        for replicated, template in zip(job["spec"]["replicatedJobs"], templates, strict=True):
            outer = replicated["template"]
            replaced.append({**replicated, "template": {**outer, "spec": {**outer["spec"], "template": template}}})
        return {"replicatedJobs": replaced}

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return a pod set for each replicated job: replicas times the pods of one."""
        made = []
        for replicated in job["spec"]["replicatedJobs"]:
            inner = replicated["template"]["spec"]
            count = int(replicated.get("replicas", 1)) * _pods(inner)
            made.append({"name": replicated["name"], "count": count, "template": copy.deepcopy(inner["template"])})
        return made

    def active(self, job: Mapping[str, Any]) -> bool:
        """Return whether any replicated job has active jobs."""
        statuses = (job.get("status") or {}).get("replicatedJobsStatus") or ()
        return any((entry.get("active") or 0) > 0 for entry in statuses)

    def finished(self, job: Mapping[str, Any]) -> JobOutcome | None:
        """Return the Completed or Failed condition."""
        for type_, success in (("Completed", True), ("Failed", False)):
            found = condition(job, type_)
            if found is not None and found["status"] == "True":
                return JobOutcome(found.get("message", ""), success)
        return None


INTEGRATIONS: Mapping[Kind, Integration] = {JOBS: JobIntegration(), JOBSETS: JobSetIntegration()}


def equivalent(
    pod_sets: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], *, tolerations: bool = True
) -> bool:
    """Return whether two lists of pod sets ask for the same: counts, containers, init containers and, unless told
    otherwise, tolerations.
    """
    if len(pod_sets) != len(others):
        return False
    for one, other in zip(pod_sets, others, strict=True):
        if one.get("count") != other.get("count") or one.get("minCount") != other.get("minCount"):
            return False
        fields = ("containers", "initContainers", "tolerations") if tolerations else ("containers", "initContainers")
        mine, theirs = one["template"].get("spec") or {}, other["template"].get("spec") or {}
        if any((mine.get(field) or []) != (theirs.get(field) or []) for field in fields):
            return False
    return True


class PodSetPlacement(NamedTuple):
    """What admission adds to the pods of one pod set."""

    labels: Mapping[str, str]
    node_selector: Mapping[str, str]


def placed(template: Mapping[str, Any], placement: PodSetPlacement) -> Json:
    """Return a template with a placement merged in; what the template says itself stays."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    merged: Json = {
        **template,
        "metadata": {**metadata, "labels": {**placement.labels, **(metadata.get("labels") or {})}},
    }
    if placement.node_selector:
        merged["spec"] = {**spec, "nodeSelector": {**placement.node_selector, **(spec.get("nodeSelector") or {})}}
    return merged


def restored(template: Mapping[str, Any], original: Mapping[str, Any]) -> Json:
    """Return a template whose labels and node selector are again those of the Workload's pod set.

    Labels that the Job controller put there are kept.
    """
    labels = (template.get("metadata") or {}).get("labels") or {}
    wanted = dict((original.get("metadata") or {}).get("labels") or {})
    wanted.update({name: value for name, value in labels.items() if name in _JOB_CONTROLLER_LABELS})
    made: Json = {**template, "metadata": {**(template.get("metadata") or {}), "labels": wanted}}
    spec = {name: value for name, value in (template.get("spec") or {}).items() if name != "nodeSelector"}
    if selector := (original.get("spec") or {}).get("nodeSelector"):
        spec["nodeSelector"] = selector
    made["spec"] = spec
    return made
