"""The steps of a tenth edition: processes that are cut off or come back with other settings, rights that are taken
away, what administrators do to checks, configurations, Secrets and workers' queues, and what people do to copies and
Workloads.

In: a step and the scene. Out: what happens on the environment, to processes and databases; whatever lasts undoes
itself."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.network import Storm
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes import faults
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.gated import define_urgent
from controlplane.dst.scenes.workloads.kinds import ADAPTERS, GATED
from controlplane.dst.scenes.workloads.people import is_bound, list_clusters, workloads_of
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    JOBSETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    SECRETS,
    WORKLOADS,
    Json,
    Kind,
)
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, PRIORITY_CLASS
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import CHECK, KUEUE_NAMESPACE, MANAGEMENT, secret_name

_URGENT = "urgent"
_ON_WORKERS: Sequence[Kind] = (WORKLOADS, JOBS, JOBSETS)
_AT_HOME: Sequence[Kind] = (
    *_ON_WORKERS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    ADMISSION_CHECKS,
    SECRETS,
    CLUSTER_QUEUES,
)


# --- processes, networks, databases ----------------------------------------------------------------------------------


def _cut_off(scene: ActorContext, step: Step) -> None:
    """A process does not reach the log, or the management cluster, or any worker, while the others reach everything."""
    places = scene.environment.places
    workers = [place.network for name, place in places.items() if name != MANAGEMENT]
    home, log = places[MANAGEMENT].network, scene.database
    ways: Sequence[Sequence[faults.Barring]] = ((log,), (home,), workers, (log, home, *workers))
    faults.cut_off(scene.after, ways[step.value % 4], step.where, step.seconds)


def _database_ailing(scene: ActorContext, step: Step) -> None:
    faults.ail(scene.after, scene.database, 0.2 + step.value / 100, step.seconds)


def _withdraw(scene: ActorContext, step: Step) -> None:
    kinds = _AT_HOME if step.where == MANAGEMENT else _ON_WORKERS
    kind = kinds[step.value // 6 % len(kinds)]
    faults.withdraw(scene.after, scene.environment.places[step.where].network, kind, step)


def _overload(scene: ActorContext, step: Step) -> None:
    faults.overload(scene.after, scene.environment.places[step.where].network, step)


def _refuse_jobs(scene: ActorContext, step: Step) -> None:
    """A webhook of a worker refuses jobs for a while, or the Workloads of their copies."""
    kinds = _ON_WORKERS[1:] if step.value % 3 else _ON_WORKERS[:1]
    status = (403, 422)[step.value % 2]
    storms = [Storm(status, 1.0, resource=kind.name, verb="create") for kind in kinds]
    faults.storm(scene.after, scene.environment.places[step.where].network, step.seconds, *storms)


def _rollout(scene: ActorContext, step: Step) -> None:
    """Every process is replaced by one with other settings."""
    scene.roll_out(step.value)


# --- administrators --------------------------------------------------------------------------------------------------


def _config(scene: ActorContext, step: Step) -> None:
    """Somebody changes which clusters are used: in another order, one that nobody has defined, none, or no
    configuration."""
    store, names = scene.environment.management.store, sorted(scene.environment.workers)
    change = step.value % 4
    if change == 3:
        before = store.get(MULTIKUEUE_CONFIGS, "", CHECK)
        store.delete(MULTIKUEUE_CONFIGS, "", CHECK)
        scene.after(step.seconds, _have, scene, MULTIKUEUE_CONFIGS, CHECK, before["spec"])
        return
    clusters = ([*reversed(names)], ["nobodys", *names], [])[change]
    store.patch(MULTIKUEUE_CONFIGS, "", CHECK, {"spec": {"clusters": clusters}})
    scene.after(step.seconds, list_clusters, scene)


def _check(scene: ActorContext, step: Step) -> None:
    """Somebody has the AdmissionCheck lead to something else, or to nothing; or deletes it and has it there again at
    once."""
    store = scene.environment.management.store
    before = store.get(ADMISSION_CHECKS, "", CHECK)["spec"]
    right = before["parameters"]
    change = step.value % 4
    if change == 3:
        store.delete(ADMISSION_CHECKS, "", CHECK)
        _have(scene, ADMISSION_CHECKS, CHECK, before)
        return
    other: Json = ({"name": "nothing"}, {"kind": "Other"}, {"apiGroup": "example.com"})[change]
    store.patch(ADMISSION_CHECKS, "", CHECK, {"spec": {"parameters": {**right, **other}}})
    scene.after(step.seconds, _have, scene, ADMISSION_CHECKS, CHECK, before)


def _have(scene: ActorContext, kind: Kind, name: str, spec: Json) -> None:
    ensure(scene.environment.management.store, kind, name, keep=False, spec=spec)


def put_right(scene: ActorContext) -> None:
    """End what keeps jobs from being dispatched."""
    _right_checks(scene)
    _give_way(scene)


def _right_checks(scene: ActorContext) -> None:
    """Have the AdmissionCheck and its configuration as they were, also where a backup has them otherwise."""
    parameters = {"apiGroup": MULTIKUEUE_CONFIGS.group, "kind": MULTIKUEUE_CONFIGS.kind, "name": CHECK}
    store = scene.environment.management.store
    try:
        store.patch(ADMISSION_CHECKS, "", CHECK, {"spec": {"parameters": parameters}})
    except ApiError:
        _have(scene, ADMISSION_CHECKS, CHECK, {"controllerName": MULTIKUEUE, "parameters": parameters})
    ensure(store, MULTIKUEUE_CONFIGS, CHECK, spec={"clusters": sorted(scene.environment.workers)})
    for place in scene.environment.workers.values():
        with suppress(ApiError):
            _stop_policy(scene, place.name, "None")


def _secret(scene: ActorContext, step: Step) -> None:
    """Somebody deletes a worker's Secret, or puts something else into it."""
    if scene.environment.misled:
        return  # whose name a cluster has while its Secret is another's is nobody's to say
    store, name = scene.environment.management.store, secret_name(step.where)
    if step.value % 3 == 0:
        store.delete(SECRETS, KUEUE_NAMESPACE, name)
    else:
        data = ({"config": "YQ=="}, {"kubeconfig": "%"})[step.value % 3 - 1]
        ensure(store, SECRETS, name, KUEUE_NAMESPACE, keep=False, type="Opaque", data=data)
    scene.after(step.seconds, scene.environment.write_secret, step.where)


def _hold_worker(scene: ActorContext, step: Step) -> None:
    """A worker's administrator stops its queue: what is admitted there goes on, or is evicted too."""
    _stop_policy(scene, step.where, ("Hold", "HoldAndDrain")[step.value % 2])
    scene.after(step.seconds, _stop_policy, scene, step.where, "None")


def _stop_policy(scene: ActorContext, worker: str, policy: str) -> None:
    store = scene.environment.places[worker].store
    store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": policy}}, field_manager="administrator")


# --- people ----------------------------------------------------------------------------------------------------------


def _remove_workload(scene: ActorContext, step: Step) -> None:
    """Somebody deletes the Workloads of a job; perhaps without waiting for Kueue, by taking its finalizer away."""
    store = scene.environment.management.store
    for record in workloads_of(scene, step.where):
        if step.value % 3 == 0:
            patch = {"metadata": {"finalizers": None}}
            store.patch(WORKLOADS, record.namespace, record.name, patch, field_manager="somebody")
        store.delete(WORKLOADS, record.namespace, record.name)


def _edit_copy(scene: ActorContext, step: Step) -> None:
    """Somebody on a worker gives the copy of a Job another number of pods."""
    store = scene.environment.places[step.where].store
    copies = [record for record in store.records(JOBS) if ORIGIN_LABEL in record.labels]
    if copies:
        record = copies[step.value % len(copies)]
        part = {"spec": {"parallelism": 1 + step.value % 3}}
        store.patch(JOBS, record.namespace, record.name, part, field_manager="somebody")


def _foreign_clone(scene: ActorContext, step: Step) -> None:
    """Somebody has a Workload of the same name on a worker, and means to keep it."""
    found = sorted(scene.environment.management.store.records(WORKLOADS), key=lambda record: record.name)
    if not found:
        return
    record = found[step.value % len(found)]
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "x", "image": "x"}]}}}
    body = {
        "metadata": {"namespace": record.namespace, "name": record.name},
        "spec": {"queueName": "nowhere", "podSets": [pod_set]},
    }
    made = scene.environment.places[step.where].store.create(WORKLOADS, body, field_manager="somebody")
    scene.planted[made["metadata"]["uid"]] = record.name


def _give_way(scene: ActorContext) -> None:
    """Whoever has a Workload by the name of one whose job may go to some clusters only takes it away: there may be no
    cluster beside that one, and nobody else would ever end the wait."""
    for record in scene.environment.management.store.records(WORKLOADS):
        owners = {owner["name"] for owner in record.obj["metadata"].get("ownerReferences") or ()}
        if is_true(record.obj, "Finished") or not any(is_bound(scene, owner) for owner in owners):
            continue
        for place in scene.environment.workers.values():
            for there in [one for one in place.store.records(WORKLOADS) if one.uid in scene.planted]:
                if (there.namespace, there.name) == (record.namespace, record.name):
                    del scene.planted[there.uid]
                    place.store.delete(WORKLOADS, there.namespace, there.name)


def _reclass(scene: ActorContext, step: Step) -> None:
    """A user gives his job a class of priority. Kueue takes that over while nothing is reserved for the Workload; here
    that follows at once, as it does in a `Workload` that its administrator edits."""
    kind = scene.submitted.get(step.where)
    if kind is None or step.where in scene.deleted:
        return
    with suppress(ApiError):
        define_urgent(scene)
    store = scene.environment.management.store
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": _URGENT}
    spec = {"priority": 100, "priorityClassRef": reference}
    for record in workloads_of(scene, step.where):
        store.patch(WORKLOADS, record.namespace, record.name, {"spec": spec}, field_manager="user")
    store.patch(kind, "default", step.where, {"metadata": {"labels": {PRIORITY_CLASS: _URGENT}}}, field_manager="user")


# --- copies that go when they have ended -----------------------------------------------------------------------------


def on_commit(scene: ActorContext, cluster: str, commit: Commit) -> None:
    """Have a copy deleted a little after it has ended, as `ttlSecondsAfterFinished` and whoever tidies up do."""
    record = commit.record
    if commit.type == "DELETED" or record.kind not in ADAPTERS or ORIGIN_LABEL not in record.labels:
        return
    adapter = ADAPTERS[record.kind]
    if adapter in GATED or not adapter.delegates or adapter.outcome(record.obj.get("status") or {}) is None:
        return
    seconds = zlib.crc32(record.uid.encode()) % 60 / 10
    scene.environment.loop.world_later(seconds, _tidy, scene, cluster, record)


def _tidy(scene: ActorContext, cluster: str, record: Record) -> None:
    with suppress(ApiError):
        scene.environment.places[cluster].store.delete(record.kind, record.namespace, record.name, uid=record.uid)


ACTS: Final[dict[str, Act]] = {
    "cut-off": _cut_off,
    "database-ailing": _database_ailing,
    "withdraw": _withdraw,
    "overload": _overload,
    "refuse-jobs": _refuse_jobs,
    "rollout": _rollout,
    "config": _config,
    "check": _check,
    "secret": _secret,
    "hold-worker": _hold_worker,
    "remove-workload": _remove_workload,
    "edit-copy": _edit_copy,
    "foreign-clone": _foreign_clone,
    "reclass": _reclass,
}
