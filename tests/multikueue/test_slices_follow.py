"""A slice on its way to the cluster that has the job: what is wrong there with its copy, or with the cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.connectivity.events import ClusterConnected, cluster_stream
from controlplane.controllers.multikueue.events import (
    CloneDecided,
    DeactivationDecided,
    GateOpeningDecided,
    JobCreationDecided,
    RemovalDecided,
    SpecUpdateDecided,
    StatusRelayDecided,
    WinnerChosen,
    WorkloadWrite,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.render import render
from controlplane.kube.kinds import JOBS, WORKLOADS
from controlplane.kube.requests import Obsolete
from tests.multikueue.rendered import body
from tests.multikueue.scene import WL, Scene
from tests.multikueue.sliced import LARGE, NEW, NEXT, REPLACED, RUNS, SMALL, check, cloned, reserved

EVICTED = {"Evicted": "AdmissionCheck", "QuotaReserved": False}
NO_MORE = ("Retry", 'Admitting remote no longer exists, Previously: "Pending"')


def test_one_whose_cluster_left_the_route_is_placed_anew_once_nothing_runs_there() -> None:
    scene = reserved()
    scene.config("b")
    assert check(scene) == NO_MORE
    scene.workload(EVICTED, check="Pending", cluster_name="").job(suspended=True)
    assert scene.names() == [], "the job runs on where it was"
    assert scene.on(WL).names() == ["Removal Job a"]
    scene.remote_job_gone("a").clone_gone("a")
    scene.on(NEXT).workload({"Evicted": False, "QuotaReserved": True})
    assert scene.names() == ["Nomination", "Clone b"]


@pytest.mark.parametrize("other", ["i-b", "i-elsewhere"])
def test_one_whose_cluster_was_removed_is_placed_anew_where_that_is_in_view_under_another_name(other: str) -> None:
    """`a` leads to another cluster, or to `b` as well."""
    scene = Scene("a", "b", policy={"execution_policy": "never-twice"})
    scene.fold(cluster_stream("a"), ClusterConnected(kinds=[WORKLOADS.name, JOBS.name], incarnation=other), "a")
    scene.job(suspended=True, status="11" * 32, size=LARGE, template="cc" * 32)
    scene.workload({**RUNS, **REPLACED}, check="Ready", cluster_name="a", elastic=True, size=SMALL)
    scene.fold(scene.stream, WinnerChosen(cluster="a", attempt=1, among={}, reason=WorkloadReason.ONLY_ADMITTED))
    scene.remote_job("a", suspended=False, size=SMALL).remote_job_gone("a").disconnect("a").config("b")
    scene.on(NEXT).workload({"QuotaReserved": True}, **NEW)
    assert scene.names() == (["Nomination", "Clone b"] if other == "i-b" else [])


def test_it_is_taken_back_again_while_the_job_is_still_there() -> None:
    scene = reserved()
    scene.config("b")
    assert check(scene) == NO_MORE
    scene.workload(EVICTED, check="Pending", cluster_name="").job(suspended=True)
    assert scene.names() == []
    scene.workload({"Evicted": False, "QuotaReserved": True})
    assert check(scene) == NO_MORE, "it goes nowhere else"


def test_a_refused_copy_is_tried_again_there_and_nowhere_else() -> None:
    scene = reserved()
    assert scene.names() == ["AttemptBegun"]
    (decision,) = scene.decide()
    assert isinstance(decision, CloneDecided)
    scene.refuses(decision, 422, "Invalid", timedelta(seconds=30))
    assert scene.names() == []
    assert scene.wake == scene.now + timedelta(seconds=30)
    assert scene.tick(seconds=30).names() == ["Clone a"]


def test_a_copy_that_is_being_deleted_is_waited_for() -> None:
    scene = cloned().clone("a", deleting=True)
    assert scene.names() == []
    assert scene.clone_gone("a").names() == ["Clone a"]


def test_a_copy_that_was_deactivated_there_has_it_placed_anew() -> None:
    scene = cloned().clone("a", active=False)
    evicted = 'Workload evicted on worker cluster: "a", resetting for re-admission, Previously: "Pending"'
    assert check(scene) == ("Retry", evicted)


def test_a_copy_that_was_evicted_there_waits_for_room_beside_the_job() -> None:
    scene = cloned().clone("a", {"QuotaReserved": False, "Admitted": False, "Evicted": "Preempted"})
    assert scene.names() == []
    assert scene.clone("a", RUNS | {"Evicted": False}).names() == ["SpecUpdate a"]


def test_a_job_that_is_being_deleted_under_its_name_is_not_ready() -> None:
    scene = cloned().clone("a", RUNS)
    scene.remote_job("a", deleting=True, suspended=False, inactive=False, size=SMALL)
    assert scene.names() == []


def test_one_that_replaces_none_has_the_names_taken_that_we_gave_it() -> None:
    scene = reserved().workload(replaces="", cluster_name="a")
    assert scene.names() == ["NamesClear"]


# --- decisions whose object is gone when they are to be carried out
# ----------------------------------------------------

GIVEN: dict[str, Any] = {"cluster": "a", "resource_version": "1", "reason": WorkloadReason.SIZE_CHANGED}
JOB: dict[str, Any] = {**GIVEN, "kind": JOBS.name, "uid": "gone"}


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (SpecUpdateDecided(**JOB, template="", resized=True), "the job is gone"),
        (RemovalDecided(**JOB, of="Job"), "the job is gone"),
        (RemovalDecided(**JOB, of="Job", member="other"), "the job is gone"),
        (
            StatusRelayDecided(kind=JOBS.name, resource_version="1", status="", reason=GIVEN["reason"]),
            "the job is gone",
        ),
        (DeactivationDecided(**GIVEN, message=""), "the clone is gone"),
        (GateOpeningDecided(**GIVEN, attempt=1, uid="gone", blocked={}), "the clone is gone"),
        (
            JobCreationDecided(cluster="a", attempt=1, kind=JOBS.name, template="", reason=GIVEN["reason"]),
            "the Workload is gone",
        ),
        (
            SpecUpdateDecided(**{**JOB, "kind": "odd.example"}, template="", prebuilt=NEXT),
            "the kind odd.example is not enabled",
        ),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, WorkloadWrite) else "",
)
def test_a_decision_about_what_is_gone_is_sent_to_nobody(decision: WorkloadWrite, said: str) -> None:
    scene = reserved() if "kind" in said else Scene("a").workload({"QuotaReserved": True})
    if "Workload" in said:
        scene.clone("a").gone()
    template, bodies = body({"labels": {}, "annotations": {}, "spec": {}})
    if hasattr(decision, "template"):
        decision = type(decision)(
            **{**{name: getattr(decision, name) for name in decision.__struct_fields__}, "template": template}
        )
    found = {ref: text.encode() if isinstance(text, str) else text for ref, text in bodies.items()}
    with pytest.raises(Obsolete, match=said):
        render(scene.state, None, decision, found, scene.fleet.policy, scene.now)
