"""The shape that every adapter has, and what they share (Kueue's `MultiKueueAdapter`: kubernetes-sigs/kueue
pkg/controller/jobframework/multikueue.go, ff69552e)."""

from __future__ import annotations

import copy
from typing import Protocol

from controlplane.kube.kinds import Json, Kind

MANAGED_BY = "kueue.x-k8s.io/multikueue"
ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
FINALIZER = "kueue.x-k8s.io/resource-in-use"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
ATTEMPT = "controlplane/attempt"
"""The annotation of a copy with the number of its attempt, where attempts are fenced."""


class Adapter(Protocol):
    """One kind of job."""

    integration: str
    kind: Kind

    def managed_by(self, job: Json) -> str:
        """Return the controller that the job names, "" if none."""

    def suspended(self, job: Json) -> bool:
        """Whether the job is suspended, as Kueue understands it."""

    def finished(self, status: Json) -> bool:
        """Whether a status is a final one."""

    def inactive(self, status: Json) -> bool:
        """Whether by this status nothing of the job runs any more: Kueue's test before it gives quota back."""

    def clone(self, template: Json, namespace: str, name: str, workload: str, origin: str) -> Json:
        """Return the job as it is created on a worker, from the body {labels, annotations, spec}."""

    def may_relay(self, *, local_suspended: bool, remote_suspended: bool, remote_finished: bool) -> bool:
        """Whether the remote status may be written to the user's job now."""

    def drained(self, status: Json) -> Json:
        """Return the status in which nothing runs."""

    def overtaken_counts(self) -> bool:
        """Whether a copy that was overtaken by another attempt and succeeded all the same gives the result."""

    def marks_suspended(self) -> bool:
        """Whether a suspended local job gets a `Suspended` condition while its copy already runs."""


class SuspendedJobAdapter:
    """What the kinds with `spec.suspend` and `spec.managedBy` share."""

    kind: Kind
    FINAL: tuple[str, str]
    """The types of the two final conditions."""

    def managed_by(self, job: Json) -> str:
        """Return `spec.managedBy`."""
        return str(job.get("spec", {}).get("managedBy") or "")

    def suspended(self, job: Json) -> bool:
        """Whether `spec.suspend` is true."""
        return job.get("spec", {}).get("suspend") is True

    def finished(self, status: Json) -> bool:
        """Whether one of the final conditions is True."""
        return any(
            condition.get("type") in self.FINAL and condition.get("status") == "True"
            for condition in status.get("conditions") or []
        )

    def clone(self, template: Json, namespace: str, name: str, workload: str, origin: str) -> Json:
        """Return the copy: managedBy cleared, and suspended."""
        spec = self.clone_spec(template)
        spec.pop("managedBy", None)
        # The worker's Kueue starts it when the clone's quota is there; until it has seen the job it must not run.
        spec["suspend"] = True
        metadata = clone_metadata(template, namespace, name, workload, origin)
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata, "spec": spec}

    def clone_spec(self, template: Json) -> Json:
        """Return the spec of the copy, without what only its kind has to leave out."""
        return spec_of(template)

    def overtaken_counts(self) -> bool:
        """Yes: what succeeded need not be done again."""
        return True


def clone_metadata(template: Json, namespace: str, name: str, workload: str, origin: str) -> Json:
    """Return the metadata of a job's copy: labels and annotations as they are, our origin, and the Workload that it is
    bound to.

    The prebuilt name is an annotation (Kueue's gate WorkloadIdentifierAnnotations, Beta and on); with the gate off
    Kueue reads it too."""
    return {
        "namespace": namespace,
        "name": name,
        "labels": {**template.get("labels", {}), ORIGIN_LABEL: origin},
        "annotations": {**template.get("annotations", {}), PREBUILT: workload},
    }


def spec_of(template: Json) -> Json:
    """Return a copy of a template's spec that may be changed."""
    spec: Json = copy.deepcopy(template["spec"])
    return spec
