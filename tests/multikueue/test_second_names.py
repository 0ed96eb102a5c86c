"""Which clusters out of view may run the job of a Workload that is deleted or evicted: not one that is in view under
another name, nor one that was removed and never answered.
"""

from __future__ import annotations

from controlplane.controllers.connectivity.events import (
    ClusterConnected,
    ClusterConnectFailed,
    ClusterDisconnected,
    ClusterForgotten,
    ClusterStandby,
    cluster_stream,
)
from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.events import StatusRelayDecided
from tests.multikueue.dispatched import ONE, only
from tests.multikueue.scene import Scene


def left_on_a() -> Scene:
    """Its Workload is gone, and its copy on `a` goes; `b` is in view too."""
    scene = Scene("a", "b", policy={"execution_policy": NEVER_TWICE}).running("a", "a", "b").tick(seconds=1)
    scene.decide()
    scene.job(status=ONE, inactive=False)
    scene.decide()
    scene.decided.clear()
    return scene.job(suspended=True).gone().remote_job_gone("a").clone_gone("a")


def test_a_cluster_that_stands_by_is_not_waited_for_where_it_is_in_view_under_its_other_name() -> None:
    scene = left_on_a()
    scene.cluster("z")
    standby = ClusterStandby(behind="b", incarnation="i-b", message="one cluster")
    scene.fold(cluster_stream("z"), standby, "z")
    assert only(scene.decide(), StatusRelayDecided).drain
    scene = left_on_a()
    scene.cluster("z")
    scene.fold(cluster_stream("z"), standby, "z")
    scene.lose("b")
    assert scene.decide() == []


def test_nor_is_one_that_was_removed_and_is_used_under_another_name() -> None:
    scene = left_on_a()
    scene.cluster("z")
    scene.fold(cluster_stream("z"), ClusterConnected(kinds=[], incarnation="i-b"), "z")
    assert scene.disconnect("z").connect("b").decide() != []


def test_nor_one_that_was_removed_and_never_answered() -> None:
    scene = left_on_a()
    scene.cluster("z")
    scene.fold(cluster_stream("z"), ClusterConnectFailed(reason="BadKubeconfig", message="no server", attempt=1), "z")
    assert scene.decide() == [], "it may answer yet"
    assert only(scene.disconnect("z").decide(), StatusRelayDecided).drain


def test_one_that_was_removed_and_had_jobs_is_waited_for() -> None:
    """Under never-twice only an operator tells that nothing runs there."""
    scene = left_on_a().connect("z").disconnect("z")
    assert scene.decide() == []
    scene.fold(cluster_stream("z"), ClusterForgotten(by="me"), "z")
    assert only(scene.decide(), StatusRelayDecided).drain


def test_a_name_that_stands_by_keeps_no_quota_of_what_is_evicted() -> None:
    """The log went back to before the attempt's job, and its status says that it runs: each cluster of the
    configuration may have it that is out of view."""
    scene = Scene("a", "z").job(status=ONE, inactive=False, suspended=True)
    scene.fold(cluster_stream("z"), ClusterDisconnected(reason="Removed"), "z")
    scene.fold(cluster_stream("z"), ClusterStandby(behind="a", incarnation="i-a", message="one cluster"), "z")
    scene.workload({"QuotaReserved": True, "Evicted": "Preempted"}, check="Retry", nominated=[])
    assert only(scene.decide(), StatusRelayDecided).drain
