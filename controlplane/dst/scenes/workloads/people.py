"""The steps of a plan in which Kueue, users and administrators act.

In: a step and the scene. Out: what they do to the clusters' objects. An act whose object is not there (any more) does
nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.controllers.multikueue.scoring import CLUSTER_SELECTOR
from controlplane.dst.engine.steps import NEVER_TWICE as NEVER_TWICE_NAME
from controlplane.dst.engine.steps import UNFIT, Step
from controlplane.dst.invariants.workloads.bodies import NOTE, PRIVATE
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment, second_name
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.dst.scenes.workloads.manifests import ENDLESS, KINDS_BY_WORD, spec_of
from controlplane.dst.scenes.workloads.processes import ZONE
from controlplane.job_kinds.base import merged
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import (
    CLUSTER_QUEUES,
    JOBS,
    JOBSETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    PODS,
    WORKLOADS,
    Json,
    Kind,
)
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, QUEUE_LABEL
from controlplane.kube.slices import ELASTIC_JOB, replacement_for
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.controllers.jobs import DURATION
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import CHECK, secret_name

_IN_A_GROUP = "-pod-"
_GIVES_IN = 1200.0  # seconds for which a user waits for room for a job of that size


def _pick(records: Sequence[Record], value: int) -> Record | None:
    return records[value % len(records)] if records else None


def _on_copy(kinds: Sequence[Kind], act: Callable[[ClusterEnvironment, Record], object]) -> Act:
    def on_copy(scene: ActorContext, step: Step) -> None:
        place = scene.environment.places[step.where]
        records = [record for kind in kinds if kind in place.store.served for record in place.store.records(kind)]
        copies = [record for record in records if ORIGIN_LABEL in record.labels]
        record = _pick(copies, step.value)
        if record is not None:
            act(place, record)

    return on_copy


def _preempt_copy(place: ClusterEnvironment, record: Record) -> None:
    place.cluster.kueue.preempt(record.namespace, record.name)


def _deactivate_copy(place: ClusterEnvironment, record: Record) -> None:
    place.cluster.kueue.deactivate(record.namespace, record.name)


def _delete(place: ClusterEnvironment, record: Record) -> None:
    place.store.delete(record.kind, record.namespace, record.name)


def is_of(job: str, name: str) -> bool:
    """Whether something is a job, or one of the pods of the group of that name."""
    return name == job or name.startswith(f"{job}{_IN_A_GROUP}")


def pod_of(group: str, number: int) -> str:
    """Return the name of a pod of a group."""
    return f"{group}{_IN_A_GROUP}{number}"


def workloads_of(scene: ActorContext, job: str) -> list[Record]:
    """Return the Workloads of a job on the management cluster; an elastic one may have several."""
    return [
        record
        for record in scene.environment.management.store.records(WORKLOADS)
        if any(is_of(job, owner["name"]) for owner in record.obj["metadata"].get("ownerReferences") or ())
    ]


def _workload(scene: ActorContext, job: str) -> Record | None:
    """Return the first Workload of a job on the management cluster."""
    return next(iter(workloads_of(scene, job)), None)


def _submit(kind: Kind, **more: str) -> Act:
    def submit(scene: ActorContext, step: Step) -> None:
        """`seconds` is how long the job runs, `value` how many CPUs it asks for in all."""
        create_job(scene, kind, job_of(kind, step, more))

    return submit


def job_of(kind: Kind, step: Step, annotations: Mapping[str, str]) -> Json:
    """Return a user's job as a step says it."""
    marks = {DURATION: f"{step.seconds:.0f}s", NOTE: f"{PRIVATE} of {step.where}", **annotations}
    if step.where.startswith(NEVER_TWICE_NAME):
        marks[EXECUTION_POLICY] = NEVER_TWICE
    elif step.where.startswith(UNFIT):
        marks[EXECUTION_POLICY] = "perhaps"
    metadata = {
        "namespace": "default",
        "name": step.where,
        "labels": {QUEUE_LABEL: "user-queue"},
        "annotations": marks,
    }
    return {"metadata": metadata, "spec": spec_of(kind, step.value)}


def create_job(scene: ActorContext, kind: Kind, job: Json) -> None:
    """Let a user create a job; one that names no controller with the gate that keeps it from running here, where nobody
    else adds it.
    """
    adapter = ADAPTERS[kind]
    if not adapter.delegates and scene.gates_pods:
        job = {**job, "spec": merged(job["spec"], adapter.claimed(job, MULTIKUEUE))}
    name = job["metadata"]["name"]
    scene.made[name] = job
    if kind == PODS:
        scene.pods[name] = job
    scene.environment.management.store.create(kind, job, field_manager="user")
    scene.submitted[name] = kind


def _submit_kind(scene: ActorContext, step: Step) -> None:
    """A job of the kind that its name says. One that has no end of its own is taken back when it has run long
    enough."""
    kind = KINDS_BY_WORD[step.where.split("-")[1]]
    _submit(kind)(scene, step)
    if kind.kind in ENDLESS:
        scene.after(step.seconds, _delete_job, scene, step)


def take_back_endless(scene: ActorContext) -> None:
    """Let users take back, a little later, what has no end of its own and a backup has brought back."""
    for name, kind in scene.submitted.items():
        if kind.kind in ENDLESS:
            scene.after(30.0, _delete_job, scene, Step(0, 0.0, "delete-job", name))


def _submit_there(scene: ActorContext, step: Step) -> None:
    """A job that may only go to clusters of a zone, which its name says last."""
    zone = step.where.rpartition("-")[2]
    _submit(JOBS, **{CLUSTER_SELECTOR: f"{ZONE}={zone}"})(scene, step)


def is_bound(scene: ActorContext, job: str) -> bool:
    """Whether a user says which clusters his job may go to."""
    try:
        record = scene.environment.management.store.record(scene.submitted[job], "default", job)
    except (ApiError, KeyError):
        return False
    return CLUSTER_SELECTOR in (record.obj["metadata"].get("annotations") or {})


def _submit_elastic(scene: ActorContext, step: Step) -> None:
    """A job of `value` pods, which may become more and fewer; `seconds` is how long it runs."""
    annotations = {DURATION: f"{step.seconds:.0f}s", NOTE: f"{PRIVATE} of {step.where}", ELASTIC_JOB: "true"}
    if step.where.startswith(NEVER_TWICE_NAME):
        annotations[EXECUTION_POLICY] = NEVER_TWICE
    metadata = {
        "namespace": "default",
        "name": step.where,
        "labels": {QUEUE_LABEL: "user-queue"},
        "annotations": annotations,
    }
    job: Json = {"metadata": metadata, "spec": {"parallelism": step.value, "completions": 50, **spec_of(JOBS, 1)}}
    create_job(scene, JOBS, job)


def _resize(scene: ActorContext, step: Step) -> None:
    """Somebody gives an elastic job another number of pods."""
    if scene.submitted.get(step.where) == JOBS:
        part = {"spec": {"parallelism": step.value}}
        scene.environment.management.store.patch(JOBS, "default", step.where, part, field_manager="user")


def fit_elastic(scene: ActorContext, cpus: int) -> None:
    """Let users make jobs smaller, after a long while, that no worker has room for, or whose size Kueue makes no slice
    for."""
    scene.after(_GIVES_IN, _fit, scene, cpus)
    scene.after(_GIVES_IN, _shrink_without_slice, scene)


def _shrink_without_slice(scene: ActorContext) -> None:
    """Have jobs go on with the slice that there is, where the one of their size was deactivated and has ended for it:
    Kueue tries to make another one of that name, again and again (`EnsureWorkloadSlices` in kubernetes-sigs/kueue
    pkg/workloadslicing/workloadslicing.go, ff69552e)."""
    store = scene.environment.management.store
    for name in [one for one, kind in scene.submitted.items() if kind == JOBS]:
        slices = [record.obj for record in workloads_of(scene, name) if replacement_for(record.obj)]
        ended = [one for one in slices if (condition(one, "Finished") or {}).get("reason") == "OutOfSync"]
        live = [record.obj for record in workloads_of(scene, name) if not is_true(record.obj, "Finished")]
        if ended and live:
            part = {"spec": {"parallelism": live[0]["spec"]["podSets"][0]["count"]}}
            store.patch(JOBS, "default", name, part, field_manager="user")


def _fit(scene: ActorContext, cpus: int) -> None:
    store = scene.environment.management.store
    for record in list(store.records(JOBS)):
        ended = is_true(record.obj, "Complete") or is_true(record.obj, "Failed")
        if not ended and int(record.obj["spec"].get("parallelism", 1)) > cpus:
            part = {"spec": {"parallelism": cpus}}
            store.patch(JOBS, record.namespace, record.name, part, field_manager="user")


def _delete_job(scene: ActorContext, step: Step) -> None:
    """Delete a job, or the pods of a group with their Workload, which keeps them until others are in their place."""
    store = scene.environment.management.store
    for name, kind in scene.submitted.items():
        if is_of(step.where, name):
            scene.deleted.add(name)
            with suppress(ApiError):
                store.delete(kind, "default", name)
    if any(is_of(step.where, name) and name != step.where for name in scene.submitted):
        for record in workloads_of(scene, step.where):
            with suppress(ApiError):
                _delete(scene.environment.management, record)


def _preempt(scene: ActorContext, step: Step) -> None:
    record = _workload(scene, step.where)
    if record is not None:
        scene.environment.management.cluster.kueue.preempt(record.namespace, record.name)


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
    sets: Json = {"replicatedJobs": [{"name": "x", "template": {"spec": template}}]}
    spec = {JOBS: template, JOBSETS: sets}.get(kind) or spec_of(kind, 1)
    body: Json = {
        "metadata": {"namespace": "default", "name": name},
        "spec": {**spec, **ADAPTERS[kind].stopped({"spec": spec})},
    }
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


def _second_name(scene: ActorContext, step: Step) -> None:
    """Somebody defines a worker a second time, under another name, before it or behind it in the configuration; after a
    while he takes that name back."""
    environment, again = scene.environment, second_name(step.where, before=step.value % 2 == 1)
    if environment.misled:
        return  # whose second name it is would be nobody's to say
    environment.write_secret(again, to=step.where)
    environment.misled.pop(again, None)  # it leads where it is meant to
    define_cluster(scene, again)
    names = sorted({*environment.workers, again})
    environment.management.store.patch(MULTIKUEUE_CONFIGS, "", CHECK, {"spec": {"clusters": names}})
    scene.after(step.seconds, _one_name, scene, again)


def _one_name(scene: ActorContext, again: str) -> None:
    list_clusters(scene)
    scene.environment.management.store.delete(MULTIKUEUE_CLUSTERS, "", again)


ACTS: dict[str, Act] = {
    "submit": _submit(JOBS),
    "submit-set": _submit(JOBSETS),
    "submit-unfit": _submit(JOBS),
    "submit-kind": _submit_kind,
    "submit-there": _submit_there,
    "submit-elastic": _submit_elastic,
    "resize": _resize,
    "preempt-copy": _on_copy([WORKLOADS], _preempt_copy),
    "deactivate-copy": _on_copy([WORKLOADS], _deactivate_copy),
    "delete-clone": _on_copy([WORKLOADS], _delete),
    "delete-copy": _on_copy(tuple(ADAPTERS), _delete),
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
    "second-name": _second_name,
}
