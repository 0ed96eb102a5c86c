"""The steps of a plan in which Kueue, users and administrators act.

In: a step and the scene. Out: what they do to the clusters' objects. An act whose object is not there (any more) does
nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.dst.engine.steps import NEVER_TWICE as NEVER_TWICE_NAME
from controlplane.dst.engine.steps import UNFIT, Step
from controlplane.dst.invariants.workloads.bodies import NOTE, PRIVATE
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.job_kinds.base import ORIGIN_LABEL, QUEUE_LABEL
from controlplane.kube.kinds import (
    CLUSTER_QUEUES,
    JOBS,
    JOBSETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
    Json,
    Kind,
)
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.controllers.jobs import DURATION
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import CHECK, secret_name


def _pick(records: Sequence[Record], value: int) -> Record | None:
    return records[value % len(records)] if records else None


def _on_copy(kinds: Sequence[Kind], act: Callable[[ClusterEnvironment, Record], object]) -> Act:
    def on_copy(scene: ActorContext, step: Step) -> None:
        place = scene.environment.places[step.where]
        copies = [record for kind in kinds for record in place.store.records(kind) if ORIGIN_LABEL in record.labels]
        record = _pick(copies, step.value)
        if record is not None:
            act(place, record)

    return on_copy


def _preempt_copy(place: ClusterEnvironment, record: Record) -> None:
    place.life.kueue.preempt(record.namespace, record.name)


def _deactivate_copy(place: ClusterEnvironment, record: Record) -> None:
    place.life.kueue.deactivate(record.namespace, record.name)


def _delete(place: ClusterEnvironment, record: Record) -> None:
    place.store.delete(record.kind, record.namespace, record.name)


def _workload(scene: ActorContext, job: str) -> Record | None:
    """Return the Workload of a job on the management cluster."""
    for record in scene.environment.management.store.records(WORKLOADS):
        owners = record.obj["metadata"].get("ownerReferences") or []
        if any(owner["name"] == job for owner in owners):
            return record
    return None


def _submit(kind: Kind) -> Act:
    def submit(scene: ActorContext, step: Step) -> None:
        """`seconds` is how long the job runs, `value` how many CPUs it asks for in all."""
        annotations = {DURATION: f"{step.seconds:.0f}s", NOTE: f"{PRIVATE} of {step.where}"}
        if step.where.startswith(NEVER_TWICE_NAME):
            annotations[EXECUTION_POLICY] = NEVER_TWICE
        elif step.where.startswith(UNFIT):
            annotations[EXECUTION_POLICY] = "perhaps"
        job: Json = {
            "metadata": {
                "namespace": "default",
                "name": step.where,
                "labels": {QUEUE_LABEL: "user-queue"},
                "annotations": annotations,
            },
            "spec": _job_spec(step.value) if kind == JOBS else _job_set_spec(step.value),
        }
        scene.environment.management.store.create(kind, job, field_manager="user")
        scene.submitted[step.where] = kind

    return submit


def _job_spec(cpus: int) -> Json:
    container = {
        "name": "main",
        "image": "example.com/work",
        "args": ["--token", PRIVATE],
        "env": [{"name": "TOKEN", "value": PRIVATE}],
        "resources": {"requests": {"cpu": str(cpus)}},
    }
    return {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}


def _job_set_spec(cpus: int) -> Json:
    """One driver, and as many workers as it takes."""
    parts = [("driver", 1), ("workers", cpus - 1)] if cpus > 1 else [("driver", 1)]
    return {
        "replicatedJobs": [
            {"name": name, "replicas": replicas, "template": {"spec": _job_spec(1)}} for name, replicas in parts
        ]
    }


def _delete_job(scene: ActorContext, step: Step) -> None:
    kind = scene.submitted.get(step.where)
    if kind is not None:
        scene.deleted.add(step.where)
        scene.environment.management.store.delete(kind, "default", step.where)


def _preempt(scene: ActorContext, step: Step) -> None:
    record = _workload(scene, step.where)
    if record is not None:
        scene.environment.management.life.kueue.preempt(record.namespace, record.name)


def _priority(scene: ActorContext, step: Step) -> None:
    record = _workload(scene, step.where)
    if record is not None:
        scene.environment.management.store.patch(
            WORKLOADS, record.namespace, record.name, {"spec": {"priority": step.value}}, field_manager="user"
        )


def _suspend(scene: ActorContext, step: Step) -> None:
    """Take a Workload out of the queue for a while."""
    record = _workload(scene, step.where)
    if record is not None:
        _set_active(scene, record, False)
        scene.after(step.seconds, _set_active, scene, record, True)


def _set_active(scene: ActorContext, record: Record, active: bool) -> None:
    with suppress(ApiError):
        scene.environment.management.store.patch(
            WORKLOADS, record.namespace, record.name, {"spec": {"active": active}}, field_manager="user"
        )


def activate_all(scene: ActorContext) -> None:
    """Let users put back into the queue what a backup knew as suspended, a little later: nobody else remembers that it
    no longer is.
    """
    for record in scene.environment.management.store.records(WORKLOADS):
        if record.obj["metadata"].get("ownerReferences") and record.obj["spec"].get("active") is False:
            scene.after(10.0, _set_active, scene, record, True)


def _drain_queue(scene: ActorContext, step: Step) -> None:
    store = scene.environment.management.store
    store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "HoldAndDrain"}}, field_manager="user")
    scene.after(step.seconds, open_queue, scene)


def open_queue(scene: ActorContext) -> None:
    """Let the management cluster's queue admit again."""
    store = scene.environment.management.store
    store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "None"}}, field_manager="user")


def list_clusters(scene: ActorContext, without: str = "") -> None:
    """Name all clusters, or all but one, in the MultiKueueConfig."""
    names = [name for name in scene.environment.workers if name != without]
    scene.environment.management.store.patch(MULTIKUEUE_CONFIGS, "", CHECK, {"spec": {"clusters": names}})


def _unlist_cluster(scene: ActorContext, step: Step) -> None:
    list_clusters(scene, step.where)
    scene.after(step.seconds, list_clusters, scene)


def define_cluster(scene: ActorContext, name: str) -> None:
    """Create a worker's MultiKueueCluster if there is none."""
    source = {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}
    ensure(scene.environment.management.store, MULTIKUEUE_CLUSTERS, name, spec={"clusterSource": source})


def _delete_cluster(scene: ActorContext, step: Step) -> None:
    if scene.environment.misled:
        return  # whose name a cluster has once its own is gone is nobody's to say
    scene.environment.management.store.delete(MULTIKUEUE_CLUSTERS, "", step.where)
    scene.after(step.seconds, define_cluster, scene, step.where)


def _foreign_job(scene: ActorContext, step: Step) -> None:
    """Somebody has a job of the same kind and name on a worker, and means to keep it."""
    jobs = list(scene.submitted.items()) or [("somebody", JOBS)]
    name, kind = jobs[step.value % len(jobs)]
    template = {"template": {"spec": {"containers": [{"name": "x", "image": "example.com/other"}]}}}
    spec = template if kind == JOBS else {"replicatedJobs": [{"name": "x", "template": {"spec": template}}]}
    body: Json = {"metadata": {"namespace": "default", "name": name}, "spec": {"suspend": True, **spec}}
    created = scene.environment.places[step.where].store.create(kind, body, field_manager="somebody")
    scene.planted[created["metadata"]["uid"]] = name


def _bad_kubeconfig(scene: ActorContext, step: Step) -> None:
    scene.environment.write_secret(step.where, broken=True)
    scene.after(step.seconds, scene.environment.write_secret, step.where)


def _new_token(scene: ActorContext, step: Step) -> None:
    """The old credentials end before the Secret has the new ones."""
    scene.environment.places[step.where].network.token = f"{step.value}"
    scene.after(step.seconds, scene.environment.write_secret, step.where)


def _mislead(scene: ActorContext, step: Step) -> None:
    """Somebody puts another worker's kubeconfig into a worker's Secret. One at a time, and to one that has its own name
    to itself.
    """
    environment = scene.environment
    others = [name for name in environment.workers if name != step.where]
    to = others[step.value % len(others)]
    defined = {record.name for record in environment.management.store.records(MULTIKUEUE_CLUSTERS)}
    if environment.misled or to in environment.rebuilt or not {to, step.where} <= defined:
        return
    environment.write_secret(step.where, to=to)
    scene.after(step.seconds, environment.write_secret, step.where)


ACTS: dict[str, Act] = {
    "submit": _submit(JOBS),
    "submit-set": _submit(JOBSETS),
    "submit-unfit": _submit(JOBS),
    "preempt-copy": _on_copy([WORKLOADS], _preempt_copy),
    "deactivate-copy": _on_copy([WORKLOADS], _deactivate_copy),
    "delete-clone": _on_copy([WORKLOADS], _delete),
    "delete-copy": _on_copy([JOBS, JOBSETS], _delete),
    "preempt": _preempt,
    "priority": _priority,
    "suspend": _suspend,
    "drain-queue": _drain_queue,
    "delete-job": _delete_job,
    "unlist-cluster": _unlist_cluster,
    "delete-cluster": _delete_cluster,
    "foreign-job": _foreign_job,
    "bad-kubeconfig": _bad_kubeconfig,
    "new-token": _new_token,
    "mislead": _mislead,
}
