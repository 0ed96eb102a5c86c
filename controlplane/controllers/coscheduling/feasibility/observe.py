"""From an object that a cluster showed, or that was read from a worker, to the narrow event that is recorded of it.

In: a change, or the answer of a read. Out: an event with its identity; None for what nobody is judged by. Runs count
on the management cluster, and only those that name our controller; everything else counts on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from controlplane.controllers.connectivity.eligibility import fit_stream
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.coscheduling.feasibility import events
from controlplane.controllers.coscheduling.feasibility.accounting import spelled
from controlplane.controllers.coscheduling.feasibility.outline import pipeline_outline, run_outline, task_outline
from controlplane.controllers.coscheduling.flags import COSCHEDULE, DISABLE_ASSISTANT, FLAGS_NAME
from controlplane.controllers.coscheduling.names import COMPONENT
from controlplane.controllers.coscheduling.objects import (
    CLAIMS,
    COMPONENT_LABEL,
    CONFIG_MAPS,
    NODES,
    PODS,
    RUN_LABEL,
    annotations_of,
    conditions_of,
    controller_of,
    labels_of,
    read_run,
)
from controlplane.controllers.coscheduling.observations import SightingRefused, TaintSeen
from controlplane.controllers.coscheduling.placement.volumes import terms_of
from controlplane.controllers.coscheduling.problems import InputRefused
from controlplane.job_kinds.pipelinerun import ASKS_FOR_MODE
from controlplane.kube.fields import UNFIT
from controlplane.kube.kinds import PERSISTENT_VOLUMES, PIPELINE_RUNS, STORAGE_CLASSES, WORKLOADS, Json, Kind, meta
from controlplane.kube.pod_requests import ADMITTED, Requests, amounts, effective
from controlplane.kube.tolerations import BLOCKING, taints
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.log.event import Body, Event, body_of
from controlplane.runtime.controller import ObjectChange, OpenRead, ReadAnswer

WORKER = "worker"
#: The kinds of a worker that are watched.
WORKER_KINDS = (NODES, STORAGE_CLASSES, CONFIG_MAPS, PODS)
#: The annotation with which a run asks for a mode.
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_OLD_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
_Built = tuple[str, Event]
_Seen = tuple[str, Event, tuple[Body, ...]]


def seen(change: ObjectChange, controller: str, config_namespace: str) -> _Seen | None:
    """Return stream, event and bodies of something seen; None if nobody is judged by it."""
    try:
        return _at_home(change, controller) if change.cluster == MANAGEMENT else _on_worker(change, config_namespace)
    except UNFIT as error:
        return _misshapen(change, error)


def _at_home(change: ObjectChange, controller: str) -> _Seen | None:
    found = None
    if change.kind == PIPELINE_RUNS:
        found = _run(_now(change), gone=change.gone, controller=controller)
    elif change.kind == WORKLOADS and not change.unreadable:
        found = _charge(change.object, gone=change.gone)
    return (*found, ()) if found is not None else None


def _on_worker(change: ObjectChange, config_namespace: str) -> _Seen | None:
    build = _BUILDERS.get(change.kind)
    named = meta(change.object).get("namespace")
    if build is None or (change.kind == CONFIG_MAPS and named != config_namespace):
        return None
    built = build(_now(change), change.gone)
    if built is None:
        return None
    place, event = built
    return f"{WORKER}/{change.cluster}/{place}", event, ()


def _now(change: ObjectChange) -> Json:
    return change.object if change.gone else change.whole()


def answered(read: OpenRead, answer: ReadAnswer) -> events.WorkerObjectRead:
    """Return the event of a read's end. Whatever is no answer to whether it is there says nothing against the
    worker.
    """
    known: dict[str, Any] = {}
    outcome: events.Outcome = "Missing"
    message = ""
    if answer.object is not None:
        outcome, known = "Found", _OUTLINES.get(read.kind, _nothing)(answer.object)
    elif answer.not_served:
        message = f"the cluster serves no {read.kind}"
    elif answer.failure is None or answer.failure.code != 404:
        outcome, message = "Unknown", answer.failure.message if answer.failure else "the read ended without an answer"
    return events.WorkerObjectRead(
        api_version=read.api_version,
        kind=read.kind,
        namespace=read.namespace,
        name=read.name,
        outcome=outcome,
        object=known,
        message=message,
    )


def _nothing(obj: Json) -> Json:
    return {}


def _claim(claim: Json) -> Json:
    """Return which volume a claim has."""
    return {"volume": str((claim.get("spec") or {}).get("volumeName") or "")}


def _volume(volume: Json) -> Json:
    """Return from where a volume is reached."""
    return {"terms": terms_of(volume)}


_OUTLINES: dict[str, Callable[[Json], Json]] = {
    "Pipeline": pipeline_outline,
    "Task": task_outline,
    CLAIMS.kind: _claim,
    PERSISTENT_VOLUMES.kind: _volume,
}


def _identity(obj: Json) -> dict[str, Any]:
    return {
        **_last(obj),
        "resource_version": str(meta(obj).get("resourceVersion") or ""),
        "deleting": "deletionTimestamp" in meta(obj),
    }


def _last(obj: Json) -> dict[str, Any]:
    return {key: str(meta(obj).get(key) or "") for key in ("namespace", "name", "uid")}


def _misshapen(change: ObjectChange, error: Exception) -> _Seen:
    body, last, kind = body_of(change.object), _last(change.object), change.kind.name
    event = SightingRefused(
        kind=kind,
        **last,
        resource_version=change.resource_version,
        error=f"{type(error).__name__}: {error}",
        object=body.ref,
    )
    return f"refused/{change.cluster}/{kind}/{event.namespace}/{event.name}", event, (body,)


def _run(obj: Json, *, gone: bool, controller: str) -> _Built | None:
    last = _last(obj)
    stream = fit_stream(PIPELINE_RUNS, last["namespace"], last["name"])
    if gone:
        return stream, events.DispatchedRunGone(**last)
    spec, status = obj.get("spec"), obj.get("status") or {}
    if not isinstance(spec, dict) or spec.get("managedBy") != controller:
        return None
    outline, problem = run_outline(obj), ""
    try:
        read_run(outline)
        started = bool(status.get("startTime"))
        done = conditions_of(obj, "Succeeded").get("status") in ("True", "False")
    except (InputRefused, *UNFIT) as error:
        outline, problem, started, done = {}, str(error), False, False
    return stream, events.DispatchedRunObserved(
        **_identity(obj),
        asked=str(annotations_of(obj).get(ASKS_FOR_MODE, "")),
        waits=not (started or done or "deletionTimestamp" in meta(obj)),
        run=outline,
        problem=problem,
    )


def _charge(obj: Json, *, gone: bool) -> _Built | None:
    """Return what a run's Workload asks for. One that cannot be understood is reported by whoever dispatches it."""
    owner = controller_of(obj)
    if owner.get("kind") != PIPELINE_RUNS.kind:
        return None
    stream = fit_stream(PIPELINE_RUNS, _last(obj)["namespace"], str(owner.get("name") or ""))
    if gone:
        return stream, events.RunChargeGone(**_last(obj))
    try:
        asked = _asked((obj.get("spec") or {}).get("podSets") or ())
    except UNFIT:
        return None
    return stream, events.RunChargeObserved(**_identity(obj), owner=str(owner.get("uid") or ""), asked=asked)


def _asked(pod_sets: Iterable[Json]) -> dict[str, str]:
    total: Requests = {}
    for one in pod_sets:
        for name, amount in effective((one.get("template") or {}).get("spec") or {}, ADMITTED).items():
            total[name] = total.get(name, 0) + amount * int(one.get("count", 1))
    return spelled(total)


def _node(obj: Json, gone: bool) -> _Built:
    place = f"{NODES.plural}/{meta(obj).get('name')}"
    if gone:
        return place, events.WorkerNodeGone(**_last(obj))
    spec, allocatable = obj.get("spec") or {}, (obj.get("status") or {}).get("allocatable") or {}
    amounts(allocatable, "status.allocatable")
    event = events.WorkerNodeObserved(
        **_identity(obj),
        labels=labels_of(obj),
        taints=[
            TaintSeen(key=one.key, value=one.value, effect=one.effect)
            for one in taints(spec.get("taints"))
            if one.effect in BLOCKING
        ],
        cordoned=spec.get("unschedulable") is True,
        allocatable={str(name): str(amount) for name, amount in allocatable.items()},
    )
    return place, event


def _class(obj: Json, gone: bool) -> _Built:
    place = f"{STORAGE_CLASSES.plural}/{meta(obj).get('name')}"
    if gone:
        return place, events.WorkerClassGone(**_last(obj))
    said = annotations_of(obj)
    event = events.WorkerClassObserved(
        **_identity(obj),
        late=obj.get("volumeBindingMode") == "WaitForFirstConsumer",
        default="true" in (said.get(_DEFAULT_CLASS), said.get(_OLD_DEFAULT_CLASS)),
    )
    return place, event


def _flags(obj: Json, gone: bool) -> _Built | None:
    if meta(obj).get("name") != FLAGS_NAME:
        return None
    if gone:
        return "flags", events.WorkerFlagsGone(**_last(obj))
    data = obj.get("data") or {}
    kept = {key: data[key] for key in (COSCHEDULE, DISABLE_ASSISTANT) if key in data}
    return "flags", events.WorkerFlagsObserved(**_identity(obj), data=kept)


def _pod(obj: Json, gone: bool) -> _Built | None:
    place = f"{PODS.plural}/{meta(obj).get('namespace')}/{meta(obj).get('name')}"
    if gone:
        return place, events.WorkerPlaceholderGone(**_last(obj))
    if labels_of(obj).get(COMPONENT_LABEL) != COMPONENT:
        return None
    over = (obj.get("status") or {}).get("phase") in ENDED_PHASES
    node = "" if over else str((obj.get("spec") or {}).get("nodeName") or "")
    return place, events.WorkerPlaceholderObserved(**_identity(obj), run=labels_of(obj).get(RUN_LABEL, ""), node=node)


_BUILDERS: dict[Kind, Callable[[Json, bool], _Built | None]] = {
    NODES: _node,
    STORAGE_CLASSES: _class,
    CONFIG_MAPS: _flags,
    PODS: _pod,
}
