"""A Workload on its way to a cluster: events in, decisions out (Kueue's procedure, and what
docs/explanation/compared-with-kueue.md says of it).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    CloneDecided,
    ClusterRefused,
    JobCreationDecided,
    NominationDecided,
    RemovalDecided,
    WinnerChosen,
    WinnerReleased,
)
from controlplane.controllers.multikueue.observations import CheckState, Owner, Priority
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import JOBS, WORKLOADS
from tests.multikueue.refusals import refuse
from tests.multikueue.scene import CHECK, STREAM, Scene, stamp


def test_nothing_happens_without_quota() -> None:
    scene = Scene("a").job().workload()
    assert scene.names() == []


def test_nothing_happens_for_a_workload_without_our_check() -> None:
    scene = Scene("a").job().workload({"QuotaReserved": True}, checks=[CheckState(name="other")])
    assert scene.names() == []


def test_nothing_is_decided_before_the_management_cluster_is_in_view() -> None:
    scene = Scene("a").reserved()
    scene.lose("@management")
    assert scene.names() == []


def test_nomination_offers_every_connected_cluster_sorted_and_starts_the_attempt() -> None:
    scene = Scene("c", "a", "b").lose("b").reserved()
    decision, *clones = scene.decide()
    assert isinstance(decision, NominationDecided)
    assert (decision.clusters, decision.attempt) == (["a", "c"], 1)
    assert [(clone.cluster, clone.attempt) for clone in clones if isinstance(clone, CloneDecided)] == [
        ("a", 1),
        ("c", 1),
    ]


def test_nomination_waits_for_the_other_checks() -> None:
    other = [CheckState(name=CHECK), CheckState(name="provisioning", state="Pending")]
    scene = Scene("a").job().workload({"QuotaReserved": True}, checks=other)
    assert scene.names() == []
    scene.workload(checks=[CheckState(name=CHECK), CheckState(name="provisioning", state="Ready")])
    assert scene.names() == ["Nomination", "Clone a"]


def test_clones_are_made_with_the_nomination_and_the_selection_waits_for_it_to_be_stored() -> None:
    scene = Scene("a", "b").reserved()
    assert scene.names() == ["Nomination", "Clone a", "Clone b"]
    assert scene.names() == []  # the writes are open
    scene.clone("a", {"Admitted": True})
    assert scene.names() == []
    scene.workload(nominated=["a", "b"])
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]


def test_nothing_is_cloned_while_no_attempt_could_begin() -> None:
    scene = Scene("a").reserved()
    refuse(scene, "@management/Workload", "NominationDecided", 403, "Forbidden", minutes=1)
    assert scene.names() == []
    assert scene.wake is not None
    scene.now = scene.wake
    assert scene.names() == ["Nomination", "Clone a"]


def test_no_cluster_available_waits_and_a_connection_wakes_it() -> None:
    scene = Scene("a", connected=False).reserved()
    assert scene.names() == []
    scene.fleet.take_dirty()
    scene.connect("a")
    assert STREAM in scene.fleet.take_dirty()
    assert scene.names() == ["Nomination", "Clone a"]


def test_a_cluster_without_the_jobs_kind_is_not_offered() -> None:
    scene = Scene("a", "b", connected=False).connect("a", (WORKLOADS,)).connect("b", (WORKLOADS, JOBS)).reserved()
    decision, _ = scene.decide()
    assert isinstance(decision, NominationDecided)
    assert decision.clusters == ["b"]


def test_first_admitted_wins_losers_go_as_the_job_comes_then_ready() -> None:
    scene = Scene("a", "b", "c").cloned("a", "b", "c")
    scene.clone("b", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen b", "Removal Workload a", "Removal Workload c", "JobCreation b"]
    assert scene.names() == []
    scene.remote_job("b")
    (ready,) = scene.decide()
    assert isinstance(ready, CheckStateDecided)
    assert (ready.state, ready.winner, ready.message) == ("Ready", "b", 'The workload was admitted on "b"')


def test_reserving_quota_on_a_worker_is_not_being_admitted() -> None:
    scene = Scene("a").cloned("a").clone("a", {"QuotaReserved": True, "Admitted": False})
    assert scene.names() == []


def test_a_slow_loser_that_some_job_is_bound_to_holds_the_job_up_only_so_long() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("a", bound_to="unseen").clone("b", {"Admitted": True})
    assert scene.names() == ["WinnerChosen b", "Removal Workload a"]
    assert scene.names() == []
    assert scene.wake is not None
    scene.tick(seconds=3)
    assert scene.names() == ["JobCreation b"]


def test_an_unreachable_loser_holds_nothing_up_and_is_removed_when_it_is_back() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("b", {"Admitted": True}).lose("a")
    assert scene.names() == ["WinnerChosen b", "JobCreation b"]
    scene.remote_job("b")
    scene.decide()
    scene.workload(check="Ready", cluster_name="b", nominated=[]).connect("a")
    assert scene.names() == ["CopyJudged a", "Removal Workload a"]


@pytest.mark.parametrize(("first", "winner"), [("a", "a"), ("b", "b")])
def test_of_two_admitted_the_earlier_by_its_own_clock_wins(first: str, winner: str) -> None:
    scene = Scene("a", "b").cloned("a", "b")
    early, late = stamp(scene.now), stamp(scene.tick(seconds=5).now)
    for cluster in ("a", "b"):
        scene.clone(cluster, {"Admitted": ("Admitted", "", early if cluster == first else late)})
    chosen = scene.decide()[0]
    assert isinstance(chosen, WinnerChosen)
    assert (chosen.cluster, chosen.reason) == (winner, WorkloadReason.FIRST_ADMITTED)
    assert set(chosen.among) == {"a", "b"}


def test_of_two_admitted_in_the_same_second_the_one_seen_first_wins() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    at = stamp(scene.now)
    scene.clone("b", {"Admitted": ("Admitted", "", at)}).clone("a", {"Admitted": ("Admitted", "", at)})
    chosen = scene.decide()[0]
    assert isinstance(chosen, WinnerChosen)
    assert chosen.cluster == "b"


def test_the_winner_is_pinned_before_the_api_shows_it() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("b", {"Admitted": True})
    scene.decide()
    scene.clone("a", {"Admitted": ("Admitted", "", "2025-01-01T00:00:00Z")})
    assert all(name == "Removal Workload a" for name in scene.names())


def waiting_for_a() -> Scene:
    """Chosen: b; its job waits until the copy on a is gone, to which some job is bound."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", bound_to="unseen").clone("b", {"Admitted": True})
    assert scene.names() == ["WinnerChosen b", "Removal Workload a"]
    return scene


def test_a_winner_evicted_before_ready_is_released_and_all_are_offered_again() -> None:
    scene = waiting_for_a()
    scene.clone_gone("a").clone("b", {"Evicted": True})
    (released,) = scene.decide()
    assert isinstance(released, WinnerReleased)
    assert released.reason == WorkloadReason.EVICTED_BEFORE_READY
    assert scene.names() == ["Clone a"]


def test_a_winner_lost_before_its_job_was_made_is_released_at_once() -> None:
    scene = waiting_for_a().lose("b")
    (released,) = scene.decide()
    assert isinstance(released, WinnerReleased)
    assert released.reason == WorkloadReason.LOST_BEFORE_READY


def test_a_winner_lost_after_its_job_was_made_keeps_its_grace() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("b", {"Admitted": True})
    scene.decide()
    scene.clone_gone("a")
    scene.decide()
    scene.remote_job("b").lose("b")
    assert scene.names() == []
    scene.tick(minutes=16)
    assert scene.names() == ["WinnerReleased b"]


def test_a_copy_that_its_worker_deactivated_is_rejected_not_offered_again() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"Evicted": ("Deactivated", "no such flavor")}, active=False)
    decisions = scene.decide()
    assert any(isinstance(d, ClusterRefused) and d.message == "no such flavor" for d in decisions)
    assert any(isinstance(d, RemovalDecided) and d.cluster == "a" for d in decisions)
    scene.decide()
    scene.clone_gone("a").workload(nominated=["b"])
    assert scene.names() == []


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        (None, 'No multikueue adapter found, Previously: "Pending"'),
        (
            Owner(api_version="v1", kind="ReplicationController", name="p", uid="u"),
            'No multikueue adapter found for owner kind "/v1, Kind=ReplicationController", Previously: "Pending"',
        ),
        (
            Owner(api_version="sparkoperator.k8s.io/v1beta2", kind="SparkApplication", name="p", uid="u"),
            (
                'No multikueue adapter found for owner kind "sparkoperator.k8s.io/v1beta2, Kind=SparkApplication", '
                'Previously: "Pending"'
            ),
        ),
    ],
)
def test_owners_without_an_adapter_are_rejected(owner: Owner | None, message: str) -> None:
    scene = Scene("a").job().workload({"QuotaReserved": True}, owner=owner)
    (decision,) = scene.decide()
    assert isinstance(decision, CheckStateDecided)
    assert (decision.state, decision.message) == ("Rejected", message)


def test_a_job_that_is_not_managed_by_kueue_is_rejected() -> None:
    scene = Scene("a").job(managed_by="").workload({"QuotaReserved": True})
    (decision,) = scene.decide()
    assert isinstance(decision, CheckStateDecided)
    assert decision.message == (
        'The owner is not managed by Kueue: Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not "", '
        'Previously: "Pending"'
    )


def test_a_rejected_workload_is_left_alone() -> None:
    scene = Scene("a").job().workload({"QuotaReserved": True}, owner=None, check="Rejected")
    assert scene.names() == []


def test_a_job_that_was_not_seen_yet_is_waited_for() -> None:
    scene = Scene("a").workload({"QuotaReserved": True})
    assert scene.names() == []
    scene.job()
    assert scene.names() == ["Nomination", "Clone a"]


def test_a_clone_of_another_spec_is_replaced() -> None:
    scene = Scene("a").cloned("a").workload(spec_key="spec-2", template="cc" * 32)
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.names() == ["Clone a"]


def test_a_changed_priority_is_written_in_place() -> None:
    scene = Scene("a").cloned("a").workload(priority=Priority(value=7))
    assert scene.names() == ["CloneUpdate a"]


def test_names_left_over_from_an_attempt_before_are_cleared_first() -> None:
    scene = Scene("a").job().workload({"QuotaReserved": True}, cluster_name="a").absent("a")
    assert scene.names() == ["NamesClear"]


def test_a_copy_that_a_check_of_its_worker_put_off_before_it_had_a_job_makes_room_for_another() -> None:
    """Its Kueue gives the quota back by the job, and there is none."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"QuotaReserved": True, "Evicted": "AdmissionCheck"})
    assert scene.names() == ["ClusterRefused a"]
    assert scene.names() == ["Removal Workload a", "Nomination"]
    scene.clone_gone("a").workload(nominated=["b"]).decide()
    assert scene.names() == []
    scene.tick(minutes=5)
    assert "Nomination" in scene.names()


@pytest.mark.parametrize(
    "changes",
    [{"QuotaReserved": False}, {"Evicted": "Preempted", "QuotaReserved": False}, {"Evicted": False}],
    ids=["waits", "preempted", "no"],
)
def test_a_copy_that_its_worker_queued_again_goes_on_waiting_there(changes: dict[str, Any]) -> None:
    scene = Scene("a", "b").cloned("a", "b")
    scene.clone("a", {"QuotaReserved": True, "Evicted": "AdmissionCheck", **changes})
    assert scene.names() == []


@pytest.mark.parametrize("reason", ["Preempted", "ClusterQueueStopped", "NodeFailures"])
def test_a_copy_that_was_evicted_before_it_had_a_job_is_made_anew(reason: str) -> None:
    """Its Kueue gives the quota back by the job: who preempted it would wait for ever, and so would it."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", {"QuotaReserved": True, "Evicted": reason})
    assert scene.names() == ["Removal Workload a"]
    assert scene.clone_gone("a").names() == ["Clone a"]


def test_a_winner_that_was_evicted_before_it_had_a_job_is_made_anew() -> None:
    scene = Scene("a").cloned("a").clone("a", {"QuotaReserved": True, "Admitted": True})
    (_, creation) = scene.decide()
    assert isinstance(creation, JobCreationDecided)
    scene.refuses(creation, 422, "Invalid", timedelta(minutes=1))
    scene.clone("a", {"Evicted": "Preempted", "Admitted": False})
    assert scene.names() == ["WinnerReleased a"]
    assert scene.names() == ["Removal Workload a"]


@pytest.mark.parametrize("shown", ["bound", "job"])
def test_an_evicted_copy_that_has_its_job_stays(shown: str) -> None:
    scene = Scene("a", "b").cloned("a", "b")
    if shown == "job":
        scene.remote_job("a")
    scene.clone("a", {"QuotaReserved": True, "Evicted": "Preempted"}, bound_to="job" if shown == "bound" else "")
    assert not [one for one in scene.names() if "Removal" in one]


def test_a_copy_that_has_its_job_is_waited_for_when_a_check_puts_it_off() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    scene.clone("a", {"QuotaReserved": True, "Evicted": "AdmissionCheck"}, bound_to="job")
    assert not [one for one in scene.names() if "Refused" in one]
