"""Pods, groups of pods and sets in a run: what its clusters have for them, who gates them, and what people do to them.

In: the traits of a plan; a step and the scene; what happens on the management cluster. Out: clusters that serve the
kinds; the webhook of jobs, asked about each creation; pods that are made again, as by a controller, when Kueue has
taken them away."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.multikueue.admission import answer
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.environment import AdmissionHook, ClusterSetup, JobWebhook
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.dst.scenes.workloads.people import create_job, is_of, job_of, pod_of, workloads_of
from controlplane.dst.scenes.workloads.processes import BUILTIN, GATES, KIND, WEBHOOK
from controlplane.job_kinds.pod import GROUP
from controlplane.kube.kinds import JOBS, PODS, WORKLOAD_PRIORITY_CLASSES, Json, Kind
from controlplane.kube.kueue_names import PRIORITY_CLASS
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import served
from controlplane.simulation.kueue.manager import KueueManager
from controlplane.simulation.kueue.pods import TOTAL
from controlplane.simulation.kueue.sets import SETS
from controlplane.simulation.world import MANAGEMENT, ClusterSpec, SimulatedCluster

_URGENT = "urgent"
_AGAIN = 2.0  # seconds after which a pod that was taken away is there again


# --- clusters --------------------------------------------------------------------------------------------------------


def setup(traits: Collection[str]) -> ClusterSetup:
    """Return what a plan's clusters have beside the usual: the kinds that it names, and Kueue's gate where nobody else
    makes jobs ours. Where this service decides on quota, no Kueue is on the management cluster.
    """
    names = {trait.removeprefix(KIND) for trait in traits if trait.startswith(KIND)}
    sets = any(one.kind.kind in names for one in SETS)

    def with_kinds(name: str, spec: ClusterSpec) -> ClusterSpec:
        kinds = (*spec.kinds, *(served(one) for one in SETS)) if sets else spec.kinds
        orchestrated = GATES in traits and name != MANAGEMENT
        gates = replace(
            spec.gates,
            multikueue=spec.gates.multikueue and WEBHOOK not in traits,
            orchestrated_preemption=orchestrated,
        )
        alone = BUILTIN in traits and name == MANAGEMENT
        pods = PODS.kind in names
        return replace(
            spec, kinds=kinds, sets=sets, pods=pods, gates=gates, preempts=orchestrated, kueue=spec.kueue and not alone
        )

    return with_kinds


def hook(traits: Collection[str], policy: MultiKueuePolicy, webhook: JobWebhook) -> AdmissionHook | None:
    """Return the webhook of jobs, as an API server asks it; None where it is off."""
    if WEBHOOK not in traits:
        return None

    def of(cluster: SimulatedCluster) -> Callable[..., None]:
        def leads(namespace: str, queue: str) -> bool | None:
            return (
                cluster.kueue.leads_to_multikueue(namespace, queue) if isinstance(cluster.kueue, KueueManager) else None
            )

        def ask(operation: str, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
            if kind not in ADAPTERS or operation == "delete" or subresource or new is None:
                return
            if webhook.away:
                if operation == "create":
                    webhook.unheard.add(new["metadata"]["name"])
                    webhook.ever.add(new["metadata"]["name"])
                return  # failurePolicy: Ignore
            request = {
                "uid": "asked",
                "operation": operation.upper(),
                "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
                "namespace": new["metadata"].get("namespace", ""),
                "object": new,
                "oldObject": old,
            }
            patch = answer({"request": request}, policy, leads)["response"].get("patch", "")
            for change in json.loads(base64.b64decode(patch) or "[]"):
                _apply(new, change["path"].split("/")[1:], change)

        return ask

    return of


def _apply(part: Any, path: list[str], change: Json) -> None:
    """Carry out one operation of a JSON patch in which nothing of a list is named."""
    name = path[0].replace("~1", "/").replace("~0", "~")
    if len(path) > 1:
        _apply(part[name], path[1:], change)
    elif change["op"] == "remove":
        del part[name]
    else:
        part[name] = change["value"]


# --- people ----------------------------------------------------------------------------------------------------------


def _submit_group(scene: ActorContext, step: Step) -> None:
    """A group of `value` pods, of one CPU each."""
    for number in range(step.value):
        pod = job_of(PODS, replace(step, where=pod_of(step.where, number), value=1), {TOTAL: str(step.value)})
        pod["metadata"]["labels"][GROUP] = step.where
        create_job(scene, PODS, pod)


def _preempt_one(scene: ActorContext, step: Step) -> None:
    """Kueue preempts one of the Workloads of a job that has several."""
    found = workloads_of(scene, step.where)
    if found:
        record = found[step.value % len(found)]
        scene.environment.management.cluster.kueue.preempt(record.namespace, record.name)


def _delete_pod(scene: ActorContext, step: Step) -> None:
    """Somebody deletes a pod of a group that has not ended; it is made again."""
    store = scene.environment.management.store
    names = sorted(name for name in scene.pods if is_of(step.where, name))
    there = {record.name: record for record in store.records(PODS)}
    found = [there[name] for name in names if name in there]
    if not found:
        return
    record = found[step.value % len(found)]
    if ADAPTERS[PODS].outcome(record.obj.get("status") or {}) is None:
        store.delete(PODS, record.namespace, record.name)


def on_commit(scene: ActorContext, commit: Commit) -> None:
    """Have a pod made again that was taken away, and not by its user."""
    name = commit.record.name
    if commit.record.kind != PODS or name not in scene.pods or name in scene.deleted:
        return
    if commit.type == "DELETED" and (commit.record.obj.get("status") or {}).get("phase") == "Succeeded":
        del scene.pods[name]
        scene.submitted.pop(name, None)
    elif commit.type == "DELETED":
        scene.after(_AGAIN, _again, scene, name)
    elif "deletionTimestamp" in commit.record.obj["metadata"]:
        scene.after(_AGAIN, _in_its_place, scene, name)


def _in_its_place(scene: ActorContext, name: str) -> None:
    """Make another pod in the place of one that is being deleted, and may be kept by a finalizer until there is one."""
    if name in scene.submitted and name not in scene.deleted:
        pod = scene.pods.pop(name)
        del scene.submitted[name]
        first, _, tries = name.partition("-try-")
        again = f"{first}-try-{int(tries or 1) + 1}"
        create_job(scene, PODS, {**pod, "metadata": {**pod["metadata"], "name": again}})


def _again(scene: ActorContext, name: str) -> None:
    """Make a pod again; not where one is there in its place, which a backup has brought back."""
    if name not in scene.submitted or name in scene.deleted:
        return
    place = name.partition("-try-")[0]
    there = sorted(
        (one for one in scene.environment.management.store.records(PODS) if one.name.partition("-try-")[0] == place),
        key=lambda one: one.name,
    )
    failed = {one.name for one in there if (one.obj.get("status") or {}).get("phase") == "Failed"}
    other = next((one for one in there if one.name not in failed or _is_final(one.obj)), None)
    if other is None:
        create_job(scene, PODS, scene.pods[name])
        return
    del scene.submitted[name]
    pod = scene.pods.pop(name)
    if other.name not in failed:
        scene.pods[other.name] = {**pod, "metadata": {**pod["metadata"], "name": other.name}}
        scene.submitted[other.name] = PODS
        if "deletionTimestamp" in other.obj["metadata"]:
            scene.after(_AGAIN, _in_its_place, scene, other.name)
        elif other.name in scene.webhook.ever:
            unheard_again(scene, {other.name})


def _is_final(pod: Json) -> bool:
    """Whether a group is given up when this pod of it fails."""
    return (pod["metadata"].get("annotations") or {}).get("kueue.x-k8s.io/retriable-in-group") == "false"


def complete_groups(scene: ActorContext, there: Collection[str]) -> None:
    """Have those pods of groups made again that a backup lacks, while it has others of the group; one that had ended
    and is back has somebody who makes it again too, unless its group was given up with it.
    """
    places = {name.partition("-try-")[0] for name in scene.pods}
    for name in sorted(set(there) - _given_up(scene)):
        if "-pod-" in name and name in scene.made and name.partition("-try-")[0] not in places:
            scene.pods[name], scene.submitted[name] = scene.made[name], PODS
    for name in scene.pods:
        group, in_one, _ = name.rpartition("-pod-")
        if in_one and name not in there and any(is_of(group, other) for other in there):
            scene.submitted[name] = PODS
            scene.after(_AGAIN, _again, scene, name)


def _given_up(scene: ActorContext) -> set[str]:
    """Return the pods that have failed, and their groups with them."""
    failed = (
        one
        for one in scene.environment.management.store.records(PODS)
        if (one.obj.get("status") or {}).get("phase") == "Failed"
    )
    return {one.name for one in failed if _is_final(one.obj)}


def define_urgent(scene: ActorContext) -> None:
    """Have the priority of urgent jobs."""
    scene.environment.management.store.create(
        WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": _URGENT}, "value": 100}, field_manager="user"
    )


def _submit_urgent(scene: ActorContext, step: Step) -> None:
    """A Job that preempts others."""
    job = job_of(JOBS, step, {})
    job["metadata"]["labels"][PRIORITY_CLASS] = _URGENT
    create_job(scene, JOBS, job)


def _scale(scene: ActorContext, step: Step) -> None:
    """Somebody gives a set another number of replicas. One that has some may only go to none as a StatefulSet, and gets
    them again later (kubernetes-sigs/kueue pkg/controller/jobs/statefulset/statefulset_webhook.go, ff69552e).
    """
    kind, store = scene.submitted.get(step.where), scene.environment.management.store
    if kind is None or step.where in scene.deleted:
        return
    if ADAPTERS[kind].composed:
        _replicas(store, kind, step.where, max(step.value, 1))
        return
    before = scene.made[step.where]["spec"]["replicas"]
    _replicas(store, kind, step.where, 0)
    scene.after(step.seconds, _replicas, store, kind, step.where, before)


def _replicas(store: Store, kind: Kind, name: str, count: int) -> None:
    with suppress(ApiError):
        store.patch(kind, "default", name, {"spec": {"replicas": count}}, field_manager="user")


def _webhook_away(scene: ActorContext, step: Step) -> None:
    """The webhook answers nobody for a while; then users make again what it has not seen, and what was rejected."""
    scene.webhook.away = True
    scene.after(step.seconds, webhook_back, scene)


def webhook_back(scene: ActorContext) -> None:
    """Let the webhook answer again, and users delete and make again what was made without it, a group of pods as a
    whole and with its Workload, which keeps its pods otherwise: Kueue has deactivated it, and queues what was
    deactivated for a check no more (`WorkloadReconciler.Reconcile` in kubernetes-sigs/kueue
    pkg/controller/core/workload_controller.go, ff69552e).
    """
    scene.webhook.away = False
    groups = {name.rpartition("-pod-")[0] for name in scene.webhook.unheard} - {""}
    mates = {name for name in scene.pods if name.rpartition("-pod-")[0] in groups}
    store = scene.environment.management.store
    for record in (one for group in sorted(groups) for one in workloads_of(scene, group)):
        with suppress(ApiError):
            store.delete(record.kind, record.namespace, record.name)
    for name, pod in _ended(scene, mates).items():  # the Workload in which they had ended goes
        scene.after(_AGAIN, _ended_again, scene, name, pod)
    for name in sorted(scene.webhook.unheard | mates):
        kind = scene.submitted.get(name)
        if kind is None or name in scene.deleted:
            continue
        with suppress(ApiError):
            store.delete(kind, "default", name)
        if kind != PODS:  # which are made again as any that was taken away
            scene.after(_AGAIN, _make_again, scene, kind, name)
    scene.webhook.unheard.clear()


def unheard_again(scene: ActorContext, back: Collection[str]) -> None:
    """Let users make again, a little later, what a backup has brought back that may have been made without the
    webhook."""
    scene.webhook.unheard |= scene.webhook.ever.intersection(back)
    if scene.webhook.unheard and not scene.webhook.away:
        scene.after(_AGAIN, webhook_back, scene)


def _make_again(scene: ActorContext, kind: Kind, name: str) -> None:
    if name in scene.submitted and name not in scene.deleted:
        with suppress(ApiError):
            create_job(scene, kind, scene.made[name])


def _ended(scene: ActorContext, names: Collection[str]) -> dict[str, Json]:
    """Return those of some pods that have succeeded, as they were made."""
    there = {record.name: record.obj.get("status") or {} for record in scene.environment.management.store.records(PODS)}
    return {name: scene.pods[name] for name in sorted(names) if there.get(name, {}).get("phase") == "Succeeded"}


def _ended_again(scene: ActorContext, name: str, pod: Json) -> None:
    if name not in scene.pods and name not in scene.deleted:
        with suppress(ApiError):
            create_job(scene, PODS, pod)


ACTS: dict[str, Act] = {
    "submit-urgent": _submit_urgent,
    "scale": _scale,
    "webhook-away": _webhook_away,
    "submit-group": _submit_group,
    "preempt-one": _preempt_one,
    "delete-pod": _delete_pod,
}
