"""Workloads of elastic jobs: rejected, because nothing here replaces a slice on a worker, and what runs of them runs
on.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.multikueue.events import CheckStateDecided
from controlplane.controllers.multikueue.observations import JobGone, JobObserved
from controlplane.kube.kinds import WORKLOADS
from tests.multikueue.observed import metadata, observe, workload
from tests.multikueue.scene import JOB, JOB_STREAM, NS, Scene

REPLACED = {"Finished": ("WorkloadSliceReplaced", "Replaced to accommodate a workload")}
MESSAGE = (
    "Elastic jobs are not supported: create the job without the annotation kueue.x-k8s.io/elastic-job, "
    'Previously: "Pending"'
)
NEXT: dict[str, Any] = {"elastic": True, "replaces": f"{NS}/job-train-old"}


def rejection(scene: Scene) -> tuple[str, str]:
    (decision,) = scene.decide()
    assert isinstance(decision, CheckStateDecided)
    return decision.state, decision.message


def job_gone(scene: Scene) -> Scene:
    scene.fold(JOB_STREAM, JobGone(namespace=NS, name=JOB, uid="job-uid", kind="jobs.batch"))
    return scene


def taken_over(**changes: Any) -> Scene:
    """Running on `a`, dispatched by Kueue's own controller before us."""
    scene = Scene("a", "b").job(suspended=False)
    scene.workload(
        {"QuotaReserved": True, "Admitted": True}, check="Ready", cluster_name="a", **{"elastic": True, **changes}
    )
    scene.clone("a", {"QuotaReserved": True, "Admitted": True})
    return scene.remote_job("a", suspended=False, inactive=False, status="11" * 32)


# --- how they are marked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "elastic"), [("true", True), ("false", False), ("", False)])
def test_an_elastic_job_is_known_by_its_annotation(value: str, elastic: bool) -> None:
    marks = {"kueue.x-k8s.io/elastic-job": value, "kueue.x-k8s.io/workload-slice-replacement-for": "default/old"}
    seen = observe("@management", WORKLOADS, workload(metadata=metadata(annotations=marks))).event
    assert (seen.elastic, seen.replaces) == (elastic, "default/old")
    plain = observe("@management", WORKLOADS, workload()).event
    assert (plain.elastic, plain.replaces, plain.sliced) == (False, "", False)


# --- new ones --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quota", [True, False])
def test_a_new_elastic_workload_is_rejected_from_the_start(quota: bool) -> None:
    scene = Scene("a", "b").job().workload({"QuotaReserved": quota}, elastic=True)
    assert rejection(scene) == ("Rejected", MESSAGE)
    scene.workload(check="Rejected")
    assert scene.names() == []


def test_it_stays_rejected_when_kueue_resets_its_check() -> None:
    scene = Scene("a").job().workload({"QuotaReserved": False, "Evicted": "Deactivated"}, elastic=True, active=False)
    assert rejection(scene)[0] == "Rejected"


# --- a pair that is there already ------------------------------------------------------------------------------------


def test_a_slice_that_waits_to_replace_a_running_one_is_rejected_and_touches_nothing() -> None:
    scene = Scene("a").job(suspended=False).workload({"QuotaReserved": False}, cluster_name="a", **NEXT)
    scene.clone("a", {"Admitted": True})
    assert rejection(scene) == ("Rejected", MESSAGE)
    scene.workload(check="Rejected")
    assert scene.names() == []


def test_a_slice_with_quota_keeps_the_cluster_name_that_kueue_copied_and_is_rejected() -> None:
    scene = Scene("a").job(suspended=False, inactive=False).workload({"QuotaReserved": True}, cluster_name="a", **NEXT)
    assert rejection(scene) == ("Rejected", MESSAGE)
    scene.workload(check="Rejected")
    assert scene.names() == []
    # Kueue's core deactivates and evicts it, and resets the check. The slice before has the job, which runs.
    scene.job(suspended=True, inactive=False)
    scene.workload({"Evicted": "DeactivatedDueToAdmissionCheck"}, check="Pending", active=False)
    assert rejection(scene)[0] == "Rejected"
    scene.workload(check="Rejected")
    assert scene.names() == []


def test_nothing_is_said_of_a_slice_before_its_cluster_is_in_view() -> None:
    scene = Scene("a", connected=False).job().workload({"QuotaReserved": True}, cluster_name="a", **NEXT)
    assert scene.names() == []
    scene.connect("a")
    assert rejection(scene)[0] == "Rejected"


def test_a_slice_whose_cluster_stays_away_is_rejected_after_the_grace() -> None:
    scene = Scene("a").job().workload({"QuotaReserved": True}, cluster_name="a", **NEXT)
    scene.lose("a")
    assert scene.names() == []
    scene.tick(minutes=15)
    assert rejection(scene)[0] == "Rejected"


def test_a_slice_whose_copy_has_the_running_job_already_is_ready() -> None:
    scene = Scene("a").job(suspended=False).workload({"QuotaReserved": True}, cluster_name="a", **NEXT)
    scene.clone("a", {"Admitted": True}).remote_job("a", suspended=False, inactive=False, status="11" * 32)
    assert rejection(scene) == ("Ready", 'The workload was admitted on "a"')
    scene.workload({"Admitted": True}, check="Ready")
    assert scene.tick(seconds=2).names() == ["StatusRelay"]


# --- one that runs ---------------------------------------------------------------------------------------------------


def test_an_elastic_job_that_runs_already_goes_on_and_its_status_is_copied() -> None:
    assert taken_over().tick(seconds=2).names() == ["StatusRelay"]


def test_a_job_that_was_made_smaller_runs_on() -> None:
    scene = taken_over(spec_key="spec-smaller").job(status="11" * 32)
    assert scene.names() == []


def test_one_that_is_evicted_is_stopped_and_neither_offered_again_nor_deleted() -> None:
    scene = taken_over().job(status="11" * 32).workload({"Evicted": "Preempted"}, check="Pending", cluster_name="")
    assert scene.names() == ["CheckState", "Deactivation a"]


def test_the_result_of_one_that_finishes_counts() -> None:
    scene = taken_over().remote_job("a", finished=True, inactive=True, status="22" * 32)
    scene.clone("a", {"Finished": ("Succeeded", "all good")})
    assert scene.names() == ["StatusRelay"]
    scene.job(status="22" * 32, finished=True)
    assert scene.names() == ["Finish"]
    scene.workload({"Finished": ("Succeeded", "all good")})
    assert scene.names() == ["Removal Job a"]


# --- the one that was replaced ---------------------------------------------------------------------------------------


def replaced() -> Scene:
    return taken_over().job(status="11" * 32).workload(REPLACED)


def test_a_replaced_slice_is_finished_and_its_job_runs_on() -> None:
    assert replaced().names() == []


def test_one_that_was_seen_by_a_version_that_knew_no_slices_is_known_by_the_reason() -> None:
    scene = Scene("a").running("a")
    scene.job(status="11" * 32)
    assert scene.workload(REPLACED).names() == []


def test_the_last_status_of_its_job_is_copied_and_what_has_ended_goes() -> None:
    scene = replaced().remote_job("a", finished=True, inactive=True, status="22" * 32)
    assert scene.names() == ["StatusRelay"]
    scene.job(status="22" * 32, finished=True)
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.names() == []


def test_its_job_runs_on_when_its_workload_is_cleaned_away() -> None:
    scene = replaced()
    scene.workload(deleting=True)
    assert scene.names() == []
    scene.gone()
    assert scene.names() == []


@pytest.mark.parametrize("first", ["job", "workload"])
def test_its_job_goes_with_the_users_job(first: str) -> None:
    scene = replaced()
    if first == "job":
        job_gone(scene)
        assert scene.names() == []
        scene.gone()
    else:
        scene.gone()
        assert scene.names() == []
        job_gone(scene)
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.fleet.index.workloads == {}
    # The job's name is free again, and nobody depends on it any more.
    fields = {"managed_by": "kueue.x-k8s.io/multikueue", "template": "aa" * 32, "status": "00" * 32}
    scene.fold(
        JOB_STREAM,
        JobObserved(namespace=NS, name=JOB, uid="job-uid-2", kind="jobs.batch", resource_version="900", **fields),
    )
    assert scene.fleet.index.workloads == {}
