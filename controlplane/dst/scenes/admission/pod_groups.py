"""What users do with groups of pods: of several roles, admitted with their first pod, serving, failing, given up; and
what they do to whole groups.

In: a step and the scene; what happens on the management cluster. Out: what they do to its objects. Whoever owns a group
replaces a pod that failed, unless the group says that it is given up then, and ends one that serves as Kueue's
documentation has it: by deleting its Workload."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.admission.queues import priority_of, queue_of
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.dst.scenes.workloads.people import create_job, is_of, job_of, pod_of, workloads_of
from controlplane.job_kinds.pod import GROUP
from controlplane.kube.kinds import PODS, Json
from controlplane.kube.kueue_names import PRIORITY_CLASS, QUEUE_LABEL
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.controllers.jobs import DURATION, OUTCOME
from controlplane.simulation.kueue.pods import TOTAL

_FAST, _SERVING = "kueue.x-k8s.io/pod-group-fast-admission", "kueue.x-k8s.io/pod-group-serving"
_RETRIABLE: Final = "kueue.x-k8s.io/retriable-in-group"
_NO_END: Final = "100000s"
_AGAIN, _LOOKS_AGAIN = 2.0, 20.0
_LATER = 7.0  # seconds between two pods of a group that are made one after the other


def _pods(step: Step, **notes: str) -> list[Json]:
    """Return the `value` pods of a group, of one CPU each, as our webhook makes them."""
    made = []
    for number in range(step.value):
        pod = job_of(PODS, replace(step, where=pod_of(step.where, number), value=1), {TOTAL: str(step.value)})
        labels = {QUEUE_LABEL: queue_of(step.where), PRIORITY_CLASS: priority_of(step.where), GROUP: step.where}
        pod["metadata"]["labels"] = labels
        pod["metadata"]["annotations"] |= notes
        made.append(pod)
    return made


def _make(scene: ActorContext, pod: Json) -> None:
    create_job(scene, PODS, ADAPTERS[PODS].submitted(pod))


def _submit_fast(scene: ActorContext, step: Step) -> None:
    """A group that is admitted when its first pod is there; the others come one after the other."""
    pods = _pods(step, **{_FAST: "true"})
    for number in range(len(pods)):
        scene.after(number * _LATER, _make_next, scene, pods[: number + 1])


def _make_next(scene: ActorContext, pods: list[Json]) -> None:
    """Make the last of these pods, and those before it that a backup has taken away."""
    for pod in pods:
        name = pod["metadata"]["name"]
        lost = name in scene.pods and name not in scene.submitted and name not in scene.deleted
        if pod is pods[-1] or lost:
            _make(scene, pod)


def _submit_roles(scene: ActorContext, step: Step) -> None:
    """A group of which the first pod is another than the rest."""
    pods = _pods(step)
    pods[0]["spec"]["containers"][0]["image"] = "example.com/leader"
    for pod in pods:
        _make(scene, pod)


def _submit_failing(scene: ActorContext, step: Step) -> None:
    """A group of which the first pod fails, and is replaced by one that does not; it fails before the others end."""
    pods = _pods(step)
    pods[0]["metadata"]["annotations"] |= {OUTCOME: "fail", DURATION: f"{step.seconds / 2:.0f}s"}
    for pod in pods:
        _make(scene, pod)


def _submit_final(scene: ActorContext, step: Step) -> None:
    """A group that is given up when one of its pods fails, as the first one does."""
    pods = _pods(step, **{_RETRIABLE: "false"})
    pods[0]["metadata"]["annotations"] |= {OUTCOME: "fail"}
    for pod in pods:
        _make(scene, pod)


def _submit_serving(scene: ActorContext, step: Step) -> None:
    """A group that serves until its user has had enough of it."""
    for pod in _pods(step, **{_SERVING: "true", DURATION: _NO_END}):
        _make(scene, pod)
    scene.after(step.seconds, _end, scene, step.where)


def end_serving(scene: ActorContext) -> None:
    """Let users end groups that serve, also those that a backup has brought back."""
    groups = {name.rpartition("-pod-")[0] for name, pod in scene.made.items() if _SERVING in _notes(pod)}
    for group in sorted(groups):
        scene.after(30.0, _end, scene, group)


def _end(scene: ActorContext, group: str) -> None:
    """Delete the Workload of a group, and its pods; look later whether they are gone."""
    store, there = scene.environment.management.store, _there(scene, group)
    workloads = workloads_of(scene, group)
    scene.deleted |= {name for name in scene.submitted if is_of(group, name)}
    for record in (*workloads, *there):
        with suppress(ApiError):
            store.delete(record.kind, record.namespace, record.name)
    if there or workloads:
        scene.environment.loop.world_later(_LOOKS_AGAIN, _end, scene, group)


def _end_group(scene: ActorContext, step: Step) -> None:
    """A user has had enough of a group."""
    _end(scene, step.where)


def _delete_pods(scene: ActorContext, step: Step) -> None:
    """All pods of a group are deleted together, and made again by whoever owns them."""
    for record in _there(scene, step.where):
        scene.environment.management.store.delete(PODS, record.namespace, record.name)


def _strip_pods(scene: ActorContext, step: Step) -> None:
    """Somebody takes Kueue's finalizer from pods of a job by hand, and deletes them."""
    for record in _there(scene, step.where)[: step.value % 3 + 1]:
        _strip(scene, record)


def _strip_workload(scene: ActorContext, step: Step) -> None:
    """Somebody takes Kueue's finalizer from the Workload of a job by hand, and deletes it."""
    for record in workloads_of(scene, step.where):
        _strip(scene, record)


def _strip(scene: ActorContext, record: Record) -> None:
    store = scene.environment.management.store
    with suppress(ApiError):
        bare = {"metadata": {"finalizers": None}}
        store.patch(record.kind, record.namespace, record.name, bare, field_manager="somebody")
        store.delete(record.kind, record.namespace, record.name)


def _there(scene: ActorContext, job: str) -> list[Record]:
    return [record for record in scene.environment.management.store.records(PODS) if is_of(job, record.name)]


def _notes(pod: Json) -> Json:
    found: Json = pod["metadata"].get("annotations") or {}
    return found


def on_commit(scene: ActorContext, commit: Commit) -> None:
    """Have a pod that failed replaced, or given up with its group."""
    record, before = commit.record, commit.previous
    if record.kind != PODS or commit.type == "DELETED" or record.name not in scene.pods or record.name in scene.deleted:
        return
    if _phase(record) != "Failed" or (before is not None and _phase(before) == "Failed"):
        return
    if _notes(record.obj).get(_RETRIABLE) == "false" or GROUP not in record.labels:
        scene.pods.pop(record.name)
        scene.submitted.pop(record.name, None)
    else:
        scene.after(_AGAIN, _replace, scene, record.name)


def _phase(record: Record) -> str:
    return str((record.obj.get("status") or {}).get("phase") or "")


def _replace(scene: ActorContext, name: str) -> None:
    """Make a pod that does not fail in the place of one that did."""
    if name not in scene.pods or name in scene.deleted:
        return
    pod = scene.pods.pop(name)
    scene.submitted.pop(name, None)
    first, _, tries = name.partition("-try-")
    notes = {key: value for key, value in _notes(pod).items() if key != OUTCOME}
    head = {**pod["metadata"], "name": f"{first}-try-{int(tries or 1) + 1}", "annotations": notes}
    create_job(scene, PODS, {**pod, "metadata": head})


ACTS: dict[str, Act] = {
    "submit-fast-group": _submit_fast,
    "submit-roles-group": _submit_roles,
    "submit-failing-group": _submit_failing,
    "submit-final-group": _submit_final,
    "submit-serving-group": _submit_serving,
    "end-group": _end_group,
    "delete-pods": _delete_pods,
    "strip-pods": _strip_pods,
    "strip-workload": _strip_workload,
}
GROUPS: Final = tuple(kind for kind in ACTS if kind.startswith("submit-"))
