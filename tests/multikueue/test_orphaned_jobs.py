"""What becomes of a user's job whose Workload the log does not know, once its orphaned copy was removed."""

from __future__ import annotations

from tests.multikueue.scene import JOB_STREAM, STREAM, Scene


def _stray() -> Scene:
    """A job says that it runs, its Workload was removed by force, and the log knows of neither that nor of a copy
    before it sees one."""
    scene = Scene("a").job(status="11" * 32, inactive=False)
    scene.clone("a", {"Admitted": True, "QuotaReserved": True}).remote_job("a", suspended=False)
    scene.tick(minutes=1)
    assert scene.names() == ["Removal Job a"]
    return scene


def test_a_job_whose_orphaned_copy_was_removed_is_brought_to_rest_so_that_it_is_queued_again() -> None:
    scene = _stray()
    scene.remote_job_gone("a")
    assert scene.names() == ["Removal Workload a", "StatusRelay"]
    scene.clone_gone("a")
    scene.job(status="00" * 32, inactive=True)
    assert STREAM not in scene.fleet.index.workloads
    assert scene.fleet.index.dependents(JOB_STREAM) == set()


def test_what_goes_on_under_another_workload_is_not_brought_to_rest_after_an_orphan() -> None:
    scene = _stray()
    scene.on("another").workload({"QuotaReserved": True})
    scene.on().remote_job_gone("a")
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert STREAM not in scene.fleet.index.workloads


def test_a_workload_that_comes_after_its_jobs_orphan_has_the_job_alone() -> None:
    scene = _stray()
    scene.remote_job_gone("a")
    scene.on("another").workload({"QuotaReserved": True})
    scene.on()
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert STREAM not in scene.fleet.index.workloads


def test_a_job_is_not_brought_to_rest_after_an_orphan_while_a_cluster_is_out_of_view() -> None:
    scene = Scene("a", "b").lose("b").job(status="11" * 32, inactive=False)
    scene.clone("a").remote_job("a", suspended=False).tick(minutes=1)
    scene.decide()
    scene.remote_job_gone("a")
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.names() == [], "it may run on the other one"
    scene.connect("b")
    assert scene.names() == ["StatusRelay"]
