"""The controller of batch/v1 Jobs with pods: what `jobs` is without them.

In: Jobs that are not suspended. Out: `parallelism` pods at a time until `completions` have succeeded, and the Job's
end, as `pkg/controller/job` would have them without its back-off: a pod that failed, or went, is replaced."""

from __future__ import annotations

from typing import Any

import orjson

from controlplane.clock import Clock
from controlplane.kube.kinds import JOBS, PODS, Json, Kind, meta
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View, place_of
from controlplane.simulation.controllers.workload_owners import controller_of, owner_reference


class JobPods(Behaviour):
    """Runs the Jobs of one cluster."""

    def __init__(self, name: str, view: View, clock: Clock) -> None:
        super().__init__(name, clock)
        self._view, self._store = view, view.store
        view.listen(self._on_change)

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        shown = new or old or {}
        if kind == JOBS and new is not None:
            self.enqueue(place_of(new))
        elif kind == PODS and (reference := controller_of(shown)).get("kind") == "Job":
            self.enqueue((meta(shown)["namespace"], reference["name"]))

    def reconcile(self, key: Key) -> float | None:
        """Bring the pods of one Job in line."""
        job = self._view.get(JOBS, key[0], key[1])
        if job is None or "deletionTimestamp" in meta(job) or job["spec"].get("suspend") or _finished(job):
            return None
        pods = [pod for pod in self._view.all(PODS).values() if controller_of(pod).get("uid") == meta(job)["uid"]]
        phases = [str(pod["status"].get("phase")) for pod in pods]
        succeeded, active = phases.count("Succeeded"), sum(phase not in ENDED_PHASES for phase in phases)
        at_once = int(job["spec"].get("parallelism", 1))
        wanted = int(job["spec"].get("completions", at_once))
        for _ in range(min(at_once, wanted - succeeded) - active):
            self._store.create(PODS, pod_of(job))
        self._count(job, {"succeeded": succeeded, "active": active, "failed": phases.count("Failed")})
        if succeeded >= wanted:
            done = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": ""}
            self._store.patch(JOBS, *place_of(job), {"status": {"conditions": [done]}}, subresource="status")
        return None

    def _count(self, job: Json, counts: dict[str, int]) -> None:
        status = job.get("status") or {}
        if any(status.get(name, 0) != count for name, count in counts.items()):
            self._store.patch(JOBS, *place_of(job), {"status": counts}, subresource="status")


def _finished(job: Json) -> bool:
    return any(one["type"] == "Complete" for one in (job.get("status") or {}).get("conditions") or ())


def pod_of(job: Json) -> Json:
    """Return a pod of a Job's template, as it is to be created."""
    template = orjson.loads(orjson.dumps(job["spec"]["template"]))
    spec: dict[str, Any] = {"restartPolicy": "Never", **(template.get("spec") or {})}
    kept = {key: value for key, value in (template.get("metadata") or {}).items() if key in ("labels", "annotations")}
    name = {"generateName": f"{meta(job)['name']}-", "namespace": meta(job)["namespace"]}
    return {"metadata": {**kept, **name, "ownerReferences": [owner_reference(job)]}, "spec": spec}
