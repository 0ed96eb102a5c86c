"""Plays Tekton's controller: TaskRuns and their pods in the order of a pipeline, and the conditions of both.

In: PipelineRuns with an embedded pipeline. Out: a TaskRun and a pod for each task whose predecessors (`runAfter`) are
done, and the run's own end: by success, by cancellation, or by a task that fails more often than its `retries`. Where
the ConfigMap `feature-flags` says that pods belong together it names the placeholder, as Tekton does, and ties pods to
it; the placeholder itself is somebody else's to make. How long a task takes, and how often it fails first, is said by
the run's annotations. Unlike Tekton it keeps a run's first flag to the end."""

from __future__ import annotations

import hashlib
from typing import Any

from controlplane.clock import Clock
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from controlplane.kube.kinds import PIPELINE_RUNS, PODS, Json, Kind, meta
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View
from controlplane.simulation.controllers.jobs import DURATION, OUTCOME
from controlplane.simulation.controllers.workload_owners import controller_of, owner_reference
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.kinds.own_cluster import TASK_RUNS
from controlplane.simulation.kueue.common import timestamp

NAMESPACE = "tekton-pipelines"
RUN_LABEL, TASK_LABEL, TASK_RUN_LABEL = "tekton.dev/pipelineRun", "tekton.dev/pipelineTask", "tekton.dev/taskRun"
FAILS = "simulation.controlplane/fails"
_MODES = ("workspaces", "pipelineruns", "isolate-pipelinerun", "disabled")
_PER_RUN = ("pipelineruns", "isolate-pipelinerun")
_STOPS = ("Cancelled", "CancelledRunFinally", "StoppedRunFinally")
_CANCELLED = "TaskRunCancelled"
_END = "Succeeded"


class Tekton(Behaviour):
    """Runs the PipelineRuns of one cluster."""

    def __init__(self, name: str, view: View, clock: Clock) -> None:
        super().__init__(name, clock)
        self._view, self._store = view, view.store
        self._flag, self._modes = _MODES[0], dict[str, str]()
        view.listen(self._on_change)

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        metadata = meta(new or old or {})
        key = metadata.get("namespace", ""), metadata["name"]
        if kind == CONFIG_MAPS and key == (NAMESPACE, "feature-flags"):
            self._read_flag(new or {})
        elif kind == PIPELINE_RUNS and new is None:
            self._modes.pop(metadata["uid"], None)
        elif kind == PIPELINE_RUNS:
            self.enqueue(key)
        elif kind in (TASK_RUNS, PODS) and RUN_LABEL in (metadata.get("labels") or {}):
            self.enqueue((key[0], metadata["labels"][RUN_LABEL]))

    def _read_flag(self, flags: Json) -> None:
        """Take over the flag; what is no mode leaves the last good one."""
        mode = str((flags.get("data") or {}).get("coschedule", _MODES[0])).lower()
        self._flag = mode if mode in _MODES else self._flag

    def reconcile(self, key: Key) -> float | None:
        """Take a run one step on."""
        run = self._view.get(PIPELINE_RUNS, *key)
        if run is None or not _is_reconciled(run):
            return None
        asked = run["spec"].get("status")
        if asked in _STOPS:
            self._cancel(run)
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
        ends = {task["name"]: self._task(run, task) for task in tasks}
        at = timestamp(self.clock.now())
        if "False" in ends.values() and None not in ends.values():
            self._say(PIPELINE_RUNS, run, "False", "Failed", completionTime=at)
        elif set(ends.values()) <= {"True"}:
            self._say(PIPELINE_RUNS, run, "True", "Succeeded", completionTime=at)
        return None

    def _cancel(self, run: Json) -> None:
        """End a run that was cancelled or stopped: its tasks end with it."""
        tasks = ((run.get("status") or {}).get("pipelineSpec") or {}).get("tasks") or []
        namespace = meta(run)["namespace"]
        for task in tasks:
            made = self._view.get(TASK_RUNS, namespace, f"{meta(run)['name']}-{task['name']}")
            if made is None or _ended(made) or not _is_of(made, run):
                continue
            self._end(made, "")
        self._say(PIPELINE_RUNS, run, "False", "Cancelled", completionTime=timestamp(self.clock.now()))

    def _task(self, run: Json, task: Json) -> str | None:
        """Take a task one step on; return how it ended: "True", "False", "Skipped", or None if it has not."""
        namespace, name = meta(run)["namespace"], f"{meta(run)['name']}-{task['name']}"
        made = self._view.get(TASK_RUNS, namespace, name)
        if made is None:
            return self._begin(run, task, name)
        if not _is_of(made, run):
            return None
        if _end_of(made) is None and made["spec"].get("status") == _CANCELLED:
            self._end(made, str(made["spec"].get("statusMessage") or ""))
            return None
        return _end_of(made) or self._try(run, task, made)

    def _end(self, made: Json, message: str) -> None:
        """End a TaskRun that somebody cancelled, and its pods with it."""
        namespace = meta(made)["namespace"]
        for (place, name), pod in list(self._view.all(PODS).items()):
            if place == namespace and _is_of(pod, made):
                self._store.delete(PODS, namespace, name)
        text = f'TaskRun "{meta(made)["name"]}" was cancelled. {message}'
        self._say(TASK_RUNS, made, "False", _CANCELLED, text)

    def _begin(self, run: Json, task: Json, name: str) -> str | None:
        """Create the TaskRun of a task once those that it comes after have succeeded; skip it if they cannot."""
        names = [f"{meta(run)['name']}-{one}" for one in task.get("runAfter") or ()]
        found = [self._view.get(TASK_RUNS, meta(run)["namespace"], before) for before in names]
        ends = ["missing" if one is None else _end_of(one) for one in found]
        if set(ends) <= {"True"}:
            self._store.create(TASK_RUNS, self._task_run(run, task, name))
            return None
        return None if None in ends or not self._failed_already(run) else "Skipped"

    def _failed_already(self, run: Json) -> bool:
        """Whether a task of a run has failed: what would come after it does not."""
        return any(
            _is_of(made, run) and _end_of(made) == "False" and place == meta(run)["namespace"]
            for (place, _), made in self._view.all(TASK_RUNS).items()
        )

    def _try(self, run: Json, task: Json, made: Json) -> str | None:
        """Look after the pod of a TaskRun; one that fails is followed by another, as often as `retries` says."""
        namespace, retries = meta(run)["namespace"], int(task.get("retries") or 0)
        for number in range(retries + 1):
            name = f"{meta(made)['name']}-pod" + (f"-retry{number}" if number else "")
            pod = self._view.get(PODS, namespace, name)
            if pod is None:
                self._store.create(PODS, _pod(run, made, name, number))
                return None
            phase = (pod.get("status") or {}).get("phase") if _is_of(pod, made) else ""
            if phase != "Failed":
                break
        if phase == "Succeeded":
            self._say(TASK_RUNS, made, "True", "Succeeded")
        elif phase == "Failed":
            self._say(TASK_RUNS, made, "False", "Failed")
        return None

    def _mode(self, run: Json) -> str:
        return self._modes.setdefault(meta(run)["uid"], self._flag)

    def _task_run(self, run: Json, task: Json, name: str) -> Json:
        placeholder = f"affinity-assistant-{_digest(meta(run)['name'])}" if self._mode(run) in _PER_RUN else ""
        bindings = {one["name"]: one for one in run["spec"].get("workspaces") or ()}
        uses = [(one["name"], bindings[one.get("workspace") or one["name"]]) for one in task.get("workspaces") or ()]
        followed = placeholder or self._placeholder_of_claim(run, [binding for _, binding in uses])
        workspaces = [_bound(binding, name_, run, placeholder) for name_, binding in uses]
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": meta(run)["namespace"],
            "labels": {RUN_LABEL: meta(run)["name"], TASK_LABEL: task["name"]},
            "annotations": {AFFINITY_ASSISTANT: followed} if followed else {},
            "ownerReferences": [owner_reference(run)],
        }
        return {"metadata": metadata, "spec": {"taskSpec": task.get("taskSpec") or {}, "workspaces": workspaces}}

    def _placeholder_of_claim(self, run: Json, bindings: list[Json]) -> str:
        """Return the placeholder that stands for the last claim of a task, where each claim has one."""
        claimed = [one["name"] for one in bindings if one.keys() & {"volumeClaimTemplate", "persistentVolumeClaim"}]
        if self._mode(run) != "workspaces" or not claimed:
            return ""
        return f"affinity-assistant-{_digest(claimed[-1] + meta(run)['name'])}"

    def _say(self, kind: Kind, obj: Json, state: str, reason: str, message: str = "", **more: Any) -> None:
        condition = {"type": _END, "status": state, "reason": reason, "message": message}
        status = {"conditions": [condition], **more}
        self._store.patch(kind, meta(obj)["namespace"], meta(obj)["name"], {"status": status}, subresource="status")


def _bound(binding: Json, name: str, run: Json, placeholder: str) -> Json:
    if "volumeClaimTemplate" not in binding:
        return {**binding, "name": name}
    base = (binding["volumeClaimTemplate"].get("metadata") or {}).get("name") or "pvc"
    claim = f"{base}-{_digest(binding['name'] + meta(run)['uid'])}"
    return {"name": name, "persistentVolumeClaim": {"claimName": f"{claim}-{placeholder}-0" if placeholder else claim}}


def _volumes(task_run: Json) -> list[Json]:
    claims = [one.get("persistentVolumeClaim") or {} for one in task_run["spec"].get("workspaces") or ()]
    return [
        {"name": f"ws-{number}", "persistentVolumeClaim": {"claimName": claim["claimName"]}}
        for number, claim in enumerate(claims)
        if claim.get("claimName")
    ]


def _pod(run: Json, made: Json, name: str, number: int) -> Json:
    annotations = meta(made).get("annotations") or {}
    labels = {**(meta(made).get("labels") or {}), TASK_RUN_LABEL: meta(made)["name"]}
    asked = meta(run).get("annotations") or {}
    fails = {OUTCOME: "fail"} if number < int(asked.get(FAILS, 0)) else {}
    scheduler = ((run["spec"].get("taskRunTemplate") or {}).get("podTemplate") or {}).get("schedulerName")
    spec: dict[str, Any] = {
        "schedulerName": scheduler or "default-scheduler",
        "restartPolicy": "Never",
        "containers": [{"name": "step", "image": "task", "resources": {"requests": {"cpu": _cpu(made)}}}],
        "volumes": _volumes(made),
    }
    if AFFINITY_ASSISTANT in annotations:
        wanted = {
            "app.kubernetes.io/component": "affinity-assistant",
            "app.kubernetes.io/instance": annotations[AFFINITY_ASSISTANT],
        }
        term = {"labelSelector": {"matchLabels": wanted}, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    metadata = {
        "name": name,
        "namespace": meta(made)["namespace"],
        "labels": labels,
        "annotations": {**annotations, DURATION: asked.get(DURATION, "100ms"), **fails},
        "ownerReferences": [owner_reference(made)],
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _cpu(task_run: Json) -> str:
    """Return what the first step of a task asks for."""
    steps = (task_run["spec"].get("taskSpec") or {}).get("steps") or [{}]
    return str(((steps[0].get("computeResources") or {}).get("requests") or {}).get("cpu") or "100m")


def _is_reconciled(run: Json) -> bool:
    """Whether a run is still to be carried on, and by Tekton's own controller."""
    return not ("deletionTimestamp" in meta(run) or run["spec"].get("managedBy") or _ended(run))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _is_of(obj: Json, owner: Json) -> bool:
    return bool(controller_of(obj).get("uid") == meta(owner)["uid"])


def _end_of(obj: Json) -> str | None:
    """Return the status of the condition that tells of an end; None while there is none."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == _END and one["status"] != "Unknown"), None)


def _ended(obj: Json) -> bool:
    return _end_of(obj) is not None
