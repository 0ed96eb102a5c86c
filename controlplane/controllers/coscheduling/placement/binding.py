"""Says what a run's tasks are bound to: their workspaces, the placeholder they follow, and the affinity of their pods.

In: a run, its pipeline and its mode. Out: one `TaskBinding` for each task. Tekton's own controller makes TaskRuns just
so; where its flag says `disabled` and Controlplane places the pods instead, the admission hook adds what is missing
from the same values."""

from __future__ import annotations

import copy

from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import COMPONENT, placeholder_name
from controlplane.controllers.coscheduling.objects import COMPONENT_LABEL, INSTANCE_LABEL, Binding, PipelineRun
from controlplane.controllers.coscheduling.pipeline import Pipeline, PipelineTask, TaskKind, WorkspaceUse
from controlplane.controllers.coscheduling.placement.placeholders import claim_of, placeholder_of_claims
from controlplane.controllers.coscheduling.placement.substitution import context_values, fill, joined_path
from controlplane.controllers.coscheduling.placement.templates import task_template
from controlplane.controllers.coscheduling.problems import InputProblem
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from controlplane.kube.kinds import Json
from controlplane.kube.well_known import HOSTNAME, REQUIRED_AFFINITY
from controlplane.values import Value


class TaskBinding(Value):
    """A task's workspaces, placeholder ("" if it follows none), distinct claims, and pod template with the final
    affinity.

    A custom run has no pod template of its own: there it says what the pods that it makes should carry.
    """

    task: str
    kind: TaskKind
    placeholder: str
    workspaces: list[Json]
    claims: list[str]
    pod_template: Json

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that the task's run carries for its placement."""
        return {AFFINITY_ASSISTANT: self.placeholder} if self.placeholder else {}


def bound_tasks(run: PipelineRun, pipeline: Pipeline, mode: Mode) -> tuple[list[TaskBinding], list[InputProblem]]:
    """Return what each task of a run is bound to, and what makes the run fail."""
    by_name = {binding.name: binding for binding in run.bindings}
    placeholders = placeholder_of_claims(run, mode)
    bound, problems = [], []
    for task in pipeline.tasks:
        missing = [use for use in task.uses if use.workspace not in by_name and not _may_lack(task, use, pipeline)]
        problems += [_missing(run, task, use) for use in missing]
        used = [(use, by_name[use.workspace]) for use in task.uses if use.workspace in by_name]
        bound.append(_bind(run, task, used, mode, placeholders))
    return bound, problems


def follow(affinity: Json | None, placeholder: str) -> Json:
    """Return a copy of a pod's affinity with the term that ties it to a placeholder's node, after what is there."""
    result: Json = copy.deepcopy(affinity or {})
    near = result.get("podAffinity") or {}
    result["podAffinity"] = {**near, REQUIRED_AFFINITY: [*(near.get(REQUIRED_AFFINITY) or []), beside(placeholder)]}
    return result


def beside(placeholder: str) -> Json:
    """Return the pod affinity term that selects a placeholder."""
    labels = {INSTANCE_LABEL: placeholder, COMPONENT_LABEL: COMPONENT}
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}


def _may_lack(task: PipelineTask, use: WorkspaceUse, pipeline: Pipeline) -> bool:
    """Whether a task can do without a workspace that the run does not bind.

    A child pipeline answers for itself, and of a custom task nobody knows what it declares. Where a task's declaration
    is not known, the pipeline's counts: Tekton refuses a pipeline that hands an optional workspace to a task that needs
    it."""
    if task.kind == "PipelineRun":
        return True
    if task.kind == "CustomRun":
        return False
    if task.optional is not None:
        return use.name in task.optional
    return use.workspace in pipeline.optional


def _missing(run: PipelineRun, task: PipelineTask, use: WorkspaceUse) -> InputProblem:
    return InputProblem(
        run.label,
        "spec.workspaces",
        f'expected workspace "{use.workspace}" to be provided by pipelinerun for pipeline task "{task.name}"',
        "bind it, or declare it optional in the task",
    )


def _bind(
    run: PipelineRun,
    task: PipelineTask,
    used: list[tuple[WorkspaceUse, Binding]],
    mode: Mode,
    placeholders: dict[str, str],
) -> TaskBinding:
    context = context_values(run.pipeline_name, run.name, run.namespace, run.uid)
    workspaces, claims, last = [], [], ""
    for use, binding in used:
        workspace = _workspace(run, use, binding, mode)
        if task.kind != "PipelineRun" and "subPath" in workspace:
            workspace["subPath"] = fill(workspace["subPath"], context)
        workspaces.append(workspace)
        if binding.has_claim:
            last = claim_of(run, binding, mode)
            if last not in claims:
                claims.append(last)
    placeholder = _placeholder(run, task, mode, placeholders, last)
    template = task_template(run, task.name) or {}
    if placeholder:
        template["affinity"] = follow(template.get("affinity"), placeholder)
    return TaskBinding(
        task=task.name,
        kind=task.kind,
        placeholder=placeholder,
        workspaces=workspaces,
        claims=claims,
        pod_template=template,
    )


def _placeholder(run: PipelineRun, task: PipelineTask, mode: Mode, placeholders: dict[str, str], last: str) -> str:
    if mode is Mode.DISABLED or task.kind == "PipelineRun":
        return ""  # a child run has its own, or finds its parent's by itself
    return (run.follows or placeholder_name("", run.name)) if mode.per_run else placeholders.get(last, "")


def _workspace(run: PipelineRun, use: WorkspaceUse, binding: Binding, mode: Mode) -> Json:
    path = joined_path(binding.sub_path, use.sub_path)
    if binding.template is not None:
        result: Json = {"name": use.name, "persistentVolumeClaim": {"claimName": claim_of(run, binding, mode)}}
    else:
        result = {**copy.deepcopy(binding.body), "name": use.name}
        result.pop("subPath", None)
    return result | ({"subPath": path} if path else {})
