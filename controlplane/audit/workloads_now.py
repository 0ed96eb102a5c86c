"""The Workloads as lists and pages show them: how far each is, where, and what it waits for, as plain values.

In: the folds, when each was first seen, the time. Out: dicts. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane.audit.standing import standing
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState


def one_of(index: WorkloadIndex, state: WorkloadState, since: datetime, now: datetime) -> dict[str, Any]:
    """Return one Workload as plain values; `since` is when it was first seen."""
    stands = standing(state, index.context(state), now)
    local = state.local
    return {
        "namespace": state.namespace,
        "name": state.name,
        "job": local.owner.name if local and local.owner else "",
        "kind": local.owner.kind if local and local.owner else "",
        "state": stands.word,
        "result": result(local) if stands.word == "Finished" else "",
        "cluster": stands.cluster,
        "attempt": state.attempt,
        "since": since,
        "waits_for": stands.waits_for,
        "queue": local.queue_name if local else "",
        "nominated": local.nominated if local else [],
        "copies": sorted(state.remotes),
        "position": state.position,
    }


def result(local: WorkloadObserved | None) -> str:
    """Return how a Workload has finished, in Kueue's word: Succeeded, Failed, or what else ended it."""
    finished = local.condition("Finished") if local is not None else None
    return finished.reason if finished is not None else ""
