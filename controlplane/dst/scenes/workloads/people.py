"""The steps of a plan in which Kueue, users and administrators act.

In: a step and the theatre. Out: what they do to the clusters' objects. An act whose object is not there (any more) does
nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.multikueue.adapters.base import ORIGIN_LABEL, QUEUE_LABEL
from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.dst.engine.steps import NEVER_TWICE as NEVER_TWICE_NAME
from controlplane.dst.engine.steps import UNFIT, Step
from controlplane.dst.invariants.workloads.bodies import NOTE, PRIVATE
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
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
    def on_copy(theatre: ActorContext, step: Step) -> None:
        place = theatre.stage.places[step.where]
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


def _workload(theatre: ActorContext, job: str) -> Record | None:
    """Return the Workload of a job on the management cluster."""
    for record in theatre.stage.management.store.records(WORKLOADS):
        owners = record.obj["metadata"].get("ownerReferences") or []
        if any(owner["name"] == job for owner in owners):
            return record
    return None


def _submit(kind: Kind) -> Act:
    def submit(theatre: ActorContext, step: Step) -> None:
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
        theatre.stage.management.store.create(kind, job, field_manager="user")
        theatre.submitted[step.where] = kind

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


def _delete_job(theatre: ActorContext, step: Step) -> None:
    kind = theatre.submitted.get(step.where)
    if kind is not None:
        theatre.deleted.add(step.where)
        theatre.stage.management.store.delete(kind, "default", step.where)


def _preempt(theatre: ActorContext, step: Step) -> None:
    record = _workload(theatre, step.where)
    if record is not None:
        theatre.stage.management.life.kueue.preempt(record.namespace, record.name)


def _priority(theatre: ActorContext, step: Step) -> None:
    record = _workload(theatre, step.where)
    if record is not None:
        theatre.stage.management.store.patch(
            WORKLOADS, record.namespace, record.name, {"spec": {"priority": step.value}}, field_manager="user"
        )


def _suspend(theatre: ActorContext, step: Step) -> None:
    """Take a Workload out of the queue for a while."""
    record = _workload(theatre, step.where)
    if record is not None:
        _set_active(theatre, record, False)
        theatre.after(step.seconds, _set_active, theatre, record, True)


def _set_active(theatre: ActorContext, record: Record, active: bool) -> None:
    with suppress(ApiError):
        theatre.stage.management.store.patch(
            WORKLOADS, record.namespace, record.name, {"spec": {"active": active}}, field_manager="user"
        )


def activate_all(theatre: ActorContext) -> None:
    """Let users put back into the queue what a backup knew as suspended, a little later: nobody else remembers that it
    no longer is.
    """
    for record in theatre.stage.management.store.records(WORKLOADS):
        if record.obj["metadata"].get("ownerReferences") and record.obj["spec"].get("active") is False:
            theatre.after(10.0, _set_active, theatre, record, True)


def _drain_queue(theatre: ActorContext, step: Step) -> None:
    store = theatre.stage.management.store
    store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "HoldAndDrain"}}, field_manager="user")
    theatre.after(step.seconds, open_queue, theatre)


def open_queue(theatre: ActorContext) -> None:
    """Let the management cluster's queue admit again."""
    store = theatre.stage.management.store
    store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "None"}}, field_manager="user")


def list_clusters(theatre: ActorContext, without: str = "") -> None:
    """Name all clusters, or all but one, in the MultiKueueConfig."""
    names = [name for name in theatre.stage.workers if name != without]
    theatre.stage.management.store.patch(MULTIKUEUE_CONFIGS, "", CHECK, {"spec": {"clusters": names}})


def _unlist_cluster(theatre: ActorContext, step: Step) -> None:
    list_clusters(theatre, step.where)
    theatre.after(step.seconds, list_clusters, theatre)


def define_cluster(theatre: ActorContext, name: str) -> None:
    """Create a worker's MultiKueueCluster if there is none."""
    source = {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}
    ensure(theatre.stage.management.store, MULTIKUEUE_CLUSTERS, name, spec={"clusterSource": source})


def _delete_cluster(theatre: ActorContext, step: Step) -> None:
    if theatre.stage.misled:
        return  # whose name a cluster has once its own is gone is nobody's to say
    theatre.stage.management.store.delete(MULTIKUEUE_CLUSTERS, "", step.where)
    theatre.after(step.seconds, define_cluster, theatre, step.where)


def _foreign_job(theatre: ActorContext, step: Step) -> None:
    """Somebody has a job of the same kind and name on a worker, and means to keep it."""
    jobs = list(theatre.submitted.items()) or [("somebody", JOBS)]
    name, kind = jobs[step.value % len(jobs)]
    template = {"template": {"spec": {"containers": [{"name": "x", "image": "example.com/other"}]}}}
    spec = template if kind == JOBS else {"replicatedJobs": [{"name": "x", "template": {"spec": template}}]}
    body: Json = {"metadata": {"namespace": "default", "name": name}, "spec": {"suspend": True, **spec}}
    created = theatre.stage.places[step.where].store.create(kind, body, field_manager="somebody")
    theatre.planted[created["metadata"]["uid"]] = name


def _bad_kubeconfig(theatre: ActorContext, step: Step) -> None:
    theatre.stage.write_secret(step.where, broken=True)
    theatre.after(step.seconds, theatre.stage.write_secret, step.where)


def _new_token(theatre: ActorContext, step: Step) -> None:
    """The old credentials end before the Secret has the new ones."""
    theatre.stage.places[step.where].network.token = f"{step.value}"
    theatre.after(step.seconds, theatre.stage.write_secret, step.where)


def _mislead(theatre: ActorContext, step: Step) -> None:
    """Somebody puts another worker's kubeconfig into a worker's Secret. One at a time, and to one that has its own name
    to itself.
    """
    stage = theatre.stage
    others = [name for name in stage.workers if name != step.where]
    to = others[step.value % len(others)]
    defined = {record.name for record in stage.management.store.records(MULTIKUEUE_CLUSTERS)}
    if stage.misled or to in stage.rebuilt or not {to, step.where} <= defined:
        return
    stage.write_secret(step.where, to=to)
    theatre.after(step.seconds, stage.write_secret, step.where)


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
