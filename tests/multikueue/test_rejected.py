"""A Workload that cannot be dispatched is rejected whatever its quota is, until what speaks against it is mended."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.multikueue.events import CheckStateDecided
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.scene import Scene

DEACTIVATED = {"QuotaReserved": False, "Evicted": "DeactivatedDueToAdmissionCheck"}
UNMANAGED = (
    'The owner is not managed by Kueue: Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not "", '
    'Previously: "Pending"'
)
WRONG: dict[str, Any] = {"execution_policy": "perhaps"}


def said(scene: Scene) -> tuple[str, str]:
    (decision,) = scene.decide()
    assert isinstance(decision, CheckStateDecided)
    return decision.state, decision.message


def test_it_is_rejected_before_it_has_quota() -> None:
    scene = Scene("a").job(managed_by="").workload({"QuotaReserved": False})
    assert said(scene) == ("Rejected", UNMANAGED)
    scene.workload(check="Rejected")
    assert scene.names() == []


def test_kueue_takes_the_quota_before_our_write_and_the_rejection_is_not_lost() -> None:
    """Core evicted the Workload, for a reason of its own, before the rejection was written: that write met a
    conflict.
    """
    scene = Scene("a").job(managed_by="").workload({"QuotaReserved": True})
    assert said(scene)[0] == "Rejected"
    scene.workload({"QuotaReserved": False, "Evicted": "Preempted"})
    assert said(scene) == ("Rejected", UNMANAGED)


def test_kueue_resets_the_check_when_it_evicts_and_it_is_rejected_again() -> None:
    """So that people read why, as with Kueue's own controller
    (pkg/controller/admissionchecks/multikueue/workload.go).
    """
    scene = Scene("a").job(managed_by="").workload({"QuotaReserved": True})
    assert said(scene)[0] == "Rejected"
    scene.workload(check="Rejected")
    scene.workload({"Evicted": "DeactivatedDueToAdmissionCheck"}, check="Pending", active=False)
    assert said(scene) == ("Rejected", UNMANAGED)
    scene.workload(DEACTIVATED, check="Rejected")
    assert scene.names() == []


def test_a_finished_workload_is_not_rejected() -> None:
    scene = Scene("a").job(managed_by="").workload({"QuotaReserved": False, "Finished": "Succeeded"})
    assert scene.names() == []


def test_what_was_mended_waits_in_the_queue_again() -> None:
    """Kueue gives no quota to a Workload with a rejected check, and nobody but us takes that back."""
    scene = Scene("a").job(**WRONG).workload(DEACTIVATED, check="Rejected", active=False)
    assert scene.names() == []
    scene.job(execution_policy="never-twice")
    (decision,) = scene.decide()
    assert isinstance(decision, CheckStateDecided)
    assert (decision.state, decision.reason) == ("Pending", WorkloadReason.NO_LONGER_REJECTED)
    assert decision.message == 'Nothing speaks against the workload any more, Previously: "Rejected"'
    scene.workload(check="Pending")
    assert scene.names() == []


def test_a_rejection_with_quota_is_left_to_kueue() -> None:
    scene = Scene("a").job().workload({"QuotaReserved": True}, check="Rejected")
    assert scene.names() == []


def test_a_rejected_workload_whose_job_was_not_seen_yet_stays_rejected() -> None:
    scene = Scene("a").workload({"QuotaReserved": False}, check="Rejected")
    assert scene.names() == []


def test_names_left_behind_are_cleared_beside_it() -> None:
    scene = Scene("a").job(managed_by="").workload({"QuotaReserved": False}, check="Rejected", cluster_name="a")
    assert scene.absent("a").names() == ["NamesClear"]


@pytest.mark.parametrize("check", ["Pending", "Rejected"])
def test_what_ran_when_it_was_rejected_is_stopped_and_gives_its_quota_back(check: str) -> None:
    """The policies began to contradict each other while the job ran: nobody stopped the copy, and its quota stayed
    reserved.
    """
    scene = Scene("a").running("a").job(suspended=True, inactive=False, **WRONG)
    scene.workload({"Evicted": "DeactivatedDueToAdmissionCheck"}, check=check, cluster_name="", active=False)
    assert "Deactivation a" in scene.names()
    scene.workload(check="Rejected")
    scene.clone("a", {"Evicted": "Deactivated", "DeactivationTarget": "EvictedOnManagerCluster"}, active=False)
    scene.remote_job("a", suspended=True, inactive=True, status="33" * 32)
    assert scene.names() == ["StatusRelay"]
