"""A toy of Tekton's controller: TaskRuns and their pods in the order of a pipeline, and the conditions of both.

In: PipelineRuns with an embedded pipeline. Out: a TaskRun and a pod for each task whose predecessors (`runAfter`) are done, and the run's
own end. Where the ConfigMap `feature-flags` says that a run's pods belong together it names the placeholder, as Tekton does, and ties
pods to it; the placeholder itself is somebody else's to make. How long a task takes is said by the run's annotation.
"""

from __future__ import annotations

import hashlib
from typing import Any

from controlplane.clock import Clock
from controlplane.kube import PIPELINE_RUNS, PODS, Json, Kind, meta
from controlplane.simulation.behaviour import Behaviour, Key, View
from controlplane.simulation.jobs import DURATION
from controlplane.simulation.kinds import CONFIG_MAPS
from controlplane.simulation.kinds_local import TASK_RUNS
from controlplane.simulation.kueue_common import timestamp
from controlplane.simulation.owners import controller_of, owner_reference

NAMESPACE = "tekton-pipelines"
FOLLOWS = "pipeline.tekton.dev/affinity-assistant"
RUN_LABEL, TASK_LABEL, TASK_RUN_LABEL = "tekton.dev/pipelineRun", "tekton.dev/pipelineTask", "tekton.dev/taskRun"
_PER_RUN = ("pipelineruns", "isolate-pipelinerun")
_STOPS = ("Cancelled", "CancelledRunFinally", "StoppedRunFinally")
_END = "Succeeded"


class Tekton(Behaviour):
    """Runs the PipelineRuns of one cluster."""

    def __init__(self, name: str, view: View, clock: Clock) -> None:
        super().__init__(name, clock)
        self._view, self._store = view, view.store
        view.listen(self._on_change)

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        shown = new or old or {}
        if kind == PIPELINE_RUNS and new is not None:
            self.mark((meta(new)["namespace"], meta(new)["name"]))
        elif kind in (TASK_RUNS, PODS) and RUN_LABEL in (meta(shown).get("labels") or {}):
            self.mark((meta(shown)["namespace"], meta(shown)["labels"][RUN_LABEL]))

    def reconcile(self, key: Key) -> float | None:
        """Take a run one step on."""
        run = self._view.get(PIPELINE_RUNS, *key)
        if run is None or "deletionTimestamp" in meta(run) or run["spec"].get("managedBy") or _ended(run):
            return None
        asked = run["spec"].get("status")
        if asked in _STOPS:
            self._stop(run)
        if asked:  # it is pending, or was stopped
            return None
        status = run.get("status") or {}
        if "pipelineSpec" not in status:
            begun = timestamp(self.clock.now())
            self._say(
                PIPELINE_RUNS, run, "Unknown", "Running", pipelineSpec=run["spec"]["pipelineSpec"], startTime=begun
            )
            return None
        tasks = status["pipelineSpec"].get("tasks") or []
        done = {task["name"] for task in tasks if self._task(run, task, tasks)}
        if len(done) == len(tasks):
            self._say(PIPELINE_RUNS, run, "True", "Succeeded", completionTime=timestamp(self.clock.now()))
        return None

    def _stop(self, run: Json) -> None:
        """End a run that was cancelled: its tasks end with it."""
        for task in list(self._view.all(TASK_RUNS).values()):
            if controller_of(task).get("uid") == meta(run)["uid"] and not _ended(task):
                pod = self._view.get(PODS, meta(task)["namespace"], f"{meta(task)['name']}-pod")
                if pod is not None and "deletionTimestamp" not in meta(pod):
                    self._store.delete(PODS, meta(pod)["namespace"], meta(pod)["name"], uid=meta(pod)["uid"])
                self._say(TASK_RUNS, task, "False", "TaskRunCancelled")
        self._say(PIPELINE_RUNS, run, "False", "Cancelled", completionTime=timestamp(self.clock.now()))

    def _task(self, run: Json, task: Json, tasks: list[Json]) -> bool:
        """Take a task one step on; return whether it is done."""
        namespace, name = meta(run)["namespace"], f"{meta(run)['name']}-{task['name']}"
        made = self._view.get(TASK_RUNS, namespace, name)
        if made is None:
            before = (
                self._view.get(TASK_RUNS, namespace, f"{meta(run)['name']}-{one}") for one in task.get("runAfter") or ()
            )
            if all(one is not None and _ended(one) for one in before):
                self._store.create(TASK_RUNS, self._task_run(run, task, name))
            return False
        if _ended(made):
            return True
        if controller_of(made).get("uid") != meta(run)["uid"]:
            return False
        pod = self._view.get(PODS, namespace, f"{name}-pod")
        if pod is None:
            self._store.create(PODS, _pod(run, made))
        elif (pod.get("status") or {}).get("phase") == "Succeeded":
            self._say(TASK_RUNS, made, "True", "Succeeded")
        return False

    def _task_run(self, run: Json, task: Json, name: str) -> Json:
        flags = (self._view.get(CONFIG_MAPS, NAMESPACE, "feature-flags") or {}).get("data") or {}
        per_run = flags.get("coschedule") in _PER_RUN
        placeholder = f"affinity-assistant-{_digest(meta(run)['name'])}"
        bindings = {one["name"]: one for one in run["spec"].get("workspaces") or ()}
        workspaces = [
            _bound(bindings[one.get("workspace", one["name"])], one["name"], run, placeholder if per_run else "")
            for one in task.get("workspaces") or ()
        ]
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": meta(run)["namespace"],
            "labels": {RUN_LABEL: meta(run)["name"], TASK_LABEL: task["name"]},
            "annotations": {FOLLOWS: placeholder} if per_run else {},
            "ownerReferences": [owner_reference(run)],
        }
        return {"metadata": metadata, "spec": {"taskSpec": task.get("taskSpec") or {}, "workspaces": workspaces}}

    def _say(self, kind: Kind, obj: Json, state: str, reason: str, **more: Any) -> None:
        condition = {"type": _END, "status": state, "reason": reason, "message": ""}
        status = {"conditions": [condition], **more}
        self._store.patch(kind, meta(obj)["namespace"], meta(obj)["name"], {"status": status}, subresource="status")


def _bound(binding: Json, name: str, run: Json, placeholder: str) -> Json:
    if "volumeClaimTemplate" not in binding:
        return {**binding, "name": name}
    base = (binding["volumeClaimTemplate"].get("metadata") or {}).get("name") or "pvc"
    claim = f"{base}-{_digest(binding['name'] + meta(run)['uid'])}"
    return {"name": name, "persistentVolumeClaim": {"claimName": f"{claim}-{placeholder}-0" if placeholder else claim}}


def _pod(run: Json, made: Json) -> Json:
    annotations = meta(made).get("annotations") or {}
    labels = {**(meta(made).get("labels") or {}), TASK_RUN_LABEL: meta(made)["name"]}
    duration = (meta(run).get("annotations") or {}).get(DURATION, "100ms")
    claims = [(one.get("persistentVolumeClaim") or {}).get("claimName") for one in made["spec"].get("workspaces") or ()]
    spec: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "restartPolicy": "Never",
        "containers": [{"name": "step", "image": "task", "resources": {"requests": {"cpu": "100m"}}}],
        "volumes": [
            {"name": f"ws-{number}", "persistentVolumeClaim": {"claimName": claim}}
            for number, claim in enumerate(claims)
            if claim
        ],
    }
    if FOLLOWS in annotations:
        wanted = {
            "app.kubernetes.io/component": "affinity-assistant",
            "app.kubernetes.io/instance": annotations[FOLLOWS],
        }
        term = {"labelSelector": {"matchLabels": wanted}, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    metadata = {
        "name": f"{meta(made)['name']}-pod",
        "namespace": meta(made)["namespace"],
        "labels": labels,
        "annotations": {**annotations, DURATION: duration},
        "ownerReferences": [owner_reference(made)],
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _ended(obj: Json) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one["type"] == _END and one["status"] != "Unknown" for one in conditions)
