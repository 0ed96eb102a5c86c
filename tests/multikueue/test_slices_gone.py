"""An elastic job whose slice is gone, on the management cluster or on the worker, or is known by nobody: it runs once,
it does not wait for ever, and its end counts."""

from __future__ import annotations

from controlplane.controllers.multikueue.events import StatusRelayDecided
from controlplane.kube.kinds import JOBS
from tests.multikueue.scene import NS, WL, Scene
from tests.multikueue.sliced import LARGE, NEW, NEXT, RUNS, SMALL, check, cloned, job_gone, small

STRAY = "job-train-stray"
ENDED = "22" * 32
ALONE = NEW | {"replaces": "", "size": SMALL}


# --- a slice that only its copy tells of: the log went back, and its Workload is gone
# ----------------------------------


def strayed(*clusters: str) -> Scene:
    """The log went back to before a slice that somebody has deleted since, and whose job runs on `a`."""
    scene = Scene(*(clusters or ("a", "b"))).job(suspended=True, size=SMALL)
    scene.on(STRAY).clone("a", RUNS, size=SMALL)
    scene.remote_job("a", suspended=False, inactive=False, size=SMALL)
    return scene.on(NEXT)


def test_the_next_slice_starts_nowhere_while_a_job_of_its_name_runs() -> None:
    scene = strayed().workload({"QuotaReserved": True}, **ALONE)
    assert scene.names() == []
    assert scene.tick(seconds=59).names() == []


def test_nor_does_it_where_that_is_seen_after_it_was_offered() -> None:
    scene = Scene("a", "b").job(suspended=True, size=SMALL).on(NEXT)
    scene.workload({"QuotaReserved": True}, **ALONE)
    assert scene.names() == ["Nomination", "Clone a", "Clone b"]
    scene.workload(nominated=["a", "b"])
    scene.on(STRAY).remote_job("a", suspended=False, inactive=False, size=SMALL)
    scene.on(NEXT).clone("b", RUNS, size=SMALL, spec_key="spec-2")
    assert "JobCreation b" not in scene.names()


def test_it_starts_once_what_nobody_knows_was_removed() -> None:
    scene = strayed().workload({"QuotaReserved": True}, **ALONE)
    assert scene.names() == []
    scene.tick(minutes=1).on(STRAY)
    assert scene.names() == ["Removal Job a"]
    scene.fleet.take_dirty()
    scene.remote_job_gone("a")
    assert f"workload/{NS}/{NEXT}" in scene.fleet.take_dirty()
    assert scene.on(NEXT).names() == ["Nomination", "Clone a", "Clone b"]


def test_what_runs_where_nobody_can_look_is_waited_for_as_long_as_its_grace() -> None:
    scene = strayed().lose("a").workload({"QuotaReserved": True}, **ALONE)
    assert scene.names() == []
    assert scene.tick(minutes=14).names() == []
    assert scene.tick(minutes=2).names() == ["Nomination", "Clone b"]


def test_a_job_of_another_name_or_namespace_is_not_waited_for() -> None:
    scene = strayed()
    seen = scene.fleet.index.workloads[f"workload/{NS}/{STRAY}"].remote("a").job
    assert seen is not None
    assert set(scene.fleet.index._strays.of(f"job/{JOBS.name}/{NS}/train")) == {f"workload/{NS}/{STRAY}"}
    assert not scene.fleet.index._strays.of(f"job/{JOBS.name}/{NS}/other")
    scene.on(STRAY).remote_job_gone("a")
    assert not scene.fleet.index._strays.of(f"job/{JOBS.name}/{NS}/train")
    assert scene.fleet.index._strays._jobs == {}


def test_a_job_that_is_not_elastic_is_not_held_up() -> None:
    """Its next Workload has the name of the one before, so a copy under another name is none of its own."""
    scene = strayed().workload({"QuotaReserved": True})
    assert scene.names() == ["Nomination", "Clone a", "Clone b"]


def test_the_slice_itself_that_is_seen_again_is_none_that_nobody_knows() -> None:
    scene = strayed().on(STRAY).workload({"QuotaReserved": True}, elastic=True, size=SMALL)
    assert not scene.fleet.index._strays.of(f"job/{JOBS.name}/{NS}/train")
    scene.on(NEXT).workload({"QuotaReserved": True}, **ALONE)
    assert scene.names() == ["AttemptBegun"], "it follows the other one to the job's cluster"


# --- a replaced slice that was deleted, and whose job ends before the next one has it
# ----------------------------------


def test_the_end_of_a_job_counts_though_the_slice_that_has_it_is_gone() -> None:
    """Kueue deletes Workloads that are finished after a while, and one that was replaced is."""
    scene = cloned().on(WL).gone()
    assert scene.names() == []
    scene.remote_job("a", finished=True, inactive=True, status=ENDED)
    (relayed,) = scene.decide()
    assert isinstance(relayed, StatusRelayDecided)
    assert (relayed.source, relayed.status) == ("a", ENDED)
    scene.job(status=ENDED, finished=True, inactive=True)
    assert scene.on(WL).names() == ["Removal Job a"]
    assert scene.on(NEXT).names() == []
    scene.on(WL).remote_job_gone("a")
    assert scene.on(NEXT).names() == [], "it has run"


def test_it_does_not_count_where_the_job_runs_elsewhere_as_another_slices() -> None:
    scene = cloned().on(WL).gone()
    scene.on(NEXT).remote_job("b", suspended=False, inactive=False, size=SMALL)
    scene.on(WL).remote_job("a", finished=True, inactive=True, status=ENDED)
    assert scene.names() == ["Removal Job a"]


def test_nor_once_the_users_job_is_gone() -> None:
    scene = cloned().on(WL).gone()
    scene.remote_job("a", finished=True, inactive=True, status=ENDED)
    job_gone(scene)
    assert scene.names() == ["Removal Job a"]


# --- a slice whose copy is gone on the worker
# --------------------------------------------------------------------------


def test_a_slice_does_not_wait_where_the_job_stands_still_without_any_workload() -> None:
    """Somebody deleted the copy of the slice that has the job, so its Kueue has suspended that for good; there is no
    room for the larger slice, which another cluster may have."""
    scene = cloned().on(WL).clone_gone("a")
    scene.remote_job("a", suspended=True, inactive=False, size=SMALL)
    assert scene.on(NEXT).names() == [], "its pods have not ended yet"
    scene.on(WL).remote_job("a", suspended=True, inactive=True, size=SMALL)
    assert check(scene.on(NEXT)) == ("Retry", 'Admitting remote no longer exists, Previously: "Pending"')
    scene.workload({"Evicted": "AdmissionCheck", "QuotaReserved": False}, check="Pending", cluster_name="")
    assert scene.on(WL).names() == ["Removal Job a"]


def test_it_waits_where_the_job_runs_on_without_any_workload() -> None:
    scene = cloned().on(WL).clone_gone("a")
    assert scene.on(NEXT).names() == []


# --- an evicted slice whose copy is gone from its worker


def test_the_job_of_an_evicted_slice_whose_copy_somebody_deleted_goes_so_that_it_is_queued_again() -> None:
    scene = small().clone_gone("a").remote_job("a", suspended=True, inactive=True)
    scene.workload({"Evicted": "AdmissionCheck"}, check="Retry", cluster_name="")
    assert scene.job(suspended=True).names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    assert scene.names() == ["StatusRelay"]


def test_it_stays_where_another_slice_may_be_meant_to_have_it() -> None:
    scene = small().job(size=LARGE, template="cc" * 32)
    scene.on(NEXT).workload({"QuotaReserved": False}, **NEW)
    scene.on(WL).clone_gone("a").remote_job("a", suspended=True, inactive=True)
    scene.workload({"Evicted": "AdmissionCheck"}, check="Retry", cluster_name="")
    assert scene.names() == []
