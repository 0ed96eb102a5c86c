"""Another identity under a known name proves nothing of what ran there, and one cluster has one name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterStandby,
    ServiceStarted,
)
from controlplane.controllers.connectivity.identity import claim, held_by, objection
from controlplane.controllers.connectivity.state import Connection, fold, restarted
from controlplane.log.event import Event, Recorded
from tests.support.rows import each

START = datetime(2026, 1, 1, tzinfo=UTC)
CLAIMS = {"a": "ia", "b": "ib", MANAGEMENT: "im"}


def known(**fields: Any) -> Connection:
    return msgspec.structs.replace(Connection(name="a", phase="Lost", incarnation="ia", connected_once=True), **fields)


class Folded:
    """A connection, as events of its stream make it."""

    def __init__(self, name: str) -> None:
        self.state, self.position = Connection(name=name), 0

    def recorded(self, event: Event) -> Recorded:
        self.position += 1
        at = {"stream": f"cluster/{self.state.name}", "position": self.position, "version": self.position}
        return Recorded(**at, event=event, recorded_at=START)

    def say(self, event: Event) -> None:
        self.state = fold(self.state, self.recorded(event))


def asked(identity: str, connection: Connection | None, stake: str = "1 Workload") -> tuple[str, str]:
    return objection("a", identity, CLAIMS, connection, lambda: stake) or ("", "")


@each(
    ("identity", "connection", "stake", "reason"),
    [
        ("ia", known(), "1 Workload", ""),
        ("new", None, "1 Workload", ""),
        ("new", known(incarnation=""), "1 Workload", ""),
        ("", known(incarnation=""), "1 Workload", ""),
        ("new", known(), "1 Workload", "ClusterIdentityChanged"),
        ("", known(), "1 Workload", "ClusterIdentityChanged"),
        ("new", known(phase="Removed"), "1 Workload", "ClusterIdentityChanged"),
        ("new", known(), "", ""),
        ("new", known(forgotten=True), "1 Workload", ""),
        ("ib", known(), "", "ClusterIdentityInUse"),
        ("ib", known(forgotten=True), "", "ClusterIdentityInUse"),
        ("ib", None, "", "ClusterIdentityInUse"),
        ("im", None, "", "ClusterIdentityInUse"),
    ],
)
def test_who_may_be_used_under_a_name(identity: str, connection: Connection | None, stake: str, reason: str) -> None:
    assert asked(identity, connection, stake)[0] == reason


def test_it_says_which_names_and_what_waits() -> None:
    in_use, changed = asked("ib", known())[1], asked("new", known(), "3 Workloads and 1 pod")[1]
    assert '"a"' in in_use
    assert '"b"' in in_use
    assert "3 Workloads and 1 pod" in changed
    assert "controlplane clusters forget a" in changed
    assert "the management cluster itself" in asked("im", None)[1]


def test_nobody_is_asked_what_waits_while_the_identity_is_the_one_before() -> None:
    def never() -> str:
        raise AssertionError("asked")

    assert objection("a", "ia", CLAIMS, known(), never) is None


@each(
    ("fields", "claimed"),
    [
        ({}, "ia"),
        ({"phase": "Unknown"}, "ia"),
        ({"forgotten": True}, "ia"),
        ({"reason": "ClusterIdentityChanged"}, "ia"),
        ({"phase": "Removed"}, ""),
        ({"forgotten": True, "reason": "ClusterIdentityChanged"}, ""),
        ({"forgotten": True, "reason": "ClusterIdentityInUse"}, ""),
    ],
)
def test_a_cluster_that_is_away_keeps_its_identity_until_it_is_removed_or_given_up_because_it_leads_elsewhere(
    fields: dict[str, Any], claimed: str
) -> None:
    assert claim(known(**fields)) == claimed


@each(
    ("identity", "connection", "stake", "other"),
    [
        ("ib", None, "1 Workload", "b"),
        ("ib", known(incarnation=""), "1 Workload", "b"),
        ("ib", known(incarnation="ib"), "1 Workload", "b"),
        ("ib", known(behind="c"), "1 Workload", "b"),
        ("ib", known(phase="Removed", reason="Removed"), "", "b"),
        ("ib", known(phase="Removed", reason="Removed"), "1 Workload", ""),
        ("ib", known(phase="Removed", reason="Reconfigured"), "", ""),
        ("ib", known(), "", ""),
        ("ib", known(forgotten=True), "", ""),
        ("im", None, "", ""),
        ("new", None, "", ""),
        ("", None, "", ""),
    ],
)
def test_a_further_name_of_a_cluster_stands_behind_the_first(
    identity: str, connection: Connection | None, stake: str, other: str
) -> None:
    """A name that had a cluster of its own leads elsewhere than it did, and that is another thing."""
    assert held_by("a", identity, CLAIMS, connection, lambda: stake) == other


def test_who_stands_by_claims_nothing_until_it_is_used() -> None:
    fold_ = Folded("again")
    fold_.say(ClusterStandby(behind="a", incarnation="ia", message="one cluster"))
    assert (fold_.state.phase, claim(fold_.state), fold_.state.connected) == ("Standby", "", False)
    fold_.say(ClusterConnectFailed(reason="BadKubeConfig", message="no", attempt=0))
    assert claim(fold_.state) == ""
    fold_.state = restarted(fold_.state, fold_.recorded(ServiceStarted(epoch=2, holder="b", version="1")))
    fold_.say(ClusterConnected(incarnation="ia"))
    assert (fold_.state.phase, fold_.state.behind, claim(fold_.state)) == ("Connected", "", "ia")
