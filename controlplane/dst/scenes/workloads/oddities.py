"""Objects that are not what they claim to be: fields of the wrong type, names of 253 characters, copies that name no
Workload.

In: a step and the scene. Out: such objects on the management cluster or on a worker, new ones or what is there
already. A real API server with the CRDs of the day refuses most of them; one with older or patched CRDs does not. What
is spoiled here is only what the service reads: the simulated Kueue carries it along and takes no notice, so that the
service is alone with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from controlplane.clusters.protocol import ApiError
from controlplane.clusters.validation import unreadable
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.dst.scenes.workloads.people import list_clusters
from controlplane.job_kinds import INTEGRATIONS
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    JOBS,
    JOBSETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
    Json,
    Kind,
)
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, PREBUILT
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.world import CHECK, MANAGEMENT

HUGE: Final = "x." * 126 + "x"  # 253 characters, as long as a name may be
ODD: Final = "odd"
_SOMEBODY = "somebody"
_REASON: Final = 5  # no string, as the API has it
_CONDITION: Final[Json] = {
    "type": "example.com/Odd",
    "status": "True",
    "reason": _REASON,
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
_HOME_KINDS = (WORKLOADS, JOBS, JOBSETS, MULTIKUEUE_CLUSTERS, ADMISSION_CHECKS)
_COPIES = (WORKLOADS, JOBS, JOBSETS)


#: Of which kinds a spec can be malformed, and when it is.
_ODD_SPECS: Final[Mapping[Kind, Callable[[Json], bool]]] = {
    WORKLOADS: lambda spec: not isinstance(spec.get("priorityClassRef") or {}, dict),
    MULTIKUEUE_CONFIGS: lambda spec: not isinstance(spec.get("clusters"), list),
    MULTIKUEUE_CLUSTERS: lambda spec: not isinstance(spec.get("clusterSource"), dict),
    ADMISSION_CHECKS: lambda spec: any(not isinstance(value, str) for value in (spec.get("parameters") or {}).values()),
}


def odd(cluster: str, record: Record) -> bool:
    """Whether an object is one that nobody who reads it can make sense of."""
    obj = record.obj
    spec = obj.get("spec") or {}
    conditions = (obj.get("status") or {}).get("conditions") or ()
    if unreadable(obj) or any(not isinstance(found.get("reason", ""), str) for found in conditions):
        return True
    if record.kind in _ODD_SPECS:
        return _ODD_SPECS[record.kind](spec)
    return ORIGIN_LABEL in record.labels and untold(cluster, record)


def untold(cluster: str, record: Record) -> bool:
    """Whether the log need not tell the end of an object: of a job's copy that names no Workload it has no stream to
    tell it on.
    """
    names = {**record.labels, **(record.obj["metadata"].get("annotations") or {})}
    return cluster != MANAGEMENT and record.kind in INTEGRATIONS and PREBUILT not in names


def is_told(cluster: str, commit: Commit) -> bool:
    """Whether the service is to hear of a change: of a worker it watches only the objects that carry an origin."""
    if commit.type == "DELETED" and untold(cluster, commit.record):
        return False
    records = [commit.record] if commit.previous is None else [commit.record, commit.previous]
    return cluster == MANAGEMENT or any(ORIGIN_LABEL in record.labels for record in records)


def planted(record: Record) -> bool:
    """Whether an object was odd from the beginning, or is nobody's."""
    return record.name in (ODD, HUGE, _ABYSS)


def mend(scene: ActorContext) -> None:
    """Put right whatever was right before it was spoiled, wherever it is by now."""
    for place in scene.environment.places.values():
        for kind in _HOME_KINDS if place.name == MANAGEMENT else _COPIES:
            for record in list(place.store.records(kind)):
                if not planted(record) and odd(place.name, record):
                    _heal(place, kind, record.namespace, record.name)


# --- what is there ---------------------------------------------------------------------------------------------------


def _malform(scene: ActorContext, step: Step) -> None:
    """Somebody writes a condition whose reason is a number into a status; or a string where clusters are listed."""
    place = scene.environment.places[step.where]
    if place.name == MANAGEMENT and step.value % 5 == 0:
        place.store.patch(MULTIKUEUE_CONFIGS, "", CHECK, {"spec": {"clusters": "w1"}}, field_manager=_SOMEBODY)
        scene.after(step.seconds, list_clusters, scene)
        return
    kinds = _HOME_KINDS if place.name == MANAGEMENT else _COPIES
    there = [record for kind in kinds for record in place.store.records(kind)]
    mine = [record for record in there if place.name == MANAGEMENT or ORIGIN_LABEL in record.labels]
    if mine:
        record = mine[step.value % len(mine)]
        _spoil(place, record)
        scene.after(step.seconds, _heal, place, record.kind, record.namespace, record.name)


def _conditions(place: ClusterEnvironment, kind: Kind, namespace: str, name: str) -> Sequence[Json]:
    return [
        found
        for found in (place.store.record(kind, namespace, name).obj.get("status") or {}).get("conditions") or ()
        if found["type"] != _CONDITION["type"]
    ]


def _spoil(place: ClusterEnvironment, record: Record) -> None:
    conditions = [*_conditions(place, record.kind, record.namespace, record.name), _CONDITION]
    _set_conditions(place, record.kind, record.namespace, record.name, conditions)


def _heal(place: ClusterEnvironment, kind: Kind, namespace: str, name: str) -> None:
    with suppress(ApiError):
        _set_conditions(place, kind, namespace, name, _conditions(place, kind, namespace, name))


def _set_conditions(
    place: ClusterEnvironment, kind: Kind, namespace: str, name: str, conditions: Sequence[Json]
) -> None:
    patch = {"status": {"conditions": list(conditions)}}
    place.store.patch(kind, namespace, name, patch, subresource="status", field_manager=_SOMEBODY)


# --- what comes ------------------------------------------------------------------------------------------------------


def _body(kind: Kind, name: str, *, labels: Json | None = None, **fields: Any) -> tuple[Kind, Json]:
    head: Json = {"name": name, **({"namespace": "default"} if kind.namespaced else {}), "labels": labels or {}}
    return kind, {"metadata": head, **fields}


_REQUESTS: Final[Json] = {"requests": {"cpu": "1"}}
_TEMPLATE: Final[Json] = {
    "spec": {
        "containers": [{"name": "x", "image": "example.com/other", "resources": _REQUESTS}],
        "restartPolicy": "Never",
    }
}
_ORIGIN: Final[Json] = {ORIGIN_LABEL: "multikueue"}
_POD_SET: Final[Json] = {"name": "main", "count": 1, "template": _TEMPLATE}
_WORKLOAD: Final[Json] = {"queueName": "nowhere", "podSets": [], "priority": 0, "priorityClassRef": "high"}
#: By the side on which it is made, the management cluster's first.
_MADE: Final[dict[bool, Sequence[tuple[Kind, Json]]]] = {
    True: [
        _body(MULTIKUEUE_CLUSTERS, HUGE, spec={"clusterSource": "east"}),
        _body(MULTIKUEUE_CLUSTERS, HUGE, spec={"clusterSource": {"kubeConfig": {"location": HUGE}}}),
        _body(MULTIKUEUE_CONFIGS, ODD, spec={"clusters": {"w1": True}}),
        _body(ADMISSION_CHECKS, HUGE, spec={"controllerName": MULTIKUEUE, "parameters": {"name": 7}}),
        _body(JOBS, ODD, spec={"managedBy": MULTIKUEUE, "suspend": True, "template": _TEMPLATE}),
        _body(WORKLOADS, HUGE, spec={"queueName": "user-queue", "podSets": [_POD_SET]}),
        _body(WORKLOADS, ODD, spec=_WORKLOAD),
    ],
    False: [
        _body(WORKLOADS, HUGE, labels=_ORIGIN, spec=_WORKLOAD),
        _body(WORKLOADS, ODD, labels=_ORIGIN, spec=_WORKLOAD),
        _body(JOBS, ODD, labels=_ORIGIN, spec={"suspend": True, "template": _TEMPLATE}),
        _body(JOBSETS, HUGE, labels=_ORIGIN, spec={"suspend": True, "replicatedJobs": []}),
    ],
}


def _deep(levels: int) -> Json:
    found: Json = {}
    for _ in range(levels):
        found = {"a": found}
    return found


_ABYSS: Final = "abyss"  # the name of what cannot be read
#: By the side on which it is made.
_UNREADABLE: Final[dict[bool, Sequence[tuple[Kind, Json]]]] = {
    True: [
        _body(MULTIKUEUE_CONFIGS, _ABYSS, spec={"clusters": ["w1"], "odd": _deep(150)}),
        _body(ADMISSION_CHECKS, _ABYSS, spec={"controllerName": MULTIKUEUE, "odd": "\0"}),
    ],
    False: [
        _body(WORKLOADS, _ABYSS, labels=_ORIGIN, spec={**_WORKLOAD, "priorityClassRef": None, "odd": _deep(150)}),
        _body(JOBS, _ABYSS, labels=_ORIGIN, spec={"suspend": True, "template": _TEMPLATE, "odd": "\0"}),
    ],
}


def _odd_object(scene: ActorContext, step: Step) -> None:
    """Somebody applies an object that cannot be read; it stays, or is deleted again after a while (an even `value`)."""
    place = scene.environment.places[step.where]
    made = _MADE[place.name == MANAGEMENT]
    kind, body = made[step.value % len(made)]
    metadata = place.store.create(kind, body, field_manager=_SOMEBODY)["metadata"]
    if kind == JOBS and place.name == MANAGEMENT:
        _spoil(place, place.store.record(kind, metadata["namespace"], metadata["name"]))
    if step.value % 2 == 0:
        scene.after(step.seconds, _take_away, place, kind, metadata)


def _unreadable_object(scene: ActorContext, step: Step) -> None:
    """Somebody applies an object of which no more can be read than its name: it is nested too deep, or holds what no
    database does.
    """
    place = scene.environment.places[step.where]
    home = place.name == MANAGEMENT
    made: Sequence[tuple[Kind, Json]] = _UNREADABLE[home]
    kind, body = made[step.value % len(made)]
    metadata = place.store.create(kind, body, field_manager=_SOMEBODY)["metadata"]
    if step.value % 2 == 0:
        scene.after(step.seconds, _take_away, place, kind, metadata)


def _take_away(place: ClusterEnvironment, kind: Kind, metadata: Json) -> None:
    place.store.delete(kind, metadata.get("namespace", ""), metadata["name"], uid=metadata["uid"])


ACTS: dict[str, Act] = {"malform": _malform, "odd-object": _odd_object, "unreadable-object": _unreadable_object}
