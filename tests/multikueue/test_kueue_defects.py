"""The defects of Kueue's own controller, one test each: its rule (`tests.multikueue.in_tree`) has the defect, ours has
not.

Each test is named after the defect. Two are no rule of decisions, and tested where they belong: a watch that ends costs
no list (9: `clusters/test_clusters_reflector`, test_an_ordinary_end_resumes_from_the_last_version_without_a_list), a
kind without its CRD or its rights is off alone (10: there,
test_a_kind_that_is_refused_is_off_once_and_asked_for_again)."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    ClusterRefused,
    FinishDecided,
    JobCreationDecided,
    NominationDecided,
    StatusRelayDecided,
    WinnerChosen,
)
from controlplane.controllers.multikueue.nominate import INCREMENTAL
from controlplane.log.event import Event
from tests.multikueue.dispatched import TWO, restart, settled
from tests.multikueue.in_tree import in_tree
from tests.multikueue.scene import STREAM, Scene
from tests.multikueue.test_leaderworkersets import Sets

EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z"


def admitted(at: str) -> dict[str, object]:
    return {"QuotaReserved": True, "Admitted": ("Admitted", "", at)}


def kinds(decided: list[Event]) -> list[str]:
    return [type(one).__name__ for one in decided]


def taken_back(scene: Scene) -> Scene:
    """Kueue's part after a Retry, up to new quota."""
    scene.decide()
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(suspended=True)
    scene.decide()
    scene.job(status=TWO, inactive=True).workload({"QuotaReserved": False})
    scene.decide()
    scene.workload({"QuotaReserved": True, "Evicted": False})
    return scene


def created(scene: Scene) -> JobCreationDecided:
    """The job's creation on the cluster that was chosen, the other's copy gone."""
    decided = scene.decide()
    scene.clone_gone("b")
    decided += scene.decide()
    return next(one for one in decided if isinstance(one, JobCreationDecided))


def elsewhere() -> Scene:
    """It ran on `a`, which was lost; it runs on `b` now, and `a` is back with its old copy."""
    scene = settled("a", "a", "b").clone("a", admitted(EARLIER)).lose("a").tick(minutes=16)
    taken_back(scene)
    scene.decide()
    scene.workload(nominated=["b"]).decide()
    scene.clone("b", admitted(LATER)).decide()
    scene.remote_job("b", suspended=False).decide()
    scene.workload({"Admitted": True}, check="Ready", cluster_name="b", nominated=[])
    scene.job(suspended=False)
    return scene.connect("a")


def test_1_a_returning_worker_wins() -> None:
    scene = elsewhere()
    steps = in_tree(scene)
    assert steps[:2] == ["remove b", "sync a"], "the healthy copy goes first"
    assert steps[2].startswith("error: attempting to change immutable ClusterName")
    ours = scene.names()
    assert "Removal Job a" in ours
    assert not any(name.endswith(" b") for name in ours)


def test_1_and_its_result_counts_though_a_newer_copy_runs() -> None:
    scene = elsewhere().clone("a", {"Finished": ("Failed", "exit 1", EARLIER)})
    assert in_tree(scene) == ["sync a", "finish a"]
    assert not any(isinstance(one, FinishDecided) for one in scene.decide())


def test_2_a_returning_worker_that_is_not_nominated() -> None:
    scene = settled("a", "a", "b").clone("a", admitted(EARLIER)).lose("a").tick(minutes=16)
    taken_back(scene)
    scene.decide()
    scene.workload(nominated=["b"]).connect("a")
    assert in_tree(scene)[-1] == "error: the webhook refuses clusterName a, which is not nominated"
    for _ in range(3):
        chosen = [one.cluster for one in scene.decide() if isinstance(one, WinnerChosen)]
        assert chosen == [] or scene.state.local is None or chosen[0] in scene.state.local.nominated


def test_3_a_cluster_taken_out_of_the_config_runs_its_copy_on() -> None:
    scene = settled("a", "a", "b")
    scene.config("b")
    assert in_tree(scene) == ["Retry: gone"], "and nobody ever looks at a again"
    assert scene.names() == ["Removal Job a"]
    scene.remote_job_gone("a")
    retry = scene.decide()
    assert kinds(retry)[-1] == "CheckStateDecided"


def test_4_out_of_sync_while_it_waits() -> None:
    scene = Scene("a").cloned("a").clone("a", {"Finished": ("OutOfSync", "the prebuilt workload is out of sync")})
    assert in_tree(scene) == [], "for ever"
    assert scene.names() != []


def test_5_a_status_that_nobody_updates_holds_the_quota() -> None:
    scene = settled("a", "a", "b").lose("a").tick(minutes=16)
    scene.decide()
    scene.workload({"Evicted": True, "Admitted": False}, check="Pending", cluster_name="").job(suspended=True)
    assert in_tree(scene) == ["clone b"], "a copy of what is to be stopped, and the status stays as it was"
    (drained,) = [one for one in scene.decide() if isinstance(one, StatusRelayDecided)]
    assert drained.drain


def test_6_a_cluster_whose_object_was_deleted() -> None:
    scene = settled("a", "a", "b").disconnect("a")
    lost = scene.now
    scene.tick(minutes=16)
    assert in_tree(scene) == [], "nothing remembers since when it is away: the grace begins anew on each pass"
    retry = [one for one in scene.decide() if isinstance(one, CheckStateDecided)]
    assert [one.state for one in retry] == ["Retry"]
    assert scene.now - lost > timedelta(minutes=15)


def test_7_replicas_that_wake_each_other_in_every_pass() -> None:
    """There, each admitted Workload of a LeaderWorkerSet has all others looked at (`enqueueComponentWorkloads`), and
    they it; here only when one of them changes what the others go by.
    """
    scene = Sets("a", replicas=3).running()
    scene.fleet.take_dirty()
    assert scene.each() == {}
    assert scene.fleet.take_dirty() == []
    scene.at(1).clone("a", {"PodsReady": True})
    assert scene.fleet.take_dirty() == [scene.stream], "what is the others' matter is not changed"
    scene.evict(1)
    assert {scene.at(index).stream for index in range(3)} <= set(scene.fleet.take_dirty())


def test_8_a_write_and_an_event_in_every_pass() -> None:
    scene = settled()
    assert in_tree(scene) == ["sync a", "Ready a"], "again and again"
    assert scene.names() == []
    assert scene.names() == []


def test_11_one_workers_error_stops_all() -> None:
    """There, a read error on one worker ends the pass (`remoteGroup`); here each cluster's copy is its own matter."""
    scene = Scene("a", "b").nominated("a", "b")
    scene.decide()
    scene.clone("b", admitted(LATER)).lose("a")
    assert any(isinstance(one, WinnerChosen) and one.cluster == "b" for one in scene.decide())


def test_12_a_worker_that_refuses_the_job_keeps_the_workload() -> None:
    """A kind whose copies a worker's webhook refuses (JAXJob) stayed with that worker; here the next one is asked."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", admitted(EARLIER))
    creation = created(scene)
    for failures in (1, 2):
        scene.refuses(creation, 403, "Forbidden", timedelta(seconds=1), failures)
        scene.tick(seconds=2).decide()
    assert "a" in scene.state.refused


def test_13_no_pause_between_retries() -> None:
    seconds = []
    for count in range(4):
        scene = settled().workload(retry_count=count).clone("a", {"Evicted": ("Preempted", "for another")})
        assert in_tree(scene) == ["Retry: evicted"]
        (retry,) = [one for one in scene.decide() if isinstance(one, CheckStateDecided)]
        seconds.append(retry.requeue_after_seconds)
    assert seconds == [0, 2, 4, 8]


def test_14_the_incremental_dispatcher() -> None:
    """A restart asked more at once, a dead cluster held a place, an eviction was nominated, the end was an error."""
    scene = Scene("a", "b", "c", "d", policy={"dispatcher": INCREMENTAL, "step_size": 2}).lose("a").reserved()
    scene.decide()
    scene.workload(nominated=["b", "c"]).decide()
    scene.clone("b").clone("c")
    restart(scene)
    for name in ("b", "c", "d"):
        scene.connect(name)
    assert not any(isinstance(one, NominationDecided) for one in scene.decide())
    scene.workload({"Evicted": True}, nominated=[])
    assert not any(isinstance(one, NominationDecided) for one in scene.decide())


def test_15_a_decision_on_a_stale_read() -> None:
    """What is written says on which version of the object it was decided, so a newer one refuses it."""
    scene = Scene("a").reserved()
    (nomination,) = [one for one in scene.decide() if isinstance(one, NominationDecided)]
    assert scene.state.local is not None
    assert nomination.resource_version == scene.state.local.resource_version


def test_16_no_cluster_is_connected_and_nobody_wakes_it() -> None:
    scene = Scene("a", connected=False).reserved()
    assert scene.names() == []
    scene.fleet.take_dirty()
    scene.connect("a")
    assert STREAM in scene.fleet.take_dirty(), "a cluster that connects is a reason to look"
    assert "Nomination" in scene.names()


def test_17_the_grace_is_the_period_of_looking() -> None:
    scene = settled()
    scene.names()
    assert scene.wake is None, "nothing is looked at again without a reason"


def test_18_a_foreign_job_of_the_same_name() -> None:
    scene = Scene("a", "b").cloned("a", "b").clone("a", admitted(EARLIER))
    creation = created(scene)
    scene.refuses(creation, 409, "Foreign", timedelta(seconds=1))
    scene.tick(seconds=2)
    refused = [one for one in scene.decide() if isinstance(one, ClusterRefused)]
    assert [(one.cluster, one.reason.value) for one in refused] == [("a", "JobNameTaken")]


def test_19_equal_seconds_on_different_clocks() -> None:
    """The order of a map broke the tie; here the order of the log does, so a replay gives the same answer."""
    for first, second in (("a", "b"), ("b", "a")):
        scene = Scene("a", "b").cloned("a", "b").clone(first, admitted(LATER)).clone(second, admitted(LATER))
        (chosen,) = [one for one in scene.decide() if isinstance(one, WinnerChosen)]
        assert chosen.cluster == first


def test_20_the_losers_stay_until_the_winner_is_ready() -> None:
    """They go in the very pass that chooses the winner."""
    scene = Scene("a", "b").cloned("a", "b").clone("a", admitted(EARLIER)).clone("b", {"QuotaReserved": True})
    names = scene.names()
    assert "WinnerChosen a" in names
    assert "Removal Workload b" in names
