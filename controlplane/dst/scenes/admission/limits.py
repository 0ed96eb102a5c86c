"""What users do with jobs that may run for so long and no longer: submit them, let them run again, give them up.

In: a step and the scene; what happens on the management cluster. Out: what they do to its objects. The second word of
such a job's name says after how many seconds it is deactivated."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from controlplane.clusters.protocol import ApiError
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.admission.queues import priority_of, queue_of
from controlplane.dst.scenes.workloads import acts
from controlplane.dst.scenes.workloads.actor_protocol import Act, ActorContext
from controlplane.dst.scenes.workloads.kinds import ADAPTERS
from controlplane.dst.scenes.workloads.people import create_job, job_of
from controlplane.job_kinds.base import merged
from controlplane.kube.conditions import condition
from controlplane.kube.kinds import JOBS, JOBSETS, WORKLOADS, Json
from controlplane.kube.kueue_names import MAX_EXECUTION, MULTIKUEUE, PRIORITY_CLASS, QUEUE_LABEL
from controlplane.simulation.apiserver.history import Commit

LIMITED: Final = "limit"
_PAUSE = 15.0  # seconds after which a user looks at a job that was deactivated
_TRIES = 2
_TOO_LONG: Final = "MaximumExecutionTimeExceeded"
EXCEEDED: Final = f"DeactivatedDueTo{_TOO_LONG}"


def limit_of(job: str) -> int:
    """Return after how many seconds a job is deactivated, by its name; 0 if never."""
    word = job.partition("-")[2].partition("-")[0]
    return int(word.removeprefix(LIMITED)) if word.startswith(LIMITED) else 0


def _submit(scene: ActorContext, step: Step) -> None:
    """A Job or a JobSet that may run for a while only; `seconds` is how long it runs, if it is let."""
    kind = JOBSETS if step.value % 2 else JOBS
    job = job_of(kind, step, {})
    labels = {QUEUE_LABEL: queue_of(step.where), PRIORITY_CLASS: priority_of(step.where)}
    job["metadata"]["labels"] = {**labels, MAX_EXECUTION: str(limit_of(step.where))}
    job["spec"] = merged(job["spec"], ADAPTERS[kind].delegated(MULTIKUEUE))
    create_job(scene, kind, job)


def on_commit(scene: ActorContext, commit: Commit) -> None:
    """Have a user look at his job a while after it was deactivated."""
    if commit.record.kind != WORKLOADS or commit.type == "DELETED" or not _exceeded(commit.record.obj):
        return
    if commit.previous is not None and _exceeded(commit.previous.obj):
        return
    for owner in commit.record.obj["metadata"].get("ownerReferences") or ():
        if owner["name"] in scene.submitted:
            scene.after(_PAUSE, _look, scene, owner["name"], commit.record.name)


def _exceeded(workload: Json) -> bool:
    """Whether a Workload was deactivated since it ran for too long. One that was preempted just then keeps that as the
    reason of its eviction, as with Kueue (`WorkloadReconciler.Reconcile` in kubernetes-sigs/kueue
    pkg/controller/core/workload_controller.go, ff69552e)."""
    found = condition(workload, "Evicted")
    if found is None or found["status"] != "True":
        return False
    target = condition(workload, "DeactivationTarget") or {}
    inactive = workload["spec"].get("active") is False and target.get("reason") == _TOO_LONG
    return found["reason"] == EXCEEDED or inactive


def _look(scene: ActorContext, job: str, workload: str) -> None:
    """Let a job run again for some times, then take it back."""
    store = scene.environment.management.store
    with suppress(ApiError):
        found = store.get(WORKLOADS, "default", workload)
        if found["spec"].get("active") is not False:
            return
        stats = ((found.get("status") or {}).get("schedulingStats") or {}).get("evictions") or ()
        times = sum(one["count"] for one in stats if one.get("underlyingCause") == _TOO_LONG)
        if times <= _TRIES:
            store.patch(WORKLOADS, "default", workload, {"spec": {"active": True}}, field_manager="user")
            return
    acts.perform(scene, Step(0, 0.0, "delete-job", job))


def give_up(scene: ActorContext) -> None:
    """Let users look at all that is deactivated already, also where a backup has forgotten that they did."""
    for record in list(scene.environment.management.store.records(WORKLOADS)):
        inactive = record.obj["spec"].get("active") is False
        for owner in record.obj["metadata"].get("ownerReferences") or ():
            if not _exceeded(record.obj) and not (inactive and limit_of(owner["name"])):
                continue
            scene.after(_PAUSE, _look, scene, owner["name"], record.name)


def _activity(scene: ActorContext, step: Step) -> None:
    """Somebody deactivates the Workload of a job, and activates it again a moment later, `value` times."""
    for number in range(step.value % 3 + 1):
        at = number * 2 * step.seconds
        again = Step(0, 0.0, "suspend", step.where, step.seconds, step.value)
        scene.after(at, acts.perform, scene, again)


ACTS: dict[str, Act] = {"submit-limited": _submit, "flicker": _activity}
