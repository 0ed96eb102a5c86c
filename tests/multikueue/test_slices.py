"""Workloads of elastic jobs: the job is made larger under the name of the next slice, smaller in place, and there is
one job at any time.
"""

from __future__ import annotations

import pytest

from controlplane.controllers.multikueue.events import FinishDecided, SpecUpdateDecided
from controlplane.controllers.multikueue.observations import JobEnd, Owner
from controlplane.kube.kinds import JOBS, WORKLOADS
from tests.multikueue.observed import PREBUILT, job, metadata, observe, remote_job, workload
from tests.multikueue.rendered import body
from tests.multikueue.scene import JOB, NS, WL, Scene
from tests.multikueue.sliced import (
    LARGE,
    NEW,
    NEXT,
    REPLACED,
    RUNS,
    SMALL,
    bound,
    check,
    cloned,
    reserved,
    small,
    waiting,
)

# --- what is seen of them --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "elastic"), [("true", True), ("false", False), ("", False)])
def test_an_elastic_job_is_known_by_its_annotation(value: str, elastic: bool) -> None:
    marks = {"kueue.x-k8s.io/elastic-job": value, "kueue.x-k8s.io/workload-slice-replacement-for": "default/old"}
    seen = observe("@management", WORKLOADS, workload(metadata=metadata(annotations=marks))).event
    assert (seen.elastic, seen.replaces, seen.size) == (elastic, "default/old", {"main": 1})
    plain = observe("@management", WORKLOADS, workload()).event
    assert (plain.elastic, plain.replaces, plain.sliced, plain.size) == (False, "", False, {})


def test_the_size_of_an_elastic_job_and_of_its_copy_is_seen() -> None:
    marks = {"kueue.x-k8s.io/elastic-job": "true"}
    spec = {"parallelism": 3, "template": {"spec": {}}}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    shown = job(metadata=metadata("train", annotations=marks, labels=labels), spec=spec)
    assert observe("@management", JOBS, shown).event.size == LARGE
    copied = remote_job(spec=spec)
    assert observe("a", JOBS, copied).event.size == {}
    copied["metadata"]["annotations"] |= marks
    assert observe("a", JOBS, copied).event.size == LARGE


# --- the first slice -------------------------------------------------------------------------------------------------


def test_the_first_slice_is_dispatched_like_any_workload() -> None:
    scene = Scene("a", "b").job(size=SMALL).workload({"QuotaReserved": True}, elastic=True, size=SMALL)
    assert scene.names() == ["Nomination", "Clone a", "Clone b"]
    scene.workload(nominated=["a", "b"])
    scene.clone("a", RUNS, size=SMALL).clone("b", size=SMALL)
    assert scene.names() == ["WinnerChosen a", "Removal Workload b", "JobCreation a"]


def test_a_rejection_of_the_version_before_is_taken_back() -> None:
    scene = Scene("a").job(size=SMALL).workload({"QuotaReserved": False}, check="Rejected", elastic=True, size=SMALL)
    assert check(scene) == ("Pending", 'Nothing speaks against the workload any more, Previously: "Rejected"')


def test_one_that_is_evicted_is_stopped_and_loses_the_names_that_we_gave_it() -> None:
    scene = small().workload({"Evicted": "Preempted"}, check="Pending")
    assert scene.names() == ["NamesClear", "Deactivation a"]


# --- larger ----------------------------------------------------------------------------------------------------------


def test_a_slice_that_waits_for_quota_touches_nothing() -> None:
    scene = waiting()
    assert scene.names() == []
    assert scene.on(WL).names() == []


def test_the_next_slice_is_offered_to_the_jobs_cluster_alone() -> None:
    scene = cloned()
    assert scene.names() == []
    assert set(scene.state.remotes) == {"a"}


def test_its_job_is_bound_and_made_larger_in_one_write_once_it_is_admitted() -> None:
    scene = cloned().clone("a", RUNS)
    (decision,) = scene.decide()
    assert isinstance(decision, SpecUpdateDecided)
    assert (decision.prebuilt, decision.resized, decision.uid, decision.of) == (NEXT, True, "rjob-a", "Job")
    ref, bodies = body({"labels": {}, "annotations": {}, "spec": {"parallelism": 3, "template": {}}})
    scene.job(template=ref)
    (write,) = scene.fleet.open_writes(scene.stream)
    request = scene.fleet.request(write, {"cc" * 32: bodies[ref]}, scene.now)
    assert request is not None
    assert request.body == {
        "spec": {"parallelism": 3},
        "metadata": {"annotations": {PREBUILT: NEXT}, "labels": {PREBUILT: None}},
    }
    assert (request.ref.name, request.uid, request.resource_version) == (JOB, "rjob-a", decision.resource_version)


def test_the_check_is_ready_once_the_job_is_seen_as_its_own_and_nothing_is_lost_of_the_slice_before() -> None:
    scene = bound()
    assert check(scene) == ("Ready", 'The workload was admitted on "a"')
    assert scene.on(WL).state.remote("a").job is None
    assert scene.names() == []
    scene.on(NEXT).workload({"Admitted": True}, check="Ready")
    assert scene.names() == []
    # The end of the job is the end of the slice that has it; what is left of the one before goes as well.
    scene.remote_job("a", finished=True, inactive=True, status="22" * 32)
    scene.clone("a", {"Finished": ("Succeeded", "all good")})
    assert scene.names() == ["StatusRelay"]
    scene.job(status="22" * 32, finished=True).tick(seconds=1)
    assert scene.names() == ["Finish"]
    assert scene.on(WL).names() == ["Removal Workload a"]


def test_a_job_that_grew_on_is_not_bound_to_a_slice_that_is_too_small_for_it() -> None:
    scene = cloned().job(size={"main": 5}).clone("a", RUNS)
    assert scene.names() == []
    scene.workload(REPLACED)
    scene.on("job-train-third").workload(
        {"QuotaReserved": True}, cluster_name="a", **(NEW | {"size": {"main": 5}, "replaces": f"{NS}/{NEXT}"})
    )
    assert scene.names() == ["AttemptBegun"]
    assert scene.names() == ["Clone a"]
    scene.clone("a", RUNS, spec_key="spec-2", size={"main": 5})
    assert scene.names() == ["SpecUpdate a"]


def test_a_running_slice_does_not_take_a_job_over_that_became_larger() -> None:
    scene = small().job(size=LARGE)
    assert scene.names() == []


def test_a_slice_of_a_kind_that_cannot_be_resized_is_rejected_and_the_job_runs_on() -> None:
    owner = Owner(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name=JOB, uid="job-uid")
    scene = Scene("a").job().workload({"QuotaReserved": True}, cluster_name="a", **(NEW | {"owner": owner}))
    assert check(scene)[0] == "Rejected"
    scene.workload(check="Rejected")
    assert scene.names() == []


# --- the cluster is away, the worker refuses, the slice is evicted
# -----------------------------------------------------


def test_a_job_that_is_away_is_started_nowhere_else_before_its_grace_is_over() -> None:
    scene = reserved().lose("a")
    assert scene.names() == []
    scene.tick(minutes=14)
    assert scene.names() == []
    scene.tick(minutes=1)
    assert check(scene) == ("Retry", 'Admitting remote lost, Previously: "Pending"')


def test_after_the_grace_the_slice_runs_elsewhere_and_what_comes_back_goes() -> None:
    scene = reserved().lose("a").tick(minutes=15)
    assert check(scene)[0] == "Retry"
    scene.workload({"Evicted": "AdmissionCheck"}, check="Pending", cluster_name="")
    scene.job(suspended=True)
    assert scene.names() == ["StatusRelay"]
    scene.job(status="33" * 32, inactive=True)
    scene.workload({"QuotaReserved": False})
    assert scene.names() == []
    scene.workload({"QuotaReserved": True, "Evicted": False})
    assert scene.names() == ["Nomination", "Clone b"]
    scene.workload(nominated=["b"])
    scene.clone("b", RUNS, spec_key="spec-2", size=LARGE)
    assert scene.names() == ["WinnerChosen b", "JobCreation b"]
    scene.remote_job("b", suspended=False, inactive=False, size=LARGE)
    scene.connect("a")
    assert scene.on(WL).names() == ["Removal Job a"]


def test_one_that_is_offered_elsewhere_follows_the_job_when_that_is_back() -> None:
    scene = reserved().lose("a").tick(minutes=15)
    scene.workload({"Evicted": "AdmissionCheck"}, check="Pending", cluster_name="")
    scene.workload({"Evicted": False})
    assert scene.names() == ["Nomination", "Clone b"]
    scene.workload(nominated=["b"])
    scene.clone("b", spec_key="spec-2", size=LARGE)
    scene.connect("a")
    # It is back, and the job runs on there: that is where the slice goes.
    assert scene.names() == ["Removal Workload b", "Clone a"]
    assert scene.on(WL).names() == []
    scene.on(NEXT).clone("a", RUNS, spec_key="spec-2", size=LARGE)
    assert scene.names() == ["SpecUpdate a"]


def test_a_slice_that_replaces_none_is_nominated_where_the_job_is() -> None:
    scene = small().workload({"Finished": ("WorkloadSliceReplaced", "")}).on(NEXT)
    scene.workload({"QuotaReserved": True}, **(NEW | {"replaces": ""}))
    assert scene.names() == ["AttemptBegun"]
    assert scene.names() == ["Nomination"]
    scene.workload(nominated=["a"])
    assert scene.names() == ["Clone a"]


def test_a_slice_that_its_worker_deactivated_goes_back_to_the_queue() -> None:
    scene = cloned().clone("a", {"Evicted": "Deactivated"}, active=False)
    state, message = check(scene)
    assert (state, message) == (
        "Retry",
        'Workload evicted on worker cluster: "a", resetting for re-admission, Previously: "Pending"',
    )


def test_when_the_next_slice_is_evicted_the_job_stops_under_the_name_of_the_one_before() -> None:
    scene = cloned().workload({"Evicted": "Preempted"}, cluster_name="")
    scene.job(suspended=True)
    assert scene.names() == []
    assert scene.on(WL).names() == ["Deactivation a"]
    scene.clone("a", {"DeactivationTarget": True, "Evicted": "Deactivated"}, active=False)
    scene.remote_job("a", suspended=True, inactive=True, status="33" * 32)
    assert scene.names() == []
    assert scene.on(NEXT).names() == ["StatusRelay"]
    scene.job(status="33" * 32, inactive=True)
    scene.workload({"QuotaReserved": False})
    assert scene.on(WL).names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    # Nothing of the job is left: the slice may go anywhere.
    scene.on(NEXT).workload({"QuotaReserved": True, "Evicted": False})
    assert scene.names() == ["Nomination", "Clone b"]


def test_where_the_worker_has_replaced_the_slice_before_the_job_is_removed_when_the_next_is_evicted() -> None:
    scene = cloned().clone("a", RUNS).on(WL).clone("a", REPLACED)
    scene.on(NEXT).workload({"Evicted": "Preempted"}, cluster_name="")
    assert scene.on(WL).names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    scene.job(suspended=True)
    assert "StatusRelay" in scene.on(NEXT).names()


def test_a_slice_that_has_the_job_is_removed_like_any_other_once_it_holds_no_quota() -> None:
    scene = bound()
    scene.workload({"Evicted": "Preempted", "QuotaReserved": False}, cluster_name="", check="Pending")
    assert scene.names() == ["Removal Job a"]


def test_a_slice_whose_job_was_deleted_on_its_worker_creates_it_again() -> None:
    scene = cloned().on(WL).remote_job_gone("a").on(NEXT).clone("a", RUNS)
    assert scene.names() == ["JobCreation a"]


def test_nothing_is_bound_to_a_job_that_has_finished_meanwhile() -> None:
    scene = cloned().on(WL).remote_job("a", finished=True, inactive=True, status="22" * 32)
    scene.on(NEXT).clone("a", RUNS)
    assert scene.names() == []
    # Its end is reported under the name of the slice before; Kueue finishes the one that waits.
    assert scene.on(WL).names() == ["StatusRelay"]
    scene.job(status="22" * 32, finished=True)
    scene.on(NEXT).workload({"Finished": ("Succeeded", "all good")})
    assert scene.names() == ["Removal Workload a"]
    assert scene.on(WL).names() == ["Removal Job a"]


@pytest.mark.parametrize(("success", "reason"), [(True, "Succeeded"), (False, "Failed")])
def test_a_slice_whose_job_was_made_larger_after_its_end_is_finished(success: bool, reason: str) -> None:
    """Kueue waits for another slice, which it makes of no job that has ended."""
    scene = cloned().on(WL).remote_job("a", finished=True, inactive=True, status="22" * 32)
    assert scene.names() == ["StatusRelay"]
    scene.job(status="22" * 32, finished=True, inactive=True, end=JobEnd(success=success, message="all said"))
    assert scene.on(NEXT).names() == []  # Kueue finishes it
    scene.job(size={"main": 5})
    (finish,) = scene.decide()
    assert isinstance(finish, FinishDecided)
    assert (finish.source, finish.finish_reason, finish.message) == ("", reason, "all said")
    scene.workload({"Finished": (reason, "all said")})
    assert scene.names() == ["Removal Workload a"]


def test_nor_does_it_wait_for_that_when_it_was_evicted_meanwhile() -> None:
    scene = cloned().workload({"Evicted": "AdmissionCheck"}, cluster_name="")
    scene.job(finished=True, inactive=True, size={"main": 5}, end=JobEnd(success=True))
    assert scene.names() == ["Finish"]


def test_a_job_that_is_smaller_at_its_end_is_left_to_kueue() -> None:
    scene = cloned().job(finished=True, inactive=True, size=SMALL, end=JobEnd(success=True))
    assert "Finish" not in scene.names()


def test_the_end_of_an_elastic_job_is_seen() -> None:
    ended = {"conditions": [{"type": "Complete", "status": "True", "message": "all good"}]}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    marks = {"kueue.x-k8s.io/elastic-job": "true"}
    spec = {"parallelism": 3, "template": {"spec": {}}}
    shown = job(metadata=metadata("train", annotations=marks, labels=labels), spec=spec, status=ended)
    assert observe("@management", JOBS, shown).event.end == JobEnd(success=True, message="all good")
    shown["metadata"]["annotations"] = {}
    assert observe("@management", JOBS, shown).event.end is None


def test_a_slice_whose_job_was_stopped_where_it_waits_may_go_elsewhere() -> None:
    scene = cloned().on(WL).clone("a", {"Evicted": "Deactivated"}, active=False)
    scene.on(NEXT)
    assert scene.names() == []
    scene.on(WL).remote_job("a", suspended=True, inactive=True, status="33" * 32)
    assert check(scene.on(NEXT)) == ("Retry", 'Admitting remote no longer exists, Previously: "Pending"')


# --- smaller ---------------------------------------------------------------------------------------------------------


def test_a_slice_that_becomes_smaller_takes_its_copy_and_the_job_along() -> None:
    scene = bound()
    assert check(scene)[0] == "Ready"
    scene.workload({"Admitted": True}, check="Ready")
    scene.job(size=SMALL, template="dd" * 32)
    assert scene.names() == []
    ref, bodies = body({"labels": {}, "annotations": {}, "spec": {"podSets": [{"name": "main", "count": 1}]}})
    scene.workload(size=SMALL, spec_key="spec-1", template=ref)
    assert scene.names() == ["SpecUpdate a", "SpecUpdate a"]
    first, second = scene.decided[-2:]
    assert isinstance(first, SpecUpdateDecided)
    assert isinstance(second, SpecUpdateDecided)
    assert (first.of, second.of, second.prebuilt) == ("Workload", "Job", "")
    write = next(one for one in scene.fleet.open_writes(scene.stream) if one.target == "a/Workload")
    request = scene.fleet.request(write, bodies, scene.now)
    assert request is not None
    assert request.body == {"spec": {"podSets": [{"name": "main", "count": 1}]}}
    scene.clone("a", size=SMALL, spec_key="spec-1").remote_job("a", size=SMALL)
    assert scene.names() == []


def test_a_slice_that_becomes_smaller_while_no_cluster_has_room_asks_for_less_everywhere() -> None:
    scene = Scene("a", "b").job(size=LARGE).workload({"QuotaReserved": True}, elastic=True, size=LARGE)
    assert scene.names() == ["Nomination", "Clone a", "Clone b"]
    scene.workload(nominated=["a", "b"]).clone("a", size=LARGE).clone("b", size=LARGE)
    assert scene.names() == []
    scene.job(size=SMALL, template="dd" * 32).workload(size=SMALL, spec_key="spec-0", template="ee" * 32)
    assert scene.names() == ["SpecUpdate a", "SpecUpdate b"]
    assert {one.of for one in scene.decided if isinstance(one, SpecUpdateDecided)} == {"Workload"}
    scene.clone("a", size=SMALL, spec_key="spec-0")
    assert scene.names() == []
