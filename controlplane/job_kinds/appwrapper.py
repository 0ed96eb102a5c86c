"""`workload.codeflare.dev/v1beta2` AppWrapper: objects of any kinds that are made together (kubernetes-sigs/kueue
pkg/controller/jobs/appwrapper/appwrapper_controller.go, appwrapper_multikueue_adapter.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.job_kinds.base import JobOutcome, Path, PodSet, SimulatedKind
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import Json, Kind, meta


class AppWrapper(SimulatedKind):
    """An AppWrapper."""

    integration = "workload.codeflare.dev/appwrapper"
    kind = Kind("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
    own_controller = "workload.codeflare.dev/appwrapper-controller"
    status_manager = "appwrapper-controller"
    columns = (("Status", ".status.phase", "string"),)

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return the pod sets that its components declare."""
        found: list[PodSet] = []
        for at, component in enumerate(job["spec"].get("components") or ()):
            for one in component.get("podSets") or ():
                path: Path = ("spec", "components", at, *str(one["path"]).split("."))
                found.append(PodSet(f"{meta(job)['name']}-{len(found)}", int(one.get("replicas", 1)), path))
        return found

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
        self._show(job, status, "suspended", at, QuotaReserved=False, ResourcesDeployed=False)

    def show_started(self, job: Json, status: Json, at: str, *, ready: bool) -> None:
        """Show that its resources are there."""
        status["phase"] = "Running"
        self._show(job, status, "started", at, QuotaReserved=True, ResourcesDeployed=True)

    def since(self, job: Mapping[str, Any]) -> str | None:
        """Return when it got its quota."""
        found = (job.get("status") or {}).get("conditions") or ()
        return next((str(one["lastTransitionTime"]) for one in found if one["type"] == "QuotaReserved"), None)

    def show_ended(self, job: Json, status: Json, at: str, *, success: bool, brief: bool) -> None:
        """Show its last phase."""
        status["phase"] = "Succeeded" if success else "Failed"
        self._show(job, status, "succeeded" if success else "failed", at, QuotaReserved=False, ResourcesDeployed=False)
