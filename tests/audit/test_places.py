"""What an absence of a cluster repeats is told once, and told again when it changes or begins anew."""

from __future__ import annotations

from controlplane.audit.places import moments_of
from controlplane.controllers.connectivity import events
from controlplane.controllers.multikueue.events import ConditionDecided
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.log.event import Event
from tests.audit.script import Script, at


def failed(attempt: int, message: str = "no route") -> Event:
    return events.ClusterConnectFailed(reason="ClientConnectionFailed", message=message, attempt=attempt)


def condition(status: str) -> Event:
    return ConditionDecided(
        reason=WorkloadReason.CONDITION_CHANGED, of="MultiKueueCluster", status=status, condition_reason="", message="", generation=1
    )  # fmt: skip


def test_attempts_that_fail_alike_are_told_once_for_each_absence() -> None:
    script = Script("a")
    first = len(script.recorded)
    lost = events.ClusterLost(reason="Unreachable", message="no route", seen_by="r1", others=0)
    for event in (
        lost, failed(1), condition("False"), failed(2), condition("False"), failed(3, "no such host"), condition("False"),
    ):  # fmt: skip
        script.put(at("a", event))
    script.connect("a")
    for event in (condition("True"), lost, failed(1, "no such host"), condition("False")):
        script.put(at("a", event))
    told = [one for one in moments_of(script.recorded[first:]) if one.noteworthy]
    assert [one.type for one in told] == [
        "ClusterLost", "ClusterConnectFailed", "ConditionDecided", "ClusterConnectFailed", "ClusterConnected",
        "ConditionDecided", "ClusterLost", "ClusterConnectFailed", "ConditionDecided",
    ]  # fmt: skip
    assert "attempt 1: no route" in told[1].what
    assert "attempt 3: no such host" in told[3].what
