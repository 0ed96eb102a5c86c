"""An `apps/v1` StatefulSet, whose pods are one group; and a Deployment, whose pods wait each alone
(kubernetes-sigs/kueue pkg/controller/jobs/statefulset/statefulset_multikueue_adapter.go, statefulset_reconciler.go,
statefulset_webhook.go, pkg/controller/jobs/deployment/deployment_webhook.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from controlplane.job_kinds.base import PodSet
from controlplane.job_kinds.gated import GatedSet
from controlplane.job_kinds.generic_job import topology_request
from controlplane.job_kinds.pod import MANAGED
from controlplane.kube.kinds import STATEFUL_SETS, Json, Kind, meta
from controlplane.kube.kueue_names import QUEUE_LABEL
from controlplane.kube.pod_templates import stored_template


class StatefulSet(GatedSet):
    """A StatefulSet."""

    integration = "statefulset"
    kind = STATEFUL_SETS
    counts = ("readyReplicas", "availableReplicas")
    grouped = True
    index_label = "apps.kubernetes.io/pod-index"

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

    def pod_templates(self, job: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """Return the one."""
        return [("template",)]

    def _marked(self, template: Json, name: str, told: Mapping[str, str]) -> Json:
        """Return the template with what it has already in the place of what it would be told: another queue would have
        all pods made anew.
        """
        labels = meta(template).get("labels") or {}
        return super()._marked(template, name, {} if QUEUE_LABEL in labels else told)

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the one pod set: as many pods as there are replicas, of the template's spec alone."""
        (one,) = self.pods(job)
        template = job["spec"]["template"]
        found = {"name": one.name, "count": one.pods, "template": stored_template({"spec": template.get("spec") or {}})}
        return [{**found, "topologyRequest": topology_request(template, self.index_label, "", None)}]


class Deployment(StatefulSet):
    """A Deployment, which is not dispatched: its pods are."""

    integration = "deployment"
    kind = Kind("apps", "v1", "Deployment", "deployments")
    dispatched = False
    grouped = False
    index_label = ""
    template_labels: ClassVar[Mapping[str, str]] = {MANAGED: "true"}

    def _marked(self, template: Json, name: str, told: Mapping[str, str]) -> Json:
        """Return the template, told all."""
        return super(StatefulSet, self)._marked(template, name, told)
