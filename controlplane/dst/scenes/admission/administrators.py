"""What administrators do to quota: they lower it, delete queues and classes of priority, and make them again; and a
check of somebody else's, which is asked about each Workload that has quota.

In: a step and the scene. Out: what they do to the management cluster's objects. An act whose object is not there (any
more) does nothing."""

from __future__ import annotations

import random
from contextlib import suppress

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.scenes.admission.queues import OTHER_CHECK, PRIORITIES, priority_of, queue_of
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Json, Kind
from controlplane.simulation.apiserver.history import Record

_AGAIN = 1.0  # seconds after which it is tried again to make what is still being deleted


def _cluster_queue(scene: ActorContext, step: Step) -> str:
    """Return the ClusterQueue of a job."""
    found = scene.environment.management.store.get(LOCAL_QUEUES, "default", queue_of(step.where))
    return str(found["spec"]["clusterQueue"])


def _lower_quota(scene: ActorContext, step: Step) -> None:
    """A ClusterQueue has less quota for a while, or none."""
    store, name = scene.environment.management.store, _cluster_queue(scene, step)
    groups = store.get(CLUSTER_QUEUES, "", name)["spec"]["resourceGroups"]
    cpu = groups[0]["flavors"][0]["resources"][0]
    less = str(step.value % max(int(cpu["nominalQuota"]), 1))
    lowered = [{**groups[0], "flavors": [{**groups[0]["flavors"][0], "resources": [{**cpu, "nominalQuota": less}]}]}]
    _set(scene, name, lowered)
    scene.after(step.seconds, _set, scene, name, groups)


def _set(scene: ActorContext, name: str, groups: list[Json]) -> None:
    with suppress(ApiError):
        patch = {"spec": {"resourceGroups": groups}}
        scene.environment.management.store.patch(CLUSTER_QUEUES, "", name, patch, field_manager="administrator")


def _delete_queue(scene: ActorContext, step: Step) -> None:
    """The queue of a job is deleted, its ClusterQueue or its LocalQueue alone, and made again later."""
    if step.value % 2:
        _delete(scene, step, LOCAL_QUEUES, "default", queue_of(step.where))
    else:
        _delete(scene, step, CLUSTER_QUEUES, "", _cluster_queue(scene, step))


def _delete_class(scene: ActorContext, step: Step) -> None:
    """The class of a job's priority is deleted, and made again later."""
    _delete(scene, step, WORKLOAD_PRIORITY_CLASSES, "", priority_of(step.where))


def _delete(scene: ActorContext, step: Step, kind: Kind, namespace: str, name: str) -> None:
    store = scene.environment.management.store
    found = store.get(kind, namespace, name)
    store.delete(kind, namespace, name)
    head = {"name": name, **({"namespace": namespace} if namespace else {})}
    again = {key: value for key, value in found.items() if key not in ("metadata", "status")} | {"metadata": head}
    scene.after(step.seconds, _make, scene, kind, again)


def _make(scene: ActorContext, kind: Kind, obj: Json) -> None:
    """Make an object again, as soon as the one before is gone."""
    store, head = scene.environment.management.store, obj["metadata"]
    with suppress(ApiError):
        there = store.get(kind, head.get("namespace", ""), head["name"])
        if "deletionTimestamp" not in there["metadata"]:
            return
    try:
        store.create(kind, obj, field_manager="administrator")
    except ApiError:
        scene.environment.loop.world_later(_AGAIN, _make, scene, kind, obj)


def define_all(scene: ActorContext, queues: list[tuple[Kind, Json]]) -> None:
    """Have queues and classes that somebody deleted, also where a backup has them deleted."""
    classes = [
        (WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value}) for name, value in PRIORITIES.items()
    ]
    for kind, obj in (*classes, *queues):
        _make(scene, kind, obj)


class _Checker:
    """The controller of a check of somebody else's: every so often it looks at each Workload that has quota, and says
    that it may go on, or has it tried again; once all trouble has ended it lets all of them go on."""

    def __init__(self, scene: ActorContext, period: float) -> None:
        self._scene, self._period, self._lenient = scene, period, False
        self._random = random.Random(f"checker {period}")  # noqa: S311 - reproducible on purpose
        scene.after(10 * HORIZON, self._give_in)

    def _give_in(self) -> None:
        self._lenient = True

    def look(self) -> None:
        """Look now, and again later."""
        for record in list(self._scene.environment.management.store.records(WORKLOADS)):
            status = record.obj.get("status") or {}
            mine = [one for one in status.get("admissionChecks") or () if one["name"] == OTHER_CHECK]
            if mine and mine[0]["state"] == "Pending" and is_true(record.obj, "QuotaReserved"):
                self._say(record, status["admissionChecks"])
        self._scene.environment.loop.world_later(self._period * self._random.uniform(0.1, 1.0), self.look)

    def _say(self, record: Record, checks: list[Json]) -> None:
        state = "Ready" if self._lenient else self._random.choice(("Ready", "Ready", "Ready", "Retry", ""))
        if not state:
            return
        said = {"state": state, "message": "by the checker"}
        now = self._scene.environment.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        changed = [{**one, **said, "lastTransitionTime": now} if one["name"] == OTHER_CHECK else one for one in checks]
        head = {"resourceVersion": str(record.version)}
        with suppress(ApiError):
            self._scene.environment.management.store.patch(
                WORKLOADS,
                record.namespace,
                record.name,
                {"metadata": head, "status": {"admissionChecks": changed}},
                subresource="status",
                field_manager="checker",
            )


def _begin_checking(scene: ActorContext, step: Step) -> None:
    _Checker(scene, float(step.value)).look()


ACTS: dict[str, Act] = {
    "lower-quota": _lower_quota,
    "delete-queue": _delete_queue,
    "delete-class": _delete_class,
    "checker": _begin_checking,
}
