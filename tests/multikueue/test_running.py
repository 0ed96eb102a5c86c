"""A Workload that runs: its copy's status is relayed, again and again, and nothing is written without need."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    EffectUnneeded,
    RemovalDecided,
    SpecUpdateDecided,
    StatusRelayDecided,
)
from controlplane.controllers.multikueue.observations import JobObserved, Owner
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import JOBSETS
from controlplane.runtime.writes import Effect
from tests.multikueue.dispatched import ONE, THREE, TWO, only, retry, settled
from tests.multikueue.scene import JOB, NS, STREAM, Scene, stamp
from tests.support.rows import each


@each(
    ("local_suspended", "remote_suspended", "remote_finished", "copied"),
    [
        (False, False, False, True),
        (False, True, False, True),
        (False, False, True, True),
        (True, True, False, True),
        (True, False, True, True),
        (True, True, True, True),
        (True, False, False, False),
    ],
)
def test_when_the_status_of_a_job_is_copied(
    local_suspended: bool, remote_suspended: bool, remote_finished: bool, copied: bool
) -> None:
    scene = Scene("a").running("a").tick(seconds=2)
    scene.job(suspended=local_suspended)
    scene.remote_job("a", suspended=remote_suspended, finished=remote_finished)
    relay = only(scene.decide(), StatusRelayDecided)
    if copied:
        assert (relay.status, relay.source, relay.mark_suspended) == (ONE, "a", False)
    else:
        assert (relay.status, relay.mark_suspended) == ("00" * 32, True)


def test_a_suspended_job_is_marked_once_and_gets_the_status_when_it_is_started() -> None:
    scene = Scene("a").running("a").tick(seconds=2).job(suspended=True)
    assert only(scene.decide(), StatusRelayDecided).mark_suspended
    scene.job(status=TWO, says_suspended=True).tick(seconds=5)
    assert scene.names() == []
    scene.job(suspended=False)
    assert only(scene.decide(), StatusRelayDecided).status == ONE


@each("local_suspended", [False, True])
@each("remote_suspended", [False, True])
@each("remote_finished", [False, True])
def test_the_status_of_a_jobset_is_always_copied(
    local_suspended: bool, remote_suspended: bool, remote_finished: bool
) -> None:
    scene = Scene("a")
    jobset: dict[str, Any] = {"namespace": NS, "name": JOB, "uid": "job-uid", "kind": JOBSETS.name}
    seen: dict[str, Any] = {"managed_by": "kueue.x-k8s.io/multikueue", "template": "aa" * 32, "status": "00" * 32}

    def local(version: str, **changes: Any) -> None:
        event = JobObserved(**jobset, resource_version=version, **{**seen, **changes})
        scene.fold(f"job/{JOBSETS.name}/{NS}/{JOB}", event)

    local("1", suspended=True)
    owner = Owner(api_version=JOBSETS.api_version, kind="JobSet", name=JOB, uid="job-uid")
    scene.workload({"QuotaReserved": True}, owner=owner)
    assert scene.names() == ["Nomination", "Clone a"]
    scene.workload(nominated=["a"])
    assert scene.names() == []
    scene.clone("a", {"QuotaReserved": True, "Admitted": True})
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]
    scene.remote_job("a", kind=JOBSETS.name, suspended=True)
    assert scene.names() == ["CheckState"]
    scene.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[]).tick(seconds=2)
    local("2", suspended=local_suspended)
    scene.remote_job("a", suspended=remote_suspended, finished=remote_finished, status=ONE)
    relay = only(scene.decide(), StatusRelayDecided)
    assert (relay.status, relay.kind, relay.mark_suspended) == (ONE, JOBSETS.name, False)


def test_many_changes_are_few_writes_and_the_last_one_is_right() -> None:
    scene = settled()
    written, current = [], ""
    for change in range(100):
        scene.tick(milliseconds=50)
        current = f"{change + 256:064x}"
        scene.remote_job("a", status=current)
        for decision in scene.decide():
            assert isinstance(decision, StatusRelayDecided)
            written.append(decision.status)
            scene.job(status=decision.status)
    assert 4 <= len(written) <= 6
    scene.now = scene.wake or scene.now
    written += [only(scene.decide(), StatusRelayDecided).status] if written[-1] != current else []
    scene.job(status=written[-1])
    assert written[-1] == current
    assert scene.names() == []


def test_a_change_within_the_interval_wakes_exactly_at_its_end() -> None:
    scene = settled()
    relayed_at = scene.state.relayed_at
    scene.tick(milliseconds=100).remote_job("a", status=TWO)
    assert scene.names() == []
    assert relayed_at is not None
    assert scene.wake == relayed_at + scene.fleet.policy.status_interval


def test_an_interval_of_nothing_copies_every_change() -> None:
    scene = Scene("a", policy={"status_interval": timedelta(0)}).running("a")
    for status in (ONE, TWO, THREE):
        scene.remote_job("a", status=status)
        assert only(scene.decide(), StatusRelayDecided).status == status
        scene.job(status=status)


def test_the_final_status_does_not_wait_for_the_interval() -> None:
    scene = settled().remote_job("a", status=TWO, finished=True, inactive=True)
    relay = only(scene.decide(), StatusRelayDecided)
    assert (relay.status, relay.reason) == (TWO, WorkloadReason.FINAL_STATUS)


def test_a_change_while_a_write_is_open_waits_for_it_and_is_then_written() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    assert scene.names() == ["StatusRelay"]
    scene.tick(seconds=1).remote_job("a", status=THREE)
    assert scene.names() == []
    scene.job(status=TWO)
    assert only(scene.decide(), StatusRelayDecided).status == THREE


def test_a_status_that_the_server_stores_in_its_own_words_is_not_written_again() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    scene.decide()
    scene.job(status="ab" * 32).tick(seconds=5)
    assert scene.names() == []


def test_a_status_write_that_met_a_conflict_is_decided_anew() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    before = only(scene.decide(), StatusRelayDecided)
    scene.job(managed_by="kueue.x-k8s.io/multikueue").tick(seconds=1)
    after = only(scene.decide(), StatusRelayDecided)
    assert (before.status, after.status) == (TWO, TWO)
    assert before.resource_version != after.resource_version


def test_a_status_write_that_changed_nothing_is_not_repeated() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    decision = only(scene.decide(), StatusRelayDecided)
    event = EffectUnneeded(
        target=decision.target, action="StatusRelayDecided", resource_version=decision.resource_version
    )
    scene.fold(STREAM, event)
    scene.tick(seconds=5)
    assert scene.names() == []
    assert scene.fleet.open_writes(STREAM) == []


def test_the_status_of_a_job_that_is_being_deleted_is_left_alone() -> None:
    scene = settled().tick(seconds=1).job(deleting=True).remote_job("a", status=TWO)
    assert scene.names() == []


def test_a_status_equal_to_the_one_of_an_attempt_before_is_written_again() -> None:
    scene = settled().lose("a").tick(minutes=16)
    retry(scene.decide())
    scene.workload({"Evicted": True}, check="Pending", cluster_name="").job(suspended=True)
    drain = only(scene.decide(), StatusRelayDecided)
    assert drain.drain
    scene.job(status=TWO, inactive=True)
    scene.workload({"QuotaReserved": False, "Admitted": False}).connect("a")
    scene.decide()
    scene.remote_job_gone("a")
    scene.decide()
    scene.clone_gone("a").workload({"QuotaReserved": True, "Evicted": False})
    scene.running("a").tick(seconds=2)
    assert only(scene.decide(), StatusRelayDecided).status == ONE


@each(("retries", "seconds"), [(0, 0), (1, 2), (2, 4), (5, 32), (8, 256), (9, 300), (40, 300)])
def test_a_workload_that_comes_back_again_and_again_waits_longer(retries: int, seconds: int) -> None:
    scene = settled().workload(retry_count=retries).clone("a", {"Evicted": True})
    assert retry(scene.decide()).requeue_after_seconds == seconds


def test_the_same_observations_again_decide_nothing() -> None:
    scene = settled("a", "a", "b")
    for _ in range(3):
        scene.workload().job().clone("a").remote_job("a").connect("a").connect("b").tick(seconds=10)
        scene.check()
        scene.config("a", "b")
        assert scene.names() == []
        assert scene.fleet.open_writes(STREAM) == []


def test_observations_of_a_waiting_workload_again_decide_nothing() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    assert scene.names() == []
    for _ in range(3):
        scene.workload().job().clone("a").clone("b").tick(seconds=10)
        assert scene.names() == []


def test_a_delayed_topology_is_ready_once_the_worker_has_assigned_it() -> None:
    scene = settled()
    assigned: list[dict[str, Any]] = [{"name": "main", "delayedTopologyRequest": "Pending"}, {"name": "other"}]
    scene.workload(delayed_topology=["main"], assignments=assigned)
    assert scene.names() == []
    scene.clone("a", topology=["main", "other"])
    decision = only(scene.decide(), CheckStateDecided)
    assert (decision.state, decision.topology, decision.winner) == ("Ready", ["main"], "a")
    assert decision.reason == WorkloadReason.TOPOLOGY_ASSIGNED
    scene.workload(delayed_topology=[], assignments=[])
    assert scene.names() == []


def test_a_topology_that_is_there_already_comes_with_ready() -> None:
    scene = Scene("a").cloned("a").workload(delayed_topology=["main"], assignments=[{"name": "main"}])
    scene.clone("a", {"Admitted": True}, topology=["main"])
    scene.decide()
    scene.remote_job("a")
    decision = only(scene.decide(), CheckStateDecided)
    assert (decision.topology, decision.message) == (["main"], 'The workload was admitted on "a"')
    write = scene.fleet.open_writes(STREAM)[0]
    announced = scene.fleet.announcement(write, scene.now)
    assert announced is not None
    assert announced.body["note"] == 'The workload was admitted on "a"'


def test_every_removal_is_of_the_object_that_was_seen() -> None:
    scene = settled("a", "a", "b").clone("b")
    removal = only(scene.decide(), RemovalDecided)
    clone = scene.state.remote("b").clone
    assert clone is not None
    assert (removal.uid, removal.resource_version) == (clone.uid, "")
    scene.clone("b", bound_to="unseen")
    removal = only(scene.decide(), RemovalDecided)
    clone = scene.state.remote("b").clone
    assert clone is not None
    assert (removal.uid, removal.resource_version) == (clone.uid, clone.resource_version)


def test_a_new_job_of_the_same_name_after_everything_is_gone_starts_afresh() -> None:
    scene = settled().gone()
    scene.decide()
    scene.remote_job_gone("a")
    scene.decide()
    scene.clone_gone("a")
    scene.job(status="00" * 32, inactive=True, suspended=True)
    assert STREAM not in scene.fleet.index.workloads
    scene.workload({"Admitted": False}, check="Pending", cluster_name="")
    assert scene.names() == ["Nomination", "Clone a"]


def test_a_workload_made_again_under_its_name_does_not_inherit_the_winner() -> None:
    scene = settled("a", "a", "b").lose("a").gone()
    assert scene.state.winner == ""
    scene.job(suspended=True, status="00" * 32, inactive=True)
    scene.workload({"Admitted": False}, check="Pending", cluster_name="", uid="wl-2")
    assert scene.names() == []  # its job may still run on a
    scene.tick(minutes=15)
    assert scene.names() == ["Nomination", "Clone b"]


def test_effects_know_when_they_were_decided() -> None:
    scene = settled().tick(seconds=1).remote_job("a", status=TWO)
    scene.decide()
    (effect,) = scene.state.effects.values()
    assert isinstance(effect, Effect)
    assert stamp(effect.decided_at) == stamp(scene.now)


def test_a_copy_follows_fields_that_may_change_while_it_runs() -> None:
    scene = Scene("a").running("a").job(synced="11" * 32).remote_job("a", synced="11" * 32)
    scene.decide()
    assert scene.names() == []
    scene.job(synced="22" * 32, template="cc" * 32)
    (update,) = scene.decide()
    assert isinstance(update, SpecUpdateDecided)
    assert (update.cluster, update.template, update.reason) == ("a", "cc" * 32, WorkloadReason.SPEC_CHANGED)
    assert scene.names() == [], "its write is open"
    scene.remote_job("a", synced="22" * 32)
    assert scene.names() == []


def test_a_copy_that_has_ended_or_goes_follows_nothing() -> None:
    for gone in ({"finished": True}, {"deleting": True}):
        scene = Scene("a").running("a").job(synced="11" * 32).remote_job("a", synced="22" * 32, **gone)
        assert not any(isinstance(event, SpecUpdateDecided) for event in scene.decide())


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", "2100-01-01T00:00:00Z", "2100-01-01T00:00:00", "yesterday"])
def test_a_check_that_says_that_it_is_of_a_later_time_keeps_no_status_back(at: str) -> None:
    """A controller's clock may be ahead, and whoever may write a status may write any time."""
    scene = settled().tick(seconds=2)
    local = scene.state.local
    assert local is not None
    checks = [msgspec.structs.replace(one, last_transition_time=at) for one in local.checks]
    scene.fold(STREAM, msgspec.structs.replace(local, resource_version="w-later", checks=checks))
    scene.decided.clear()
    scene.remote_job("a", status=TWO)
    scene.decide()
    scene.tick(seconds=2)
    assert StatusRelayDecided in [type(one) for one in scene.decided]
