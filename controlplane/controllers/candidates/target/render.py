"""From an open write of the target side to the request that carries it out.

In: the decision, the state, the bodies it names, the time. Out: `controlplane.kube.kinds.Request`. Pure. A binding
names the Pod's UID and resourceVersion, which `pods/binding` keeps to, and is not sent once its lease is too near its
end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATES,
    GROUP,
    PODS,
    SCALE_UP,
    SOURCE_UID,
    TEMPLATE,
    stamp,
)
from controlplane.controllers.candidates.readiness import APPLIED, as_said
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.amendment import patch
from controlplane.controllers.candidates.target.changes import of_group
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import Changeable
from controlplane.controllers.candidates.target.state import TargetState
from controlplane.kube.candidate_pods import SOURCE
from controlplane.kube.kinds import STRATEGIC_PATCH, Json, ObjectRef, Request
from controlplane.kube.pod_groups import QUORUM
from controlplane.kube.requests import Obsolete, body_in, merge_diff

#: The annotation on a Pod: the permit, and the version of the Pod of which a binding cannot be made any more.
FENCE = f"{GROUP}/fence"


def target_bodies(state: TargetState, decision: events.TargetWrite) -> list[str]:
    """Return the refs of the bodies that rendering a write needs."""
    match decision:
        case events.PodMade() | events.PodAmended():
            return [decision.template]
        case events.StatusReported():
            stored = state.seen.pod_status if state.seen is not None else ""
            return [ref for ref in (decision.status, stored) if ref]
        case _:
            return []


def target_render(
    state: TargetState,
    decision: events.TargetWrite,
    bodies: Mapping[str, bytes],
    policy: TargetPolicy,
    now: datetime,
) -> Request:
    """Return the request of a write; `Obsolete` if what it was based on is no longer there, or its time is over."""
    pod = ObjectRef(PODS, state.namespace, state.name)
    ours = ObjectRef(CANDIDATES, state.namespace, state.name)
    match decision:
        case events.PodMade():
            return _pod(state, decision, body_in(bodies, decision.template), policy)
        case events.PodAmended():
            wanted = _change(state, decision, body_in(bodies, decision.template))
            return Request(
                "patch",
                pod,
                wanted,
                content_type=STRATEGIC_PATCH,
                uid=decision.uid,
                resource_version=decision.resource_version,
            )
        case events.PodGatesSet():
            removed: list[Json] = [{"type": one, "$patch": "delete"} for one in decision.removed]
            return Request(
                "patch",
                pod,
                {"status": {"conditions": [*map(as_said, decision.conditions), *removed]}},
                subresource="status",
                content_type=STRATEGIC_PATCH,
                uid=decision.uid,
                resource_version=decision.resource_version,
            )
        case events.BindStarted():
            if now >= decision.before:
                raise Obsolete("the lease is too near its end to begin a binding")
            return _binding(pod, decision)
        case events.PodFenced():
            # Another binding under the same permit needs another value: a patch that changes nothing leaves the version
            # as it is.
            fence = f"{decision.number}/{decision.resource_version}"
            body: Json = {"metadata": {"annotations": {FENCE: fence}}}
            return Request("patch", pod, body, uid=decision.uid, resource_version=decision.resource_version)
        case events.PodRemoved():
            return Request("delete", pod, uid=decision.uid, owner_label=(CANDIDATE_LABEL, state.name))
        case events.FinalizerReleased():
            body = {"metadata": {"finalizers": decision.finalizers or None}}
            return Request("patch", ours, body, uid=decision.uid, resource_version=decision.resource_version)
        case events.StatusReported():
            if state.seen is None:
                raise Obsolete("the Candidate is gone")
            said = body_in(bodies, decision.status) if decision.status else {}
            stored = body_in(bodies, state.seen.pod_status) if state.seen.pod_status else {}
            status = _status(state.seen, decision.reported, said, stored, now)
            return Request(
                "patch", ours, {"status": status}, subresource="status", resource_version=decision.resource_version
            )
        case _:
            raise Obsolete(f"no request is known for {type(decision).__name__}")


def _pod(state: TargetState, decision: events.PodMade, template: Json, policy: TargetPolicy) -> Request:
    seen = state.seen
    if seen is None or seen.deleting:
        raise Obsolete("the Candidate is gone")
    head = template.get("metadata") or {}
    body: Json = {
        "metadata": {
            "labels": {**(head.get("labels") or {}), CANDIDATE_LABEL: state.name},
            "annotations": {
                **(head.get("annotations") or {}),
                TEMPLATE: decision.template,
                **({QUORUM: str(seen.least)} if seen.least > 0 else {}),
                **({SOURCE: seen.origin.cluster} if of_group(seen) else {}),
                **({SOURCE_UID: seen.source_uid} if seen.source_uid else {}),
                **({SCALE_UP: "false"} if seen.scale_up is False else {}),
            },
            "ownerReferences": [
                {
                    "apiVersion": CANDIDATES.api_version,
                    "kind": CANDIDATES.kind,
                    "name": seen.name,
                    "uid": seen.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {**_own(template["spec"]), "schedulerName": policy.scheduler_name},
    }
    if not decision.token:
        body["spec"]["automountServiceAccountToken"] = False
    ref = ObjectRef(PODS, state.namespace, state.name)
    return Request("create", ref, body, owner_label=(CANDIDATE_LABEL, state.name))


def _own(spec: Json) -> Json:
    """Return a PodSpec without what the admission of this cluster fills in by the PriorityClass and the RuntimeClass
    that it names; it refuses another cluster's word."""
    return {field: value for field, value in spec.items() if field not in ("priority", "preemptionPolicy", "overhead")}


def _change(state: TargetState, decision: events.PodAmended, template: Json) -> Json:
    seen, pod = state.seen, state.pod
    if pod is None or pod.uid != decision.uid or seen is None or seen.template != decision.template:
        raise Obsolete("the Pod is gone, or is to be changed otherwise")
    found = _followed(state, pod, seen, decision.template, template)
    if decision.source:
        found["metadata"]["annotations"][SOURCE] = decision.source
    if decision.source_uid:
        found["metadata"]["annotations"][SOURCE_UID] = decision.source_uid
    if decision.scale_up is not None:
        found["metadata"]["annotations"][SCALE_UP] = None if decision.scale_up else "false"
    return found


def _followed(
    state: TargetState, pod: events.CandidatePodObserved, seen: events.CandidateObserved, ref: str, template: Json
) -> Json:
    """Return the patch that brings a Pod in line with a template; one that agrees with it is left as it is."""
    made = state.made
    agrees = pod.template or (made.template if made is not None else "")
    if agrees == ref:
        return {"metadata": {"annotations": {TEMPLATE: ref}}}
    before = made.known.get(agrees) if made is not None else None
    return patch(template, pod, ref, before, seen.changeable or Changeable())


def _binding(pod: ObjectRef, decision: events.BindStarted) -> Request:
    body: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": decision.uid,
            "resourceVersion": decision.resource_version,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
    }
    return Request("create", pod, body, subresource="binding")


def _status(
    seen: events.CandidateObserved, reported: events.Reported, pod_status: Json, stored: Json, now: datetime
) -> Json:
    """Return the status as a merge patch over what is stored: nulls take away what does not hold any more."""
    expires = stamp(reported.expires) if reported.expires is not None else None
    return {
        "phase": reported.phase,
        "reason": reported.reason or None,
        "message": reported.message or None,
        "reservation": {
            "number": reported.reservation,
            "node": reported.node or None,
            "score": reported.score,
            "expires": expires,
        },
        "acknowledged": reported.acknowledged,
        "tried": reported.tried,
        "preemptable": reported.preemptable,
        "boundBy": reported.bound_by,
        "pod": {"name": reported.pod} if reported.pod else None,
        "sequence": reported.sequence,
        "follows": reported.follows or None,
        "podStatus": merge_diff(stored, pod_status) if pod_status else None,
        "conditions": _conditions(seen, reported, now),
    }


def _conditions(seen: events.CandidateObserved, reported: events.Reported, now: datetime) -> list[Json]:
    """Return what the phase means, for `kubectl wait`; a transition time stays while its status does."""
    phase = reported.phase
    holds = {
        "Admitted": phase not in ("", "Refused"),
        "Reserved": phase in ("Reserved", "Binding", "Bound"),
        "Bound": phase == "Bound",
        **({APPLIED: True} if reported.gates else {}),
    }
    before = {entry.type: entry for entry in seen.conditions}
    found = []
    for kind, holding in holds.items():
        status, known = "True" if holding else "False", before.get(kind)
        same = known is not None and known.status == status
        found.append(
            {
                "type": kind,
                "status": status,
                "reason": reported.reason or phase,
                "message": reported.message,
                "lastTransitionTime": known.last_transition_time if same and known else stamp(now),
            }
        )
    return found
