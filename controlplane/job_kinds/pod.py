"""A plain `v1` Pod, or a group of them that one Workload is of (kubernetes-sigs/kueue
pkg/controller/jobs/pod/pod_controller.go, pod_multikueue_adapter.go, pod_webhook.go, ff69552e).

What a group has beside its first pod is told by `group`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.job_kinds.base import JobOutcome, PodSet
from controlplane.job_kinds.gated import HELD, PARENT, Gated, gate_names
from controlplane.job_kinds.generic_job import topology_request
from controlplane.job_kinds.pod_roles import role_hash
from controlplane.kube.kinds import PODS, Json, meta
from controlplane.kube.kueue_names import ADMISSION_GATE, QUEUE_LABEL
from controlplane.kube.pod_templates import stored_template
from controlplane.kube.topologies import TOPOLOGY_GATE

MANAGED = "kueue.x-k8s.io/managed"
"""The label of a pod that Kueue looks after, with the value "true"; and the name of the finalizer on it."""
GROUP = "kueue.x-k8s.io/pod-group-name"
ROLE_HASH = "kueue.x-k8s.io/role-hash"
GROUP_INDEX_IN = "kueue.x-k8s.io/pod-group-pod-index-label"
"""The annotation that names the label by which the pods of a group tell their ranks."""
_OF_A_RUN = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses", "startTime")


class Pod(Gated):
    """A Pod, alone or of a group."""

    integration = "pod"
    kind = PODS
    main = ""
    home_selector = QUEUE_LABEL
    reconciled = True
    ends_by_deletion = True
    index_label = "kueue.x-k8s.io/pod-group-pod-index"

    def specs_by_template(self, job: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return its spec."""
        return {"": job.get("spec") or {}}

    def with_gates(self, gates: Mapping[str, Sequence[Json] | None]) -> Json:
        """Return its gates. What runs cannot be stopped so."""
        return {"schedulingGates": gates[""]}

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return whether it has Kueue's scheduling gate, or the one that holds it on the management cluster."""
        return any(name in (ADMISSION_GATE, HELD) for name in gate_names(job.get("spec") or {}))

    def marked(self, job: Mapping[str, Any]) -> bool:
        """Return whether it has Kueue's label: others with a queue are told of by the job framework alone."""
        return (meta(job).get("labels") or {}).get(MANAGED) == "true"

    def group(self, job: Mapping[str, Any]) -> str:
        """Return the name of its group: from its annotation where names are long, else from its label."""
        metadata = meta(job)
        for place in ("annotations", "labels"):
            if found := (metadata.get(place) or {}).get(GROUP):
                return str(found)
        return ""

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return none: its template is the pod itself."""
        return []

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the one pod set, with the pod's own spec."""
        spec = {name: value for name, value in copy.deepcopy(job["spec"]).items() if name != "schedulingGates"}
        return [{"name": "main", "count": 1, "template": {"spec": spec}}]

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the one pod set, its template the whole spec, gates and all; `BadValue` for what cannot be made."""
        found = {"name": "main", "count": 1, "template": stored_template({"spec": copy.deepcopy(job["spec"])})}
        return [{**found, "topologyRequest": topology_request({"metadata": meta(job)}, self.index_label, "", None)}]

    def priority_class(self, job: Mapping[str, Any]) -> str:
        """Return the PriorityClass that it names."""
        return str(job["spec"].get("priorityClassName") or "")

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether its condition Ready is True."""
        found = (job.get("status") or {}).get("conditions") or ()
        return any(one.get("type") == "Ready" and one.get("status") == "True" for one in found)

    def submitted(self, job: Mapping[str, Any]) -> Json:
        """Return it with Kueue's gates, labels, finalizer and the hash of its role. One that is made for another kind
        gets neither finalizer nor mark.
        """
        metadata, spec = meta(job), job["spec"]
        notes = metadata.get("annotations") or {}
        finalizers = list(metadata.get("finalizers") or ())
        labels = metadata.get("labels") or {}
        index = {self.index_label: str(labels.get(notes[GROUP_INDEX_IN]) or "")} if GROUP_INDEX_IN in notes else {}
        own = not self.made_for_another(job)
        made = {
            **metadata,
            "labels": {**labels, **({MANAGED: "true"} if own else {}), **index},
            "annotations": {**notes, ROLE_HASH: self.role(job)},
            "finalizers": [*finalizers, MANAGED] if own and MANAGED not in finalizers else finalizers,
        }
        gates = self.stopped(job)["schedulingGates"]
        gates = gates if TOPOLOGY_GATE in gate_names(spec) else [*gates, {"name": TOPOLOGY_GATE}]
        return {**job, "metadata": made, "spec": {**spec, "schedulingGates": gates}}

    def made_for_another(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is made for a kind such as StatefulSet."""
        return bool(self.parent(job))

    def parent(self, job: Mapping[str, Any]) -> str:
        """Return the kind for which it waits, as its annotation names it; "" for none."""
        return str((meta(job).get("annotations") or {}).get(PARENT) or "")

    def role(self, job: Mapping[str, Any]) -> str:
        """Return the hash of what it asks for: the one that it was created with, if it says so."""
        return str((meta(job).get("annotations") or {}).get(ROLE_HASH) or role_hash(job["spec"]))

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return how it ended, by its phase."""
        if status.get("phase") not in ("Succeeded", "Failed"):
            return None
        return JobOutcome(str(status.get("message") or ""), status["phase"] == "Succeeded")

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether its phase is Running."""
        return status.get("phase") == "Running"

    def drained(self, status: Json) -> Json:
        """Return the status of a pod that waits, unless it has ended."""
        if not self.active(status):
            return dict(status)
        return {name: value for name, value in status.items() if name not in _OF_A_RUN} | {"phase": "Pending"}

    def ended_as(self, status: Json, outcome: str) -> Json:
        """Return the status with the phase that its Workload ended in: of those that Kueue counts as succeeded, all
        are."""
        said = f"The pod was gone from its worker before its end was seen; its Workload ended as {outcome}"
        return {
            **status,
            "phase": "Succeeded" if outcome == "Succeeded" else "Failed",
            "reason": "EndNotSeen",
            "message": said,
        }

    def shown(self, status: Json, local: Json, *, suspended: bool) -> Json:
        """Return the copy's status, with the local `PodScheduled` until the copy has a node: a gated pod that said
        `Unschedulable` would have the management cluster scaled up for it.
        """
        ours, theirs = _scheduled(local), _scheduled(status)
        if not suspended or ours is None or (theirs is not None and theirs.get("status") == "True"):
            return status
        kept = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
        return {**status, "conditions": [*kept, ours]}


class PodOfParent(Pod):
    """A pod where those alone are looked after that wait for another kind."""

    def skipped(self, job: Mapping[str, Any]) -> bool:
        """Return whether it waits for none."""
        return not self.made_for_another(job)


def _scheduled(status: Mapping[str, Any]) -> Json | None:
    found: list[Json] = [one for one in status.get("conditions") or () if one.get("type") == "PodScheduled"]
    return found[0] if found else None
