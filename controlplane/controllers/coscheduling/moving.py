"""Decides when a placeholder leaves its node, and when a task ends that can never run beside it.

In: a pass over a run. Out: decisions in it. A placeholder is moved once for each time that its node became unfit, and
ever more rarely where only its own place, or a task's demands, are in the way: it may come back to the same node."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.observations import PlaceholderReady, TaskPodObserved
from controlplane.controllers.coscheduling.placement.eviction import (
    Eviction,
    TaskPod,
    exclusion_evicts,
    limit_evicts,
    node_evicts,
)
from controlplane.controllers.coscheduling.placement.gates import NodeCapacity
from controlplane.controllers.coscheduling.placement.unfit import PodNeeds, could_be_on, why_never
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.controllers.coscheduling.run_pass import NodeFitness, RunPass
from controlplane.controllers.coscheduling.state import Moved, RunAttempt
from controlplane.kube.pod_requests import amounts
from controlplane.kube.tolerations import Toleration

PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(minutes=30)
UNFIT = "TaskNeverFits"


def move(pass_: RunPass, attempt: RunAttempt, name: str, uid: str) -> None:
    """Send a ready placeholder away from a node that takes no more pods of the run; once for each time that it became
    unfit.
    """
    pod = next((one for one in pass_.state.pods.values() if one.owner == uid), None)
    if not isinstance(pod, PlaceholderReady) or pod.deleting:
        return
    node = pass_.around.nodes.get(pod.node)
    tolerated = [Toleration(one.key, one.operator, one.value, one.effect) for one in pod.tolerations]
    eviction = node_evicts(node.view if node else None, tolerated)
    moved = attempt.moved.get(name)
    if node is not None and eviction is not None:
        if not _moved_for(moved, pod, node.since):
            _evict(pass_, attempt, name, pod, node.since, eviction)
        return
    listed = list(_task_pods([*pass_.state.task_pods.values(), *pass_.around.beside], name))
    eviction = limit_evicts(pod.node, listed) or _unfit(pass_, attempt, name, pod, listed)
    if eviction is not None and not rests(pass_, moved, pod.uid):
        _evict(pass_, attempt, name, pod, 0, eviction)


def _unfit(
    pass_: RunPass, attempt: RunAttempt, name: str, placed: PlaceholderReady, listed: list[TaskPod]
) -> Eviction | None:
    """Look after tasks that can never be where their placeholder is: it moves where they can, or they end."""
    node = pass_.around.nodes.get(placed.node)
    if node is None or node.capacity is None:
        return None
    for uid, since in pass_.state.waiting.items():
        pod = pass_.state.task_pods[uid]
        needs = PodNeeds(requests=amounts(pod.requests), choice=pod.choice)
        if pod.placeholder != name or pod.deleting or not pod.task_run or not why_never(node.capacity, needs):
            continue
        if could_be_on(_other_nodes(pass_, placed.node), needs, _choices(pass_, placed)):
            return exclusion_evicts(placed.node, listed, pod.name)
        _end_task(pass_, attempt, pod, node, why_never(node.capacity, needs), since)
    return None


def _other_nodes(pass_: RunPass, name: str) -> list[NodeCapacity | None]:
    return [node.capacity for node in pass_.around.nodes.values() if node.view.name != name]


def _choices(pass_: RunPass, placed: PlaceholderReady) -> list[dict[str, Any]]:
    """Return what a placeholder and its volumes ask of a node."""
    return [placed.choice, *(volume.template() for volume in (pass_.around.volumes or {}).values())]


def _end_task(
    pass_: RunPass, attempt: RunAttempt, pod: TaskPodObserved, node: NodeFitness, why: str, since: datetime
) -> None:
    """End a task that can never run, once it has waited: a node may be changed, or another one come."""
    patience = pass_.around.patience
    task = next((one for one in attempt.tasks.values() if one.name == pod.task_run and not one.ended), None)
    if patience is None or task is None or attempt.run is None:
        return
    until = max(since, pass_.around.nodes_since) + patience
    if pass_.now < until:
        pass_.wake_at(until)
        return
    message = (
        f'task "{task.task or task.name}" can never run beside the others of its run: its pod {pod.name} has to be '
        f"where placeholder {pod.placeholder} is, and {why}; no other node would do. Let it ask for what a node has, "
        "or add such a node, and run it again"
    )
    where: dict[str, Any] = {
        "cluster": pass_.around.cluster,
        "attempt_uid": attempt.uid,
        "placeholder": pod.placeholder,
        "pod": pod.name,
        "node": node.view.name,
        "message": message,
        "reason": CoschedulingReason.TASK_NEVER_FITS,
    }
    if pass_.is_news(attempt, attempt.unfit, message):
        version = attempt.run.resource_version
        pass_.write(
            events.UnfitTaskTold(**where, name=attempt.run.name, resource_version=version, condition_reason=UNFIT)
        )
    pass_.write(events.TaskEndDecided(**where, name=task.name, uid=task.uid))


def _moved_for(moved: Moved | None, pod: PlaceholderReady, since: int) -> bool:
    """Whether a placeholder was moved already off its node for what the node has been since a position in the log."""
    return moved is not None and moved.uid != pod.uid and (moved.node, moved.since) == (pod.node, since)


def rests(pass_: RunPass, moved: Moved | None, uid: str) -> bool:
    """Whether a placeholder that was moved off a full node has to wait before it is moved again: it may come back to
    the same node.
    """
    if moved is None or moved.uid == uid:
        return False
    until = moved.at + min(PAUSE * 2 ** min(moved.times - 1, 12), LONGEST_PAUSE)
    if pass_.now >= until:
        return False
    pass_.wake_at(until)
    return True


def _evict(
    pass_: RunPass, attempt: RunAttempt, name: str, pod: PlaceholderReady, since: int, eviction: Eviction
) -> None:
    pass_.write(
        events.PlaceholderEvicted(
            cluster=pass_.around.cluster,
            attempt_uid=attempt.uid,
            name=pod.name,
            placeholder=name,
            uid=pod.uid,
            node=pod.node,
            since=since,
            detail=eviction.detail,
            reason=eviction.reason,
        )
    )


def _task_pods(pods: Iterable[TaskPodObserved], placeholder: str) -> Iterable[TaskPod]:
    for pod in pods:
        if pod.placeholder == placeholder:
            yield TaskPod(name=pod.name, node=pod.node, over=pod.over or pod.deleting, complaint=pod.complaint)
