"""Says what is refused before anything is created (docs/reference/coscheduling.md).

In: a run, its pipeline and what its tasks are bound to. Out: problems, all of them. Tekton finds some of them only when
placeholders and claims are there already; a run that cannot work makes nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import (
    LONGEST_LABEL_VALUE,
    claim_name,
    is_dns_label,
    is_dns_name,
    template_name,
)
from controlplane.controllers.coscheduling.objects import SOURCES, Binding, PipelineRun
from controlplane.controllers.coscheduling.pipeline import Pipeline
from controlplane.controllers.coscheduling.placement.binding import TaskBinding
from controlplane.controllers.coscheduling.placement.volumes import BoundVolume, apart
from controlplane.controllers.coscheduling.problems import InputProblem

_NAMED = {
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
    "secret": "secretName",
    "projected": "sources",
    "csi": "driver",
}


def run_problems(run: PipelineRun, mode: Mode) -> list[InputProblem]:
    """Return what is wrong with a run by itself: what admission refuses, and what the API server would."""
    found: list[InputProblem] = []
    if not (is_dns_name(run.name) and len(run.name) <= LONGEST_LABEL_VALUE):
        what = f'"{run.name}" is no DNS name of at most {LONGEST_LABEL_VALUE} characters'
        found.append(InputProblem(run.label, "metadata.name", what, "rename the run: its name becomes a label"))
    if run.pipeline_spec is not None and run.pipeline_name:
        what = "expected exactly one of pipelineRef and pipelineSpec, found both"
        found.append(InputProblem(run.label, "spec.pipelineRef", what, "keep one of them"))
    seen: dict[str, int] = {}
    for binding in run.bindings:
        found += _binding_problems(run, binding, seen, mode)
    return found


def pipeline_problems(run: PipelineRun, pipeline: Pipeline) -> list[InputProblem]:
    """Return where a run does not give what its pipeline needs, or speaks of a task that is not there."""
    bound = {binding.name for binding in run.bindings}
    found = [
        InputProblem(
            run.label,
            "spec.workspaces",
            f'pipeline requires workspace with name "{name}" be provided by pipelinerun',
            "bind it, or declare it optional in the pipeline",
        )
        for name in pipeline.required
        if name not in bound
    ]
    tasks = {task.name for task in pipeline.tasks}
    found += [
        InputProblem(
            run.label, f'task "{name}"', "the pipeline has more than one task of this name", "rename one of them"
        )
        for name, count in Counter(task.name for task in pipeline.tasks).items()
        if count > 1
    ]
    found += [
        InputProblem(
            run.label,
            "spec.workspaces",
            f'pipeline workspace "{workspace}" is marked optional '
            f'but pipeline task "{task.name}" requires it be provided',
            "declare it optional in the task, too, or not in the pipeline",
        )
        for task in pipeline.tasks
        for workspace in task.needed
        if workspace in pipeline.optional
    ]
    found += [
        InputProblem(
            run.label,
            "spec.taskRunSpecs",
            f'the pipeline has no task "{name}"',
            f"name one of {', '.join(sorted(tasks))}, or leave the entry out",
        )
        for name in run.task_specs
        if name not in tasks
    ]
    return found


def claim_problems(run: PipelineRun, bound: Iterable[TaskBinding], mode: Mode) -> list[InputProblem]:
    """Return the tasks that use several claims where each claim has a placeholder of its own.

    Tekton lets their siblings start and then fails the run; this is found before anything is created.
    """
    if mode is not Mode.WORKSPACES:
        return []
    return [
        InputProblem(
            run.label,
            f'task "{task.task}"',
            f"more than one PersistentVolumeClaim is bound ({', '.join(task.claims)}): "
            "each would have a placeholder of its own",
            f'use one claim with sub paths, or the mode "{Mode.PIPELINERUNS}"',
        )
        for task in bound
        if task.kind == "TaskRun" and len(task.claims) > 1
    ]


def volumes_problem(run: PipelineRun, volumes: Sequence[BoundVolume]) -> InputProblem | None:
    """Return the problem of a run whose pods have to be on one node, if no node reaches all of its volumes."""
    why = apart(volumes)
    if not why:
        return None
    todo = f'use claims of one place, or the mode "{Mode.WORKSPACES}", in which each claim has a node of its own'
    return InputProblem(run.label, "spec.workspaces", why, todo)


def _binding_problems(run: PipelineRun, binding: Binding, seen: dict[str, int], mode: Mode) -> list[InputProblem]:
    where = f"spec.workspaces[{binding.index}]"
    found = []
    if not binding.name:
        found.append(InputProblem(run.label, f"{where}.name", "it is not set", "name the workspace that is bound"))
    elif binding.name in seen:
        what = (
            f'workspace "{binding.name}" provided by pipelinerun more than once, '
            f"at index {seen[binding.name]} and {binding.index}"
        )
        found.append(InputProblem(run.label, f"{where}.name", what, "bind it once"))
    seen[binding.name] = binding.index
    if len(binding.sources) != 1:
        given = f"found {', '.join(binding.sources)}" if binding.sources else "found none"
        what = f'workspace "{binding.name}": expected exactly one source, {given}'
        found.append(InputProblem(run.label, where, what, f"give one of {', '.join(SOURCES)}"))
        return found
    source = binding.sources[0]
    field = _NAMED.get(source)
    if field is not None and not binding.body[source].get(field):
        what = f'workspace "{binding.name}": missing field'
        found.append(InputProblem(run.label, f"{where}.{source}.{field}", what, "set it"))
        return found
    return found + _claim_name_problems(run, binding, where, mode)


def _claim_name_problems(run: PipelineRun, binding: Binding, where: str, mode: Mode) -> list[InputProblem]:
    if binding.claim:
        return _existing_claim_problems(run, binding, f"{where}.persistentVolumeClaim.claimName", mode)
    if binding.template is None:
        return []
    field = f"{where}.volumeClaimTemplate.metadata.name"
    if mode.per_run and not run.follows:
        name, fits = template_name(binding.base, binding.name, run.uid), is_dns_label
    else:
        name, fits = claim_name(binding.base, binding.name, run.uid), is_dns_name
    if fits(name):
        return []
    what = f'"{name}", which is made of it, is no valid name'
    return [InputProblem(run.label, field, what, "give a DNS label, or leave it out")]


def _existing_claim_problems(run: PipelineRun, binding: Binding, field: str, mode: Mode) -> list[InputProblem]:
    """Return what is wrong with an existing claim's name. A task's result is filled in later; a placeholder cannot wait
    for it.
    """
    if is_dns_name(binding.claim) or ("$(tasks." in binding.claim and mode is Mode.DISABLED):
        return []
    what, todo = f'"{binding.claim}" is no name of a claim', "name an existing claim"
    if "$(tasks." in binding.claim:
        what = f'"{binding.claim}" is known only when a task has run, and the placeholder is there before'
        todo = f'name an existing claim, or set the mode "{Mode.DISABLED}"'
    elif "$(params." in binding.claim:
        todo = "give the parameter in the run: a pipeline's default does not reach the run's workspaces"
    return [InputProblem(run.label, field, what, todo)]
