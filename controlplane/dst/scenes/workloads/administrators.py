"""The steps in which administrators act: on what clusters are called, on what is said of them, on who nominates them,
on the users' namespace; and somebody else's dispatcher.

In: a step and the scene. Out: what they do to the management cluster's objects."""

from __future__ import annotations

import random
from contextlib import suppress

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment, place_of
from controlplane.dst.scenes.workloads.people import define_cluster, workloads_of
from controlplane.dst.scenes.workloads.processes import COST, ZONE
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, NAMESPACES, WORKLOADS, Json
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.world import CHECK

_LABELS = ({ZONE: "a", COST: "3"}, {ZONE: "b", COST: "1"}, {ZONE: "a", COST: "2"})
_NAMESPACE = "default"
_OTHERS = ({ZONE: None}, {ZONE: "a"}, {ZONE: "b"}, {COST: "nothing"}, {COST: None, ZONE: "c"}, {COST: "0"})


def label_clusters(scene: ActorContext) -> None:
    """Say of all clusters what was said of them at the beginning."""
    for name, labels in zip(sorted(scene.environment.workers), _LABELS, strict=True):
        _label(scene, name, labels)


def _label(scene: ActorContext, name: str, labels: Json) -> None:
    with suppress(ApiError):
        scene.environment.management.store.patch(MULTIKUEUE_CLUSTERS, "", name, {"metadata": {"labels": labels}})


def automate_quota(scene: ActorContext) -> None:
    """Have the management cluster's quota follow those of its workers."""
    scene.environment.management.store.patch(MULTIKUEUE_CONFIGS, "", CHECK, {"spec": {"quotaManagement": "Automated"}})


def only_own_names(scene: ActorContext) -> None:
    """Take back every name but the first of each worker, also what a backup has brought back."""
    store, own = scene.environment.management.store, scene.environment.workers
    for record in list(store.records(MULTIKUEUE_CLUSTERS)):
        if place_of(record.name) != record.name and place_of(record.name) in own:
            store.delete(MULTIKUEUE_CLUSTERS, "", record.name)


def _relabel(scene: ActorContext, step: Step) -> None:
    """Somebody says other things of a worker, for a while."""
    _label(scene, step.where, _OTHERS[step.value % len(_OTHERS)])
    scene.after(step.seconds, label_clusters, scene)


def _renew_cluster(scene: ActorContext, step: Step) -> None:
    """Somebody deletes a MultiKueueCluster, and has the same one there again at once."""
    if scene.environment.misled:
        return  # whose name a cluster has once its own is gone is nobody's to say
    scene.environment.management.store.delete(MULTIKUEUE_CLUSTERS, "", step.where)
    define_cluster(scene, step.where)
    label_clusters(scene)


def _take_name(scene: ActorContext, step: Step) -> None:
    """Somebody takes from the Workloads of a job the name of the cluster that has them."""
    for record in workloads_of(scene, step.where):
        if (record.obj.get("status") or {}).get("clusterName"):
            _patch(scene, record, {"clusterName": None})


def _patch(scene: ActorContext, record: Record, status: Json) -> None:
    with suppress(ApiError):
        scene.environment.management.store.patch(
            WORKLOADS,
            record.namespace,
            record.name,
            {"status": status},
            subresource="status",
            field_manager="somebody",
        )


class _Nominator:
    """A dispatcher of somebody else's: every so often it nominates some clusters for each Workload that waits, and
    withdraws others; all of them once all trouble has ended.
    """

    def __init__(self, scene: ActorContext, period: float) -> None:
        self._scene, self._period, self._all = scene, period, False
        self._random = random.Random(f"nominator {period}")  # noqa: S311 - reproducible on purpose
        scene.after(10 * HORIZON, self._ask_all)

    def _ask_all(self) -> None:
        self._all = True

    def look(self) -> None:
        """Nominate now, and again later."""
        for record in list(self._scene.environment.management.store.records(WORKLOADS)):
            if _waits(record.obj):
                self._nominate(record)
        share = 0.2 if self._all else self._random.uniform(0.05, 1.0)
        self._scene.environment.loop.world_later(self._period * share, self.look)

    def _nominate(self, record: Record) -> None:
        names = sorted(self._scene.environment.workers)
        if not self._all:
            names = sorted(self._random.sample(names, self._random.choice((0, 1, 1, 2, 3))))
        if names != (record.obj["status"].get("nominatedClusterNames") or []):
            _patch(self._scene, record, {"nominatedClusterNames": names or None})


def _waits(workload: Json) -> bool:
    """Whether a Workload has quota and waits for a cluster."""
    status = workload.get("status") or {}
    if any(is_true(workload, one) for one in ("Evicted", "Finished", "Admitted")) or status.get("clusterName"):
        return False
    checks = {check["name"]: check["state"] for check in status.get("admissionChecks") or ()}
    return is_true(workload, "QuotaReserved") and checks.get(CHECK) == "Pending"


def _begin_nominating(scene: ActorContext, step: Step) -> None:
    _Nominator(scene, float(step.value)).look()


def _delete_namespace(scene: ActorContext, step: Step) -> None:
    """The users' namespace of a worker is deleted, with its queue and all that is in it, also what is nobody's."""
    place = scene.environment.places[step.where]
    inside = {record.uid for kind in place.store.served for record in place.store.records(kind) if record.namespace}
    for uid in inside & scene.planted.keys():
        del scene.planted[uid]
    with suppress(ApiError):  # it is gone already
        place.store.delete(NAMESPACES, "", _NAMESPACE)
    scene.after(step.seconds, _make_namespace, scene, place)


def _make_namespace(scene: ActorContext, place: ClusterEnvironment) -> None:
    try:
        place.cluster.seed()
    except ApiError:  # it is still being deleted
        scene.environment.loop.world_later(1.0, _make_namespace, scene, place)


def make_namespaces(scene: ActorContext) -> None:
    """Have the users' namespace on all workers, also where a backup has it deleted."""
    for place in scene.environment.workers.values():
        _make_namespace(scene, place)


ACTS: dict[str, Act] = {
    "relabel": _relabel,
    "renew-cluster": _renew_cluster,
    "take-name": _take_name,
    "nominator": _begin_nominating,
    "delete-namespace": _delete_namespace,
}
