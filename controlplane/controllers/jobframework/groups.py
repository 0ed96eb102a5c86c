"""Sees to it that a group of pods has one Workload that fits it, and that the group has no more pods than that asks
for.

In: a pass of deciding about a group. Out: its Workload, or decisions on the way there. Pure. Source:
kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go (`FindMatchingWorkloads`, `ConstructComposableWorkload`,
`validatePodGroupMetadata`), ff69552e."""

from __future__ import annotations

import re
from typing import Any

from controlplane.controllers.jobframework import events, matching, pod_writes, pods, writes
from controlplane.controllers.jobframework.observe_pods import TOTAL
from controlplane.controllers.jobframework.parts import GroupMember, GroupRole
from controlplane.controllers.jobframework.pod_events import PodDeletionDecided, QueuedPodObserved
from controlplane.controllers.jobframework.pods import FINALIZER, GroupUnfit
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.stopping import stop
from controlplane.controllers.jobframework.writes import JobPass
from controlplane.values import Value

_MOST_ROLES = 18
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_UINT = re.compile(r"\d{1,18}", re.ASCII)
_NOW = "9999"  # later than any time that an object has
_EXCESS = "Excess pod deleted"
_OTHER = "prebuilt workload and pod group should be equal"


class Members(Value):
    """The pods of a group as its Workload counts them: those that are kept, those that are too many, those that ended
    and were replaced; and how many are `absent`."""

    kept: list[QueuedPodObserved] = []
    excess: list[QueuedPodObserved] = []
    replaced: list[QueuedPodObserved] = []
    absent: int = 0


def ensure_one(step: JobPass, job: events.QueuedJobObserved) -> matching.Found:
    """Return the Workload of a group, None if there is none, and whether the group can go on with that."""
    found = pods.members(step.state.pods)
    group = found[0].group
    workload = next((one for one in step.workloads() if one.name == group), None)
    if job.prebuilt not in ("", group):
        step.notice(job, "Warning", JobReason.NOT_COMPOSED, "ErrWorkloadCompose", _OTHER)
        return None, False
    if workload is None:
        if job.prebuilt and not step.context.named_workload(job.namespace, group):
            return None, True
        return None, _without(step, job, group, found)
    return (_prebuilt if job.prebuilt else _counted)(step, job, workload, found)


def _counted(
    step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved, found: list[QueuedPodObserved]
) -> matching.Found:
    """Return the Workload that was made for a group, once its pods are those that it counts."""
    members = counted(workload, found)
    fits = workload.max_execution_seconds == job.max_execution_seconds and members.kept
    if not fits or not _fits(workload, pods.pod_sets(members.kept)):
        return None, _unfit(step, job, workload)
    if _joined(step, workload, members.kept) or _removed(step, members.excess):
        return None, False
    pod_writes.release(step, members.replaced, JobReason.POD_REPLACED)
    if _awaits_replacement(step, workload, members.absent):
        return None, False
    return workload, matching.kept_up(step, job, workload)


def as_counted(
    step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved
) -> events.QueuedJobObserved:
    """Return a job as its Workload counts it: of a group without those of its pods that were replaced. What is not a
    group, or names its Workload, is what it is."""
    found = pods.members(step.state.pods)
    if job.prebuilt or not pods.is_group(found):
        return job
    kept = counted(workload, found).kept
    return pods.as_kept(job, kept) if kept else job


def _prebuilt(
    step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved, found: list[QueuedPodObserved]
) -> matching.Found:
    """Return the Workload that a group names, once all its pods own it; it is finished if the group is another."""
    if _joined(step, workload, found):
        return None, False
    if _fits(workload, job.pod_sets):
        return workload, True
    if workload.is_true("Finished"):
        return None, True
    writes.finish(step, workload, "OutOfSync", matching.OUT_OF_SYNC, JobReason.OUT_OF_SYNC)
    return None, False


def _without(step: JobPass, job: events.QueuedJobObserved, group: str, found: list[QueuedPodObserved]) -> bool:
    """See to a group that has no Workload; return whether one can be made."""
    if step.context.named_workload(job.namespace, group):
        said = (
            f'A Workload named "{group}" already exists but is not a pod group workload; this pod group cannot be '
            "admitted"
        )
        step.notice(job, "Warning", JobReason.WORKLOAD_NAME_TAKEN, "WorkloadNameConflict", said)
        pod_writes.release(step, (one for one in found if not pods.may_run(one)), JobReason.POD_DELETED)
        return False
    if job.suspended or job.end is not None:
        return True
    return stop(step, job, None, JobReason.NO_MATCHING_WORKLOAD, matching.MISSING)


def _unfit(step: JobPass, job: events.QueuedJobObserved, workload: events.JobWorkloadObserved) -> bool:
    """See to a group whose Workload does not fit it: one without quota is written anew, another goes once nothing runs
    of the group, for its quota counts until then. Return False."""
    if job.suspended and not workload.is_true("QuotaReserved") and not workload.deleting:
        made = _composed_or_told(step, job)
        if made and (priority := step.priority(job)) is not None:
            del made["labels"], made["annotations"]  # a Workload has those that it was made with
            made |= {"priority": priority.value, "priority_class": priority.class_name, "active": workload.active}
            head = {**writes.head(workload), "what": "spec", "body": job.body, "queue": job.queue}
            step.write(events.JobWorkloadUpdateDecided(**head, **made, reason=JobReason.JOB_CHANGED))
        return False
    running = not job.suspended and job.end is None
    if running and not stop(step, job, workload, JobReason.NO_MATCHING_WORKLOAD, matching.RESTORING):
        return False
    runs, until = pods.runs_until(step.state.pods.values(), step.now)
    step.wake_at(until)
    if not runs:
        matching.removed(step, [workload], JobReason.NO_MATCHING_WORKLOAD)
    return False


def create(step: JobPass, job: events.QueuedJobObserved) -> None:
    """Make the Workload of a group, once all its pods are there. What ended before that does not count."""
    found = pods.members(step.state.pods)
    pod_writes.release(step, (one for one in found if not pods.may_run(one)), JobReason.POD_REPLACED)
    made = _composed_or_told(step, job)
    if not made or (priority := step.priority(job)) is None:
        return
    step.write(
        events.JobWorkloadCreationDecided(
            name=found[0].group,
            job_uid=job.uid,
            body=job.body,
            queue=job.queue,
            priority=priority.value,
            priority_class=priority.class_name,
            pods={one.name: one.count for one in made["roles"]},
            labels=made.pop("labels"),
            annotations=made.pop("annotations"),
            reason=JobReason.NO_WORKLOAD,
            **made,
        )
    )


def _composed_or_told(step: JobPass, job: events.QueuedJobObserved) -> dict[str, Any]:
    """Return roles, members, labels and annotations of a group, of which a Workload is made; empty, with what is wrong
    told, or what is too many removed, if none can be made now.
    """
    found = pods.members(step.state.pods)
    active = [one for one in found if pods.may_run(one)]
    try:
        total = _checked(found, active)
        by_age = _sorted(active)
        if _removed(step, by_age[total:]):
            return {}
        active = sorted(by_age[:total], key=lambda one: (one.name, one.uid))
        roles = _roles(active, total)
        labels = _agreed_labels(active, step.context.policy.label_keys)
        notes = _agreed_annotations(active, step.context.policy.annotation_keys)
    except GroupUnfit as unfit:
        step.notice(job, "Warning", JobReason.NOT_COMPOSED, "ErrWorkloadCompose", str(unfit))
        return {}
    members = [GroupMember(name=one.name, uid=one.uid) for one in active]
    return {"roles": roles, "members": members, "labels": labels, "annotations": notes}


def _agreed_labels(found: list[QueuedPodObserved], keys: tuple[str, ...]) -> dict[str, str]:
    """Return the labels of pods that their Workload gets; `GroupUnfit` if they disagree (`getByKey`)."""
    made: dict[str, str] = {}
    for one in found:
        there = one.pod_set[0].labels if one.pod_set else {}
        for key in keys:
            if key in there and made.setdefault(key, there[key]) != there[key]:
                raise GroupUnfit("constructing workload: pods have different label values")
    return made


def _agreed_annotations(found: list[QueuedPodObserved], keys: tuple[str, ...]) -> dict[str, str]:
    """Return where the annotations of pods are that their Workload gets: the body of the first one that has each;
    `GroupUnfit` if they disagree. Of an annotation the digest is known."""
    made: dict[str, str] = {}
    digests: dict[str, str] = {}
    for one in found:
        there = one.pod_set[0].annotations if one.pod_set else {}
        for key in keys:
            if key in there and digests.setdefault(key, there[key]) != there[key]:
                raise GroupUnfit("constructing workload: pods have different annotation values")
            if key in there:
                made.setdefault(key, one.body)
    return made


def _roles(found: list[QueuedPodObserved], total: int) -> list[GroupRole]:
    if problem := next((one.problem for one in found if one.problem), ""):
        raise GroupUnfit(problem)
    if found and found[0].fast:
        return [GroupRole(name=found[0].role, count=total, body=found[0].body)]
    roles = sorted(pods.by_role(found).items())
    if len(roles) > _MOST_ROLES:
        raise GroupUnfit(f"pod group can't include more than {_MOST_ROLES} roles")
    if not roles:
        raise GroupUnfit("failed to find a runnable pod in the group")
    return [GroupRole(name=role, count=len(same), body=same[0].body) for role, same in roles]


def _checked(found: list[QueuedPodObserved], active: list[QueuedPodObserved]) -> int:
    """Return how many pods a group has; `GroupUnfit` if its pods do not agree, or are not all there."""
    first = found[0]
    total = pods.total_of(first)
    if not _NAME.fullmatch(first.group):
        raise GroupUnfit(f"the group's name '{first.group}' cannot be that of a Workload")
    if first.index is not None and not (_UINT.fullmatch(first.index) and int(first.index) < total):
        where = f'incorrect label value "{first.index}" for Pod "{first.namespace}/{first.name}"'
        raise GroupUnfit(f"{where}: validation error: value should be less than {total}")
    if not first.fast and len(active) < total:
        raise GroupUnfit(f"'{first.group}' group has fewer runnable pods than expected")
    for one in found:
        if one.phase != "Failed":
            _agrees(first, one, total)
    return total


def _agrees(first: QueuedPodObserved, one: QueuedPodObserved, total: int) -> None:
    both = f"pods '{first.name}' and '{one.name}' has different"
    if one.queue != first.queue:
        raise GroupUnfit(f"{both} queue names: {first.queue}!={one.queue}")
    try:
        other = pods.total_of(one)
    except GroupUnfit as unfit:
        said = f"failed to extract '{TOTAL}' annotation from the pod '{one.name}'"
        raise GroupUnfit(f"{said}: {unfit}") from None
    if other != total:
        raise GroupUnfit(f"{both} '{TOTAL}' values: {total}!={other}")


def counted(workload: events.JobWorkloadObserved, found: list[QueuedPodObserved]) -> Members:
    """Return how the pods of a group stand by the pod sets of its Workload."""
    kept, excess, replaced, absent = [], [], [], 0
    for pod_set in workload.pod_sets:
        same = [one for one in found if one.role == pod_set.name]
        active = _sorted([one for one in same if pods.may_run(one)])
        inactive = _ended([one for one in same if not pods.may_run(one)])
        missing = max(0, pod_set.count - len(active))
        absent += min(missing, 0 if active else 1) if found[0].fast else missing
        kept += active[: pod_set.count]
        excess += active[pod_set.count :]
        spare = min(len(inactive), len(inactive) + len(active) - pod_set.count)
        stay = len(inactive) - max(spare, 0)
        kept += inactive[:stay]
        replaced += inactive[stay:]
    return Members(kept=kept, excess=excess, replaced=replaced, absent=absent)


def _fits(workload: events.JobWorkloadObserved, found: list[events.PodSetFacts]) -> bool:
    """Whether a Workload has all roles of a group, with as many pods; once it is finished, their number does not
    count."""
    over, counts = workload.is_true("Finished"), {one.name: one.count for one in workload.pod_sets}
    return all(one.name in counts and (over or counts[one.name] >= one.count) for one in found)


def _joined(step: JobPass, workload: events.JobWorkloadObserved, kept: list[QueuedPodObserved]) -> bool:
    """Have pods own the Workload of their group; return whether any of them did not."""
    known = {one.get("uid") for one in workload.references}
    missing = [GroupMember(name=one.name, uid=one.uid) for one in kept if one.uid not in known]
    update: dict[str, Any] = {"what": "members", "references": workload.references, "members": missing}
    if missing:
        step.write(events.JobWorkloadUpdateDecided(**writes.head(workload), **update, reason=JobReason.POD_JOINED))
    return bool(missing)


def _removed(step: JobPass, excess: list[QueuedPodObserved]) -> bool:
    """Delete pods that are too many, once they are let go; return whether there are any that are not on the way."""
    staying = [one for one in excess if FINALIZER in one.finalizers or not one.deleting]
    pod_writes.release(step, staying, JobReason.POD_EXCESS)
    for pod in staying:
        if FINALIZER not in pod.finalizers:
            head = pod_writes.head(pod)
            step.write(PodDeletionDecided(**head, message=_EXCESS, excess=True, reason=JobReason.POD_EXCESS))
    return bool(staying)


def _sorted(active: list[QueuedPodObserved]) -> list[QueuedPodObserved]:
    """Return pods, those first that are kept rather: with a finalizer, let run, older."""
    return sorted(active, key=lambda one: (FINALIZER not in one.finalizers, one.gated, one.created, one.name))


def _ended(inactive: list[QueuedPodObserved]) -> list[QueuedPodObserved]:
    """Return pods that cannot run, those first that are kept rather: with a finalizer, ended later, older."""
    by_age = sorted(inactive, key=lambda one: (one.created, one.name))
    by_end = sorted(by_age, key=lambda one: min(one.failed_at or _NOW, one.deleted_at or _NOW), reverse=True)
    return sorted(by_end, key=lambda one: FINALIZER not in one.finalizers)


def _awaits_replacement(step: JobPass, workload: events.JobWorkloadObserved, absent: int) -> bool:
    """Write to a Workload whether pods of its group have to be replaced; return whether that is written now."""
    shown, evicted = workload.condition("WaitingForReplacementPods"), workload.condition("Evicted")
    if workload.is_true("Finished") or workload.deleting or (shown is None and not absent):
        return False
    was = shown is not None and shown.status == "True"
    if not absent:
        status, reason, message = "False", "PodsReady", "No pods need replacement"
        same = not was
    elif evicted is not None and evicted.status == "True":
        status, reason, message = "True", evicted.reason, evicted.message
        same = was and shown is not None and (shown.reason, shown.message) == (reason, message)
    else:
        status, reason, message = "True", "PodsFailed", "Some Failed pods need replacement"
        same = was
    if same:
        return False
    said = {"status": status, "condition_reason": reason, "message": message}
    return step.write(events.PodReplacementDecided(**writes.head(workload), **said, reason=JobReason.PODS_ABSENT))
