"""Makes room in a ClusterQueue that preempts: Workloads of lower priority are evicted for one that fits nowhere.

In: a Workload that waits, and the books of its ClusterQueue. Out: evictions, after which the quota comes back when the
jobs have stopped; of one whose preemption gate is closed only the condition BlockedOnPreemptionGates. It is Kueue's
scheduler with `withinClusterQueue: LowerPriority` (kubernetes-sigs/kueue pkg/scheduler/scheduler.go, ff69552e).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from controlplane.clusters.protocol import ApiError
from controlplane.kube.conditions import is_true, set_condition
from controlplane.kube.kinds import Json, meta
from controlplane.simulation.kueue.common import priority_of
from controlplane.simulation.kueue.core import Core
from controlplane.simulation.kueue.quota import ClusterQueueState, Shape, WorkloadKey
from controlplane.simulation.kueue.status import draft, preempt, unreserve

_GATED = "Workload requires preemption, but it's gated"
_FOR = "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN) due to prioritization in the ClusterQueue"


def make_room(core: Core, key: WorkloadKey, state: ClusterQueueState, shape: Shape) -> None:
    """Preempt for a Workload that does not fit, or say that it may not."""
    workload = core.workload(*key) if state.preempts else None
    victims = _victims(core, workload, state, shape) if workload is not None else []
    if workload is not None and victims and core.gates.orchestrated_preemption and gate_closed(workload):
        _write(core, workload, _blocked(core, workload))
        return
    for victim in victims:
        if not is_true(victim, "Evicted"):
            status = draft(victim)
            preempt(victim, status, "InClusterQueue", _FOR, core.stamp())
            _write(core, victim, status)


def gate_closed(workload: Mapping[str, Any]) -> bool:
    """Return whether a Workload has a preemption gate that is not open; one that is in its spec alone is closed."""
    status = workload.get("status") or {}
    open_ = {gate["name"] for gate in status.get("preemptionGates") or () if gate.get("position") == "Open"}
    return any(gate["name"] not in open_ for gate in workload["spec"].get("preemptionGates") or ())


def _victims(core: Core, workload: Json, state: ClusterQueueState, shape: Shape) -> list[Json]:
    """Return the Workloads without which it fits, those of the lowest priority first; none if it fits without nobody."""
    reserving = [found for place in sorted(state.reserving) if (found := core.workload(*place)) is not None]
    lower = sorted((one for one in reserving if priority_of(one) < priority_of(workload)), key=priority_of)
    without = dataclasses.replace(
        state, usage=dict(state.usage), reserving=dict(state.reserving), admitted=set(state.admitted)
    )
    for number, victim in enumerate(lower, 1):
        without.release((meta(victim)["namespace"], meta(victim)["name"]))
        if not isinstance(without.assign(shape), str):
            return lower[:number]
    return []


def _blocked(core: Core, workload: Json) -> Json:
    status, gates, generation = draft(workload), core.gates, meta(workload).get("generation", 0)
    unreserve(workload, status, gates.reason("AdmissionGated", "Pending"), _GATED, core.now(), gates)
    name, reason = "BlockedOnPreemptionGates", "PreemptionGated"
    set_condition(status, name, True, reason, _GATED, at=core.stamp(), generation=generation)
    return status


def _write(core: Core, workload: Json, status: Json) -> None:
    try:
        core.writer.write(workload, status)
    except ApiError:
        core.mark(("workload", meta(workload)["namespace"], meta(workload)["name"]))
