"""Makes of an open write to a pod the request that carries it out.

In: the decision, the pod's body, the time. Out: `Request`. Pure. What lets a pod run or takes its finalizer holds for
the version that was seen, what stops it for any version of the very pod. Sources: kubernetes-sigs/kueue
pkg/controller/jobs/pod/pod_controller.go (`prepare`, `Stop`), pkg/podset/podset.go (`Merge`), ff69552e."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.controllers.jobframework.observe_pods import TERMINATION
from controlplane.controllers.jobframework.parts import GroupMember, GroupRole
from controlplane.controllers.jobframework.pod_events import (
    PodDeletionDecided,
    PodReleaseDecided,
    PodStartDecided,
    PodTerminationDecided,
    PodWrite,
)
from controlplane.controllers.jobframework.pod_sets import with_tolerations
from controlplane.controllers.jobframework.set_events import PodJoinDecided
from controlplane.controllers.jobframework.topology_events import PodUngateDecided
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.pod import ROLE_HASH
from controlplane.kube.kinds import APPLY_PATCH, PODS, Json, ObjectRef, Request
from controlplane.kube.kueue_names import ADMISSION_GATE
from controlplane.kube.requests import Obsolete, body_in, timestamp
from controlplane.kube.topologies import TOPOLOGY_GATE

_MANAGER = "kueue"
POD_MANAGER = "kueue-pod-controller"
"""The field manager of what a group says in its Workload's status."""


def render_pod(place: ObjectRef, decision: PodWrite, bodies: Mapping[str, bytes], now: datetime) -> Request:
    """Return the request of a write to the pod at `place`."""
    uid, version = decision.uid, decision.resource_version
    match decision:
        case PodStartDecided():
            body = _started(body_in(bodies, decision.body), decision)
            return Request("patch", place, body, uid=uid, resource_version=version)
        case PodTerminationDecided():
            status = {"status": {"conditions": [_termination(decision, now)]}}
            return Request("patch", place, status, "status", content_type=APPLY_PATCH, uid=uid, field_manager=_MANAGER)
        case PodDeletionDecided():
            return Request("delete", place, uid=uid)
        case PodReleaseDecided():
            kept = {"metadata": {"finalizers": decision.finalizers or None}}
            return Request("patch", place, kept, uid=uid, resource_version=version)
        case PodJoinDecided():
            joined = {
                "labels": decision.labels,
                **({"annotations": decision.annotations} if decision.annotations else {}),
            }
            return Request("patch", place, {"metadata": joined}, uid=uid, resource_version=version)
        case PodUngateDecided():
            gates = [{"name": name} for name in decision.gates] or None
            spec = {"spec": {"schedulingGates": gates, "nodeSelector": decision.node_selector}}
            return Request("patch", place, spec, uid=uid, resource_version=version)
    raise Obsolete(f"no request is known for {type(decision).__name__}")


def members_references(found: Sequence[GroupMember]) -> list[Json]:
    """Return the references with which the pods of a group own their Workload: none of them controls it."""
    return [{"apiVersion": PODS.api_version, "kind": PODS.kind, "name": one.name, "uid": one.uid} for one in found]


def role_pod_sets(roles: Sequence[GroupRole], bodies: Mapping[str, bytes], adapter: JobKind) -> list[Json]:
    """Return the pod sets of a group's Workload, by the names of its roles."""
    made = []
    for role in roles:
        body = body_in(bodies, role.body)
        named = {"metadata": {"labels": body["labels"], "annotations": body["annotations"]}, "spec": body["spec"]}
        (found,) = adapter.workload_pod_sets(named)
        made.append({**found, "name": role.name, "count": role.count})
    return made


def _started(pod: Json, decision: PodStartDecided) -> Json:
    """Return the patch that takes Kueue's gates away and adds what the pod was admitted with."""
    info, there = decision.pod_set, pod["spec"]
    taken = {ADMISSION_GATE} | ({TOPOLOGY_GATE} - set(info.gates))
    gates = [one for one in there.get("schedulingGates") or () if one.get("name") not in taken]
    spec: Json = {"schedulingGates": gates or None}
    if info.node_selector:
        spec["nodeSelector"] = info.node_selector
    if info.tolerations:
        spec["tolerations"] = with_tolerations(there.get("tolerations") or (), info.tolerations)
    role = {ROLE_HASH: decision.role} if decision.role else {}
    return {"metadata": {"labels": info.labels, "annotations": {**info.annotations, **role}}, "spec": spec}


def _termination(decision: PodTerminationDecided, now: datetime) -> Json:
    return {
        "type": TERMINATION,
        "status": "True",
        "lastTransitionTime": timestamp(now),
        "reason": decision.condition_reason,
        "message": decision.message,
    }
