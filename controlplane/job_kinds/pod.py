"""A plain `v1` Pod, or a group of them that one Workload is of (kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go,
pod_multikueue_adapter.go, ff69552e).

What a group has beside its first pod is told by `group`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.job_kinds.base import JobOutcome, PodSet
from controlplane.job_kinds.gated import HELD, KUEUE_GATE, Gated, gate_names
from controlplane.kube.kinds import PODS, Json, meta

MANAGED = "kueue.x-k8s.io/managed"
GROUP = "kueue.x-k8s.io/pod-group-name"
_OF_A_RUN = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses", "startTime")


class Pod(Gated):
    """A Pod, alone or of a group."""

    integration = "pod"
    kind = PODS
    main = ""
    home_selector = f"{MANAGED}=true"

    def specs_by_template(self, job: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return its spec."""
        return {"": job.get("spec") or {}}

    def with_gates(self, gates: Mapping[str, Sequence[Json] | None]) -> Json:
        """Return its gates. What runs cannot be stopped so."""
        return {"schedulingGates": gates[""]}

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return whether it has Kueue's scheduling gate, or the one that holds it on the management cluster."""
        return any(name in (KUEUE_GATE, HELD) for name in gate_names(job.get("spec") or {}))

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
        """Return the status with the phase that its Workload ended in: of those that Kueue counts as succeeded, all are."""
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


def _scheduled(status: Mapping[str, Any]) -> Json | None:
    found: list[Json] = [one for one in status.get("conditions") or () if one.get("type") == "PodScheduled"]
    return found[0] if found else None
