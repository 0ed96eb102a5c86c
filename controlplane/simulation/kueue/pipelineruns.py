"""PipelineRuns under Kueue: an external framework, which makes their Workloads as tekton-kueue does beside a real
Kueue.

In: PipelineRuns with a queue name. Out: a run is created pending, gets a Workload, starts when that is admitted, and is
stopped for good when it is evicted: Tekton lets no run wait again that has begun. Pod sets are the placeholders of a
run and its widest level of tasks, so quota counts what can run at one time. On a worker a run may name a Workload that
was made beforehand."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.kube.kinds import PIPELINE_RUNS, WORKLOADS, Json, Kind, meta
from controlplane.simulation.apiserver.store import Operation
from controlplane.simulation.controllers.behaviour import Behaviour, Key
from controlplane.simulation.kueue.cluster import Kueue
from controlplane.simulation.kueue.common import MULTIKUEUE, QUEUE_NAME
from controlplane.simulation.kueue.jobs import JobReconciler
from controlplane.simulation.kueue.manager import KueueManager
from controlplane.simulation.kueue.podsets import JobOutcome
from controlplane.simulation.kueue.worker import bind_prebuilt

PENDING, STOPPED = "PipelineRunPending", "StoppedRunFinally"
_MODE = "controlplane/coschedule"
_PLACEHOLDER = {"name": "affinity-assistant", "image": "nop"}
_PLACEHOLDER_ASKS = {"cpu": "50m", "memory": "100Mi"}


class PipelineRunIntegration:
    """`tekton.dev/v1 PipelineRun`: a pod set for the placeholders, and one for each task of the widest level."""

    kind = PIPELINE_RUNS
    own_controller = "tekton.dev/pipeline"

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the templates of the pod sets: the run itself has none."""
        return [one["template"] for one in self.pod_sets(job)]

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return nothing: pods are directed by nobody but the run."""
        return {}

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the pod sets."""
        found = []
        if placeholders := _placeholders(job):
            found.append(_pod_set("placeholders", placeholders, [{**_PLACEHOLDER, "resources": _asks()}]))
        for task in _widest(job["spec"].get("pipelineSpec") or {}):
            steps = (task.get("taskSpec") or {}).get("steps") or [{"name": "step"}]
            found.append(_pod_set(task["name"], 1, [_container(step) for step in steps]))
        return found

    def active(self, job: Mapping[str, Any]) -> bool:
        """Return whether its status says that it has begun."""
        return bool((job.get("status") or {}).get("startTime"))

    def finished(self, job: Mapping[str, Any]) -> JobOutcome | None:
        """Return the condition Succeeded once it is True or False."""
        for found in (job.get("status") or {}).get("conditions") or ():
            if found["type"] == "Succeeded" and found["status"] in ("True", "False"):
                return JobOutcome(found.get("message", ""), found["status"] == "True")
        return None

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return whether it is pending."""
        return bool(job["spec"].get("status") == PENDING)

    def started(self) -> Json:
        """Return that it is not pending any more."""
        return {"status": None}

    def stopped(self, job: Mapping[str, Any]) -> Json:
        """Return that it stops; it cannot be pending again."""
        return {} if job["spec"].get("status") else {"status": STOPPED}


class PipelineRunFramework(Behaviour):
    """The framework beside one cluster's Kueue, whose view it shares."""

    def __init__(self, name: str, kueue: Kueue) -> None:
        super().__init__(name, kueue.clock)
        self._kueue = kueue
        self._core = dataclasses.replace(kueue.core, mark=self.mark, mark_after=self.mark_after)
        self._integration = PipelineRunIntegration()
        self._runs = JobReconciler(self._core, self._bind, {PIPELINE_RUNS: self._integration})
        kueue.view.listen(self._on_change)
        kueue.view.store.admission.append(self._admit)

    def reconcile(self, key: Key) -> float | None:
        """Take a run one step on."""
        self._runs.reconcile(*key)
        return None

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if kind == WORKLOADS:
            for key in self._runs.on_workload(old, new):
                self.mark(key)
        elif kind == PIPELINE_RUNS:
            self.mark(self._runs.on_job(kind, old, new))

    def _bind(self, kind: Kind, job: Json, name: str) -> Json | None:
        if isinstance(self._kueue, KueueManager):
            return None
        return bind_prebuilt(self._core, self._runs, kind, job, name)

    def _admit(self, operation: Operation, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
        """Let a run with a queue name wait from its creation; on the manager, for MultiKueue if its queue leads
        there.
        """
        if operation != "create" or new is None or kind != PIPELINE_RUNS:
            return
        queue = (meta(new).get("labels") or {}).get(QUEUE_NAME)
        if not queue:
            return
        new["spec"]["status"] = PENDING
        if self._is_for_multikueue(meta(new).get("namespace") or "", queue) and not new["spec"].get("managedBy"):
            new["spec"]["managedBy"] = MULTIKUEUE

    def _is_for_multikueue(self, namespace: str, queue: str) -> bool:
        manager = self._kueue
        return (
            isinstance(manager, KueueManager)
            and manager.gates.multikueue
            and manager.leads_to_multikueue(namespace, queue)
        )


def _placeholders(run: Mapping[str, Any]) -> int:
    """Return how many placeholders a run gets in the mode that it asks for; Tekton's default if it asks for none."""
    mode = (meta(run).get("annotations") or {}).get(_MODE, "workspaces")
    if mode == "disabled":
        return 0
    if mode != "workspaces":
        return 1
    claims = set()
    for number, binding in enumerate(run["spec"].get("workspaces") or ()):
        if "persistentVolumeClaim" in binding:
            claims.add(binding["persistentVolumeClaim"]["claimName"])
        elif "volumeClaimTemplate" in binding:
            claims.add(number)
    return len(claims)


def _widest(pipeline: Mapping[str, Any]) -> list[Json]:
    """Return the tasks of the level with most of them: level 0 waits for nobody, each other one for a task of the level
    before.
    """
    tasks = {task["name"]: task for task in pipeline.get("tasks") or ()}
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            levels[name] = 0  # a circle ends here
            levels[name] = max((level(one) + 1 for one in tasks[name].get("runAfter") or () if one in tasks), default=0)
        return levels[name]

    by_level: dict[int, list[Json]] = {}
    for name in tasks:
        by_level.setdefault(level(name), []).append(tasks[name])
    return max(by_level.values(), key=len, default=[])


def _pod_set(name: str, count: int, containers: list[Json]) -> Json:
    return {"name": name, "count": count, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}


def _container(step: Mapping[str, Any]) -> Json:
    return {"name": step["name"], "image": "task", "resources": copy.deepcopy(step.get("computeResources") or {})}


def _asks() -> Json:
    return {"requests": dict(_PLACEHOLDER_ASKS), "limits": dict(_PLACEHOLDER_ASKS)}
