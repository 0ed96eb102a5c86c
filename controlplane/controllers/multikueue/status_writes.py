"""Makes of a decision about a Workload of the management cluster the request that writes its status, the way Kueue's
own controllers write it.

In: the Workload as it was seen, the decision, the body of what is applied with every write. Out: `Request`. Pure.

Kueue's core takes a field away by leaving it out of its server-side apply as field manager `kueue-admission`, and that
removes only what no other manager owns. Hence nominations, the selection and the end are applied under that name too,
with the whole set of fields and the resourceVersion that was decided on (`PatchAdmissionStatus` in
kubernetes-sigs/kueue pkg/workload/patching/patching.go, ff69552e); and a check's state alone under MultiKueue's own
name (`updateACS` in pkg/controller/admissionchecks/multikueue/workload.go). What an older version of ours or anybody
else wrote otherwise still goes by an explicit null, which removes a field whoever owns it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.objects import check_json
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.conditions import MESSAGE_LIMIT, Condition, condition_json
from controlplane.kube.kinds import APPLY_PATCH, MERGE_PATCH, WORKLOADS, Json, ObjectRef, Request, nested
from controlplane.kube.kueue_names import ADMISSION_MANAGER, MULTIKUEUE
from controlplane.kube.requests import Obsolete, timestamp, truncated

# A condition that Kueue writes under a name of its own, and not with the admission.
_NOT_OF_ADMISSION = frozenset({"WaitingForReplacementPods"})


def status_request(
    local: WorkloadObserved,
    decision: events.WorkloadWrite,
    rest: Json | None,
    now: datetime,
    *,
    nominated_by_another: bool = False,
) -> Request:
    """Return the request. `rest` is the body that the observation names in `applied`; None if it names none, since a
    version recorded it that wrote merge patches, as is done then. What is `nominated_by_another` need not have been
    applied by Kueue's name, and goes by an explicit null when a cluster is selected.
    """
    ref = ObjectRef(WORKLOADS, local.namespace, local.name)
    change = _change(local, decision, now)
    content_type, manager = APPLY_PATCH, ADMISSION_MANAGER
    takes_theirs = nominated_by_another and bool(local.nominated) and "clusterName" in change
    if rest is None or takes_theirs or isinstance(decision, events.NamesClearDecided):
        status, content_type, manager = _patch(local, change), MERGE_PATCH, ""
    elif _concerns_the_check_alone(decision):
        ours = [entry for entry in change["admissionChecks"] if entry["name"] == _check_of(decision)]
        status, manager = {"admissionChecks": ours}, MULTIKUEUE
    else:
        status = _whole(local, change, rest)
    return Request(
        "patch",
        ref,
        {"status": status},
        subresource="status",
        content_type=content_type,
        resource_version=decision.resource_version,
        field_manager=manager,
    )


def _change(local: WorkloadObserved, decision: events.WorkloadWrite, now: datetime) -> Json:
    """Return the fields of the status that a decision changes, whole; what is to go is None. `delayedTopologyRequest`
    names the pod sets whose request is answered: that is one field in a list.
    """
    match decision:
        case events.NominationDecided():
            return {"nominatedClusterNames": decision.clusters}
        case events.NamesClearDecided():
            return {"clusterName": None, "nominatedClusterNames": None}
        case events.FinishDecided():
            finished = decision.finish_reason, decision.message
            return {"conditions": _with_condition(local, "Finished", *finished, now)}
        case events.CheckStateDecided():
            change: Json = {"admissionChecks": _checks(local, decision, now)}
            if decision.winner:
                change |= {"clusterName": decision.winner, "nominatedClusterNames": None}
            if decision.topology:
                change["delayedTopologyRequest"] = decision.topology
            if decision.reason is WorkloadReason.NO_LONGER_REJECTED:
                requeued = decision.reason.value, decision.message
                change["conditions"] = _with_condition(local, "Requeued", *requeued, now)
            return change
        case _:
            raise Obsolete(f"no request is known for {type(decision).__name__}")


def _patch(local: WorkloadObserved, change: Json) -> Json:
    """Return the merge patch of a change: the changed fields alone, lists whole."""
    answered = change.pop("delayedTopologyRequest", ())
    if answered:
        change["admission"] = {"podSetAssignments": _answered(local.assignments, answered)}
    return change


def _whole(local: WorkloadObserved, change: Json, rest: Json) -> Json:
    """Return everything that Kueue applies with the admission, with a change in it.

    A field that this version of ours does not know goes along as it is: what is left out is taken away.
    """
    status: Json = {
        **rest,
        "conditions": [condition_json(one) for one in local.conditions if one.type not in _NOT_OF_ADMISSION],
        "admissionChecks": [check_json(check) for check in local.checks],
        "clusterName": local.cluster_name or None,
        "nominatedClusterNames": local.nominated or None,
    }
    if _requeue_is_empty(nested(status, "requeueState")):
        status.pop("requeueState", None)
    answered = change.pop("delayedTopologyRequest", ())
    if admission := status.get("admission"):
        status.pop("resourceRequests", None)  # what the assignments say counts from then on
        if answered:
            assignments = _answered(admission.get("podSetAssignments") or [], answered)
            status["admission"] = {**admission, "podSetAssignments": assignments}
    status |= change
    return {field: value for field, value in status.items() if value not in (None, [])}


def _requeue_is_empty(state: Json) -> bool:
    """Whether a `requeueState` says nothing."""
    return state.get("count") is None and state.get("requeueAt") is None


def _concerns_the_check_alone(decision: events.WorkloadWrite) -> bool:
    """Whether Kueue writes the state of the check without the rest: it selects no cluster, and the worker did not evict
    its copy. Who is not rejected any more is queued again by a condition: Kueue's queues set a Workload with a failed
    check aside, and look at it again for a change of Evicted or Requeued, and not for one of its checks
    (kubernetes-sigs/kueue pkg/cache/queue/cluster_queue.go, PushOrUpdate).
    """
    return (
        isinstance(decision, events.CheckStateDecided)
        and not decision.winner
        and not decision.topology
        and decision.reason not in (WorkloadReason.REMOTE_EVICTED, WorkloadReason.NO_LONGER_REJECTED)
    )


def _check_of(decision: events.WorkloadWrite) -> str:
    return decision.check if isinstance(decision, events.CheckStateDecided) else ""


def _answered(assignments: list[Json], pod_sets: list[str]) -> list[Json]:
    return [
        {**assignment, "delayedTopologyRequest": "Ready"} if assignment.get("name") in pod_sets else assignment
        for assignment in assignments
    ]


def _checks(local: WorkloadObserved, decision: events.CheckStateDecided, now: datetime) -> list[Json]:
    entries = []
    for check in local.checks:
        if check.name != decision.check:
            entries.append(check_json(check))
            continue
        at = check.last_transition_time if check.state == decision.state else timestamp(now)
        entry = check_json(
            msgspec.structs.replace(
                check,
                state=decision.state,
                message=truncated(decision.message, MESSAGE_LIMIT),
                last_transition_time=at,
            )
        )
        if decision.requeue_after_seconds:
            entry["requeueAfterSeconds"] = decision.requeue_after_seconds
        entries.append(entry)
    return entries


def _with_condition(local: WorkloadObserved, name: str, reason: str, message: str, now: datetime) -> list[Json]:
    """Return the conditions, this one True."""
    made = Condition(
        type=name,
        status="True",
        reason=reason,
        message=truncated(message, MESSAGE_LIMIT),
        last_transition_time=timestamp(now),
        observed_generation=local.generation,
    )
    return [*(condition_json(one) for one in local.conditions if one.type != name), condition_json(made)]
