"""How long a Workload was admitted is added up when that ends, whatever ends it (`SyncAdmittedCondition` in
kubernetes-sigs/kueue pkg/workload/admissionchecks.go, ff69552e)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.controllers.quota.admission.workload_status import WorkloadStatus
from controlplane.kube.kinds import Json
from controlplane.kube.requests import timestamp
from controlplane.kube.workload_status import RAN_TOO_LONG

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def admitted(since: str, **status: Any) -> WorkloadStatus:
    conditions: list[Json] = [
        {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": since},
        {"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": since},
    ]
    return WorkloadStatus({"admission": {"clusterQueue": "q"}, "conditions": conditions, **status}, 1, NOW)


def ago(**time: float) -> str:
    return timestamp(NOW - timedelta(**time))


@pytest.mark.parametrize(
    ("since", "before", "after"),
    [
        (ago(seconds=90), None, 90),
        (ago(seconds=90), 7, 97),
        (ago(seconds=0), None, 0),
        (ago(seconds=-30), 7, 7),  # by the clock of a leader before, which was ahead
        ("", 7, 7),
        ("yesterday", None, 0),
    ],
)
def test_what_was_admitted_counts(since: str, before: int | None, after: int) -> None:
    of = admitted(since, **({} if before is None else {"accumulatedPastExecutionTimeSeconds": before}))
    assert of.unreserve("Pending", "it waits")
    assert of.status["accumulatedPastExecutionTimeSeconds"] == after
    assert not of.is_true("Admitted")
    assert of.condition("Admitted")["reason"] == "NoReservation"  # type: ignore[index] # it is there
    assert not of.sync_admitted()
    assert of.status["accumulatedPastExecutionTimeSeconds"] == after, "once"


def test_a_check_that_is_not_ready_any_more_ends_it_too() -> None:
    of = admitted(ago(minutes=2), admissionChecks=[{"name": "a", "state": "Retry"}])
    assert of.sync_admitted()
    assert of.status["accumulatedPastExecutionTimeSeconds"] == 120
    assert of.reserved


def test_what_ran_too_long_has_all_of_its_time_anew() -> None:
    of = admitted(ago(minutes=2), accumulatedPastExecutionTimeSeconds=5)
    of.set("Evicted", "True", RAN_TOO_LONG, "its time is over")
    of.unreserve("Pending", "it waits")
    assert of.status["accumulatedPastExecutionTimeSeconds"] == 5


def test_what_was_not_admitted_counts_nothing() -> None:
    of = WorkloadStatus({}, 1, NOW)
    of.reserve({"clusterQueue": "q"}, ["a"])
    of.unreserve("Pending", "it waits")
    assert "accumulatedPastExecutionTimeSeconds" not in of.status
