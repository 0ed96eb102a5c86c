"""Renders a scheduler's open write: the request that carries it out, and the Kubernetes Event about it.

In: the decision, the state, the time. Out: `controlplane.kube.kinds.Request`. Pure. Conditions go as strategic merge
patches, so that those of the kubelet and of others stay; a UID keeps each write from another pod of the same name."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.state import PodState, VictimState
from controlplane.kube.kinds import PODS, STRATEGIC_PATCH, Json, ObjectRef, Request
from controlplane.kube.requests import event_about, timestamp


def render_pod(state: PodState, decision: events.SchedulingWrite, now: datetime) -> Request | None:
    """Return the request of a write to a pod on its way to a node; None if there is nothing left to do."""
    ref = ObjectRef(PODS, state.namespace, state.name)
    match decision:
        case events.BindingDecided():
            return (
                events.request_of(decision.call)
                if decision.call is not None
                else binding(ref, decision.uid, decision.node)
            )
        case events.PreBindDecided():
            return events.request_of(decision.calls[state.pre_bound]) if state.pre_bound < len(decision.calls) else None
        case events.PodStatusDecided() if state.pod is not None and state.pod.uid == decision.uid:
            known = state.pod.scheduled
            condition: Json = {
                "type": "PodScheduled",
                "status": "False",
                "reason": decision.said,
                "message": decision.message,
            }
            if known is None or known.status != "False":
                condition["lastTransitionTime"] = timestamp(now)
            condition |= _of(state.pod.generation)
            status = {"conditions": [condition], "nominatedNodeName": decision.nominated or None}
            return _patch(ref, decision.uid, status)
        case _:
            return None


def render_victim(state: VictimState, decision: events.SchedulingWrite, now: datetime) -> Request | None:
    """Return the request of a write to a pod that is evicted."""
    ref, chosen = ObjectRef(PODS, state.namespace, state.name), state.chosen
    if chosen is None:
        return None
    match decision:
        case events.VictimMarkDecided():
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"{chosen.scheduler}: preempting to accommodate a higher priority pod",
                "lastTransitionTime": timestamp(now),
            } | _of(chosen.generation)
            return _patch(ref, decision.uid, {"conditions": [condition]})
        case events.VictimRemovalDecided():
            return Request("delete", ref, uid=decision.uid)
        case _:
            return None


def _of(generation: int) -> Json:
    """Return which generation of a pod's spec a condition is about, as kube-scheduler says since 1.35."""
    return {"observedGeneration": generation} if generation else {}


def binding(ref: ObjectRef, uid: str, node: str) -> Request:
    """Return the binding of the pod with this UID, as DefaultBinder has it."""
    metadata = {"namespace": ref.namespace, "name": ref.name, "uid": uid}
    body: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"kind": "Node", "name": node},
    }
    return Request("create", ref, body, subresource="binding", uid=uid)


def _patch(ref: ObjectRef, uid: str, status: Json) -> Request:
    return Request("patch", ref, {"status": status}, subresource="status", content_type=STRATEGIC_PATCH, uid=uid)


def tell_pod(
    state: PodState, decision: events.SchedulingWrite, identity: str, suffix: str, now: datetime
) -> Request | None:
    """Return the Event about a write: `Scheduled`, or `FailedScheduling` with the reasons."""
    pod, ref = state.pod, ObjectRef(PODS, state.namespace, state.name)
    if pod is None:
        return None
    if isinstance(decision, events.BindingDecided):
        return scheduled(ref, decision.uid, decision.node, pod.scheduler, identity, suffix, now)
    if isinstance(decision, events.PodStatusDecided) and not pod.gates:
        return _event(
            ref,
            pod.uid,
            "Warning",
            "FailedScheduling",
            "Scheduling",
            decision.message,
            pod.scheduler,
            identity,
            suffix,
            now,
        )
    return None


def scheduled(
    ref: ObjectRef, uid: str, node: str, scheduler: str, identity: str, suffix: str, now: datetime
) -> Request:
    """Return the Event `Scheduled`."""
    note = f"Successfully assigned {ref.namespace}/{ref.name} to {node}"
    return _event(ref, uid, "Normal", "Scheduled", "Binding", note, scheduler, identity, suffix, now)


def tell_victim(
    state: VictimState, decision: events.SchedulingWrite, identity: str, suffix: str, now: datetime
) -> Request | None:
    """Return the Event `Preempted`, once the victim is deleted."""
    chosen: events.VictimChosen | None = state.chosen
    if chosen is None or not isinstance(decision, events.VictimRemovalDecided):
        return None
    ref = ObjectRef(PODS, state.namespace, state.name)
    note = f"Preempted by pod {chosen.preemptor_uid} on node {chosen.node}"
    return _event(ref, chosen.uid, "Normal", "Preempted", "Preempting", note, chosen.scheduler, identity, suffix, now)


def _event(
    ref: ObjectRef,
    uid: str,
    kind: str,
    reason: str,
    action: str,
    note: str,
    scheduler: str,
    identity: str,
    suffix: str,
    now: datetime,
) -> Request:
    """Return the creation of an Event; sent twice, the second is refused by its name, which `suffix` makes."""
    instance = f"{scheduler}-{identity}"
    return event_about(ref, uid, kind, reason, note, suffix, instance, now, action=action, controller=scheduler)
