"""A slice that another one replaced: it ends, and its job runs on as that of the next."""

from __future__ import annotations

import pytest

from controlplane.controllers.multikueue.observations import JobObserved
from controlplane.kube.kinds import WORKLOADS
from tests.multikueue.scene import JOB, JOB_STREAM, NS, WL, Scene
from tests.multikueue.sliced import LARGE, NEW, NEXT, REPLACED, RUNS, SMALL, cloned, job_gone, small, waiting


def replaced() -> Scene:
    return small().workload(REPLACED)


def test_a_replaced_slice_is_finished_and_its_job_runs_on() -> None:
    assert replaced().names() == []


def test_one_that_was_seen_by_a_version_that_knew_no_slices_is_known_by_the_reason() -> None:
    scene = Scene("a").running("a")
    scene.job(status="11" * 32)
    assert scene.workload(REPLACED).names() == []


def test_a_slice_that_its_worker_replaced_first_is_left_to_the_management_cluster() -> None:
    scene = small().clone("a", REPLACED)
    assert scene.names() == []


def test_one_whose_successor_was_lost_tells_the_end_of_its_job() -> None:
    """A backup of the management cluster knows no next slice, while the worker has replaced this one by it already."""
    scene = small().clone("a", REPLACED)
    scene.remote_job("a", finished=True, inactive=True, status="22" * 32)
    assert scene.names() == ["StatusRelay"]


def test_the_copy_of_a_slice_that_a_backup_lost_does_not_replace_what_runs() -> None:
    scene = cloned()
    assert scene.workload(REPLACED).names() == []  # by a third one, whose copy waits as well
    scene.gone().on(WL)
    restored = scene.on(WL).workload({"Finished": False})
    assert restored.on(NEXT).names() == ["Removal Workload a"]


def test_the_last_status_of_its_job_is_copied_and_what_has_ended_goes() -> None:
    scene = replaced().remote_job("a", finished=True, inactive=True, status="22" * 32)
    assert scene.names() == ["StatusRelay"]
    scene.job(status="22" * 32, finished=True)
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.names() == ["Removal Workload a"]


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


def test_what_a_slice_left_on_a_cluster_goes_when_the_job_has_ended_on_another() -> None:
    scene = waiting().on(WL).workload(REPLACED)
    scene.clone("a", {"Evicted": "Deactivated", "QuotaReserved": False, "Admitted": False}, active=False)
    scene.remote_job("a", suspended=True, inactive=True)
    scene.on(NEXT).workload({"QuotaReserved": True, "Finished": ("Succeeded", "done")}, cluster_name="b", check="Ready")
    scene.job(suspended=True, finished=True, inactive=True).on(WL)
    assert scene.names() == ["Removal Job a"]


def test_a_copy_that_was_replaced_by_a_slice_that_a_backup_lost_is_no_end() -> None:
    """The management cluster was put back to before the job had run: it is queued for a cluster again, and not
    finished."""
    scene = Scene("a", "b").job(suspended=True, size=SMALL)
    scene.workload({"QuotaReserved": True}, elastic=True, size=SMALL)
    scene.decide()
    scene.decide()
    assert scene.clone("a", REPLACED, size=SMALL).names() == ["Removal Workload a"]


def test_it_is_left_there_where_the_next_slice_is_known() -> None:
    scene = Scene("a", "b").job(suspended=True, size=SMALL)
    scene.workload({"QuotaReserved": True}, elastic=True, size=SMALL)
    scene.on(NEXT).workload({"QuotaReserved": False}, **NEW)
    scene.on(WL).decide()
    scene.decide()
    assert scene.clone("a", REPLACED, size=SMALL).names() == []


def test_one_is_queued_again_whose_successor_was_lost_together_with_the_job() -> None:
    """A worker has replaced it by a slice that a backup of the management cluster lost, so that the job went with that
    one's copy. The slice before it is here, and is over."""
    scene = cloned().clone("a", REPLACED)
    scene.on(WL).remote_job_gone("a").clone_gone("a")
    assert scene.on(NEXT).names() == ["Removal Workload a"]
    assert scene.clone_gone("a").names() == ["Clone a"]


# --- a slice whose Workload somebody deleted --------------------------------------------------------------------------


def taken_away() -> Scene:
    """A slice ran on `a`, which is away; somebody deletes its Workload, and Kueue makes one of another name for the
    job."""
    scene = small().lose("a").gone()
    assert scene.names() == []
    return scene.on(NEXT).workload({"QuotaReserved": True}, **(NEW | {"replaces": ""}))


def test_the_next_one_waits_until_it_is_known_that_the_job_runs_no_more() -> None:
    scene = taken_away()
    assert scene.names() == []
    assert scene.tick(minutes=14).names() == []
    scene.connect("a")
    assert scene.names() == [], "it does not follow what is being removed"
    assert scene.on(WL).names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.on(WL).names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.on(NEXT).names() == ["Nomination", "Clone a", "Clone b"]


def test_the_next_one_is_looked_at_when_the_last_copy_goes() -> None:
    scene = taken_away().connect("a").on(WL)
    scene.names()
    scene.remote_job_gone("a").names()
    scene.fleet.take_dirty()
    scene.clone_gone("a")
    assert any(NEXT in stream for stream in scene.fleet.take_dirty())


def test_after_the_grace_it_goes_elsewhere() -> None:
    assert taken_away().tick(minutes=15).names() == ["Nomination", "Clone b"]


def test_a_job_that_cannot_be_seen_holds_the_next_slice_though_its_copy_says_replaced() -> None:
    """The log went back, jobs of the worker may not be read, and its Kueue has replaced the slice that the job is bound
    to."""
    scene = Scene("a", "b").job(suspended=False, size=LARGE, inactive=False)
    scene.workload({**RUNS, **REPLACED}, cluster_name="a", elastic=True, size=SMALL)
    scene.clone("a", {**RUNS, **REPLACED}, size=SMALL, bound_to="there")
    scene.connect("a", kinds=(WORKLOADS,))
    scene.on(NEXT).workload({"QuotaReserved": True}, **NEW)
    assert scene.names() == []
