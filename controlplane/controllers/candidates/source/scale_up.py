"""Chooses the one target whose autoscaler may add nodes for a source pod, while no target has a node for it.

In: a pass. Out: decisions. An autoscaler buys a node for each pod that is `Unschedulable` in its cluster
(kubernetes/autoscaler, cluster-autoscaler/utils/kubernetes/listers.go). Every target has a Pod of the same source pod,
and all of them would. So each is told whether its Pod may look like that, and at most one is told yes. If that brings
no node in time, another target is next."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.events import AutoscalerChosen, ScaleUpSet
from controlplane.controllers.candidates.source.observations import CandidateUnschedulable
from controlplane.controllers.candidates.source.permits import counts_of, predecessor_runs
from controlplane.controllers.candidates.source.policy import Target, preemptor
from controlplane.controllers.candidates.source.state import dropping

_LONGEST = timedelta(hours=1)


def choose(pass_: PodPass) -> None:
    """Choose whose autoscaler may act now, and tell the targets that know otherwise."""
    if pass_.context.policy.scale_up_wait <= timedelta() or pass_.closed or pass_.state.delegate:
        return
    able = _able(pass_)
    chosen = _chosen(pass_, able)
    for cluster in sorted(able):
        name, known = pass_.current()[cluster]
        seen = known.seen
        assert seen is not None
        wanted = cluster == chosen
        if seen.scale_up is None or seen.scale_up == wanted or pass_.busy(cluster, name):
            continue
        if wanted and any(_told_yes(pass_, other) for other in able if other != cluster):
            continue  # one that may still act is told no first
        pass_.write(
            ScaleUpSet(
                cluster=cluster,
                candidate=name,
                allowed=wanted,
                resource_version=seen.resource_version,
                reason=CandidateReason.NODES_NEEDED if wanted else CandidateReason.NODES_ELSEWHERE,
            )
        )


def _able(pass_: PodPass) -> dict[str, Target]:
    """Return the targets in view that have said that they have no node; none while anybody may still have one."""
    if pass_.permit is not None or pass_.acked or pass_.offers() or pass_.pending() or predecessor_runs(pass_):
        return {}
    targets, current = pass_.targets(), pass_.current()
    found = {}
    for cluster, (name, known) in current.items():
        if cluster not in targets or not pass_.context.in_view(cluster) or dropping(pass_.state, name):
            continue
        if isinstance(known.seen, CandidateUnschedulable) and not known.seen.deleting:
            found[cluster] = targets[cluster]
    return found


def _told_yes(pass_: PodPass, cluster: str) -> bool:
    seen = pass_.current()[cluster][1].seen
    return seen is not None and seen.scale_up is True


def _chosen(pass_: PodPass, able: dict[str, Target]) -> str:
    """Return the target whose autoscaler may act, "" if none may."""
    if not able:
        return ""
    if pass_.context.gang is not None:
        return _of_gang(pass_, able)
    now = pass_.state.scale_up
    if now is not None and now.cluster in able and (pass_.now < now.until or len(able) == 1):
        if len(able) > 1:
            pass_.wake_at(now.until)
        return now.cluster
    tried = {name: pass_.state.failures.get(name, 0) + pass_.state.scaled.get(name, 0) for name in able}
    cluster = preemptor(able, tried, counts_of(pass_), pass_.placement.max_skew)
    if not cluster:
        return ""
    until = pass_.now + _patience(pass_, pass_.state.scaled.get(cluster, 0))
    pass_.say(AutoscalerChosen(cluster=cluster, until=until, reason=CandidateReason.NODES_NEEDED))
    if len(able) > 1:
        pass_.wake_at(until)
    return cluster


def _patience(pass_: PodPass, before: int) -> timedelta:
    """Return how long a target has that had so many chances before: each time twice as long, since a pod that fits
    nowhere is to be no lasting trouble; an hour at most, or as long as the setting says."""
    wait = pass_.context.policy.scale_up_wait
    return min(wait * (1 << min(before, 16)), max(wait, _LONGEST))


def _of_gang(pass_: PodPass, able: dict[str, Target]) -> str:
    """Return the target for all members of a gang, which need their nodes in one place: each for as long, one after the
    other, by the clock, so that members choose the same without asking one another."""
    line, wait = sorted(able.values(), key=lambda target: (target.tier, target.name)), _seconds(pass_)
    number = int(pass_.now.timestamp() // wait)
    if len(line) > 1:
        pass_.wake_at(datetime.fromtimestamp((number + 1) * wait, pass_.now.tzinfo))
    return line[number % len(line)].name


def _seconds(pass_: PodPass) -> float:
    return pass_.context.policy.scale_up_wait.total_seconds()
