"""Binds a source pod to the virtual Node of its delegate's target, and ends it as the kubelet of that Node would.

In: a pass. Out: `DelegateHinted`, `SourceBound`, `SourceRemoved`, and the last status of a pod that is being deleted. A
bound pod goes to no other cluster, so it is bound as late as can be: when the delegate's own kubelet has accepted it,
and before anything is shown of it. Without virtual Nodes nothing is bound."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.candidates.objects import HINT_CLUSTER, HINT_NAMESPACE, HINT_POD
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.delegate_status import rank
from controlplane.controllers.candidates.source.events import (
    TO_POD,
    DelegateHinted,
    SourceBound,
    SourceRemoved,
    StatusShown,
)
from controlplane.controllers.candidates.source.observations import CandidateBound, DelegateStatus, SourcePodObserved
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.well_known import ENDED_PHASES

HINT = f"{MANAGEMENT}/{DelegateHinted.WHAT}"
"""The write that says on the pod where its delegate is, by its target."""

_LOST = (
    CandidateReason.POD_MISSING,
    CandidateReason.TARGET_LOST,
    CandidateReason.TARGET_FORGOTTEN,
    CandidateReason.GANG_DISSOLVED,
)


def bind(pass_: PodPass, pod: SourcePodObserved, cluster: str, seen: CandidateBound) -> bool:
    """Say where the delegate is, and bind the pod if it is to be; return whether its status waits for that."""
    hints = {HINT_CLUSTER: cluster, HINT_NAMESPACE: seen.namespace, HINT_POD: seen.pod}
    node = _node_for(pass_, pod, cluster, seen)
    if seen.pod and (pod.hints != hints or (node and not pod.tolerates)):
        _write(
            pass_,
            DelegateHinted,
            pod,
            hints=hints,
            template="" if pod.tolerates or not node else pod.template,
            reason=CandidateReason.DELEGATE_FOUND,
        )
        return bool(node) and not refused(pass_)
    if not node:
        return False
    if not any(key in pass_.state.effects for key in TO_POD):
        _write(pass_, SourceBound, pod, node=node, source=seen.name, reason=CandidateReason.DELEGATE_ACCEPTED)
    return not refused(pass_)


def refused(pass_: PodPass) -> str:
    """Return why the pod cannot be bound, by the API server's last word; "" if it said nothing against it."""
    for event in (DelegateHinted, SourceBound):
        failure = pass_.state.trouble.get(f"{MANAGEMENT}/{event.WHAT}")
        if failure is not None:
            return failure.message or failure.error
    return ""


def obstacle(pass_: PodPass, pod: SourcePodObserved) -> str:
    """Return in words that a pod is not on its virtual Node, and why; "" if it is, or need not be."""
    why = refused(pass_) if pass_.context.nodes and not pod.node else ""
    return f"its binding to a virtual Node: {why}" if why else ""


def _node_for(pass_: PodPass, pod: SourcePodObserved, cluster: str, seen: CandidateBound) -> str:
    """Return the Node that a pod is to be bound to now, "" for none: what its target says has to be current."""
    gang = pass_.context.gang
    if pod.node or not _accepted(seen) or not pass_.context.in_view(cluster):
        return ""
    if gang is not None and not gang.formed:
        return ""
    return pass_.context.nodes.get(cluster, "")


def _accepted(seen: CandidateBound) -> bool:
    """Whether the delegate's kubelet has taken it: it says something of its containers."""
    if not isinstance(seen, DelegateStatus) or seen.rejected or not seen.pod:
        return False
    return bool(seen.restarts) or rank(seen.pod_phase) >= 1


def is_elsewhere(pass_: PodPass, pod: SourcePodObserved) -> bool:
    """Whether a pod is bound to a Node that only has the name of a virtual one: its own kubelet has it, and ends it."""
    return bool(pod.node) and pass_.state.committed != pod.uid and pod.node not in pass_.context.nodes.values()


def ended_by_loss(pass_: PodPass, pod: SourcePodObserved) -> bool:
    """Whether the pod is over with its lost delegate: it is bound to a Node, or it had started and may not start
    twice."""
    state = pass_.state
    if state.electing or state.uid != pod.uid or is_elsewhere(pass_, pod):
        return False
    if state.stays:
        return bool(state.closed_by)
    if state.shown is None or state.shown.uid != pod.uid:
        return False
    return state.closed_by in _LOST and rank(state.shown.phase) >= 1 and pod.restart_policy == "Never"


def end(pass_: PodPass, pod: SourcePodObserved) -> None:
    """Let a bound pod that is being deleted go, once its delegate has stopped; until that is known it stays."""
    if not pod.stopping or is_elsewhere(pass_, pod) or _may_run(pass_, pod):
        return
    if any(key in pass_.state.effects for key in TO_POD):
        return
    why = CandidateReason.DELEGATE_STOPPED
    if pod.phase in ENDED_PHASES:
        _write(pass_, SourceRemoved, pod, node=pod.node, reason=why)
        return
    # As a kubelet: whoever counts pods by how they end has to see an end before the pod is gone.
    shown, message = pass_.state.shown, "its delegate has stopped"
    _write(
        pass_,
        StatusShown,
        pod,
        epoch=pass_.state.epoch,
        source=shown.source if shown is not None else "",
        sequence=shown.sequence if shown is not None else 0,
        phase="Failed",
        mark=f"{why}: {message}",
        message=message,
        restarts=shown.restarts if shown is not None else {},
        totals=shown.totals if shown is not None else {},
        reason=why,
    )


def _may_run(pass_: PodPass, pod: SourcePodObserved) -> bool:
    """Whether a delegate of the pod may still run: in a target that was given up, nobody waits for it."""
    return any(
        known.uid == pod.uid and known.may_run and not pass_.context.forgotten(known.cluster)
        for known in pass_.state.candidates.values()
    )


def _write(pass_: PodPass, event: type[Any], pod: SourcePodObserved, **said: Any) -> None:
    pass_.write(event(uid=pod.uid, resource_version=pod.resource_version, **said))
