"""The dry run: what would be created, moved and removed for a PipelineRun, from files alone.

In: a PipelineRun, the cluster's objects, Tekton's two ConfigMaps. Out: a `PlacementPlan`, and its JSON
(docs/reference/coscheduling.md). A refused input gives a plan with an error and nothing else: what cannot work creates
nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.controllers.coscheduling.flags import DEFAULT_WHERE, Mode, read_flags
from controlplane.controllers.coscheduling.names import placeholder_name
from controlplane.controllers.coscheduling.objects import PODS, PipelineRun, owned_by, read_run
from controlplane.controllers.coscheduling.pipeline import Pipeline, read_pipeline
from controlplane.controllers.coscheduling.placement import existing
from controlplane.controllers.coscheduling.placement.binding import TaskBinding, bound_tasks
from controlplane.controllers.coscheduling.placement.cleanup import ObjectRemoval, is_own_claim, removals
from controlplane.controllers.coscheduling.placement.eviction import Eviction
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.placeholders import NOP_IMAGE, Style, claims, stateful_sets
from controlplane.controllers.coscheduling.placement.substitution import bound_values, context_values, param_values
from controlplane.controllers.coscheduling.placement.templates import DEFAULTS_WHERE, read_defaults, with_defaults
from controlplane.controllers.coscheduling.placement.volumes import bound_volume
from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused, label
from controlplane.controllers.coscheduling.reader import ObjectReader
from controlplane.controllers.coscheduling.validation import (
    claim_problems,
    pipeline_problems,
    run_problems,
    volumes_problem,
)
from controlplane.kube.kinds import PIPELINE_RUNS, Json, meta
from controlplane.values import Value

_VERSIONS = (PIPELINE_RUNS.api_version, f"{PIPELINE_RUNS.group}/v1beta1", "")


class PlannedCluster(Value):
    """What a plan is made for: both ConfigMaps' data, whether its Tekton still knows the old flag, and the settings of
    the controller.
    """

    flags: Mapping[str, object] = {}
    defaults: Mapping[str, object] = {}
    flags_where: str = DEFAULT_WHERE
    defaults_where: str = DEFAULTS_WHERE
    old_worker: bool = False
    image: str = NOP_IMAGE
    everywhere: bool = False

    def style(self) -> Style:
        """Return what is the same for all its placeholders; `InputRefused` if a ConfigMap cannot be used."""
        flags = read_flags(self.flags, self.flags_where, old_worker=self.old_worker)
        defaults = read_defaults(self.defaults, self.defaults_where)
        return Style(flags=flags, defaults=defaults, image=self.image, everywhere=self.everywhere)


class PlacementPlan(msgspec.Struct, kw_only=True):
    """What follows for a run. `adopted` are objects of ours that are there already; `warnings` change nothing."""

    run: str = ""
    mode: Mode | None = None
    problems: tuple[InputProblem, ...] = ()
    stateful_sets: list[Json] = []
    claims: list[Json] = []
    tasks: list[TaskBinding] = []
    deletions: list[tuple[Json, Eviction]] = []
    cleanup: list[ObjectRemoval] = []
    adopted: list[Json] = []
    warnings: list[str] = []

    @property
    def error(self) -> str:
        """What is wrong, "" if nothing is."""
        return "\n".join(str(problem) for problem in self.problems)


def plan(obj: Json, world: ObjectsByKind, cluster: PlannedCluster) -> PlacementPlan:
    """Return what would be done for a PipelineRun in a cluster."""
    result = PlacementPlan(run=str(meta(obj).get("name") or ""))
    try:
        _fill(result, obj, world, cluster)
    except InputRefused as refused:
        return PlacementPlan(run=result.run, mode=result.mode, problems=refused.problems, warnings=result.warnings)
    return result


def _fill(result: PlacementPlan, obj: Json, world: ObjectsByKind, cluster: PlannedCluster) -> None:
    style = cluster.style()
    result.mode = style.flags.mode
    result.warnings += style.flags.notes
    run = with_defaults(read_run(obj), style.defaults)
    if (version := str(obj.get("apiVersion") or "")) not in _VERSIONS:
        result.warnings.append(f'{run.label}: apiVersion "{version}" is not known here: it is read as {_VERSIONS[0]}')
    mode = _mode(result, run, world, style.flags.mode)
    run = _sharing(result, run, mode, world)
    if not run.done and not run.deleting:
        _refuse(run_problems(run, mode))
    if run.foreign:
        result.warnings.append(
            f'{run.label}: spec.managedBy names "{run.managed_by}", which answers for it: nothing is made here'
        )
    elif run.done or run.deleting:
        _clean(result, run, mode, world)
    elif run.waits:
        result.warnings.append(f"{run.label}: spec.status is {run.status}: nothing is created")
    else:
        _create(result, run, mode, world, style)
        result.deletions = existing.evictions(world, run)


def _mode(result: PlacementPlan, run: PipelineRun, world: ObjectsByKind, wanted: Mode) -> Mode:
    pinned = existing.pinned_mode(world, run)
    if pinned is None or pinned is wanted:
        return wanted
    result.mode = pinned
    result.warnings.append(
        f'{run.label}: it began in mode "{pinned}" and keeps it; "{wanted}" holds for runs that begin now'
    )
    return pinned


def _sharing(result: PlacementPlan, run: PipelineRun, mode: Mode, world: ObjectsByKind) -> PipelineRun:
    """Return the run with the placeholder that it shares, if it is a task of an isolated one."""
    if mode is not Mode.ISOLATE or not run.parent:
        return run
    outermost, known = existing.outermost(world, run)
    if not outermost:
        return run
    if not known:
        result.warnings.append(
            f'{run.label}: metadata.ownerReferences: PipelineRun "{outermost}", whose task it is, is not among the '
            "files: it is taken for an isolated one that is nobody's task"
        )
    return msgspec.structs.replace(run, follows=placeholder_name("", outermost))


def _clean(result: PlacementPlan, run: PipelineRun, mode: Mode, world: ObjectsByKind) -> None:
    result.cleanup = removals(run, mode, world)
    if any(not removal.uid for removal in result.cleanup):
        result.warnings.append(
            f"{run.label}: the files hold no StatefulSet or PersistentVolumeClaim: "
            "what is listed is what would be looked for"
        )


def _create(result: PlacementPlan, run: PipelineRun, mode: Mode, world: ObjectsByKind, style: Style) -> None:
    bound: list[TaskBinding] = []
    if run.resolver and run.stored_spec is None and run.pipeline_spec is None and not run.pipeline_name:
        result.warnings.append(
            f'{run.label}: spec.pipelineRef: the resolver "{run.resolver}" fetches the pipeline: '
            "what its tasks use is not known"
        )
    else:
        pipeline = find_pipeline(run, world)
        bound, missing = bound_tasks(run, pipeline, mode)
        _refuse([*pipeline_problems(run, pipeline), *missing, *claim_problems(run, bound, mode)])
    if not run.uid:
        result.warnings.append(
            f"{run.label}: metadata.uid is not set: the API server gives one, and names of claims follow from it"
        )
    if mode.per_run and not run.follows:
        _check_volumes(run, world)
    taken: list[InputProblem] = []
    result.stateful_sets = _new(result, run, world, stateful_sets(run, mode, style), taken)
    result.claims = _new(result, run, world, claims(run, mode), taken)
    _refuse(taken)
    result.tasks = bound
    if world.knows("PersistentVolumeClaim"):
        result.warnings += _missing_claims(run, world)


def _check_volumes(run: PipelineRun, world: ObjectsByKind) -> None:
    """Refuse a run whose existing volumes are in different zones."""
    named = {one.claim for one in run.bindings if one.claim}
    found = [bound_volume(one) for one in world.all("PersistentVolume")]
    there = [one for one in found if one is not None and one.namespace == run.namespace and one.claim in named]
    problem = volumes_problem(run, there)
    _refuse([problem] if problem is not None else [])


def _refuse(problems: list[InputProblem]) -> None:
    if problems:
        raise InputRefused(*dict.fromkeys(problems))


def find_pipeline(run: PipelineRun, world: ObjectsByKind) -> Pipeline:
    """Return the run's pipeline: the one stored in its status, its own, or the Pipeline that it names."""
    reader, path, spec = ObjectReader(run.label), "spec.pipelineSpec", run.pipeline_spec
    if run.stored_spec is not None:
        spec, path = run.stored_spec, "status.pipelineSpec"
    elif spec is None:
        if not run.pipeline_name:
            what = "expected exactly one of pipelineRef and pipelineSpec, found neither with a name"
            todo = "name a Pipeline, or give the pipeline inline; what a resolver fetches is in status.pipelineSpec"
            raise InputRefused(reader.problem("spec.pipelineRef", what, todo))
        found = world.find("Pipeline", run.namespace, run.pipeline_name)
        if found is None:
            what = f'there is no Pipeline "{run.pipeline_name}" in namespace {run.namespace}'
            raise InputRefused(
                reader.problem("spec.pipelineRef.name", what, "create it; for a dry run give its file with -f")
            )
        reader, path = ObjectReader(label("Pipeline", run.namespace, run.pipeline_name)), "spec"
        spec = reader.section(found, "spec")
    passes = (
        param_values(run.params, reader.items(spec, "params", path)),
        context_values(run.pipeline_name or run.name, run.name, run.namespace, run.uid),
        bound_values(
            (str(one.get("name")) for one in reader.items(spec, "workspaces", path)), (one.name for one in run.bindings)
        ),
    )
    tasks = {str(meta(task).get("name")): task for task in world.all("Task", run.namespace)}
    return read_pipeline(reader, spec, passes, tasks, path)


def _new(
    result: PlacementPlan, run: PipelineRun, world: ObjectsByKind, wanted: list[Json], taken: list[InputProblem]
) -> list[Json]:
    """Return those of the wanted objects that are not there; what stands in their place is ours, or a problem."""
    new = []
    for obj in wanted:
        kind, name = str(obj["kind"]), str(meta(obj)["name"])
        found = world.find(kind, run.namespace, name)
        if found is None:
            new.append(obj)
        elif owned_by(found, run.uid) or (kind == "PersistentVolumeClaim" and is_own_claim(found, run.uid)):
            result.adopted.append(found)
        elif (problem := existing.name_taken(found, run)) is not None:
            taken.append(problem)
    return new


def _missing_claims(run: PipelineRun, world: ObjectsByKind) -> list[str]:
    return [
        f"{run.label}: spec.workspaces[{binding.index}]: "
        f'there is no PersistentVolumeClaim "{binding.claim}" in namespace '
        f"{run.namespace}: pods that use it wait until it is created"
        for binding in run.bindings
        if binding.claim and world.find("PersistentVolumeClaim", run.namespace, binding.claim) is None
    ]


def plan_json(found: PlacementPlan) -> dict[str, Any]:
    """Return a plan in the form that programs read."""
    return {
        "mode": found.mode.value if found.mode is not None else None,
        "error": found.error or None,
        "statefulSets": found.stateful_sets,
        "persistentVolumeClaims": found.claims,
        "taskRuns": [task_json(task) for task in found.tasks],
        "deletions": [_deletion_json(pod, eviction) for pod, eviction in found.deletions],
        "cleanup": [_removal_json(removal) for removal in found.cleanup],
        "adopted": [_reference(obj) for obj in found.adopted],
        "warnings": found.warnings,
    }


def task_json(task: TaskBinding) -> Json:
    """Return what a task is bound to, as its run and its pods get it."""
    return {
        "task": task.task,
        "kind": task.kind,
        "annotations": task.annotations,
        "workspaces": task.workspaces,
        "podTemplate": task.pod_template,
        "affinity": task.pod_template.get("affinity") or {},
    }


def _deletion_json(pod: Json, eviction: Eviction) -> Json:
    reference = _reference({"apiVersion": PODS.api_version, "kind": PODS.kind} | pod)
    uid = reference["metadata"]["uid"]
    reason = {"reason": eviction.reason.value, "detail": eviction.detail}
    return {**reference, "action": "delete", "preconditions": {"uid": uid}, **reason}


def _removal_json(removal: ObjectRemoval) -> Json:
    found: Json = {
        "apiVersion": removal.kind.api_version,
        "kind": removal.kind.kind,
        "metadata": {"name": removal.name, "namespace": removal.namespace},
        "action": "delete",
        "reason": removal.reason.value,
    }
    if removal.strips:
        found["removeFinalizers"] = list(removal.strips)
    if removal.uid:
        found["metadata"]["uid"] = removal.uid
        found["preconditions"] = {"uid": removal.uid}
    return found


def _reference(obj: Json) -> Json:
    metadata = {key: meta(obj)[key] for key in ("name", "namespace", "uid") if meta(obj).get(key)}
    return {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": {"uid": "", **metadata}}
