"""Makes of an open write the request that carries it out, and the Kubernetes Event that informs the user.

In: the decision, the state it was based on, the bodies it names, the time. Out: `controlplane.kube.kinds.Request`.
Pure. Status writes are JSON merge patches with the resourceVersion that the decision saw, and explicit nulls: a null
removes a field whichever field manager owns it. A list that is patched is therefore always the whole list as it was
read at that version."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.objects import EVICTED_ON_MANAGER, PRIORITY_BOOST, check_json, condition_json
from controlplane.controllers.multikueue.observations import JobObserved, WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.state import WorkloadState
from controlplane.job_kinds.base import ATTEMPT, JOB_UID_LABEL, ORIGIN_LABEL, JobKind
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import ADMISSION_CHECKS, MULTIKUEUE_CLUSTERS, WORKLOADS, Json, ObjectRef, Request
from controlplane.kube.requests import Obsolete, body_in, event_about, merge_diff, timestamp

_EVENT_NOTE_LIMIT = 1024


def bodies_needed(decision: events.WorkloadWrite, job: JobObserved | None) -> list[str]:
    """Return the refs of the bodies that rendering a write needs."""
    match decision:
        case events.CloneDecided() | events.JobCreationDecided() | events.SpecUpdateDecided():
            return [decision.template]
        case events.StatusRelayDecided():
            return [decision.status, *([job.status] if job is not None else [])]
        case _:
            return []


def render(
    state: WorkloadState,
    job: JobObserved | None,
    decision: events.WorkloadWrite,
    bodies: Mapping[str, bytes],
    policy: MultiKueuePolicy,
    now: datetime,
) -> Request:
    """Return the request of a write to a Workload, a clone, or a job; `Obsolete` if its object is gone."""
    match decision:
        case events.CloneDecided():
            return _clone(state, body_in(bodies, decision.template), policy)
        case events.JobCreationDecided():
            return _job_clone(state, decision, body_in(bodies, decision.template), policy)
        case events.StatusRelayDecided():
            if job is None:
                raise Obsolete("the job is gone")
            return _relay(job, decision, bodies, _adapter(policy, decision.kind), now)
        case events.RemovalDecided():
            return _removal(state, decision, policy)
        case events.FinalizerRemovalDecided():
            body = {"metadata": {"finalizers": decision.finalizers or None}}
            return _patch(state, decision, body, uid=decision.uid)
        case events.CloneUpdateDecided():
            return _patch(state, decision, _priority(decision))
        case events.SpecUpdateDecided():
            return _spec_update(state, decision, body_in(bodies, decision.template), policy)
        case events.DeactivationDecided():
            clone = state.remote(decision.cluster).clone
            if clone is None:
                raise Obsolete("the clone is gone")
            entry = _condition("DeactivationTarget", EVICTED_ON_MANAGER, decision.message, now)
            return _patch(state, decision, {"status": {"conditions": _with(clone.conditions, entry)}}, "status")
        case _:
            if state.local is None:
                raise Obsolete("the Workload is gone")
            return _patch(state, decision, {"status": _local_status(state.local, decision, now)}, "status")


def _local_status(local: WorkloadObserved, decision: events.WorkloadWrite, now: datetime) -> Json:
    match decision:
        case events.NominationDecided():
            return {"nominatedClusterNames": decision.clusters}
        case events.NamesClearDecided():
            return {"clusterName": None, "nominatedClusterNames": None}
        case events.FinishDecided():
            entry = _condition("Finished", decision.finish_reason, decision.message, now)
            return {"conditions": _with(local.conditions, entry)}
        case events.CheckStateDecided():
            return _check_state(local, decision, now)
        case _:
            raise Obsolete(f"no request is known for {type(decision).__name__}")


def _check_state(local: WorkloadObserved, decision: events.CheckStateDecided, now: datetime) -> Json:
    entries = []
    for check in local.checks:
        if check.name != decision.check:
            entries.append(check_json(check))
            continue
        at = check.last_transition_time if check.state == decision.state else timestamp(now)
        entry = check_json(
            msgspec.structs.replace(check, state=decision.state, message=decision.message, last_transition_time=at)
        )
        if decision.requeue_after_seconds:
            entry["requeueAfterSeconds"] = decision.requeue_after_seconds
        entries.append(entry)
    status: Json = {"admissionChecks": entries}
    if decision.winner:
        status["clusterName"] = decision.winner
        status["nominatedClusterNames"] = None
    if decision.topology:
        status["admission"] = {
            "podSetAssignments": [
                {**assignment, "delayedTopologyRequest": "Ready"}
                if assignment.get("name") in decision.topology
                else assignment
                for assignment in local.assignments
            ]
        }
    return status


def _clone(state: WorkloadState, template: Json, policy: MultiKueuePolicy) -> Request:
    labels = {key: value for key, value in template["labels"].items() if key != JOB_UID_LABEL}
    metadata: Json = {
        "namespace": state.namespace,
        "name": state.name,
        "labels": {**labels, ORIGIN_LABEL: policy.origin},
    }
    if template["annotations"]:
        metadata["annotations"] = template["annotations"]
    body = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": metadata,
        "spec": template["spec"],
    }
    ref = ObjectRef(WORKLOADS, state.namespace, state.name)
    return Request("create", ref, body, owner_label=(ORIGIN_LABEL, policy.origin))


def _job_clone(
    state: WorkloadState, decision: events.JobCreationDecided, template: Json, policy: MultiKueuePolicy
) -> Request:
    if state.local is None or state.local.owner is None:
        raise Obsolete("the Workload is gone")
    adapter = _adapter(policy, decision.kind)
    name = state.local.owner.name
    body = adapter.clone(template, state.namespace, name, state.name, policy.origin)
    if not adapter.overtaken_counts():
        body["metadata"]["annotations"][ATTEMPT] = str(decision.attempt)
    return Request(
        "create",
        ObjectRef(adapter.kind, state.namespace, name),
        body,
        owner_label=(ORIGIN_LABEL, policy.origin),
    )


def _spec_update(
    state: WorkloadState, decision: events.SpecUpdateDecided, template: Json, policy: MultiKueuePolicy
) -> Request:
    remote = state.remote(decision.cluster).job
    if remote is None:
        raise Obsolete("the job is gone")
    adapter = _adapter(policy, decision.kind)
    return Request(
        "patch",
        ObjectRef(adapter.kind, remote.namespace, remote.name),
        {"spec": adapter.synced_spec(template)},
        uid=remote.uid,
        resource_version=decision.resource_version,
    )


def _relay(
    job: JobObserved, decision: events.StatusRelayDecided, bodies: Mapping[str, bytes], adapter: JobKind, now: datetime
) -> Request:
    status, current = body_in(bodies, decision.status), body_in(bodies, job.status)
    if decision.drain:
        status = adapter.drained(status)
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
        if remote.job is None:
            raise Obsolete("the job is gone")
        ref = ObjectRef(_adapter(policy, decision.kind).kind, remote.job.namespace, remote.job.name)
    else:
        ref = ObjectRef(WORKLOADS, state.namespace, state.name)
    return Request(
        "delete",
        ref,
        uid=decision.uid,
        resource_version=decision.resource_version,
        owner_label=(ORIGIN_LABEL, policy.origin),
    )


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
    )


def _condition(kind: str, reason: str, message: str, now: datetime) -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message, last_transition_time=timestamp(now))


def _with(conditions: list[Condition], entry: Condition) -> list[Json]:
    kept = [condition_json(condition) for condition in conditions if condition.type != entry.type]
    return [*kept, condition_json(entry)]


def _adapter(policy: MultiKueuePolicy, kind: str) -> JobKind:
    for adapter in policy.adapters.values():
        if adapter.kind.name == kind:
            return adapter
    raise Obsolete(f"the kind {kind} is not enabled any more")
