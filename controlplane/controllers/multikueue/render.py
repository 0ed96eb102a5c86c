"""Makes of an open write the request that carries it out, and the Kubernetes Event that informs the user.

In: the decision, the state it was based on, the bodies it names, the time. Out: `controlplane.kube.kinds.Request`.
Pure. The status of a Workload of the management cluster is written in
`controlplane.controllers.multikueue.status_writes`; other status writes are JSON merge patches with the resourceVersion
that the decision saw, and explicit nulls. A list that is patched is therefore always the whole list as it was read at
that version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.nominate import OWN
from controlplane.controllers.multikueue.objects import EVICTED_ON_MANAGER
from controlplane.controllers.multikueue.observations import CloneObserved, JobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.status_writes import status_request
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.job_kinds.base import ATTEMPT, MADE_FOR, JobKind
from controlplane.kube.conditions import MESSAGE_LIMIT, Condition, condition_json
from controlplane.kube.kinds import ADMISSION_CHECKS, MULTIKUEUE_CLUSTERS, WORKLOADS, Json, ObjectRef, Request
from controlplane.kube.kueue_names import (
    JOB_UID_LABEL,
    ORIGIN_LABEL,
    ORIGIN_UID,
    PREBUILT,
    PREEMPTION_GATE,
    PRIORITY_BOOST,
)
from controlplane.kube.requests import Obsolete, body_in, event_about, merge_diff, timestamp, truncated

_REPORTER = "kueue-workload-controller"
"""Who reports Events on Workloads in Kueue (`WorkloadControllerName` in pkg/constants/constants.go, ff69552e)."""


def bodies_needed(decision: events.WorkloadWrite, job: JobObserved | None, local: WorkloadObserved | None) -> list[str]:
    """Return the refs of the bodies that rendering a write needs."""
    match decision:
        case events.CloneDecided() | events.JobCreationDecided():
            return [decision.template]
        case events.SpecUpdateDecided():
            return [decision.template, *([decision.sized] if decision.sized else [])]
        case events.StatusRelayDecided():
            return [decision.status, *([job.status] if job is not None else [])]
        case events.NominationDecided() | events.CheckStateDecided() | events.FinishDecided():
            return [local.applied] if local is not None and local.applied else []
        case _:
            return []


def render(
    state: WorkloadState,
    job: JobObserved | None,
    decision: events.WorkloadWrite,
    bodies: Mapping[str, bytes],
    policy: MultiKueuePolicy,
    now: datetime,
    made_for: Sequence[str] = (),
) -> Request:
    """Return the request of a write to a Workload, a clone, or a job; `Obsolete` if its object is gone. What is created
    says that it is `made_for` a management cluster, by its identity; those that follow are whose place it took."""
    match decision:
        case events.CloneDecided():
            return _made_for(_clone(state, decision, body_in(bodies, decision.template), policy), made_for)
        case events.JobCreationDecided():
            return _made_for(_job_clone(state, decision, body_in(bodies, decision.template), policy), made_for)
        case events.StatusRelayDecided():
            if job is None:
                raise Obsolete("the job is gone")
            return _relay(job, decision, bodies, _adapter(policy, decision.kind), now)
        case events.RemovalDecided():
            return _removal(state, decision, policy)
        case events.FinalizerRemovalDecided() | events.FinalizerAdditionDecided():
            return _finalizers(state, decision, policy)
        case events.CloneUpdateDecided():
            return _patch(state, decision, _priority(decision))
        case events.SpecUpdateDecided():
            return _spec_update(state, decision, bodies, policy)
        case events.GateOpeningDecided() | events.DeactivationDecided():
            return _clone_status(state, decision, now)
        case _:
            if state.local is None:
                raise Obsolete("the Workload is gone")
            needed = bodies_needed(decision, job, state.local)
            rest = body_in(bodies, needed[0]) if needed else None
            return status_request(state.local, decision, rest, now, nominated_by_another=policy.dispatcher not in OWN)


def _made_for(request: Request, identities: Sequence[str]) -> Request:
    if not identities:
        return request
    request.body["metadata"].setdefault("annotations", {})[MADE_FOR] = identities[0]
    return replace(request, maker=(MADE_FOR, *identities))


def _clone(state: WorkloadState, decision: events.CloneDecided, template: Json, policy: MultiKueuePolicy) -> Request:
    labels = {key: value for key, value in template["labels"].items() if key != JOB_UID_LABEL}
    metadata: Json = {
        "namespace": state.namespace,
        "name": state.name,
        "labels": {**labels, ORIGIN_LABEL: policy.origin},
    }
    if template["annotations"]:
        metadata["annotations"] = dict(template["annotations"])
    body = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": metadata,
        # Gates of the management cluster's Workload are not the worker's (`cloneForCreate` in kubernetes-sigs/kueue
        # pkg/controller/admissionchecks/multikueue/workload.go, ff69552e).
        "spec": {**template["spec"], **({"preemptionGates": [{"name": PREEMPTION_GATE}]} if decision.gated else {})},
    }
    ref = ObjectRef(WORKLOADS, state.namespace, state.name)
    return Request("create", ref, body, owner_label=(ORIGIN_LABEL, policy.origin))


def _job_clone(
    state: WorkloadState, decision: events.JobCreationDecided, template: Json, policy: MultiKueuePolicy
) -> Request:
    if state.local is None or state.local.owner is None:
        raise Obsolete("the Workload is gone")
    adapter = _adapter(policy, decision.kind)
    name = decision.member or state.local.owner.name
    body = adapter.clone(template, state.namespace, name, state.name, policy.origin)
    if adapter.elastic and state.local.size and state.local.size != adapter.size(body):
        body["spec"] = adapter.of_size(body["spec"], state.local.size)
    if not adapter.overtaken_counts():
        body["metadata"]["annotations"][ATTEMPT] = str(decision.attempt)
    if adapter.names_origin:
        body["metadata"]["annotations"][ORIGIN_UID] = state.local.owner.uid
    return Request(
        "create",
        ObjectRef(adapter.kind, state.namespace, name),
        body,
        owner_label=(ORIGIN_LABEL, policy.origin),
    )


def _spec_update(
    state: WorkloadState, decision: events.SpecUpdateDecided, bodies: Mapping[str, bytes], policy: MultiKueuePolicy
) -> Request:
    template = body_in(bodies, decision.template)
    if decision.of == "Workload":
        return _patch(state, decision, {"spec": {"podSets": template["spec"]["podSets"]}}, uid=decision.uid)
    remote = state.remote(decision.cluster).job
    if state.owner is None or (remote is None and not decision.prebuilt):
        raise Obsolete("the job is gone")
    adapter = _adapter(policy, decision.kind)
    body: Json = {"spec": adapter.synced_spec(template)}
    if decision.resized:
        body = {"spec": adapter.resized(body_in(bodies, decision.sized) if decision.sized else {}, template)}
    if decision.prebuilt:
        # Kueue looks at the annotation, or at the label where it still uses one: only one of them may be there.
        body["metadata"] = {"annotations": {PREBUILT: decision.prebuilt}, "labels": {PREBUILT: None}}
    return Request(
        "patch",
        ObjectRef(adapter.kind, state.namespace, remote.name if remote is not None else state.owner.name),
        body,
        uid=decision.uid or (remote.uid if remote is not None else ""),
        resource_version=decision.resource_version,
    )


def _relay(
    job: JobObserved, decision: events.StatusRelayDecided, bodies: Mapping[str, bytes], adapter: JobKind, now: datetime
) -> Request:
    status, current = body_in(bodies, decision.status), body_in(bodies, job.status)
    if decision.drain:
        status = adapter.drained(status)
    elif decision.outcome:
        status = adapter.ended_as(status, decision.outcome)
    elif decision.source:
        status = adapter.shown(status, current, suspended=job.suspended)
    if decision.mark_suspended:
        kept = [entry for entry in status.get("conditions") or [] if entry.get("type") != "Suspended"]
        mark = condition_json(_condition("Suspended", "MultiKueueAdapter", "Set by MultiKueue adapter", now))
        status = {**status, "conditions": [*kept, mark]}
    return Request(
        "patch",
        ObjectRef(adapter.kind, job.namespace, job.name),
        {"status": merge_diff(current, status)},
        subresource="status",
        resource_version=decision.resource_version,
    )


def _removal(state: WorkloadState, decision: events.RemovalDecided, policy: MultiKueuePolicy) -> Request:
    remote = state.remote(decision.cluster)
    if decision.of == "Job":
        job = remote.members.get(decision.member) if decision.member else remote.job
        if job is None:
            raise Obsolete("the job is gone")
        ref = ObjectRef(_adapter(policy, decision.kind).kind, job.namespace, job.name)
    else:
        ref = ObjectRef(WORKLOADS, state.namespace, state.name)
    # Of which only the UID counts, it is the very object that carried the label when it was seen: no look at it before.
    return Request(
        "delete",
        ref,
        uid=decision.uid,
        resource_version=decision.resource_version,
        owner_label=(ORIGIN_LABEL, policy.origin) if decision.resource_version else None,
    )


def _finalizers(
    state: WorkloadState,
    decision: events.FinalizerRemovalDecided | events.FinalizerAdditionDecided,
    policy: MultiKueuePolicy,
) -> Request:
    body = {"metadata": {"finalizers": decision.finalizers or None}}
    if decision.where == "Workload":
        return _patch(state, decision, body, uid=decision.uid)
    pod = next((one for one in state.remote(decision.cluster).jobs if one.uid == decision.uid), None)
    if pod is None:
        raise Obsolete("the pod is gone")
    ref = ObjectRef(_adapter(policy, pod.kind).kind, pod.namespace, pod.name)
    return Request("patch", ref, body, uid=decision.uid, resource_version=decision.resource_version)


def _patch(
    state: WorkloadState, decision: events.WorkloadWrite, body: Json, subresource: str = "", uid: str = ""
) -> Request:
    return Request(
        "patch",
        ObjectRef(WORKLOADS, state.namespace, state.name),
        body,
        subresource=subresource,
        resource_version=decision.resource_version,
        uid=uid,
    )


def _clone_status(
    state: WorkloadState, decision: events.GateOpeningDecided | events.DeactivationDecided, now: datetime
) -> Request:
    clone = state.remote(decision.cluster).clone
    if clone is None:
        raise Obsolete("the clone is gone")
    if isinstance(decision, events.GateOpeningDecided):
        return _patch(state, decision, {"status": {"preemptionGates": _opened(clone, now)}}, "status", decision.uid)
    entry = _condition("DeactivationTarget", EVICTED_ON_MANAGER, decision.message, now)
    return _patch(state, decision, {"status": {"conditions": _with(clone.conditions, entry)}}, "status")


def _opened(clone: CloneObserved, now: datetime) -> list[Json]:
    """Return a copy's gates with ours open. The others go along as they are: a merge patch has the whole list, and only
    what it changes becomes ours, so the worker's Kueue closes the gate at an eviction as if it had opened it itself."""
    entries = [
        {"name": one.name, "position": one.position, "lastTransitionTime": one.last_transition_time}
        for one in clone.gates
        if one.name != PREEMPTION_GATE
    ]
    return [*entries, {"name": PREEMPTION_GATE, "position": "Open", "lastTransitionTime": timestamp(now)}]


def _priority(decision: events.CloneUpdateDecided) -> Json:
    priority = decision.priority
    reference = None
    if priority.class_name:
        reference = {"group": priority.class_group, "kind": priority.class_kind, "name": priority.class_name}
    return {
        "metadata": {"annotations": {PRIORITY_BOOST: priority.boost or None}},
        "spec": {"priority": priority.value, "priorityClassRef": reference},
    }


def render_condition(
    decision: events.WorkloadWrite, name: str, conditions: list[Condition], condition: Condition
) -> Request:
    """Return the request that writes an `Active` condition."""
    kind = MULTIKUEUE_CLUSTERS if decision.where == "MultiKueueCluster" else ADMISSION_CHECKS
    return Request(
        "patch",
        ObjectRef(kind, "", name),
        {"status": {"conditions": _with(conditions, condition)}},
        subresource="status",
        resource_version=decision.resource_version,
    )


def announcement(
    local: WorkloadObserved, decision: events.WorkloadWrite, position: int, identity: str, now: datetime
) -> Request | None:
    """Return the Kubernetes Event that informs the user of a decision, as Kueue does; None if there is none for
    it.

    The name is made of the decision's position, so that an Event that is sent twice is refused the second time.
    """
    if not isinstance(decision, events.CheckStateDecided) or decision.reason == WorkloadReason.TOPOLOGY_ASSIGNED:
        return None
    warning = decision.state == "Rejected" or "out of sync" in decision.message
    regarding = ObjectRef(WORKLOADS, local.namespace, local.name)
    return event_about(
        regarding,
        local.uid,
        "Warning" if warning else "Normal",
        "MultiKueue",
        decision.message,
        f"{position:x}",
        identity,
        now,
        controller=_REPORTER,
    )


def _condition(kind: str, reason: str, message: str, now: datetime) -> Condition:
    message = truncated(message, MESSAGE_LIMIT)
    return Condition(type=kind, status="True", reason=reason, message=message, last_transition_time=timestamp(now))


def _with(conditions: list[Condition], entry: Condition) -> list[Json]:
    kept = [condition_json(condition) for condition in conditions if condition.type != entry.type]
    return [*kept, condition_json(entry)]


def _adapter(policy: MultiKueuePolicy, kind: str) -> JobKind:
    for adapter in policy.adapters.values():
        if adapter.kind.name == kind:
            return adapter
    raise Obsolete(f"the kind {kind} is not enabled any more")
