"""Decides in scheduling cycles: the engine's decisions become events.

In: what is known, and the moment. Out: events about the heads of all ClusterQueues, and the versions of the streams
that they hold for. What a cycle says once more, since nothing has changed, is not said."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import events, facts, second_pass, slices
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.observe import workload_stream
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.controllers.quota.admission.state import WorkloadState, rests, says_why
from controlplane.controllers.quota.admission.workload_writes import status_of, target_of, write_fields
from controlplane.controllers.quota.engine import decisions
from controlplane.controllers.quota.engine.amounts import FlavorResource, Usage, add, quantity
from controlplane.controllers.quota.engine.cycle import decide as engine_decide
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.reasons import PREEMPTION_GATED, WAITING_FOR_PODS_READY
from controlplane.controllers.quota.engine.rendering import admission_of
from controlplane.controllers.quota.engine.state import State
from controlplane.controllers.quota.engine.usage_history import quantities
from controlplane.kube.kinds import Json
from controlplane.kube.kueue_names import BLOCKED
from controlplane.kube.requests import truncated
from controlplane.log.event import NewEvent

_CONSIDERED = 1024  # bytes of a note of an Event, of which it is the largest part


def decide(index: AdmissionIndex, now: datetime) -> tuple[list[NewEvent], Mapping[str, int]]:
    """Return what a cycle decides, and the versions of the Workloads' streams that it rests on."""
    found: list[NewEvent] = []
    others: dict[str, int] = {}
    number = index.engine.cycle + 1
    for decision in engine_decide(index.engine, now.timestamp()):
        for key, event in _events(index, decision, number, now):
            stream = workload_stream(key)
            if stream in others:
                continue  # one decision about a Workload in a cycle: the next one comes with the next
            if isinstance(event, events.QuotaReservationDecided) and _comes_first(index.workload(key)):
                continue  # it keeps its place in this cycle, and whatever ends that lets the next one decide
            if isinstance(event, second_pass.OF_ITS_OWN) and second_pass.is_busy(index.workload(key), now):
                continue
            others[stream] = index.workload(key).version
            cause = max(index.workload(key).position, index.touched.get(index.tree(decision.cluster_queue), 0))
            found.append(NewEvent(stream=stream, event=event, cluster=MANAGEMENT, caused_by=cause or index.moved))
    return found, others


def _comes_first(state: WorkloadState) -> bool:
    """Whether something comes before quota can be reserved: the ledger's entry of a reservation that was overtaken, or
    the outcome of an open write, since the version of the Workload that this makes would overtake the reservation. It
    may have been sent already: what its own stream says is recorded before what a cycle says in the same pass.
    """
    return bool(state.posted.amounts or state.effects)


def _events(
    index: AdmissionIndex, decision: decisions.Decision, number: int, now: datetime
) -> list[tuple[str, events.AdmissionDecision]]:
    seen = index.workload(decision.workload).observed
    if seen is None:
        return []
    if isinstance(decision, decisions.Evict):
        return [(decision.workload, second_pass.eviction(decision, seen, now))]
    if isinstance(decision, decisions.Admit):
        made = second_pass.assignment if decision.second_pass else _reservation
        return [(decision.workload, made(index, decision, seen, number, now))]
    if decision.second_pass:
        found: list[tuple[str, events.AdmissionDecision]] = [(decision.workload, second_pass.failure(decision, number))]
        return found + _preemptions(index, decision, seen.uid, number, now)
    waits = _inadmissible(index, decision, seen, number, now)
    if index.cycles.knows(decision.workload, waits):
        return []
    if waits.why == WAITING_FOR_PODS_READY and not waits.written and index.engine.waits_for_pods == decision.workload:
        return []
    return [(decision.workload, waits), *_preemptions(index, decision, seen.uid, number, now)]


def _preemptions(
    index: AdmissionIndex, decision: decisions.Inadmissible, preemptor_uid: str, number: int, now: datetime
) -> list[tuple[str, events.AdmissionDecision]]:
    found: list[tuple[str, events.AdmissionDecision]] = []
    for victim in decision.victims if isinstance(decision, decisions.Preempt) else ():
        target = index.workload(victim.workload).observed
        if not victim.ongoing and target is not None and not rests(index.workload(victim.workload), now):
            made = _preemption(index, decision, victim, target, preemptor_uid, number, now)
            found.append((victim.workload, made))
    return found


def _reservation(
    index: AdmissionIndex,
    decision: decisions.Admit,
    seen: events.AdmissionWorkloadObserved,
    number: int,
    now: datetime,
) -> events.QuotaReservationDecided:
    admission = admission_of(decision.admission, index.engine.settings.devices.in_bytes)
    status = status_of(seen, now)
    status.reserve(admission, decision.checks)
    slices.keep_cluster(index, decision, status)
    found = write_fields(seen.status, status.status)
    found["changes"].pop("admission", None)
    amounts: Usage = {}
    for pod_set in decision.admission.pod_sets:
        for resource, name in pod_set.flavors.items():
            amounts[name, resource] = add(amounts.get((name, resource), 0), pod_set.usage.get(resource, 0))
    return events.QuotaReservationDecided(
        **target_of(seen),
        **found,
        reason=AdmissionReason.QUOTA_FITS,
        cycle=number,
        cluster_queue=decision.cluster_queue,
        admission=admission,
        amounts=facts.by_flavor(amounts),
        borrowed=facts.by_flavor(
            borrowed(index.engine, decision.cluster_queue, amounts, slices.added(index, decision, amounts))
        ),
        admitted=status.is_true("Admitted"),
        penalty=quantities(decision.penalty),
        replaces=decision.replaces,
        considered=truncated(decision.considered, _CONSIDERED),
    )


def borrowed(engine: State, cluster_queue: str, amounts: Usage, more: Usage) -> Usage:
    """Return which of some amounts a ClusterQueue borrows, once it uses `more` than now."""
    node = engine.snapshot.queues.get(cluster_queue)
    if node is None or node.parent is None:
        return {}
    used = {place: add(node.usage.get(place, 0), more.get(place, 0)) for place in amounts}
    return facts.beyond(used, node.spec.quotas, amounts)


def waiting(
    seen: events.AdmissionWorkloadObserved,
    info: Info | None,
    reason: str,
    message: str,
    now: datetime,
    in_bytes: frozenset[str],
    *,
    gated: bool = False,
) -> Json:
    """Return the status of a Workload that waits: why, and what it asks for where that is known; `in_bytes`: resources
    that are spelled as bytes; `gated`: it would preempt, if it had no gate."""
    status = status_of(seen, now)
    status.unreserve(reason, message)
    if info is not None:
        status.request_resources(_requests(info, in_bytes))
    if gated:
        status.set(BLOCKED, "True", PREEMPTION_GATED, message)
    return status.status


def _inadmissible(
    index: AdmissionIndex,
    decision: decisions.Inadmissible,
    seen: events.AdmissionWorkloadObserved,
    number: int,
    now: datetime,
) -> events.WorkloadInadmissible:
    pending = index.engine.queues.pending.get(decision.cluster_queue)
    info = pending.find(decision.workload) if pending is not None else None
    in_bytes = index.engine.settings.devices.in_bytes
    gated = decision.requeue == PREEMPTION_GATED
    status = waiting(seen, info, decision.reason, decision.message, now, in_bytes, gated=gated)
    # Where such a write is open, or was refused, it is said once that is over, by what the Workload's own stream
    # decides.
    state = index.workload(decision.workload)
    found = write_fields(seen.status, status) if not (says_why(state) or rests(state, now)) else {}
    progress = decision.progress
    if progress is not None and info is not None and progress.shape != info.shape:
        progress = None  # it is outdated, and would be looked at no more
    return events.WorkloadInadmissible(
        **target_of(seen),
        **found,
        reason=AdmissionReason.QUOTA_DOES_NOT_FIT,
        cycle=number,
        cluster_queue=decision.cluster_queue,
        why=decision.reason,
        message=decision.message,
        requeue=decision.requeue,
        tried=[dict(one) for one in progress.tried] if progress is not None else None,
        tried_at=[progress.generation, progress.cycle] if progress is not None else [],
        wakes=decision.wakes,
        written=any(found.values()),
        short_of=_by_flavor(decision.short_of),
        victims=[
            f"{victim.workload}{' is being evicted' if victim.ongoing else ''}"
            for victim in getattr(decision, "victims", ())
        ],
    )


def _by_flavor(places: Collection[FlavorResource] | None) -> dict[str, list[str]] | None:
    if places is None:
        return None
    found: dict[str, list[str]] = {}
    for flavor, resource in sorted(places):
        found.setdefault(flavor, []).append(resource)
    return found


def _requests(info: Info, in_bytes: frozenset[str]) -> list[Json]:
    return [
        {
            "name": one.name,
            **(
                {"resources": {name: quantity(name, amount, in_bytes) for name, amount in one.requests.items()}}
                if one.requests
                else {}
            ),
        }
        for one in info.pod_sets
    ]


def _preemption(
    index: AdmissionIndex,
    decision: decisions.Inadmissible,
    victim: decisions.Victim,
    target: events.AdmissionWorkloadObserved,
    preemptor_uid: str,
    number: int,
    now: datetime,
) -> events.WorkloadPreemptionDecided:
    status = status_of(target, now)
    status.preempt(victim.reason, victim.message)
    info = index.engine.snapshot.workloads.get(victim.workload)
    return events.WorkloadPreemptionDecided(
        **target_of(target),
        **write_fields(target.status, status.status),
        reason=AdmissionReason.PREEMPTED,
        cycle=number,
        cluster_queue=victim.cluster_queue,
        preemptor=decision.workload,
        preemptor_uid=preemptor_uid,
        why=victim.reason,
        message=victim.message,
        amounts=facts.by_flavor(info.usage) if info is not None else {},
    )
