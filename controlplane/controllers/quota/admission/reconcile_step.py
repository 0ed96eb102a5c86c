"""Holds what one step about a Workload is decided on, its queues, and what comes of it.

In: what is known of a Workload's queues. Out: the values that `reconcile` takes and makes, and others that decide about
Workloads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.reasons import AdmissionReason as R
from controlplane.kube.kinds import Json


@dataclass(frozen=True, slots=True)
class WorkloadQueues:
    """The queues of a Workload. `local` and `cluster` are as they were seen, None if they are not there; `name` is the
    ClusterQueue that its LocalQueue leads to, "" if it is stopped or missing; `active`: that one admits; `checks` are
    the admission checks that count for it; `problem`: why its namespace or its requests are not admissible; `no_fit`:
    why it is not even tried, since one like it did not fit; `tried`: it was, and its condition does not say so yet;
    `refusal`: why the devices that it asks for cannot be counted. `told_at`: from when on it is told that it waits
    though it was not tried, None if it is not. `gates`: those that keep it from preempting count."""

    local: events.AdmissionLocalQueueObserved | None = None
    cluster: events.AdmissionClusterQueueObserved | None = None
    name: str = ""
    active: bool = False
    checks: Collection[str] = ()
    problem: str = ""
    no_fit: str = ""
    tried: bool = False
    refusal: str = ""
    told_at: datetime | None = None
    gates: bool = False


@dataclass(slots=True)
class ReconcileWrite:
    """What is to be written: the status afterwards, or another thing than the status. `deletes`: it is to be
    deleted."""

    reason: R
    status: Json | None = None
    evicted: str = ""
    message: str = ""
    spec: Json | None = None
    finalizers: list[str] | None = None
    deletes: bool = False


@dataclass(slots=True)
class ReconcileResult:
    """What was found about a Workload. `wake`: when to look again though nothing happens."""

    step: ReconcileWrite | None = None
    wake: datetime | None = None
