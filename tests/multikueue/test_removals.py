"""What is taken away from workers: copies of a Workload that is gone, orphans, and what a cluster has that left the
config.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.multikueue.events import (
    CloneDecided,
    DeactivationDecided,
    EffectFailed,
    EffectUnneeded,
    RemovalDecided,
)
from controlplane.log.event import Event
from tests.multikueue.scene import STREAM, Scene


def test_a_clone_with_kueues_finalizer_loses_it_before_it_is_deleted() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    scene.clone("a", finalizers=["kueue.x-k8s.io/resource-in-use"]).clone("b", {"Admitted": True})
    assert scene.names() == ["WinnerChosen b", "FinalizerRemoval a", "JobCreation b"]
    scene.clone("a", finalizers=[])
    assert scene.names() == ["Removal Workload a"]


def test_local_deletion_removes_job_first_and_clone_second() -> None:
    scene = Scene("a").running("a")
    scene.workload(deleting=True)
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a").gone()
    assert STREAM not in scene.fleet.index.workloads


def test_copies_of_a_deleted_workload_on_a_lost_cluster_go_when_it_is_back() -> None:
    scene = Scene("a").running("a").lose("a").gone()
    assert scene.names() == []
    scene.connect("a")
    assert scene.names() == ["Removal Job a"]


def test_orphans_wait_one_gc_interval() -> None:
    scene = Scene("a").clone("a")
    assert scene.names() == []
    assert scene.wake is not None
    scene.tick(minutes=1)
    assert scene.names() == ["Removal Workload a"]


def test_orphans_stay_when_collection_is_off() -> None:
    scene = Scene("a", policy={"gc_interval": None}).clone("a").tick(hours=5)
    assert scene.names() == []


def test_a_clone_on_a_cluster_that_left_the_config_goes() -> None:
    scene = Scene("a", "b").cloned("a", "b")
    scene.config("a")
    assert scene.names() == ["Removal Workload b", "Nomination"]


def test_every_removal_names_the_uid_and_version_it_was_decided_on() -> None:
    scene = Scene("a").running("a").gone()
    (decision,) = scene.decide()
    assert isinstance(decision, RemovalDecided)
    assert decision.uid == "rjob-a"
    assert decision.resource_version


@pytest.mark.parametrize("policy", ["at-least-once", "never-twice"])
def test_a_copy_is_stopped_whose_job_may_not_be_deleted(policy: str) -> None:
    """Its worker's Kueue started it again, once there was quota, while the job ran elsewhere."""
    scene = Scene("a", "b", policy={"execution_policy": policy}).running("a")
    scene.workload({"QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name="")
    (removal,) = scene.decide()
    assert isinstance(removal, RemovalDecided)
    scene.refuses(removal, 403, "Forbidden", timedelta(minutes=1))
    (stop,) = scene.decide()
    assert isinstance(stop, DeactivationDecided)
    assert (stop.cluster, stop.message) == ("a", "Evicted on manager: its job cannot be deleted: not now")
    scene.clone("a", {"DeactivationTarget": True, "Evicted": "Deactivated"}, active=False)
    assert scene.names() == []


def test_a_copy_whose_api_server_fails_is_not_stopped_for_that() -> None:
    scene = Scene("a", "b").running("a")
    scene.workload({"QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name="")
    (removal,) = scene.decide()
    assert isinstance(removal, RemovalDecided)
    scene.refuses(removal, 500, "InternalError", timedelta(minutes=1))
    assert scene.names() == []


@pytest.mark.parametrize("outcome", ["unneeded", "failed"])
def test_what_comes_of_a_removal_late_says_nothing_of_the_copy_that_is_made_in_its_place(outcome: str) -> None:
    """It was appended behind the news that the copy is gone, and closed the creation of the next one."""
    scene = Scene("a").clone("a", finalizers=["kueue.x-k8s.io/resource-in-use"], spec_key="old")
    scene.nominated("a")
    removal = scene.state.effects["a/Workload"]
    scene.clone_gone("a")
    assert scene.names() == ["Clone a"]
    action, target = type(removal.decision).__name__, removal.decision.target
    late: Event = EffectUnneeded(target=target, action=action, resource_version="")
    if outcome == "failed":
        late = EffectFailed(
            target=target, action=action, code=404, error="NotFound", message="", failures=1, retry_at=scene.now
        )
    scene.fold(STREAM, late, "a", caused_by=removal.position)
    assert isinstance(scene.state.effects["a/Workload"].decision, CloneDecided)
    assert not scene.state.trouble


def test_what_does_not_say_that_it_was_made_for_us_is_no_orphan_of_ours() -> None:
    """Another management cluster may have the same origin, and Kueue's copies say nothing."""
    scene = Scene("a", "b").clone("a", unmarked=True).clone("b")
    scene.remote_job("a", suspended=False, unmarked=True)
    scene.tick(minutes=1)
    assert scene.names() == ["Removal Workload b"]
    scene.clone_gone("b")
    assert scene.tick(days=1).names() == []
    scene.workload({"QuotaReserved": False}).gone()
    assert scene.names() == ["Removal Job a"], "the log has seen its Workload go"


@pytest.mark.parametrize(("clone", "job"), [(True, False), (False, True)])
def test_one_mark_is_enough(clone: bool, job: bool) -> None:
    scene = Scene("a").clone("a", unmarked=clone).remote_job("a", suspended=False, unmarked=job)
    scene.tick(minutes=1)
    assert scene.names() == ["Removal Job a"]
