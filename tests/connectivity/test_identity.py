"""Another identity under a known name proves nothing of what ran there, and one cluster has one name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.identity import claim, objection
from controlplane.controllers.connectivity.state import Connection

CLAIMS = {"a": "ia", "b": "ib", MANAGEMENT: "im"}


def known(**fields: Any) -> Connection:
    return msgspec.structs.replace(Connection(name="a", phase="Lost", incarnation="ia", connected_once=True), **fields)


def asked(identity: str, connection: Connection | None, stake: str = "1 Workload") -> tuple[str, str]:
    return objection("a", identity, CLAIMS, connection, lambda: stake) or ("", "")


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
