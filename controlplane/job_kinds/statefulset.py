"""A `apps/v1` StatefulSet (kubernetes-sigs/kueue pkg/controller/jobs/statefulset/statefulset_multikueue_adapter.go,
statefulset_reconciler.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.job_kinds.base import PodSet
from controlplane.job_kinds.gated import GatedSet
from controlplane.kube.kinds import STATEFUL_SETS, Json


class StatefulSet(GatedSet):
    """A StatefulSet."""

    integration = "statefulset"
    kind = STATEFUL_SETS
    counts = ("readyReplicas", "availableReplicas")

    def specs_by_template(self, job: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return that of its one template."""
        return {self.main: ((job.get("spec") or {}).get("template") or {}).get("spec") or {}}

    def with_gates(self, gates: Mapping[str, Sequence[Json] | None]) -> Json:
        """Return the template with its gates."""
        return {name: {"spec": {"schedulingGates": one}} for name, one in gates.items()}

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return the one pod set."""
        replicas = job["spec"].get("replicas")
        return [PodSet("main", 1 if replicas is None else int(replicas), ("spec", "template"))]
