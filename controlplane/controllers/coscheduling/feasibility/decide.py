"""The judgement on one run for one worker: whether all of it can run there, what has to be looked at first, and when to
look again.

In: a run, a worker, the time. Out: a `Judged`. Pure. What a run names by reference (claims, a Pipeline, Tasks) has to
be in the worker itself; what a resolver fetches, and what is not known in time, refuses nothing: the worker's own
Tekton says what it thinks of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.connectivity.eligibility import Fit
from controlplane.controllers.coscheduling.feasibility.accounting import account
from controlplane.controllers.coscheduling.feasibility.nodes import CandidateClusterFacts, judge
from controlplane.controllers.coscheduling.feasibility.workers import NO_NAME, Key, Look, WorkerCapacity
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.objects import CLAIMS, PIPELINES, PipelineRun
from controlplane.controllers.coscheduling.pipeline import Pipeline, PipelineTask
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.plan import find_pipeline
from controlplane.controllers.coscheduling.placement.volumes import BoundVolume
from controlplane.controllers.coscheduling.problems import InputRefused
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.job_kinds.pipelinerun import ASKS_FOR_MODE
from controlplane.kube.kinds import PERSISTENT_VOLUMES, Json, is_path_part
from controlplane.kube.pod_requests import amounts
from controlplane.kube.quantities import spell, to_milli
from controlplane.values import Value

_REMOTE = ("resolver", "bundle")
_NO_TASKS = Pipeline(())


class RunToJudge(Value):
    """A run that waits for a cluster. `run` is None if it cannot be read, for the `problem`; `since`: when it began to
    wait. `charged`: what its Workload asks for, None if it has none."""

    run: PipelineRun | None
    asked: str = ""
    problem: str = ""
    reference: Json = {}
    since: datetime
    charged: dict[str, str] | None = None


class Judged(msgspec.Struct, frozen=True):
    """`fit` is None while something is on its way; `needs` are the objects that it rests on; `until`: when to judge
    without the rest; `waited`: that time has passed, and something is still not known.
    """

    fit: Fit | None
    needs: tuple[Key, ...] = ()
    until: datetime | None = None
    waited: bool = False


class _Unfit(Exception):  # noqa: N818 - caught in this module
    """Something that the run names is not there."""

    def __init__(self, reason: CoschedulingReason, detail: str) -> None:
        super().__init__(detail)
        self.fit = Fit(reason=reason.value, detail=detail)


def judge_run(asked: RunToJudge, worker: WorkerCapacity, now: datetime, *, grows: bool, patience: timedelta) -> Judged:
    """Return the judgement on a run for a worker that is connected."""
    run = asked.run
    if run is None:
        return Judged(Fit(unknown=[f"the run cannot be judged: {asked.problem}"]))
    try:
        mode = asked_mode({ASKS_FOR_MODE: asked.asked})
    except ValueError as error:
        return Judged(Fit(reason=CoschedulingReason.BAD_INPUT.value, detail=str(error)))
    claims = [Key(CLAIMS.api_version, CLAIMS.kind, run.namespace, one.claim) for one in run.bindings if one.claim]
    looks = _Looks(worker)
    volumes = [volume for key in claims if (volume := looks.volume(key)) is not None]
    unfit_: Fit | None = None
    pipeline = _NO_TASKS
    try:
        pipeline = _pipeline(run, asked.reference, looks)
    except _Unfit as unfit:
        unfit_ = unfit.fit
    known = worker.known(run, claims, volumes, grows=grows)
    needs = tuple(dict.fromkeys(looks.needs))
    incomplete = looks.missing or bool(known.pending)
    if incomplete:
        until = max(asked.since, worker.connection.since or asked.since) + patience
        if now < until:
            return Judged(None, needs, until)
    if unfit_ is not None:
        return Judged(unfit_, needs, waited=incomplete)
    unknown = [*known.unknown, *looks.unknown]
    fit = _fit(asked, run, pipeline, mode, known.facts, unknown, complete=not looks.unknown)
    return Judged(fit, needs, waited=incomplete)


def _fit(
    asked: RunToJudge,
    run: PipelineRun,
    pipeline: Pipeline,
    mode: Mode | None,
    facts: CandidateClusterFacts,
    unknown: list[str],
    *,
    complete: bool,
) -> Fit:
    """Return whether a run fits by the facts of a worker; `complete`: all that it names was looked at."""
    try:
        judgement = judge(run, pipeline, mode, facts)
    except (InputRefused, ValueError) as error:
        return Fit(unknown=[*unknown, f"its pipeline cannot be judged: {error}"])
    if judgement.reason is not None:
        return Fit(reason=judgement.reason.value, detail=judgement.detail, unknown=unknown)
    effective = facts.mode or mode
    short = _short(run, pipeline, effective, asked.charged) if effective is not None and complete else ""
    return Fit(unknown=unknown, early=judgement.early, short=short)


def _short(run: PipelineRun, pipeline: Pipeline, mode: Mode, charged: dict[str, str] | None) -> str:
    """Return what a run needs in a mode beyond what its Workload asks for; of resources that it does not ask for, quota
    is not meant.
    """
    if charged is None:
        return ""
    needed, asked = account(run, pipeline, mode).total, amounts(charged)
    less = [
        f"{name} {charged[name]}, and it needs {spell(name, to_milli(needed[name]))}"
        for name in sorted(asked)
        if needed.get(name, 0) > asked[name]
    ]
    return "; ".join(less)


def asked_mode(annotations: Mapping[str, str]) -> Mode | None:
    """Return the mode that a run's annotations ask for, None if any is right. ValueError if it is none."""
    asked = annotations.get(ASKS_FOR_MODE, "")
    if not asked:
        return None
    try:
        return Mode(asked.lower())
    except ValueError:
        todo = f"set it to one of {', '.join(Mode)}, or leave it out"
        raise ValueError(f'annotation {ASKS_FOR_MODE}: "{asked}" is not a mode; {todo}') from None


class _Looks:
    """The looks at what a run names, noting what they are and what they do not show."""

    def __init__(self, worker: WorkerCapacity) -> None:
        self._worker = worker
        self.needs: list[Key] = []
        self.missing = False
        self.unknown: list[str] = []

    def at(self, key: Key) -> Look | None:
        """Return what is known of an object, None if it was never looked at."""
        if not is_path_part(key.name):
            return NO_NAME
        self.needs.append(key)
        found = self._worker.looks.get(key)
        self.missing = self.missing or found is None
        return found

    def volume(self, claim: Key) -> BoundVolume | None:
        """Return the volume of an existing claim; None if it has none, or if that is not known."""
        found = self.at(claim)
        name = str(found.object.get("volume") or "") if found is not None and found.outcome == "Found" else ""
        if not name:
            return None
        look = self.at(Key(PERSISTENT_VOLUMES.api_version, PERSISTENT_VOLUMES.kind, "", name))
        if look is None or look.outcome != "Found":
            if look is not None:
                self.unknown.append(f"{PERSISTENT_VOLUMES.kind} {name} ({look.message or 'it is not there'})")
            return None
        return BoundVolume(name=name, namespace=claim.namespace, claim=claim.name, terms=look.object.get("terms") or [])

    def object(self, key: Key, reason: CoschedulingReason) -> Json | None:
        """Return an object that has to be there, None if it is not known whether it is; `_Unfit` if it is not."""
        found = self.at(key)
        if found is not None and found.outcome == "Missing":
            said = f": {found.message}" if found.message else ""
            raise _Unfit(reason, f"there is no {key}{said}")
        if found is None or found.outcome == "Unknown":
            self.unknown.append(f"{key} ({found.message if found else 'not read yet'})")
            return None
        return found.object


def _pipeline(run: PipelineRun, reference: Json, looks: _Looks) -> Pipeline:
    """Return the run's pipeline with the Tasks that it names, as far as they are known."""
    objects: list[Json] = []
    if run.pipeline_spec is None:
        if _is_remote(reference) or not run.pipeline_name:
            looks.unknown.append("its pipeline, which a resolver fetches")
            return _NO_TASKS
        key = Key(PIPELINES.api_version, PIPELINES.kind, run.namespace, run.pipeline_name)
        found = looks.object(key, CoschedulingReason.PIPELINE_MISSING)
        if found is None:
            return _NO_TASKS
        objects.append(found)
    try:
        pipeline = find_pipeline(run, ObjectsByKind(objects))
        for name in filter(None, map(_task_named, pipeline.tasks)):
            key = Key(PIPELINES.api_version, "Task", run.namespace, name)
            known = looks.object(key, CoschedulingReason.TASK_MISSING)
            objects += [known] if known is not None else []
        return find_pipeline(run, ObjectsByKind(objects))
    except (InputRefused, AttributeError, TypeError) as error:
        looks.unknown.append(f"its pipeline: {error}")
        return _NO_TASKS


def _task_named(task: PipelineTask) -> str:
    """Return the name of the Task that has to be in the worker for a task of a pipeline, "" if none has."""
    named = task.body.get("taskRef") or {}
    if task.kind != "TaskRun" or named.get("kind") not in (None, "", "Task") or _is_remote(named):
        return ""
    return str(named.get("name") or "")


def _is_remote(reference: Json) -> bool:
    return any(reference.get(field) for field in _REMOTE)
