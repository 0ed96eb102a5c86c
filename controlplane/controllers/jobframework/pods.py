"""Tells what pods are as one job: a single pod, or all those of a group together.

In: the pods of a stream, by UID. Out: a job, as other kinds are observed; pure. Sources: kubernetes-sigs/kueue
pkg/controller/jobs/pod/pod_controller.go (`IsSuspended`, `Finished`, `PodSets`, `ReclaimablePods`, `PodsReady`),
ff69552e."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.observe_pods import TOTAL, facts_of
from controlplane.controllers.jobframework.pod_events import QueuedPodObserved
from controlplane.job_kinds.pod import MANAGED
from controlplane.kube.requests import later

FINALIZER = MANAGED
"""The finalizer that keeps a pod until its Workload does not need it any more."""
_COUNT = re.compile(r"[+-]?\d{1,10}", re.ASCII)

Pods = Mapping[str, QueuedPodObserved]


class GroupUnfit(ValueError):  # noqa: N818 - it names what does not fit
    """No Workload can be made of a group as it is; the text says why, in Kueue's words."""


def members(pods: Pods) -> list[QueuedPodObserved]:
    """Return the pods that are looked after, by name: Kueue's first pod of a group is the first of these."""
    return sorted((one for one in pods.values() if one.managed), key=lambda one: (one.name, one.uid))


def strangers(pods: Pods) -> list[QueuedPodObserved]:
    """Return the pods with a queue that are not looked after, since they have not Kueue's label."""
    return sorted((one for one in pods.values() if not one.managed), key=lambda one: (one.name, one.uid))


def as_job(pods: Pods) -> events.QueuedJobObserved | None:
    """Return what pods are as a job, None if none of them is looked after. A group has the name and UID of its first
    pod."""
    found = members(pods)
    if not found:
        return None
    first = found[0]
    return events.QueuedJobObserved(
        namespace=first.namespace,
        name=first.name,
        uid=first.uid,
        resource_version=first.resource_version,
        kind=first.kind,
        deleting=first.deleting and not first.group,
        queue=first.queue,
        prebuilt=first.prebuilt,
        priority_class=first.priority_class,
        pod_priority_class=_priority_class(found),
        max_execution_seconds=first.max_execution_seconds,
        gated_by=first.gated_by,
        suspended=any(one.is_suspended for one in found),
        ready=_are_ready(found),
        end=_ending(found),
        pod_sets=pod_sets(found),
        reclaimable=_reclaimable(found),
        problem=next((one.problem for one in found if one.problem), ""),
        body=first.body,
    )


def as_kept(job: events.QueuedJobObserved, kept: list[QueuedPodObserved]) -> events.QueuedJobObserved:
    """Return a group as the pods show it that its Workload counts. One that was replaced may stay as an object for as
    long as nobody deletes it; it is not ready ever again, and says nothing about the end of the others
    (`FindMatchingWorkloads`)."""
    return msgspec.structs.replace(
        job,
        suspended=any(one.is_suspended for one in kept),
        ready=_are_ready(kept),
        end=_ending(kept),
        pod_sets=pod_sets(kept),
        reclaimable=_reclaimable(kept),
    )


def is_group(pods: Iterable[QueuedPodObserved]) -> bool:
    """Whether pods are those of a group."""
    return any(one.group for one in pods)


def total_of(pod: QueuedPodObserved) -> int:
    """Return how many pods the group of a pod has; `GroupUnfit` if it does not say."""
    if pod.total is None:
        raise GroupUnfit(f"failed to extract '{TOTAL}' annotation")
    if not _COUNT.fullmatch(pod.total):
        raise GroupUnfit(f'strconv.Atoi: parsing "{pod.total}": invalid syntax')
    if int(pod.total) < 1:
        said = f"incorrect annotation value '{TOTAL}={pod.total}'"
        raise GroupUnfit(f"{said}: group total count should be greater than zero")
    return int(pod.total)


def may_run(pod: QueuedPodObserved) -> bool:
    """Whether a pod can run, runs, or has succeeded: one that goes before it has a node cannot."""
    return not (pod.deleting and not pod.placed) and pod.phase != "Failed"


def pod_sets(found: Iterable[QueuedPodObserved]) -> list[events.PodSetFacts]:
    """Return the pod sets of pods: `main` of a single one, of a group one for each role, by its hash."""
    pods = [one for one in found if one.pod_set]
    if not is_group(pods):
        return [facts_of(one, "main", 1) for one in pods]
    roles = by_role(one for one in pods if may_run(one))
    return [facts_of(same[0], role, len(same)) for role, same in sorted(roles.items())]


def by_role(found: Iterable[QueuedPodObserved]) -> dict[str, list[QueuedPodObserved]]:
    """Return pods by the hash of their role."""
    roles: dict[str, list[QueuedPodObserved]] = {}
    for one in found:
        roles.setdefault(one.role, []).append(one)
    return roles


def runs_until(found: Iterable[QueuedPodObserved], now: datetime) -> tuple[bool, datetime | None]:
    """Return whether a pod of a group runs, as far as quota may not be given back for that, and until when at the
    latest if nothing happens: one that is being deleted counts no longer than its grace. A single pod never counts.
    """
    last: datetime | None = None
    for one in found:
        if not one.group or one.phase != "Running":
            continue
        if not one.deleted_at or one.grace is None:
            return True, None
        end = later(datetime.fromisoformat(one.deleted_at), one.grace)
        if now <= end:
            last = max(filter(None, (last, end)))
    return last is not None, later(last, 1) if last is not None else None


def _ending(found: list[QueuedPodObserved]) -> events.JobEnding | None:
    first = found[0]
    if not first.group:
        return events.JobEnding(success=first.phase == "Succeeded", message=first.message) if first.is_over else None
    if first.serving:
        return None
    try:
        total = total_of(first)
    except GroupUnfit:
        return None
    succeeded = sum(one.phase == "Succeeded" for one in found)
    given_up = any(not one.retriable for one in found) and all(one.is_over for one in found)
    if succeeded != total and not given_up:
        return None
    return events.JobEnding(success=True, message=f"Pods succeeded: {succeeded}/{total}.")


def _reclaimable(found: list[QueuedPodObserved]) -> dict[str, int]:
    if not found[0].group or found[0].serving:
        return {}
    roles = by_role(one for one in found if one.phase == "Succeeded")
    return {role: len(same) for role, same in sorted(roles.items())}


def _are_ready(found: list[QueuedPodObserved]) -> bool:
    if found[0].group:
        try:
            if len(found) < total_of(found[0]):
                return False
        except GroupUnfit:
            return False
    return all(one.ready for one in found)


def _priority_class(found: list[QueuedPodObserved]) -> str:
    """Return the PriorityClass of the first pod set that names one."""
    roles = by_role(one for one in found if may_run(one) or not one.group)
    firsts = (same[0].pod_priority_class for _, same in sorted(roles.items()))
    return next((one for one in firsts if one), "")
