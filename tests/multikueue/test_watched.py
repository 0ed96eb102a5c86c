"""The clocks of clusters that are away stand still while no process of ours looks at them, and go on when one does."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controlplane.controllers.connectivity import events
from controlplane.controllers.multikueue.events import CheckStateDecided
from controlplane.controllers.multikueue.observations import CheckState
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Event, LogHead
from tests.multikueue.scene import CHECK, HOME_KINDS, START, STREAM, Scene, stamp


def lead(scene: Scene, unwatched_since: datetime | None) -> Scene:
    """Another process takes the log over now, and sees the management cluster."""
    started = events.ServiceStarted(epoch=2, holder="next", version="1", unwatched_since=unwatched_since)
    scene.fold("service", started)
    scene.fold(
        events.cluster_stream(events.MANAGEMENT), events.ClusterConnected(kinds=[kind.name for kind in HOME_KINDS])
    )
    return scene


def away(scene: Scene, **absence: float) -> Scene:
    """Nobody leads for a while."""
    since = scene.now
    return lead(scene.tick(**absence), since)


def fail(scene: Scene, cluster: str = "a") -> Scene:
    """An attempt to connect ends in vain."""
    failed = events.ClusterConnectFailed(reason="ClientConnectionFailed", message="connection refused", attempt=1)
    scene.fold(events.cluster_stream(cluster), failed, cluster)
    return scene


def taken(scene: Scene) -> bool:
    """Whether the Workload is taken from its cluster in this pass."""
    return any(isinstance(d, CheckStateDecided) and d.state == "Retry" for d in scene.decide())


def test_the_grace_is_not_over_at_the_first_look_of_a_process_after_a_long_absence() -> None:
    scene = Scene("a", "b").running("a", "a", "b").lose("a").tick(minutes=5)
    away(scene, hours=2)
    assert not taken(scene)
    assert not taken(fail(scene))
    scene.tick(minutes=9, seconds=59)
    assert not taken(scene)
    scene.tick(seconds=1)
    assert taken(scene)


def test_a_cluster_whose_kubeconfig_was_changed_before_the_absence_has_its_grace_too() -> None:
    scene = Scene("a", "b").running("a", "a", "b")
    scene.fold(events.cluster_stream("a"), events.ClusterDisconnected(reason="Reconfigured"), "a")
    away(scene, hours=2)
    assert not taken(scene)
    assert not taken(fail(scene))
    assert taken(scene.tick(minutes=15))


def test_a_new_leader_after_three_seconds_costs_three_seconds() -> None:
    scene = Scene("a", "b").running("a", "a", "b").lose("a").tick(minutes=14)
    fail(away(scene, seconds=3))
    assert not taken(scene.tick(seconds=59))
    assert taken(scene.tick(seconds=1))


@pytest.mark.parametrize("gap", [0.5, 5.0, 50.0])
def test_a_service_that_is_restarted_every_minute_does_not_keep_a_lost_job_for_ever(gap: float) -> None:
    scene = Scene("a", "b").running("a", "a", "b").lose("a")
    looked = 0.0
    while looked < 15 * 60 - 60:
        assert not taken(scene)
        fail(away(scene, seconds=gap))
        scene.tick(seconds=60)
        looked += 60
    assert not taken(fail(away(scene, seconds=gap)))
    assert not taken(scene.tick(seconds=59))
    assert taken(scene.tick(seconds=1)), "fifteen minutes in which somebody looked"


def test_a_process_that_was_killed_before_it_was_heard_again_counts_from_its_last_sign() -> None:
    """What it was told between its last heartbeat and its end is in the log, and counts from then."""
    scene = Scene("a", "b").running("a", "a", "b")
    sign = scene.now
    scene.tick(seconds=2).lose("a").tick(minutes=60)
    fail(lead(scene, sign))
    assert not taken(scene.tick(minutes=14, seconds=59))
    assert taken(scene.tick(seconds=1))


def test_a_kind_that_went_out_of_view_before_the_absence_has_its_grace_too() -> None:
    scene = Scene("a", "b").running("a", "a", "b")
    off = events.KindOff(kind=WORKLOADS.name, reason="Forbidden", message="no right to list")
    scene.fold(events.cluster_stream("a"), off, "a")
    away(scene.tick(minutes=5), hours=2).connect("a", ())
    scene.fold(events.cluster_stream("a"), off, "a")
    assert not taken(scene)
    assert not taken(scene.tick(minutes=9, seconds=59))
    assert taken(scene.tick(seconds=1))


@pytest.mark.parametrize("lost", [False, True])
def test_a_kind_that_is_not_served_when_a_cluster_is_met_again_was_in_view_until_then(lost: bool) -> None:
    """What is told of its kinds comes before the word that it is connected: by a new process, or after a loss."""
    scene = Scene("a", "b").running("a", "a", "b").tick(hours=48)
    if lost:
        scene.lose("a").tick(minutes=5)
    else:
        away(scene, minutes=1)
    off = events.KindOff(kind=WORKLOADS.name, reason="NotServed", message="not served")
    scene.fold(events.cluster_stream("a"), off, "a")
    scene.connect("a", ())
    assert not taken(scene)
    scene.tick(minutes=9 if lost else 14, seconds=59)
    assert not taken(scene)
    assert taken(scene.tick(seconds=1))


def test_what_was_lost_when_a_mass_outage_ended_has_its_grace_too() -> None:
    scene = Scene("a", "b").running("a", "a", "b").lose("a").lose("b")
    scene.fold(events.FLEET_STREAM, events.MassOutageBegan(away=["a", "b"], of=2))
    scene.tick(minutes=30).connect("b")
    scene.fold(events.FLEET_STREAM, events.MassOutageEnded(away=["a"], of=2))
    fail(away(scene.tick(minutes=5), hours=2))
    assert not taken(scene.tick(minutes=9, seconds=59))
    assert taken(scene.tick(seconds=1))


def test_a_log_of_a_version_that_did_not_say_when_it_looked_folds_as_before() -> None:
    scene = Scene("a", "b").running("a", "a", "b").lose("a").tick(minutes=10)
    lost = scene.now - timedelta(minutes=10)
    fail(lead(scene, None))
    connection = scene.fleet.index.connections["a"]
    assert (connection.lost_since, connection.lost_clock) == (lost, lost)
    assert taken(scene.tick(minutes=5))


def test_what_is_taken_back_from_a_lost_cluster_holds_only_while_the_cluster_is_away() -> None:
    """The cluster may be back in the log before the decision is: the append names the versions that the loss was read
    from.
    """
    scene = Scene("a", "b").running("a", "a", "b").lose("a")
    scene.cluster("a")  # what is not about the connection is on the stream too
    decided = scene.tick(minutes=15).fleet.decide(STREAM, scene.now)
    assert [event.event.reason for event in decided.events if isinstance(event.event, CheckStateDecided)] == [
        WorkloadReason.REMOTE_LOST
    ]
    assert decided.others == {
        stream: scene.versions.get(stream, 0) for stream in (events.cluster_stream("a"), events.FLEET_STREAM)
    }
    assert decided.others[events.cluster_stream("a")] > scene.fleet.index.connections["a"].version


def test_what_rests_on_no_loss_names_no_cluster() -> None:
    scene = Scene("a", "b").job().reserved()
    decided = scene.fleet.decide(STREAM, scene.now)
    assert decided.events
    assert decided.others == {}


def test_since_when_a_cluster_is_lost_is_told_as_it_was() -> None:
    scene = Scene("a", "b").running("a", "a", "b").lose("a")
    lost = scene.now
    away(scene, hours=2)
    connection = scene.fleet.index.connections["a"]
    assert connection.lost_since == lost
    assert connection.lost_clock == lost + timedelta(hours=2)


def test_a_workload_that_another_controller_dispatched_has_a_whole_grace_from_our_first_look() -> None:
    """Nothing is known of its cluster yet when the management cluster is in view: its check has been Ready for days."""
    days_ago = stamp(START - timedelta(days=3))
    ready = CheckState(name=CHECK, state="Ready", last_transition_time=days_ago)
    scene = Scene("a", "b", connected=False).job()
    scene.workload({"QuotaReserved": True, "Admitted": True}, checks=[ready], cluster_name="a")
    assert not taken(scene)
    assert not taken(scene.tick(minutes=14, seconds=59))
    assert taken(scene.tick(seconds=1))


@pytest.mark.parametrize(
    ("event", "heard"),
    [
        (events.ServiceStopped(epoch=1, holder="first"), True),
        (events.ClusterConnected(), True),
        (events.ClusterForgotten(by="me"), False),
        (events.MassOutageAccepted(by="me"), False),
    ],
)
def test_until_when_somebody_looked_is_told_by_what_a_process_said_last(event: Event, heard: bool) -> None:
    scene = Scene("a")
    watched, began = scene.fleet.index.watched, scene.now
    scene.tick(minutes=1)
    scene.fold(events.cluster_stream("a"), event, "a")
    assert watched.until(LogHead(9, 1)) == (scene.now if heard else began)
    assert watched.until(LogHead(9, 1, began)) == began, "who leaves a heartbeat behind says nothing else"
