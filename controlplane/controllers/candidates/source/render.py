"""From an open write of the source side to the request that carries it out, and to the Kubernetes Event that tells the
user.

In: the decision, the state it was based on, the bodies it names, the time. Out: `controlplane.kube.kinds.Request`.
Pure. Every patch and delete of a Candidate carries the resourceVersion that the decision saw: an old leader's delayed
permit meets a conflict."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.candidates import tolerations
from controlplane.controllers.candidates.objects import (
    CANDIDATES,
    FINALIZER,
    HINT_TOLERATIONS,
    PODS,
    SOURCE_LABEL,
    SOURCE_UID,
    stamp,
)
from controlplane.controllers.candidates.readiness import as_said
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import delegate_status as statuses
from controlplane.controllers.candidates.source.events import (
    CandidateAmended,
    CandidateDropped,
    CandidateRequested,
    CandidateWrite,
    DelegateHinted,
    GatesSet,
    OnCandidate,
    PermitGranted,
    PermitRevoked,
    ScaleUpSet,
    SourceBound,
    SourceRemoved,
    StatusShown,
)
from controlplane.controllers.candidates.source.observations import SourcePodObserved
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.kube.kinds import Json, ObjectRef, Request
from controlplane.kube.requests import Obsolete, body_in, merge_diff, timestamp


def bodies_needed(decision: CandidateWrite) -> list[str]:
    """Return the refs of the bodies that rendering a write needs."""
    match decision:
        case CandidateRequested():
            return [decision.template]
        case CandidateAmended():
            return [decision.template, decision.before]
        case StatusShown() if decision.status:
            return [decision.status]
        case DelegateHinted() if decision.template:
            return [decision.template]
        case _:
            return []


def render(
    state: SourceState,
    decision: CandidateWrite,
    bodies: Mapping[str, bytes],
    policy: SourcePolicy,
    now: datetime,
    source_uid: str = "",
) -> Request:
    """Return the request of a write; `Obsolete` if its object is gone. A Candidate says by `source_uid` which cluster
    made it."""
    match decision:
        case CandidateRequested():
            request = _candidate(state, decision, body_in(bodies, decision.template), policy)
            request.body["metadata"] |= {"annotations": {SOURCE_UID: source_uid}} if source_uid else {}
            return request
        case CandidateAmended():
            if state.pod is None or state.pod.uid != decision.uid:
                raise Obsolete("the pod is gone")
            was, now_is = (_template(body_in(bodies, ref)) for ref in (decision.before, decision.template))
            return _patch(state, decision, {"spec": {"template": merge_diff(was, now_is)}})
        case PermitGranted():
            if now >= decision.until:
                raise Obsolete("the lease is over: nobody would use it")
            permit = {
                "number": decision.number,
                "kind": decision.kind,
                "reservation": decision.reservation,
                "until": stamp(decision.until),
            }
            return _patch(state, decision, {"spec": {"permit": permit}})
        case PermitRevoked():
            return _patch(state, decision, {"spec": {"withdrawn": decision.number}})
        case GatesSet():
            return _patch(state, decision, {"spec": {"conditions": [as_said(one) for one in decision.conditions]}})
        case ScaleUpSet():
            return _patch(state, decision, {"spec": {"scaleUp": decision.allowed}})
        case CandidateDropped():
            return Request(
                "delete",
                ObjectRef(CANDIDATES, state.namespace, decision.candidate),
                uid=decision.uid,
                resource_version=decision.resource_version,
                owner_label=(SOURCE_LABEL, policy.cluster),
            )
        case StatusShown() | DelegateHinted() | SourceBound() | SourceRemoved():
            if state.pod is None or state.pod.uid != decision.uid:
                raise Obsolete("the pod is gone")
            return _to_pod(state.pod, decision, bodies, policy, now)
        case _:
            raise Obsolete(f"no request is known for {type(decision).__name__}")


def _candidate(state: SourceState, decision: CandidateRequested, template: Json, policy: SourcePolicy) -> Request:
    if state.pod is None or state.pod.uid != decision.uid:
        raise Obsolete("the pod is gone")
    body: Json = {
        "metadata": {"labels": {SOURCE_LABEL: policy.cluster}, "finalizers": [FINALIZER]},
        "spec": {
            "source": {
                "cluster": policy.cluster,
                "namespace": state.namespace,
                "name": state.name,
                "uid": decision.uid,
                "epoch": decision.epoch,
            },
            "template": _template(template),
        },
    }
    if decision.least:
        body["spec"]["minMember"] = decision.least
    if state.pod.gates:
        body["spec"]["conditions"] = []  # whether it is there afterwards tells whether the target's CRD knows it
    if decision.scale_up is not None:
        body["spec"]["scaleUp"] = decision.scale_up
    ref = ObjectRef(CANDIDATES, state.namespace, decision.candidate)
    return Request("create", ref, body, owner_label=(SOURCE_LABEL, policy.cluster))


def _template(template: Json) -> Json:
    """Return a body of `objects.template` as a Candidate has it."""
    head = {"labels": template["labels"], "annotations": template["annotations"]}
    return {"metadata": head, "spec": template["spec"]}


def _patch(state: SourceState, decision: OnCandidate, body: Json) -> Request:
    known = state.candidates.get(decision.candidate)
    if known is None or known.seen is None:
        raise Obsolete("the candidate is gone")
    ref = ObjectRef(CANDIDATES, state.namespace, decision.candidate)
    return Request("patch", ref, body, uid=known.seen.uid, resource_version=decision.resource_version)


def _to_pod(
    pod: SourcePodObserved,
    decision: StatusShown | DelegateHinted | SourceBound | SourceRemoved,
    bodies: Mapping[str, bytes],
    policy: SourcePolicy,
    now: datetime,
) -> Request:
    ref = ObjectRef(PODS, pod.namespace, pod.name)
    if isinstance(decision, SourceRemoved):
        return Request("delete", ref, uid=pod.uid, resource_version=decision.resource_version, grace=0)
    if (pod.deleting and not pod.stopping) or statuses.rank(pod.phase) == 2:
        raise Obsolete("the pod has ended: it is left as it is")
    if isinstance(decision, SourceBound):
        return _binding(ref, decision)
    if isinstance(decision, DelegateHinted):
        body = _hints(decision, bodies)
        return Request("patch", ref, body, uid=pod.uid, resource_version=decision.resource_version)
    body = {"status": _status(pod, decision, bodies, policy, now)}
    return Request("patch", ref, body, subresource="status", uid=pod.uid, resource_version=decision.resource_version)


def _binding(ref: ObjectRef, decision: SourceBound) -> Request:
    """Return a binding of the very version of the pod that was decided about."""
    body: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "uid": decision.uid,
            "resourceVersion": decision.resource_version,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
    }
    return Request("create", ref, body, subresource="binding")


def _hints(decision: DelegateHinted, bodies: Mapping[str, bytes]) -> Json:
    if not decision.template:
        return {"metadata": {"annotations": decision.hints}}
    before = body_in(bodies, decision.template)["spec"].get("tolerations") or []
    noted = {HINT_TOLERATIONS: msgspec.json.encode(before).decode()}
    annotations = {**decision.hints, **noted}
    return {"metadata": {"annotations": annotations}, "spec": {"tolerations": tolerations.unlimited(before)}}


def _status(
    pod: SourcePodObserved, decision: StatusShown, bodies: Mapping[str, bytes], policy: SourcePolicy, now: datetime
) -> Json:
    at, reason = timestamp(now), str(decision.reason)
    before = _conditions(pod, at)
    by_type = {entry["type"]: entry for entry in before}
    mirrors = bool(decision.status) and not decision.failed
    if mirrors:
        wanted = statuses.mirrored(
            body_in(bodies, decision.status),
            decision.phase,
            set(pod.containers),
            decision.restarts,
            with_network=policy.mirror_pod_ips,
            over=pod.ended,
        )
    else:
        wanted = _without_delegate(pod, decision)
    ours = _own_conditions(pod, decision, by_type, at)
    if not mirrors:
        ours += [
            statuses.condition(kind, False, reason, decision.message, at, by_type.get(kind))
            for kind in ("Ready", "ContainersReady")
            if kind in by_type
        ]
    if decision.failed:
        wanted |= {"reason": reason, "message": decision.message}
        ours.append(statuses.condition("DisruptionTarget", True, "DelegateLost", decision.message, at, None))
    wanted["conditions"] = statuses.with_conditions(before, [*wanted["conditions"], *ours])
    return statuses.unsaid(wanted)


def _conditions(pod: SourcePodObserved, at: str) -> list[Json]:
    """Return the pod's conditions as they are."""
    return [
        {
            "type": entry.type,
            "status": entry.status,
            "reason": entry.reason,
            "message": entry.message,
            "lastTransitionTime": entry.last_transition_time or at,
        }
        for entry in pod.conditions
    ]


def _without_delegate(pod: SourcePodObserved, decision: StatusShown) -> Json:
    """Return the status of a pod that mirrors no delegate: one that had begun shows its containers stopped."""
    wanted: Json = {"phase": decision.phase or "Pending", "conditions": []}
    if statuses.rank(decision.phase) == 1:
        reason = str(decision.reason)
        for field, names in (("initContainerStatuses", pod.init), ("containerStatuses", pod.others)):
            left = [name for name in names if name not in pod.ended]
            if names:
                wanted[field] = statuses.stopped(left, decision.totals, reason, decision.message)
    return wanted


def _own_conditions(pod: SourcePodObserved, decision: StatusShown, by_type: Mapping[str, Json], at: str) -> list[Json]:
    """Return the conditions that are about the delegate, and not its own."""
    delegated = bool(decision.source) and not decision.failed and decision.mark.startswith(_of(decision))
    reason, known = str(decision.reason), by_type.get
    # A pod on a virtual Node is scheduled, whatever became of its delegate.
    bound = delegated or bool(pod.node)
    scheduled = "" if bound else _scheduling_reason(reason)
    ours = [
        statuses.condition(statuses.DELEGATED, delegated, reason, decision.mark, at, known(statuses.DELEGATED)),
        statuses.condition("PodScheduled", bound, scheduled, decision.message, at, known("PodScheduled")),
    ]
    if decision.obstacles or statuses.FOLLOWED in by_type:
        follows = not decision.obstacles
        why = "Followed" if follows else "NotFollowed"
        ours.append(
            statuses.condition(statuses.FOLLOWED, follows, why, decision.obstacles, at, known(statuses.FOLLOWED))
        )
    return ours


def _of(decision: StatusShown) -> str:
    """Return how `mark` begins if the status is its source's own."""
    return decision.mark.partition("/")[0] + f"/{decision.source} status"


def _scheduling_reason(reason: str) -> str:
    """Return kube-scheduler's reason of a pod that is held, else one of our own.

    An autoscaler adds nodes for a pod that is `Unschedulable` (kubernetes/autoscaler,
    cluster-autoscaler/utils/kubernetes/listers.go), and no node of this cluster would ever help: the pod is never bound
    here."""
    held = (CandidateReason.GATED, CandidateReason.GROUP_MISSING, CandidateReason.TOO_FEW_MEMBERS)
    return CandidateReason.GATED if reason in held else CandidateReason.NOT_PLACED
