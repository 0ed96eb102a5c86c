"""`tekton.dev/v1` PipelineRun (docs/explanation/coscheduling.md, "Many clusters"): a run is dispatched whole, with all
of its pods, claims and placeholders.

Kueue's integrations do not know the kind; it takes part as an external one (tekton-kueue). The user's copy stays inert
because `spec.managedBy` names another controller than Tekton's; the worker's copy has no such field, and waits as
`PipelineRunPending` until the worker's Kueue lets it start.

Tekton lets no run be pending that has a start time. So Kueue stops the user's copy for good when it evicts it, which
stops nothing, since nothing of it runs; and a status with a start time is not written to it before Kueue has let it go.

Pod sets are the placeholders of a run and its widest level of tasks, so quota counts what can run at one time.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.job_kinds.base import JobKind, JobOutcome, PodSet
from controlplane.kube.kinds import PIPELINE_RUNS, Json, meta

PENDING, STOPPED = "PipelineRunPending", "StoppedRunFinally"
ASKS_FOR_MODE = "controlplane/coschedule"
"""The annotation of a run that says which of its pods are to be on one node."""
AFFINITY_ASSISTANT = "pipeline.tekton.dev/affinity-assistant"
"""The annotation of a TaskRun and of its pod that names the placeholder to whose node it goes (tektoncd/pipeline
pkg/workspace/affinity_assistant_names.go)."""
_PLACEHOLDER_ASKS = {"cpu": "50m", "memory": "100Mi"}
# What says that something runs. The child references are those of the worker; nothing of that name exists beside the
# user's run.
_RUNNING = ("startTime", "completionTime", "childReferences", "finallyStartTime")


class PipelineRun(JobKind):
    """A PipelineRun."""

    integration = "tekton.dev/pipelinerun"
    kind = PIPELINE_RUNS
    external = True
    own_controller = "tekton.dev/pipeline"
    short_names = ("pr", "prs")
    columns = (("StartTime", ".status.startTime", "date"),)

    def suspended(self, job: Mapping[str, Any]) -> bool:
        """Return whether `spec.status` says that it is not to start yet, or that Kueue has stopped it."""
        return (job.get("spec") or {}).get("status") in (PENDING, STOPPED)

    def started(self) -> Json:
        """Return that it is not pending any more."""
        return {"status": None}

    def stopped(self, job: Mapping[str, Any]) -> Json:
        """Return that it stops; it cannot be pending again."""
        return {} if job["spec"].get("status") else {"status": STOPPED}

    def pods(self, job: Mapping[str, Any]) -> list[PodSet]:
        """Return none: a run has no pod templates of its own."""
        return []

    def pod_sets(self, job: Mapping[str, Any]) -> list[Json]:
        """Return a pod set for the placeholders, and one for each task of the widest level."""
        found = []
        if placeholders := _placeholders(job):
            asks = {"requests": dict(_PLACEHOLDER_ASKS), "limits": dict(_PLACEHOLDER_ASKS)}
            one = {"name": "affinity-assistant", "image": "nop", "resources": asks}
            found.append(_pod_set("placeholders", placeholders, [one]))
        for task in _widest(job["spec"].get("pipelineSpec") or {}):
            steps = (task.get("taskSpec") or {}).get("steps") or [{"name": "step"}]
            found.append(_pod_set(task["name"], 1, [_container(step) for step in steps]))
        return found

    def templates(self, job: Mapping[str, Any]) -> list[Json]:
        """Return the templates of the pod sets: the run itself has none."""
        return [one["template"] for one in self.pod_sets(job)]

    def with_templates(self, templates: Sequence[Json], job: Mapping[str, Any]) -> Json:
        """Return nothing: pods are directed by nobody but the run."""
        return {}

    def outcome(self, status: Mapping[str, Any]) -> JobOutcome | None:
        """Return the condition Succeeded once it is True or False: a run that failed or was cancelled has ended too."""
        for found in status.get("conditions") or ():
            if found.get("type") == "Succeeded" and found.get("status") in ("True", "False"):
                return JobOutcome(str(found.get("message") or ""), found["status"] == "True")
        return None

    def active(self, status: Mapping[str, Any]) -> bool:
        """Return whether it has started, and not ended."""
        return bool(status.get("startTime")) and self.outcome(status) is None

    def clone_spec(self, template: Json) -> Json:
        """Return the spec of the copy: managedBy cleared, pending until the worker's Kueue starts it.

        The name is the run's own: names of placeholders follow from it. Names of claims follow from the copy's UID.
        """
        spec: Json = copy.deepcopy(template["spec"])
        spec.pop("managedBy", None)
        spec["status"] = PENDING
        return spec

    def may_relay(self, *, local_suspended: bool, remote_suspended: bool, remote_finished: bool) -> bool:
        """Once Kueue has let the user's run go; nobody else writes the status of an inert run."""
        return not local_suspended

    def drained(self, status: Json) -> Json:
        """Return the status as that of a run that has not started."""
        kept = {field: value for field, value in status.items() if field not in _RUNNING}
        if "conditions" in kept and self.outcome(status) is None:
            kept["conditions"] = [one for one in kept["conditions"] or [] if one.get("type") != "Succeeded"]
        return kept

    def overtaken_counts(self) -> bool:
        """No: a new attempt began from the beginning, and what a run does outside its pods is done by that one."""
        return False


def _placeholders(run: Mapping[str, Any]) -> int:
    """Return how many placeholders a run gets in the mode that it asks for; Tekton's default if it asks for none."""
    mode = (meta(run).get("annotations") or {}).get(ASKS_FOR_MODE, "workspaces")
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
