"""`workload.codeflare.dev/v1beta2` AppWrapper: objects of any kinds that are made together (kubernetes-sigs/kueue
pkg/controller/jobs/appwrapper/appwrapper_controller.go, appwrapper_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controlplane.job_kinds.appwrapper_pods import (
    GROUP_INDEX,
    GROUPS,
    POD_INDEX,
    ComponentPods,
    check,
    pods_of,
    template_of,
)
from controlplane.job_kinds.base import JobOutcome, PodSet, SimulatedKind
from controlplane.job_kinds.generic_job import topology_request
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.pod_templates import stored_template

_NUMBER = re.compile(r"[+-]?\d{1,9}", re.ASCII)


class AppWrapper(SimulatedKind):
    """An AppWrapper."""

    integration = "workload.codeflare.dev/appwrapper"
    kind = Kind("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
    own_controller = "workload.codeflare.dev/appwrapper-controller"
    status_manager = "appwrapper-controller"
    columns = (("Status", ".status.phase", "string"),)
    reconciled = True
    infos_apart = True

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return the pod sets of its components."""
        return [
            PodSet(f"{meta(job)['name']}-{at}", one.replicas, ("spec", "components", component, *one.path))
            for at, (component, one) in enumerate(_component_pods(job))
        ]

    def workload_pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets, of what an AppWrapper takes from templates."""
        made = []
        for at, component in enumerate(job["spec"].get("components") or ()):
            check(component, at)
        for one, (_, pods), template in zip(self.pods(job), _component_pods(job), self.templates(job), strict=True):
            reduced = template_of(template)
            found = {"name": one.name.lower(), "count": one.pods, "template": stored_template(reduced)}
            label, notes = pods.annotations.get(GROUP_INDEX, ""), pods.annotations
            groups = int(notes[GROUPS]) if _NUMBER.fullmatch(notes.get(GROUPS, "")) else None
            if request := topology_request(reduced, notes.get(POD_INDEX, ""), label, groups):
                found["topologyRequest"] = request
            made.append(found)
        return made

    def with_infos(self, job: Mapping[str, Any], infos: Sequence[Json]) -> Json:
        """Return the components with what their pods were admitted with, which its own controller puts into them."""
        left, made = [{name: one[name] for name in one if name != "name"} for one in infos], []
        for component in job["spec"].get("components") or ():
            kept = {name: value for name, value in component.items() if name != "podSetInfos"}
            own, left = left[: len(pods_of(component))], left[len(pods_of(component)) :]
            made.append({**kept, "podSetInfos": own} if own else kept)
        return {"components": made}

    def ready(self, job: Mapping[str, Any]) -> bool:
        """Return whether its condition PodsReady is True."""
        return is_true(job, "PodsReady")

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return how it ended; one that failed has ended when its resources are gone."""
        if status.get("phase") == "Succeeded":
            return JobOutcome("AppWrapper finished successfully", True)
        if status.get("phase") == "Failed" and not is_true({"status": status}, "ResourcesDeployed"):
            return JobOutcome("AppWrapper failed", False)
        return None

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether its resources are there, or may be."""
        return is_true({"status": status}, "QuotaReserved")

    def drained(self, status: Json) -> Json:
        """Return the status of one whose resources are gone."""
        resting = ("QuotaReserved", "ResourcesDeployed", "PodsReady")
        found = [
            {**one, "status": "False"} if one["type"] in resting else one for one in status.get("conditions") or ()
        ]
        phase = {"phase": "Suspended"} if self.active(status) and self.outcome(status) is None else {}
        return {**status, **({"conditions": found} if found else {}), **phase}

    def show_suspended(self, job: Json, status: Json, at: str) -> None:
        """Show that nothing of it is there."""
        status["phase"] = "Suspended"
        self._show(job, status, "suspended", at, QuotaReserved=False, ResourcesDeployed=False, PodsReady=False)

    def show_started(self, job: Json, status: Json, at: str, *, ready: bool) -> None:
        """Show that its resources are there."""
        status["phase"] = "Running"
        self._show(job, status, "started", at, QuotaReserved=True, ResourcesDeployed=True)
        if ready:
            self.show_ready(job, status)

    def show_ready(self, job: Json, status: Json) -> None:
        """Show that its pods are ready."""
        self._show(job, status, "ready", self.since({"status": status}) or "", PodsReady=True)

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return when it got its quota."""
        found = (job.get("status") or {}).get("conditions") or ()
        return next((str(one["lastTransitionTime"]) for one in found if one["type"] == "QuotaReserved"), None)

    def show_ended(self, job: Json, status: Json, at: str, *, success: bool, brief: bool) -> None:
        """Show its last phase."""
        status["phase"] = "Succeeded" if success else "Failed"
        over = {"QuotaReserved": False, "ResourcesDeployed": False, "PodsReady": False}
        self._show(job, status, "succeeded" if success else "failed", at, **over)


def _component_pods(job: Mapping[str, Any]) -> Iterator[tuple[int, ComponentPods]]:
    for at, component in enumerate(job["spec"].get("components") or ()):
        for one in pods_of(component):
            yield at, one
