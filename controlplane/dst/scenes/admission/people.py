"""What people do where this service decides on quota: to their jobs, to Workloads, to queues.

In: a step and the scene. Out: what they do to the management cluster's objects. An act whose object is not there (any
more) does nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.admission.queues import PRIORITIES, priority_of, queue_of
from controlplane.dst.scenes.workloads import acts
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.dst.scenes.workloads.manifests import ENDLESS, KINDS_BY_WORD
from controlplane.dst.scenes.workloads.people import create_job, is_of, job_of, pod_of, workloads_of
from controlplane.job_kinds.base import merged
from controlplane.job_kinds.pod import GROUP
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import CLUSTER_QUEUES, JOBS, JOBSETS, LOCAL_QUEUES, PODS, WORKLOADS, Kind
from controlplane.kube.kueue_names import MULTIKUEUE, PRIORITY_CLASS, QUEUE_LABEL
from controlplane.kube.slices import ELASTIC_JOB
from controlplane.simulation.kueue.pods import TOTAL

_STOPS = ("Hold", "HoldAndDrain")
_COMPLETIONS = 50  # of an elastic job: more than it ever has pods


def _submit(kind: Kind) -> Act:
    def submit(scene: ActorContext, step: Step) -> None:
        job = job_of(kind, step, {})
        labels = {QUEUE_LABEL: queue_of(step.where), PRIORITY_CLASS: priority_of(step.where)}
        job["metadata"]["labels"] = labels
        if ADAPTERS[kind].delegates:
            job["spec"] = merged(job["spec"], ADAPTERS[kind].delegated(MULTIKUEUE))
        create_job(scene, kind, job if ADAPTERS[kind].delegates else ADAPTERS[kind].submitted(job))

    return submit


def _submit_group(scene: ActorContext, step: Step) -> None:
    """A group of `value` pods, of one CPU each."""
    for number in range(step.value):
        pod = job_of(PODS, replace(step, where=pod_of(step.where, number), value=1), {TOTAL: str(step.value)})
        labels = {QUEUE_LABEL: queue_of(step.where), PRIORITY_CLASS: priority_of(step.where)}
        pod["metadata"]["labels"] = {**labels, GROUP: step.where}
        create_job(scene, PODS, ADAPTERS[PODS].submitted(pod))  # as our webhook makes of it


def _submit_elastic(scene: ActorContext, step: Step) -> None:
    """A Job of `value` pods of one CPU each, which may become more and fewer; `seconds` is how long it runs."""
    notes = {ELASTIC_JOB: "true"}
    job = job_of(JOBS, replace(step, value=1), notes)
    job["metadata"]["labels"] = {QUEUE_LABEL: queue_of(step.where), PRIORITY_CLASS: priority_of(step.where)}
    sized = {"parallelism": step.value, "completions": _COMPLETIONS}
    job["spec"] = merged(job["spec"], {**sized, **ADAPTERS[JOBS].delegated(MULTIKUEUE)})
    create_job(scene, JOBS, job)


def _submit_kind(scene: ActorContext, step: Step) -> None:
    """A job of the kind that its name says. One that has no end of its own is taken back when it has run long
    enough."""
    kind = KINDS_BY_WORD[step.where.split("-")[1]]
    _submit(kind)(scene, step)
    if kind.kind in ENDLESS:
        scene.after(step.seconds, acts.perform, scene, replace(step, kind="delete-job"))


def _stop_queue(scene: ActorContext, step: Step) -> None:
    """An administrator stops the queue of a job for a while: its ClusterQueue, or its LocalQueue alone."""
    store, name = scene.environment.management.store, queue_of(step.where)
    policy = _STOPS[step.value % 2]
    if step.value % 4 < 2:
        store.patch(LOCAL_QUEUES, "default", name, {"spec": {"stopPolicy": policy}}, field_manager="user")
        scene.after(step.seconds, _open, scene, LOCAL_QUEUES, "default", name)
        return
    queue = store.get(LOCAL_QUEUES, "default", name)["spec"]["clusterQueue"]
    store.patch(CLUSTER_QUEUES, "", queue, {"spec": {"stopPolicy": policy}}, field_manager="user")
    scene.after(step.seconds, _open, scene, CLUSTER_QUEUES, "", queue)


def _open(scene: ActorContext, kind: Kind, namespace: str, name: str) -> None:
    with suppress(ApiError):
        patch = {"spec": {"stopPolicy": "None"}}
        scene.environment.management.store.patch(kind, namespace, name, patch, field_manager="user")


def open_queues(scene: ActorContext) -> None:
    """Let every queue admit again, also one that a backup has brought back stopped."""
    store = scene.environment.management.store
    for kind in (LOCAL_QUEUES, CLUSTER_QUEUES):
        for record in list(store.records(kind)):
            if (record.obj["spec"].get("stopPolicy") or "None") != "None":
                _open(scene, kind, record.namespace, record.name)


def _delete_workload(scene: ActorContext, step: Step) -> None:
    """Somebody deletes the Workload of a job."""
    for record in workloads_of(scene, step.where):
        with suppress(ApiError):
            scene.environment.management.store.delete(WORKLOADS, record.namespace, record.name)


def _suspended(value: bool) -> Act:
    """A user starts his job himself, whether it has quota or not; or stops it."""

    def act(scene: ActorContext, step: Step) -> None:
        kind = scene.submitted.get(step.where)
        if kind is None or step.where in scene.deleted:
            return
        part = merged({}, ADAPTERS[kind].stopped({"spec": {}}))
        path = ADAPTERS[kind].suspend_path
        inner = part
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        scene.environment.management.store.patch(kind, "default", step.where, {"spec": part}, field_manager="user")

    return act


def _change_queue(scene: ActorContext, step: Step) -> None:
    """A user moves his job to another queue while it waits, as Kueue's webhooks allow."""
    kind, store = scene.submitted.get(step.where), scene.environment.management.store
    if kind is None or step.where in scene.deleted:
        return
    if any(is_true(record.obj, "QuotaReserved") for record in workloads_of(scene, step.where)):
        return
    queues = sorted(record.name for record in store.records(LOCAL_QUEUES))
    part = {"metadata": {"labels": {QUEUE_LABEL: queues[step.value % len(queues)]}}}
    store.patch(kind, "default", step.where, part, field_manager="user")


def _raise(scene: ActorContext, step: Step) -> None:
    """A user gives his job another class of priority, which its Workload follows; a group of pods, each of them."""
    part = {"metadata": {"labels": {PRIORITY_CLASS: tuple(PRIORITIES)[step.value % len(PRIORITIES)]}}}
    for name, kind in scene.submitted.items():
        if is_of(step.where, name) and name not in scene.deleted:
            scene.environment.management.store.patch(kind, "default", name, part, field_manager="user")


ACTS: dict[str, Act] = {
    "submit": _submit(JOBS),
    "submit-set": _submit(JOBSETS),
    "submit-unfit": _submit(JOBS),
    "submit-elastic": _submit_elastic,
    "stop-queue": _stop_queue,
    "delete-workload": _delete_workload,
    "start-job": _suspended(False),
    "stop-job": _suspended(True),
    "submit-kind": _submit_kind,
    "submit-group": _submit_group,
    "change-queue": _change_queue,
    "raise": _raise,
}
