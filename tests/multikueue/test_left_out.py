"""A job whose kind is judged goes only to clusters that can take it, and its check says of the others why they
cannot.
"""

from __future__ import annotations

from typing import Any

from controlplane.controllers.connectivity.eligibility import ClustersJudged, Fit
from controlplane.controllers.multikueue.events import CheckStateDecided, NominationDecided
from controlplane.controllers.multikueue.observations import CheckState
from controlplane.kube.kinds import JOBS
from tests.multikueue.scene import CHECK, JOB, NS, Scene

CLAIM = Fit(reason="ClaimMissing", detail="there is no claim ci/data")
FITS = Fit()


def stage(*workers: str) -> Scene:
    return Scene(*workers, policy={"judged": frozenset({JOBS.name})})


def judge(scene: Scene, uid: str = "job-uid", **clusters: Fit) -> Scene:
    event = ClustersJudged(kind=JOBS.name, namespace=NS, name=JOB, uid=uid, clusters=clusters)
    scene.fold(f"fit/{JOBS.name}/{NS}/{JOB}", event)
    return scene


def say(scene: Scene, message: str, **more: Any) -> Scene:
    """The stored check says what we wrote."""
    check = CheckState(name=CHECK, state="Pending", message=message)
    return scene.workload(checks=[check], **more)


def messages(scene: Scene) -> list[str]:
    return [one.message for one in scene.decide() if isinstance(one, CheckStateDecided)]


def test_nothing_is_nominated_before_it_is_judged() -> None:
    scene = stage("a", "b").reserved()
    assert scene.names() == []
    judge(scene, a=FITS)
    assert "workload/default/job-train-12345" in scene.fleet.take_dirty()
    nomination, *_ = scene.decide()
    assert isinstance(nomination, NominationDecided)
    assert nomination.clusters == ["a"]


def test_a_cluster_that_cannot_take_it_is_left_out_and_the_check_says_why() -> None:
    scene = judge(stage("a", "b", "c").reserved(), a=FITS, b=CLAIM, c=Fit(reason="X", detail="too small"))
    nomination, *_ = scene.decide()
    assert isinstance(nomination, NominationDecided)
    assert nomination.clusters == ["a"]
    scene.workload(nominated=["a"])
    decided = scene.decide()
    (said,) = [one for one in decided if isinstance(one, CheckStateDecided)]
    assert (said.state, said.message) == (
        "Pending",
        "Not offered to b: there is no claim ci/data; c: too small",
    )
    assert said.reason == "ClustersJudged"
    say(scene, said.message)
    assert messages(scene) == []


def test_where_nothing_fits_it_waits_and_says_so_until_something_does() -> None:
    scene = judge(stage("a", "b").reserved(), a=CLAIM, b=Fit(reason="X", detail="too small"))
    (said,) = messages(scene)
    assert said == "No cluster can take it: a: there is no claim ci/data; b: too small"
    assert say(scene, said).names() == []
    judge(scene, a=FITS, b=Fit(reason="X", detail="too small"))
    nomination, *_ = scene.decide()
    assert isinstance(nomination, NominationDecided)
    assert nomination.clusters == ["a"]
    assert messages(say(scene, said, nominated=["a"])) == ["Not offered to b: too small"]
    judge(scene, a=FITS, b=FITS)
    say(scene, "Not offered to b: too small", nominated=["a"])
    assert [one for one in scene.decide() if isinstance(one, NominationDecided)]
    assert messages(say(scene, "Not offered to b: too small", nominated=["a", "b"])) == [
        "Every cluster that is connected can take it"
    ]


def test_a_copy_on_a_cluster_that_cannot_take_it_any_more_goes() -> None:
    scene = judge(stage("a", "b").reserved(), a=FITS, b=FITS)
    scene.decide()
    scene.workload(nominated=["a", "b"])
    scene.decide()
    scene.clone("a").clone("b", {"Admitted": True, "QuotaReserved": True})
    judge(scene, a=FITS, b=CLAIM)
    assert scene.names() == ["Removal Workload b", "Nomination"]


def test_the_judgement_on_another_job_of_that_name_counts_for_nothing() -> None:
    scene = judge(stage("a").reserved(), uid="another", a=FITS)
    assert scene.names() == []


def test_a_cluster_that_is_not_judged_yet_or_away_is_not_spoken_of() -> None:
    scene = judge(stage("a", "b").reserved(), a=CLAIM)
    assert messages(scene) == []
    scene.lose("b")
    assert messages(scene) == ["No cluster can take it: a: there is no claim ci/data"]


def test_where_nobody_judges_everything_is_as_before() -> None:
    scene = Scene("a", "b").reserved()
    nomination, *_ = scene.decide()
    assert isinstance(nomination, NominationDecided)
    assert nomination.clusters == ["a", "b"]


def test_a_winner_stays_whatever_is_said_of_it_later() -> None:
    scene = judge(stage("a").reserved(), a=FITS)
    scene.decide()
    scene.workload(nominated=["a"])
    scene.decide()
    scene.clone("a", {"Admitted": True, "QuotaReserved": True})
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]
    judge(scene, a=CLAIM)
    assert scene.names() == []


def test_a_job_that_asks_for_too_little_quota_is_told_so() -> None:
    scene = judge(stage("a", "b").reserved(), a=Fit(short="cpu 4, and it needs 4050m"), b=CLAIM)
    scene.decide()
    scene.workload(nominated=["a"])
    (said,) = messages(scene)
    assert said == (
        "Not offered to b: there is no claim ci/data. Asks for less quota than it needs: a: cpu 4, and it needs 4050m"
    )
    judge(scene, a=FITS, b=FITS)
    say(scene, "Asks for less quota than it needs: a: cpu 4, and it needs 4050m", nominated=["a", "b"])
    assert messages(scene) == ["Every cluster that is connected can take it"]


def test_a_run_that_goes_on_where_its_cluster_came_back_is_not_left_out() -> None:
    """An attempt that nobody overtook is adopted, though a node of its cluster was cordoned meanwhile."""
    scene = judge(stage("a", "b").reserved(), a=CLAIM, b=FITS)
    scene.clone("a", {"Admitted": True, "QuotaReserved": True}).remote_job("a", suspended=False, inactive=False)
    nomination, *_ = scene.decide()
    assert isinstance(nomination, NominationDecided)
    assert nomination.clusters == ["a", "b"]
    scene.workload(nominated=["a", "b"])
    assert messages(scene) == ['The workload was admitted on "a"']
    assert "WinnerChosen" in {type(one).__name__ for one in scene.decided}
    assert not scene.state.effects.get("a/Job")
