"""Brings a Workload to where it runs, and finds decisions: for the tests of what comes after."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, ServiceStarted, cluster_stream
from controlplane.controllers.multikueue.events import CheckStateDecided
from controlplane.log.event import Event
from tests.multikueue.scene import CHECK, HOME_KINDS, Scene

ONE, TWO, THREE = "11" * 32, "22" * 32, "33" * 32
GONE = 'Admitting remote no longer exists, Previously: "Ready"'
LOST = 'Admitting remote lost, Previously: "Ready"'


def only(decisions: list[Event], kind: type[Any]) -> Any:
    """The one decision there is, of this kind."""
    assert [type(decision) for decision in decisions] == [kind]
    return decisions[0]


def retry(decisions: list[Event]) -> CheckStateDecided:
    decision: CheckStateDecided = only(decisions, CheckStateDecided)
    assert (decision.state, decision.check) == ("Retry", CHECK)
    return decision


def settled(winner: str = "a", *clusters: str) -> Scene:
    """Running, with the status of its copy written to the user's job."""
    scene = Scene(*(clusters or (winner,))).running(winner, *clusters)
    scene.tick(seconds=1)
    assert scene.names() == ["StatusRelay"]
    scene.job(status=ONE, inactive=False)
    assert scene.names() == []
    return scene


def restart(scene: Scene) -> Scene:
    """Another process takes the log over, and sees the management cluster again."""
    scene.fold("service", ServiceStarted(epoch=2, holder="next", version="1"))
    assert not scene.fleet.index.ready
    home = ClusterConnected(kinds=[kind.name for kind in HOME_KINDS])
    scene.fold(cluster_stream(MANAGEMENT), home)
    return scene
