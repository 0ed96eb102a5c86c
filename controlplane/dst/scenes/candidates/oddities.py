"""Objects that are there and cannot be read: a field of the wrong type, of a source pod, a Candidate, a delegate or
what is around them.

In: a step and the scene. Out: such an object on the source or on a target. A real API server with the CRDs of the day
refuses most of them; one with older or patched CRDs does not. The simulated kubelets carry such a field along and take
no notice, so that the service and the schedulers are alone with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATE_SOURCES,
    CANDIDATE_TARGETS,
    CANDIDATES,
    SCHEDULER_NAME,
    SOURCE_LABEL,
    TARGET_LABEL,
    TEMPLATE,
)
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.candidates.actor_protocol import Act, Scene
from controlplane.dst.scenes.candidates.environment import CAMPUS, CandidateEnvironment
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.kube.kinds import NODES, PODS, Json, Kind
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.world import MANAGEMENT

_SOMEBODY: Final = "somebody"
_CONDITION: Final[Json] = {"type": "example.com/Odd", "status": "True", "reason": 5, "message": ""}


def _waits_or_runs(pod: Json) -> bool:
    """Whether a pod is one that asks for candidates, and has not ended: what has ended shows nothing else any more."""
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return pod["spec"].get("schedulerName") == SCHEDULER_NAME and not ended


class SpoiledField(NamedTuple):
    """A field of a kind that is given a value of the wrong type: where it is, the value, and the subresource by which
    it is written. `ours`: which objects it is spoiled of."""

    kind: Kind
    path: tuple[str, ...]
    value: Any
    ours: Callable[[Record], bool]
    subresource: str = ""


#: What can be spoiled on the source; `value` of a step says which of it.
_AT_HOME: Final = (
    SpoiledField(
        PODS,
        ("status", "conditions"),
        [_CONDITION],
        lambda record: _waits_or_runs(record.obj),
        "status",
    ),
    SpoiledField(CANDIDATE_TARGETS, ("spec", "tier"), "first", lambda record: True),
    SpoiledField(NODES, ("status", "nodeInfo"), "odd", lambda record: TARGET_LABEL in record.labels, "status"),
)
#: The same of a target.
_IN_TARGET: Final = (
    SpoiledField(
        CANDIDATES, ("status", "message"), 5, lambda record: record.labels.get(SOURCE_LABEL) == CAMPUS, "status"
    ),
    SpoiledField(PODS, ("metadata", "annotations", TEMPLATE), 5, lambda record: CANDIDATE_LABEL in record.labels),
    SpoiledField(CANDIDATE_SOURCES, ("spec", "maxCandidates"), "many", lambda record: record.name == CAMPUS),
)
HOME_POD, HOME_TARGET, HOME_NODE = range(3)
THERE_CANDIDATE, THERE_POD, THERE_SOURCE = range(3)


def _fields(place: ClusterEnvironment) -> Sequence[SpoiledField]:
    return _AT_HOME if place.name == MANAGEMENT else _IN_TARGET


def _malform(scene: Scene, step: Step) -> None:
    """Somebody gives a field of all objects of a kind that are there (`value`) what it may not be."""
    place = scene.environment.places[step.where]
    fields = _fields(place)
    field = fields[step.value % len(fields)]
    for record in _there(place, field):
        before = _at(record.obj, field.path)
        if before == field.value or (isinstance(field.value, list) and _CONDITION in (before or ())):
            continue  # somebody did that already, and puts it right
        value = [*(before or ()), *field.value] if isinstance(field.value, list) else field.value
        _set(place, field, record, value)
        scene.after(step.seconds, _heal, place, field, record, before)


def mend(environment: CandidateEnvironment) -> None:
    """Put right whatever a backup has brought back spoiled."""
    for place in environment.places.values():
        for field in _fields(place):
            for record in _there(place, field):
                now = _at(record.obj, field.path)
                if now == field.value or (isinstance(field.value, list) and _CONDITION in (now or ())):
                    _heal(place, field, record, None)


def _there(place: ClusterEnvironment, field: SpoiledField) -> list[Record]:
    return sorted((record for record in place.store.records(field.kind) if field.ours(record)), key=lambda r: r.name)


def _heal(place: ClusterEnvironment, field: SpoiledField, spoiled: Record, before: Any) -> None:
    with suppress(ApiError):
        record = place.store.record(field.kind, spoiled.namespace, spoiled.name)
        now = _at(record.obj, field.path)
        if isinstance(field.value, list):
            before = [entry for entry in now or () if entry["type"] != _CONDITION["type"]]
        elif now != field.value:
            return
        _set(place, field, record, before)


def _at(obj: Json, path: tuple[str, ...]) -> Any:
    found: Any = obj
    for name in path:
        found = (found or {}).get(name)
    return found


def _set(place: ClusterEnvironment, field: SpoiledField, record: Record, value: Any) -> None:
    patch: Any = value
    for name in reversed(field.path):
        patch = {name: patch}
    place.store.patch(
        field.kind, record.namespace, record.name, patch, subresource=field.subresource, field_manager=_SOMEBODY
    )


ACTS: Final[dict[str, Act]] = {"malform": _malform}
