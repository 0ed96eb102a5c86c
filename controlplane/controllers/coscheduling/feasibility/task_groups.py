"""Says how much of a pipeline can run at one moment: the largest concurrent wave of its graph.

In: tasks, what each waits for, what its pod asks for. Out: the most that any set of tasks that may run together asks
for, one resource at a time. Tasks in `finally` run together after all others. What a task asks for is read from its
steps; one that is not known counts as a pod that asks for nothing."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from controlplane.controllers.coscheduling.objects import PipelineRun
from controlplane.controllers.coscheduling.pipeline import Pipeline, PipelineTask
from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused
from controlplane.kube.kinds import Json
from controlplane.kube.pod_requests import ADMITTED, Requests, amounts, effective
from controlplane.kube.well_known import PODS_RESOURCE

_RESULT = re.compile(r"\$\(tasks\.([A-Za-z0-9_-]+)\.(?:results|matrix|outputs)[.\[]")


def demand(run: PipelineRun, task: PipelineTask) -> Requests:
    """Return what all pods of a task together ask for, in billionths, and how many there are (`pods`, in whole pods).

    `ValueError` names a quantity that is none.
    """
    pods = copies(task.body.get("matrix"))
    asked = _of_spec(task.spec)
    asked |= amounts(_overrides(run, task.name).get("requests"), f"taskRunSpecs[{task.name}].computeResources.requests")
    return {name: amount * pods for name, amount in asked.items()} | {PODS_RESOURCE: pods}


def _overrides(run: PipelineRun, task: str) -> Json:
    spec = run.task_specs.get(task)
    return (spec.compute_resources if spec else None) or {}


def _of_spec(spec: Json) -> Requests:
    shared = _resources(spec.get("stepTemplate") or {})
    containers = []
    for step in (*(spec.get("steps") or ()), *(spec.get("sidecars") or ())):
        own = _resources(step)
        merged = {field: {**(shared.get(field) or {}), **(own.get(field) or {})} for field in ("requests", "limits")}
        containers.append({"name": step.get("name", ""), "resources": merged})
    return effective({"containers": containers}, ADMITTED)


def _resources(container: Json) -> Json:
    found: Json = container.get("computeResources") or container.get("resources") or {}
    return found


def copies(matrix: Any) -> int:
    """Return how many runs a task's matrix fans out to; 1 without one. Values that are filled in later count once."""
    if not isinstance(matrix, dict):
        return 1
    count = 1
    for param in matrix.get("params") or ():
        value = param.get("value")
        count *= max(1, len(value)) if isinstance(value, list) else 1
    extra = len(matrix.get("include") or ())
    return count if matrix.get("params") else max(1, extra)


def dependencies(pipeline: Pipeline) -> dict[str, set[str]]:
    """Return what each task outside `finally` waits for: `runAfter`, and tasks whose results it uses."""
    names = {task.name for task in pipeline.tasks if not task.final}
    found: dict[str, set[str]] = {}
    for task in pipeline.tasks:
        if task.final:
            continue
        waits = {str(name) for name in task.body.get("runAfter") or ()}
        for field in ("params", "matrix", "when"):
            waits |= set(_RESULT.findall(_text(task.body.get(field))))
        unknown = sorted(waits - names)
        if unknown:
            what = f'task "{task.name}" waits for "{unknown[0]}", which the pipeline does not have'
            raise InputRefused(
                InputProblem("Pipeline", f"tasks[{task.name}].runAfter", what, "name a task of the pipeline")
            )
        found[task.name] = waits
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(_text(item) for item in value.values())
    if isinstance(value, Sequence):
        return "\n".join(_text(item) for item in value)
    return ""


def ancestors(waits: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Return everything that each task waits for, directly or not; `InputRefused` if tasks wait for each other in a
    circle.
    """
    found: dict[str, set[str]] = {}
    left = dict(waits)
    while left:
        free = [name for name, before in left.items() if all(one in found for one in before)]
        if not free:
            circle = ", ".join(sorted(left))
            what = f"tasks wait for each other in a circle: {circle}"
            raise InputRefused(
                InputProblem("Pipeline", "tasks", what, "take out one of the runAfter or result references")
            )
        for name in free:
            found[name] = set(left[name]).union(*(found[one] for one in left[name]))
            del left[name]
    return found


def largest_wave(run: PipelineRun, pipeline: Pipeline, only: Collection[str] | None = None) -> Requests:
    """Return the most that tasks which may run together ask for; of `only` these tasks, if given.

    For each resource by itself, so it may be more than any one moment needs, and never less.
    """
    chosen = [task for task in pipeline.tasks if only is None or task.name in only]
    demands = {task.name: demand(run, task) for task in chosen}
    before = ancestors(dependencies(pipeline))
    wave: Requests = {}
    for resource in {name for asked in demands.values() for name in asked}:
        normal = {task.name: demands[task.name].get(resource, 0) for task in chosen if not task.final}
        final = sum(demands[task.name].get(resource, 0) for task in chosen if task.final)
        wave[resource] = max(heaviest_antichain(normal, before), final)
    return wave


def heaviest_antichain(weights: Mapping[str, int], before: Mapping[str, Collection[str]]) -> int:
    """Return the largest total weight of tasks of which none waits for another.

    Dilworth's theorem with weights: the sum of all less the largest flow from tasks to tasks that wait for them.
    """
    names = list(weights)
    after: dict[str, list[str]] = {name: [other for other in names if name in before.get(other, ())] for name in names}
    left, right = dict(weights), dict(weights)
    flow: dict[tuple[str, str], int] = {}
    total = 0
    while True:
        path = _path(names, after, left, right, flow)
        if path is None:
            return sum(weights.values()) - total
        # Forward along even steps, back along odd ones.
        back = [flow[path[step + 1], path[step]] for step in range(1, len(path) - 1, 2)]
        pushed = min(left[path[0]], right[path[-1]], *back)
        for step in range(len(path) - 1):
            if step % 2 == 0:
                edge = (path[step], path[step + 1])
                flow[edge] = flow.get(edge, 0) + pushed
            else:
                flow[path[step + 1], path[step]] -= pushed
        left[path[0]] -= pushed
        right[path[-1]] -= pushed
        total += pushed


def _path(
    names: Sequence[str],
    after: Mapping[str, Sequence[str]],
    left: Mapping[str, int],
    right: Mapping[str, int],
    flow: Mapping[tuple[str, str], int],
) -> list[str] | None:
    """Return a shortest way to push more flow, as tasks in turn on the left and on the right; None if there is none."""
    came: dict[tuple[str, str], tuple[str, str] | None] = {("l", name): None for name in names if left[name] > 0}
    queue = deque(came)
    while queue:
        side, name = node = queue.popleft()
        if side == "r" and right[name] > 0:
            way: list[str] = []
            at: tuple[str, str] | None = node
            while at is not None:
                way.append(at[1])
                at = came[at]
            return way[::-1]
        if side == "l":
            ahead = [("r", other) for other in after[name]]
        else:
            ahead = [("l", other) for other in names if flow.get((other, name), 0) > 0]
        for one in ahead:
            if one not in came:
                came[one] = node
                queue.append(one)
    return None
