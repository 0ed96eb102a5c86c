"""Makes the ledger say what each Workload has of a ClusterQueue's quota.

In: what the engine counts of a Workload, and what the ledger says. Out: the next entry, with its reason. Pure."""

from __future__ import annotations

from controlplane.controllers.quota.admission import cycles, events, facts
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.controllers.quota.admission.state import Posted, WorkloadState
from controlplane.controllers.quota.engine.state import State


def entry(engine: State, key: str, state: WorkloadState) -> events.QuotaPosted | None:
    """Return the entry that makes the ledger say what a Workload has; None if it says it."""
    info = engine.snapshot.workloads.get(key)
    has = Posted()
    if info is not None and (amounts := facts.by_flavor(info.usage)):
        has = Posted(cluster_queue=info.cluster_queue, amounts=amounts)
    posted = state.posted
    if has == posted:
        return None
    if posted.amounts and posted.cluster_queue != has.cluster_queue:
        has = Posted(cluster_queue=posted.cluster_queue)  # what it has elsewhere is the next entry
    usage = facts.by_place(has.amounts)
    difference = facts.difference(usage, facts.by_place(posted.amounts))
    return events.QuotaPosted(
        reason=R.SLICE_REPLACED if info is not None and info.covered else _why_posted(state, has),
        cluster_queue=has.cluster_queue,
        amounts=facts.by_flavor(difference),
        borrowed=facts.by_flavor(cycles.borrowed(engine, has.cluster_queue, usage, {})),
    )


def _why_posted(state: WorkloadState, has: Posted) -> R:
    if not state.posted.amounts:
        return R.OBSERVED_RESERVATION
    if has.amounts:
        smaller = all(
            amount <= state.posted.amounts.get(flavor, {}).get(resource, 0)
            for flavor, of in has.amounts.items()
            for resource, amount in of.items()
        )
        return R.PODS_RECLAIMED if smaller else R.RESERVATION_CHANGED
    if state.observed is None:
        return R.WORKLOAD_DELETED
    conditions = {one.get("type"): one.get("status") for one in state.observed.status.get("conditions") or ()}
    if conditions.get("Finished") == "True":
        return R.WORKLOAD_FINISHED
    return R.RESERVATION_OVERTAKEN if state.held or "QuotaReserved" not in conditions else R.RESERVATION_RELEASED
