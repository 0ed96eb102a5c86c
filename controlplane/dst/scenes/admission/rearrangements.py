"""What administrators rearrange under load: whom ClusterQueues preempt, which Cohort they are in and what that one has,
which flavors they have and in which order, which checks they ask, and flavors that go and come back.

In: a step and the scene. Out: what they do to the management cluster's objects; each undoes itself when its time is
over, and `set_up` has all of it as it is meant."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.admission.queues import COHORT, FLAVOR, OTHER_CHECK, priority_of, queue_of
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.dst.scenes.workloads.people import create_job, job_of
from controlplane.job_kinds.base import merged
from controlplane.kube.kinds import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    Json,
    Kind,
)
from controlplane.kube.kueue_names import MULTIKUEUE, PRIORITY_CLASS, QUEUE_LABEL
from controlplane.kube.requests import merge_diff

SPOT: Final = "spot"
FLAVORS: Final = "flavors:"
"""How ClusterQueues have another flavor before the usual one: the number of a row of `_FLAVORED`."""
_ROOT, _SIDE = "root", "side"
_AGAIN = 1.0
_NOTHING: Final[Json] = {}
_FLAVORED: Final[tuple[tuple[Json, Json], ...]] = (
    ({}, {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}),
    ({}, {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"}),
    ({"nodeLabels": {"pool": "spot"}}, {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}),
    ({"nodeTaints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]}, {}),
)
FLAVORED: Final = len(_FLAVORED)
_PREEMPTION: Final[tuple[Json, ...]] = (
    {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "Never"}},
    {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
    {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "LowerPriority"},
    {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority"},
    },
    {
        "withinClusterQueue": "Never",
        "reclaimWithinCohort": "LowerPriority",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 0},
    },
)
_PARTS: Final[tuple[Json, ...]] = (
    {
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": FLAVOR, "resources": [{"name": "cpu", "nominalQuota": "2"}]}],
            }
        ]
    },
    {"resourceGroups": None},
    {"parentName": _ROOT},
)


def _spot(traits: tuple[str, ...]) -> tuple[Json, Json] | None:
    numbers = [int(one.removeprefix(FLAVORS)) for one in traits if one.startswith(FLAVORS)]
    return _FLAVORED[numbers[0]] if numbers else None


def _flavored(spec: Json, fungibility: Json, cpus: str = "1") -> Json:
    """Return a ClusterQueue with one CPU of another flavor before its own."""
    group = spec["resourceGroups"][0]
    spot = {"name": SPOT, "resources": [{"name": "cpu", "nominalQuota": cpus}]}
    others = [one for one in group["flavors"] if one["name"] != SPOT]
    more = {"flavorFungibility": fungibility} if fungibility else {}
    return {**spec, **more, "resourceGroups": [{**group, "flavors": [spot, *others]}]}


def set_up(scene: ActorContext, traits: tuple[str, ...], objects: list[tuple[Kind, Json]], cohort: Json) -> None:
    """Have queues, the Cohort and flavors as they are meant."""
    store, spot = scene.environment.management.store, _spot(traits)
    if spot is not None:
        _have(scene, RESOURCE_FLAVORS, {"metadata": {"name": SPOT}, "spec": spot[0]})
    _have(scene, RESOURCE_FLAVORS, {"metadata": {"name": FLAVOR}, "spec": {}})
    _have(scene, COHORTS, {"metadata": {"name": COHORT}, "spec": cohort})
    for kind, obj in objects:
        flavored = kind == CLUSTER_QUEUES and spot is not None
        _have(scene, kind, {**obj, "spec": _flavored(obj["spec"], spot[1])} if flavored and spot is not None else obj)
    for name in (_ROOT, _SIDE):
        with suppress(ApiError):
            store.delete(COHORTS, "", name)


def _have(scene: ActorContext, kind: Kind, obj: Json) -> None:
    """Have an object with just this spec; later, if one of its name is still being deleted."""
    store, head = scene.environment.management.store, obj["metadata"]
    try:
        found = store.get(kind, head.get("namespace", ""), head["name"])
    except ApiError:
        with suppress(ApiError):
            store.create(kind, obj, field_manager="administrator")
        return
    if "deletionTimestamp" in found["metadata"]:
        scene.environment.loop.world_later(_AGAIN, _have, scene, kind, obj)
    elif found.get("spec", {}) != obj["spec"]:
        _change(scene, kind, head.get("namespace", ""), head["name"], merge_diff(found.get("spec") or {}, obj["spec"]))


def _change(scene: ActorContext, kind: Kind, namespace: str, name: str, spec: Json) -> None:
    with suppress(ApiError):
        store = scene.environment.management.store
        store.patch(kind, namespace, name, {"spec": spec}, field_manager="administrator")


def _for_a_while(scene: ActorContext, step: Step, kind: Kind, name: str, spec: Json) -> None:
    """Change the spec of an object that has no namespace, and change back later what was changed."""
    before = scene.environment.management.store.get(kind, "", name).get("spec") or {}
    _change(scene, kind, "", name, spec)
    after = scene.environment.management.store.get(kind, "", name).get("spec") or {}
    scene.after(step.seconds, _change, scene, kind, "", name, merge_diff(after, before))


def _queue(scene: ActorContext, step: Step) -> tuple[str, Json]:
    store = scene.environment.management.store
    name = str(store.get(LOCAL_QUEUES, "default", queue_of(step.where))["spec"]["clusterQueue"])
    return name, store.get(CLUSTER_QUEUES, "", name)["spec"]


def _preemption(scene: ActorContext, step: Step) -> None:
    """A ClusterQueue preempts others than before, for a while."""
    name, spec = _queue(scene, step)
    wanted = _PREEMPTION[step.value % len(_PREEMPTION)]
    change = {"preemption": merge_diff(spec.get("preemption") or {}, wanted)}
    _for_a_while(scene, step, CLUSTER_QUEUES, name, change)


def _cohort(scene: ActorContext, step: Step) -> None:
    """A ClusterQueue is in another Cohort, or in none, for a while."""
    name, _ = _queue(scene, step)
    _for_a_while(scene, step, CLUSTER_QUEUES, name, {"cohortName": (_SIDE, None)[step.value % 2]})


def _edit_cohort(scene: ActorContext, step: Step) -> None:
    """The Cohort has more or less of its own, or another one above it, for a while; or is deleted, and made again."""
    store, number = scene.environment.management.store, step.value % (len(_PARTS) + 1)
    if number < len(_PARTS):
        _for_a_while(scene, step, COHORTS, COHORT, _PARTS[number])
        return
    spec = store.get(COHORTS, "", COHORT).get("spec") or {}
    store.delete(COHORTS, "", COHORT)
    scene.after(step.seconds, _have, scene, COHORTS, {"metadata": {"name": COHORT}, "spec": spec})


def _flavor(scene: ActorContext, step: Step) -> None:
    """A ClusterQueue has another flavor before its own for a while, or another order of them."""
    name, spec = _queue(scene, step)
    flavor, fungibility = _FLAVORED[step.value % FLAVORED]
    _have(scene, RESOURCE_FLAVORS, {"metadata": {"name": SPOT}, "spec": flavor})
    wanted = _flavored(spec, fungibility, str(step.value % 3))
    part: Json = {name: wanted[name] for name in ("resourceGroups", "flavorFungibility") if name in wanted}
    _for_a_while(scene, step, CLUSTER_QUEUES, name, part)


def _delete_flavor(scene: ActorContext, step: Step) -> None:
    """A flavor is deleted, which waits for the queues that name it unless its finalizer is taken by hand; and made
    again."""
    store, name = scene.environment.management.store, (FLAVOR, FLAVOR, SPOT)[step.value % 3]
    found = store.get(RESOURCE_FLAVORS, "", name)
    if step.value % 2:
        store.patch(RESOURCE_FLAVORS, "", name, {"metadata": {"finalizers": None}}, field_manager="somebody")
    store.delete(RESOURCE_FLAVORS, "", name)
    again = {"metadata": {"name": name}, "spec": found.get("spec") or {}}
    scene.after(step.seconds, _have_again, scene, RESOURCE_FLAVORS, again)


def _have_again(scene: ActorContext, kind: Kind, obj: Json) -> None:
    """Have an object again: one that waits to be deleted is let go by hand first."""
    with suppress(ApiError):
        bare: Any = {"metadata": {"finalizers": None}}
        found = scene.environment.management.store.get(kind, "", obj["metadata"]["name"])
        if "deletionTimestamp" in found["metadata"]:
            scene.environment.management.store.patch(kind, "", obj["metadata"]["name"], bare, field_manager="somebody")
    _have(scene, kind, obj)


def end_deletions(scene: ActorContext) -> None:
    """Have flavors that are being deleted there again."""
    for record in list(scene.environment.management.store.records(RESOURCE_FLAVORS)):
        if "deletionTimestamp" in record.obj["metadata"]:
            again = {"metadata": {"name": record.name}, "spec": record.obj.get("spec") or {}}
            _have_again(scene, RESOURCE_FLAVORS, again)


def _checks(scene: ActorContext, step: Step) -> None:
    """A ClusterQueue asks one check more, or one fewer, for a while: that of somebody else's."""
    name, spec = _queue(scene, step)
    now = (spec.get("admissionChecksStrategy") or _NOTHING).get("admissionChecks") or []
    others = [one for one in now if one["name"] != OTHER_CHECK]
    wanted = others if len(others) < len(now) else [*now, {"name": OTHER_CHECK}]
    change = {"admissionChecksStrategy": {"admissionChecks": wanted}}
    _for_a_while(scene, step, CLUSTER_QUEUES, name, change)


def _partial(scene: ActorContext, step: Step) -> None:
    """A Job of three pods that also runs with fewer."""
    job = job_of(
        JOBS, Step(0, 0.0, step.kind, step.where, step.seconds, 1), {"kueue.x-k8s.io/job-min-parallelism": "1"}
    )
    job["metadata"]["labels"] = {QUEUE_LABEL: queue_of(step.where), PRIORITY_CLASS: priority_of(step.where)}
    sized = {"parallelism": 3, "completions": 3}
    job["spec"] = merged(job["spec"], {**sized, **ADAPTERS[JOBS].delegated(MULTIKUEUE)})
    create_job(scene, JOBS, job)


ACTS: dict[str, Act] = {
    "preemption": _preemption,
    "move-queue": _cohort,
    "edit-cohort": _edit_cohort,
    "add-flavor": _flavor,
    "delete-flavor": _delete_flavor,
    "edit-checks": _checks,
    "submit-partial": _partial,
}
