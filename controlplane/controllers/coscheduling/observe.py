"""From an object that the cluster showed to the narrow event that is recorded of it.

In: a change. Out: an event on its stream with its body and identity; None for what concerns no run. Whose an object
is follows from it alone (its owner, or the label that names the run), so an observation needs no state. A run that
cannot be read is recorded with what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from controlplane.controllers.coscheduling import observations
from controlplane.controllers.coscheduling.flags import (
    COSCHEDULE,
    DISABLE_ASSISTANT,
    FLAGS_NAME,
    READ_ONLY_ROOT,
    SET_SECURITY_CONTEXT,
    Mode,
)
from controlplane.controllers.coscheduling.names import COMPONENT
from controlplane.controllers.coscheduling.objects import (
    CLAIMS,
    COMPONENT_LABEL,
    CONFIG_MAPS,
    INSTANCE_LABEL,
    NODES,
    PODS,
    RUN_LABEL,
    STATEFUL_SETS,
    TASK_LABEL,
    TASK_RUNS,
    PipelineRun,
    annotations_of,
    conditions_of,
    controller_of,
    labels_of,
    parent_of,
    read_run,
)
from controlplane.controllers.coscheduling.placement.binding import bound_tasks
from controlplane.controllers.coscheduling.placement.existing import task_pod
from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.plan import find_pipeline
from controlplane.controllers.coscheduling.placement.templates import DEFAULTS_NAME, read_defaults
from controlplane.controllers.coscheduling.placement.unfit import asked_of, choice_of
from controlplane.controllers.coscheduling.placement.volumes import bound_volume, terms_of
from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused
from controlplane.controllers.coscheduling.validation import claim_problems, pipeline_problems, run_problems
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import PERSISTENT_VOLUMES, PIPELINE_RUNS, Json, Kind, meta
from controlplane.kube.pod_requests import amounts
from controlplane.kube.tolerations import BLOCKING, taints, tolerations
from controlplane.log.event import Body, Event, NewEvent, body_of
from controlplane.runtime.controller import ObjectChange

KINDS = (PIPELINE_RUNS, TASK_RUNS, STATEFUL_SETS, CLAIMS, PODS, NODES, PERSISTENT_VOLUMES, CONFIG_MAPS)
FLAGS_STREAM, DEFAULTS_STREAM = "coscheduling/flags", "coscheduling/defaults"
_FLAGS = (COSCHEDULE, DISABLE_ASSISTANT, SET_SECURITY_CONTEXT, READ_ONLY_ROOT)
_Built = tuple[str, Event, tuple[Body, ...]]


def run_stream(namespace: str, name: str) -> str:
    """Return the stream of a run and everything that was made for it."""
    return f"pipelinerun/{namespace}/{name}"


def observe(change: ObjectChange, now: datetime, config_namespace: str) -> NewEvent | None:
    """Return the event of something seen on the cluster; None if it concerns no run. ConfigMaps count in
    `config_namespace`.
    """
    obj, kind = change.object, change.kind
    build = _BUILDERS.get(kind)
    if build is None or (kind == CONFIG_MAPS and meta(obj).get("namespace") != config_namespace):
        return None
    try:
        built = build(obj if change.gone else change.whole(), change.gone)
    except UNFIT as error:
        built = _misshapen(change, error)
    if built is None:
        return None
    return _recorded(change, now, *built)


def _recorded(change: ObjectChange, now: datetime, stream: str, event: Event, bodies: tuple[Body, ...]) -> NewEvent:
    return change.observed(stream, event, now, bodies)


def _misshapen(change: ObjectChange, error: Exception) -> _Built:
    body, identity = body_of(change.object), _last(change.object)
    kind = change.kind.name
    event = observations.SightingRefused(
        kind=kind,
        **identity,
        error=f"{type(error).__name__}: {error}",
        resource_version=change.resource_version,
        object=body.ref,
    )
    return f"refused/{change.cluster}/{kind}/{event.namespace}/{event.name}", event, (body,)


def _identity(obj: Json) -> dict[str, Any]:
    metadata = meta(obj)
    return {
        "namespace": str(metadata.get("namespace") or ""),
        "name": str(metadata.get("name") or ""),
        "uid": str(metadata.get("uid") or ""),
        "resource_version": str(metadata.get("resourceVersion") or ""),
        "deleting": "deletionTimestamp" in metadata,
    }


def _last(obj: Json) -> dict[str, Any]:
    return {field: value for field, value in _identity(obj).items() if field in ("namespace", "name", "uid")}


def _stream_of(obj: Json, run: str) -> str:
    return run_stream(str(meta(obj).get("namespace") or ""), run)


# --- the run ---------------------------------------------------------------------------------------------------------


def _run(obj: Json, gone: bool) -> _Built | None:
    stream = _stream_of(obj, str(meta(obj).get("name") or ""))
    if gone:
        return stream, observations.WorkerRunGone(**_last(obj)), ()
    body = body_of(_kept(obj))
    conditions = (obj.get("status") or {}).get("conditions") or ()
    parent, parent_uid = parent_of(obj)
    event = observations.WorkerRunObserved(
        **_identity(obj),
        run=body.ref,
        conditions=[entry for entry in conditions if isinstance(entry, dict)],
        done=conditions_of(obj, "Succeeded").get("status") in ("True", "False"),
        parent=parent,
        parent_uid=parent_uid,
        **_judged(body.text),
    )
    return stream, event, (body,)


@lru_cache(maxsize=4096)
def _judged(text: str) -> dict[str, Any]:
    """Return what follows from a run's own text alone. It is the same at every change of its status, and so is the
    answer.
    """
    obj = msgspec.json.decode(text)
    try:
        run = read_run(obj)
    except InputRefused as refused:
        return {"problems": {mode.value: _problems(refused.problems) for mode in Mode}}
    return {
        "workspaces": [
            observations.WorkspaceSeen(
                name=binding.name, claim=binding.claim, template=binding.template is not None, base=binding.base
            )
            for binding in run.bindings
            if binding.has_claim
        ],
        "problems": {mode.value: found for mode in Mode if (found := _problems(problems_of(run, mode)))},
        "managed_by": run.managed_by if run.foreign else "",
        "waits": run.waits,
        "auto_cleanup": run.auto_cleanup,
    }


def _kept(obj: Json) -> Json:
    """Return what objects for a run are made of: the part that stays the same while it runs."""
    metadata = {
        key: meta(obj)[key] for key in ("namespace", "name", "uid", "labels", "annotations") if key in meta(obj)
    }
    stored = (obj.get("status") or {}).get("pipelineSpec")
    kept: Json = {"apiVersion": obj.get("apiVersion"), "metadata": metadata, "spec": obj.get("spec")}
    return kept | ({"status": {"pipelineSpec": stored}} if stored is not None else {})


def problems_of(run: PipelineRun, mode: Mode) -> list[InputProblem]:
    """Return what is wrong with a run in a mode. A pipeline that is not known yet (Tekton stores it with its first
    pass) says nothing.
    """
    found = run_problems(run, mode)
    if found or (run.stored_spec is None and run.pipeline_spec is None):
        return found
    try:
        pipeline = find_pipeline(run, ObjectsByKind())
        bound, missing = bound_tasks(run, pipeline, mode)
    except InputRefused as refused:
        return list(refused.problems)
    return [*pipeline_problems(run, pipeline), *missing, *claim_problems(run, bound, mode)]


def _problems(found: tuple[InputProblem, ...] | list[InputProblem]) -> list[observations.ProblemSeen]:
    return [observations.ProblemSeen(object=one.object, field=one.field, what=one.what, todo=one.todo) for one in found]


# --- what was made for it --------------------------------------------------------------------------------------------


def _stateful_set(obj: Json, gone: bool) -> _Built | None:
    labels = labels_of(obj)
    if labels.get(COMPONENT_LABEL) != COMPONENT or not labels.get(RUN_LABEL):
        return None
    stream = _stream_of(obj, labels[RUN_LABEL])
    if gone:
        return stream, observations.PlaceholderDeleted(**_last(obj)), ()
    template = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    anti = (template.get("affinity") or {}).get("podAntiAffinity") or {}
    event = observations.PlaceholderCreated(
        **_identity(obj),
        owner=str(controller_of(obj).get("uid") or ""),
        ready=(obj.get("status") or {}).get("readyReplicas") == 1,
        isolates=bool(anti.get("requiredDuringSchedulingIgnoredDuringExecution")),
    )
    return stream, event, ()


def _claim(obj: Json, gone: bool) -> _Built | None:
    owners = [one for one in meta(obj).get("ownerReferences") or () if isinstance(one, dict)]
    runs = [str(one.get("name")) for one in owners if one.get("kind") == PIPELINE_RUNS.kind]
    labels = labels_of(obj)
    made = labels.get(COMPONENT_LABEL) == COMPONENT
    run = runs[0] if runs else labels.get(RUN_LABEL, "") if made else ""
    if not run:
        return None
    if gone:
        return _stream_of(obj, run), observations.ClaimDeleted(**_last(obj)), ()
    event = observations.ClaimObserved(
        **_identity(obj),
        owners=[str(one.get("uid")) for one in owners],
        placeholder=labels.get(INSTANCE_LABEL, "") if made else "",
        finalizers=[str(name) for name in meta(obj).get("finalizers") or ()],
    )
    return _stream_of(obj, run), event, ()


def _task_run(obj: Json, gone: bool) -> _Built | None:
    owner = controller_of(obj)
    if owner.get("kind") != PIPELINE_RUNS.kind:
        return None
    stream = _stream_of(obj, str(owner.get("name")))
    if gone:
        return stream, observations.TaskGone(**_last(obj)), ()
    event = observations.TaskBound(
        **_identity(obj),
        owner=str(owner.get("uid") or ""),
        task=labels_of(obj).get(TASK_LABEL, ""),
        placeholder=annotations_of(obj).get(AFFINITY_ASSISTANT, ""),
        ended=bool((obj.get("spec") or {}).get("status"))
        or conditions_of(obj, "Succeeded").get("status") in ("True", "False"),
    )
    return stream, event, ()


def _pod(obj: Json, gone: bool) -> _Built | None:
    labels = labels_of(obj)
    run = labels.get(RUN_LABEL)
    if not run:
        return None
    stream = _stream_of(obj, run)
    if labels.get(COMPONENT_LABEL) == COMPONENT:
        return stream, observations.PlaceholderPodGone(**_last(obj)) if gone else _placeholder_pod(obj), ()
    if gone:
        return stream, observations.TaskPodGone(**_last(obj)), ()
    found = task_pod(obj)
    event = observations.TaskPodObserved(
        **_identity(obj),
        placeholder=_followed(obj),
        node=found.node,
        over=found.over,
        complaint=found.complaint,
        **(asked_of(obj) if found.complaint and not found.node else {}),
    )
    return stream, event, ()


def _placeholder_pod(obj: Json) -> Event:
    spec, owner = obj.get("spec") or {}, str(controller_of(obj).get("uid") or "")
    node = str(spec.get("nodeName") or "")
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    if not ready or not node or "deletionTimestamp" in meta(obj):
        return _unready(obj, owner, node)
    tolerated = [
        observations.TolerationSeen(key=one.key, operator=one.operator, value=one.value, effect=one.effect)
        for one in tolerations(spec.get("tolerations"))
    ]
    return observations.PlaceholderReady(
        **_identity(obj), owner=owner, node=node, tolerations=tolerated, choice=choice_of(spec)
    )


def _unready(obj: Json, owner: str, node: str) -> Event:
    complaint = "" if node else task_pod(obj).complaint
    return observations.PlaceholderUnready(**_identity(obj), owner=owner, node=node, complaint=complaint)


def _followed(pod: Json) -> str:
    near = ((pod.get("spec") or {}).get("affinity") or {}).get("podAffinity") or {}
    for term in near.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        labels = (term.get("labelSelector") or {}).get("matchLabels") or {}
        if labels.get(COMPONENT_LABEL) == COMPONENT and labels.get(INSTANCE_LABEL):
            return str(labels[INSTANCE_LABEL])
    return annotations_of(pod).get(AFFINITY_ASSISTANT, "")


# --- the cluster -----------------------------------------------------------------------------------------------------


def _node(obj: Json, gone: bool) -> _Built | None:
    stream = f"node/{meta(obj).get('name')}"
    if gone:
        return stream, observations.NodeGone(**_last(obj)), ()
    spec = obj.get("spec") or {}
    event = observations.NodeObserved(
        **_identity(obj),
        cordoned=spec.get("unschedulable") is True,
        taints=[
            observations.TaintSeen(key=one.key, value=one.value, effect=one.effect)
            for one in taints(spec.get("taints"))
            if one.effect in BLOCKING
        ],
        labels=labels_of(obj),
        allocatable={str(name): str(amount) for name, amount in _allocatable(obj).items()},
    )
    return stream, event, ()


def _allocatable(node: Json) -> Json:
    found = (node.get("status") or {}).get("allocatable") or {}
    amounts(found, "status.allocatable")
    return dict(found)


def _volume(obj: Json, gone: bool) -> _Built | None:
    stream = f"volume/{meta(obj).get('name')}"
    terms, bound = terms_of(obj), bound_volume(obj)
    if not terms:
        return None  # every node reaches it
    if gone:
        return stream, observations.VolumeGone(**_last(obj)), ()
    event = observations.VolumeObserved(
        **_identity(obj),
        claim_namespace=bound.namespace if bound is not None else "",
        claim=bound.claim if bound is not None else "",
        terms=terms,
    )
    return stream, event, ()


def _config_map(obj: Json, gone: bool) -> _Built | None:
    name, data = meta(obj).get("name"), obj.get("data") or {}
    if name == FLAGS_NAME:
        if gone:
            return FLAGS_STREAM, observations.FlagsGone(**_last(obj)), ()
        kept = {key: data[key] for key in _FLAGS if key in data}
        return FLAGS_STREAM, observations.FlagsObserved(**_identity(obj), data=kept), ()
    if name == DEFAULTS_NAME:
        if gone:
            return DEFAULTS_STREAM, observations.DefaultsGone(**_last(obj)), ()
        body, problems = body_of(data), []
        try:
            read_defaults(data)
        except InputRefused as refused:
            problems = _problems(refused.problems)
        return (
            DEFAULTS_STREAM,
            observations.DefaultsObserved(**_identity(obj), defaults=body.ref, problems=problems),
            (body,),
        )
    return None


_BUILDERS: dict[Kind, Callable[[Json, bool], _Built | None]] = {
    PIPELINE_RUNS: _run,
    TASK_RUNS: _task_run,
    STATEFUL_SETS: _stateful_set,
    CLAIMS: _claim,
    PODS: _pod,
    NODES: _node,
    PERSISTENT_VOLUMES: _volume,
    CONFIG_MAPS: _config_map,
}
