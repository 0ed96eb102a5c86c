"""The `Active` condition of a MultiKueueCluster, to Kueue's letter."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from controlplane.app.workers import Workers
from controlplane.controllers.connectivity.events import (
    ClusterConnected,
    ClusterConnectFailed,
    ClusterDisconnected,
    ClusterLost,
    ServiceStarted,
    cluster_stream,
)
from controlplane.controllers.multikueue.conditions import CONFIG_REASONS
from controlplane.controllers.multikueue.events import EffectFailed, EffectUnneeded
from controlplane.controllers.multikueue.observations import MultiKueueClusterObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.conditions import Condition
from controlplane.tasks import end
from tests.multikueue.active import CHECK_STREAM, CONNECTED, INSECURE, SECRET_MISSING, active, decided, reason
from tests.multikueue.scene import START, Scene, stamp
from tests.support.rows import each

# --- MultiKueueCluster -----------------------------------------------------------------------------------------------


def test_a_connected_cluster_is_active() -> None:
    assert decided(Scene("a"), cluster_stream("a")) == ("True", "Active", "Connected")


def test_a_cluster_that_was_not_tried_yet_says_nothing() -> None:
    assert decided(Scene("a", connected=False), cluster_stream("a")) is None


def test_a_cluster_that_was_made_again_does_not_show_the_error_of_the_one_before() -> None:
    scene = Scene("a", connected=False)
    failed = ClusterConnectFailed(reason="BadKubeConfig", message=SECRET_MISSING, attempt=4)
    scene.fold(cluster_stream("a"), failed, "a")
    assert decided(scene, cluster_stream("a")) is not None
    again = MultiKueueClusterObserved(name="a", uid="another", resource_version="900", location="a", generation=1)
    scene.fold(cluster_stream("a"), again)
    assert decided(scene, cluster_stream("a")) is None
    assert scene.fleet.index.changed_clusters >= {"a"}
    scene.connect("a")
    assert decided(scene, cluster_stream("a")) == ("True", "Active", "Connected")


async def test_the_connection_of_a_cluster_that_was_made_again_is_made_again() -> None:
    """Its kubeconfig is where it was, so that nothing but the UID tells."""
    scene = Scene("a", connected=False)
    calls: list[str] = []

    class Recorder:
        def set(self, name: str, source: object) -> None:
            calls.append(f"set {name}")

        async def remove(self, name: str) -> None:
            calls.append(f"remove {name}")

    async def report(name: str, fact: object) -> None:
        raise AssertionError(f"{name}: {fact}")

    driver = Workers(scene.fleet, Recorder(), report)  # type: ignore[arg-type]
    running = asyncio.create_task(driver.run())
    try:
        for uid in ("one", "one", "two"):
            seen = MultiKueueClusterObserved(name="a", uid=uid, resource_version="1", location="a", generation=1)
            scene.fold(cluster_stream("a"), seen)
            driver.wake()
            for _ in range(5):
                await asyncio.sleep(0)
    finally:
        await end(running)
    assert calls == ["set a", "remove a", "set a"]


@each(
    ("reason", "message", "shown"),
    [
        ("BadKubeConfig", SECRET_MISSING, "BadKubeConfig"),
        (
            "BadKubeConfig",
            'load client config failed: key "kubeconfig" not found in secret "a"',
            "BadKubeConfig",
        ),
        ("InsecureKubeConfig", INSECURE, "InsecureKubeConfig"),
        ("BadClusterProfile", "load client config failed: no access provider configured", "BadClusterProfile"),
        ("BadRestConfig", "load client config failed: basic auth is not allowed", "BadRestConfig"),
        (
            "MultiKueueClusterProfileFeatureDisabled",
            "load client config failed: MultiKueueClusterProfile feature gate is disabled",
            "MultiKueueClusterProfileFeatureDisabled",
        ),
        ("ClientConnectionFailed", "dial tcp 127.0.0.1:1: connect: connection refused", "ClientConnectionFailed"),
        ("Unreachable", "connection refused", "ClientConnectionFailed"),
        ("Unauthorized", "Unauthorized", "ClientConnectionFailed"),
    ],
)
def test_why_a_cluster_is_not_active(reason: str, message: str, shown: str) -> None:
    scene = Scene("a", connected=False)
    scene.fold(cluster_stream("a"), ClusterConnectFailed(reason=reason, message=message, attempt=0), "a")
    assert decided(scene, cluster_stream("a")) == ("False", shown, message)


def test_the_closed_set_of_configuration_reasons() -> None:
    assert {
        "BadKubeConfig",
        "InsecureKubeConfig",
        "BadClusterProfile",
        "BadRestConfig",
        "MultiKueueClusterProfileFeatureDisabled",
        "ClusterIdentityChanged",
        "ClusterIdentityInUse",
    } == CONFIG_REASONS


def test_attempts_are_counted_in_the_message() -> None:
    scene = Scene("a", connected=False)
    failed = ClusterConnectFailed(
        reason="ClientConnectionFailed", message="refused", attempt=3, next_attempt_at=START + timedelta(seconds=20)
    )
    scene.fold(cluster_stream("a"), failed, "a")
    assert decided(scene, cluster_stream("a")) == (
        "False",
        "ClientConnectionFailed",
        "refused; connection attempts: 3, next connection attempt: 2026-01-01T00:00:20Z",
    )


def test_a_lost_cluster_is_not_active_with_the_error_as_it_is() -> None:
    scene = Scene("a")
    scene.cluster("a", **CONNECTED)
    scene.fold(cluster_stream("a"), ClusterLost(reason="Unreachable", message="EOF"), "a")
    assert decided(scene, cluster_stream("a")) == ("False", "ClientConnectionFailed", "EOF")


@pytest.mark.parametrize(
    "event", [ClusterDisconnected(reason="Reconfigured"), ServiceStarted(epoch=2, holder="h", version="1")]
)
def test_letting_go_and_restarting_write_nothing(event: Any) -> None:
    scene = Scene("a")
    scene.cluster("a", **CONNECTED)
    assert decided(scene, cluster_stream("a")) is None
    if isinstance(event, ServiceStarted):
        scene.fold("service", event)
    else:
        scene.fold(cluster_stream("a"), event, "a")
    assert decided(scene, cluster_stream("a")) is None


def test_a_flap_that_is_repaired_before_it_was_written_never_shows() -> None:
    scene = Scene("a")
    scene.cluster("a", **CONNECTED)
    scene.lose("a").connect("a")
    assert decided(scene, cluster_stream("a")) is None


def test_the_same_condition_is_not_written_twice() -> None:
    scene = Scene("a")
    assert decided(scene, cluster_stream("a")) is not None
    assert decided(scene, cluster_stream("a")) is None  # its write is open
    scene.cluster("a", **CONNECTED)
    assert decided(scene, cluster_stream("a")) is None
    scene.connect("a").cluster("a", **CONNECTED)
    assert decided(scene, cluster_stream("a")) is None


def test_a_cluster_that_is_being_deleted_is_left_alone() -> None:
    scene = Scene("a")
    scene.cluster("a", deleting=True)
    assert decided(scene, cluster_stream("a")) is None


def test_nothing_is_written_while_the_management_cluster_is_not_in_view() -> None:
    scene = Scene("a")
    scene.lose("@management")
    assert decided(scene, cluster_stream("a")) is None
    assert decided(scene, CHECK_STREAM) is None


def test_a_refused_condition_rests_and_is_decided_again() -> None:
    scene = Scene("a")
    decided(scene, cluster_stream("a"))
    write = scene.fleet.open_writes(cluster_stream("a"))[0]
    event = EffectFailed(
        target=write.target,
        action=write.action,
        code=403,
        error="Forbidden",
        message="no",
        failures=1,
        retry_at=scene.now + timedelta(seconds=4),
    )
    scene.fold(cluster_stream("a"), event)
    assert decided(scene, cluster_stream("a")) is None
    assert scene.wake == scene.now + timedelta(seconds=4)
    scene.tick(seconds=4)
    assert decided(scene, cluster_stream("a")) == ("True", "Active", "Connected")


def test_a_condition_that_was_there_already_closes_its_write() -> None:
    scene = Scene("a")
    decided(scene, cluster_stream("a"))
    write = scene.fleet.open_writes(cluster_stream("a"))[0]
    scene.fold(cluster_stream("a"), EffectUnneeded(target=write.target, action=write.action, resource_version="9"))
    assert scene.fleet.open_writes(cluster_stream("a")) == []


def test_a_condition_that_somebody_overwrites_again_and_again_is_written_after_longer_and_longer_pauses() -> None:
    """Two services that see a cluster otherwise wrote 25 times a second, and every write was in both logs."""
    scene, stream = Scene("a"), cluster_stream("a")
    pauses: list[int] = []
    for _ in range(5):
        waited = 0
        while (said := decided(scene, stream)) is None:
            scene.tick(seconds=1)
            waited += 1
        assert said == ("True", "Active", "Connected")
        pauses.append(waited)
        scene.cluster("a", **CONNECTED)
        assert decided(scene, stream) is None
        active(scene, "a", False)
    assert pauses == [0, 0, 1, 2, 4]
    scene.tick(seconds=8)
    assert reason(scene, stream) == WorkloadReason.CONDITION_OVERWRITTEN
    scene.cluster("a", **CONNECTED)
    scene.fold(stream, ClusterLost(reason="Unreachable", message="gone"), "a")
    assert decided(scene, stream) == ("False", "ClientConnectionFailed", "gone"), "what is new is written at once"


def test_a_condition_that_was_left_alone_for_long_is_written_again_at_once() -> None:
    scene, stream = Scene("a"), cluster_stream("a")
    decided(scene, stream)
    for _ in range(4):
        scene.cluster("a", **CONNECTED)
        active(scene, "a", False)
        assert decided(scene, stream) is not None
        scene.tick(seconds=16 * 60)
    scene.cluster("a", **CONNECTED)
    active(scene, "a", False)
    assert reason(scene, stream) == WorkloadReason.CONDITION_CHANGED


def condition_request(scene: Scene, stream: str) -> Any:
    scene.decide(stream)
    request = scene.fleet.request(scene.fleet.open_writes(stream)[0], {}, scene.now)
    assert request is not None
    return request


def test_the_condition_as_it_is_written() -> None:
    scene = Scene("a")
    request = condition_request(scene, cluster_stream("a"))
    assert (request.verb, request.subresource, request.ref.kind.kind, request.ref.name) == (
        "patch",
        "status",
        "MultiKueueCluster",
        "a",
    )
    assert request.resource_version
    assert request.body == {
        "status": {
            "conditions": [
                {
                    "type": "Active",
                    "status": "True",
                    "reason": "Active",
                    "message": "Connected",
                    "lastTransitionTime": stamp(scene.now),
                    "observedGeneration": 1,
                }
            ]
        }
    }


def test_the_transition_time_moves_only_with_the_status_and_other_conditions_stay() -> None:
    scene = Scene("a", connected=False)
    before = Condition(type="Active", status="False", reason="BadKubeConfig", message="x", last_transition_time="T0")
    other = Condition(type="Other", status="True", reason="R", message="m", last_transition_time="T1")
    scene.cluster("a", conditions=[before, other])
    failed = ClusterConnectFailed(reason="InsecureKubeConfig", message=INSECURE, attempt=0)
    scene.fold(cluster_stream("a"), failed, "a")
    conditions = condition_request(scene.tick(minutes=5), cluster_stream("a")).body["status"]["conditions"]
    assert {c["type"]: c["lastTransitionTime"] for c in conditions} == {"Active": "T0", "Other": "T1"}
    scene.cluster("a", conditions=[before, other])
    scene.fold(cluster_stream("a"), ClusterConnected(kinds=[]), "a")
    conditions = condition_request(scene, cluster_stream("a")).body["status"]["conditions"]
    assert {c["type"]: c["lastTransitionTime"] for c in conditions} == {"Active": stamp(scene.now), "Other": "T1"}
