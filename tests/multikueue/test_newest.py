"""What the log remembers of a cluster's present incarnation: the newest version of each kind, whole lists, and what
went."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.controllers.connectivity import versions
from controlplane.controllers.connectivity.events import (
    ClusterConnected,
    ClusterDisconnected,
    ClusterRestored,
    KindSynced,
)
from controlplane.controllers.multikueue.observations import CloneGone, RemoteJobGone
from controlplane.controllers.multikueue.versions import WorkloadVersionTracker
from controlplane.kube.kinds import JOBS, WORKLOADS
from controlplane.log.event import Event, Recorded

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def folded(*events: Event, cluster: str = "w") -> WorkloadVersionTracker:
    found = WorkloadVersionTracker()
    for number, event in enumerate(events, 1):
        found.fold(Recorded(position=number, stream="s", version=number, event=event, cluster=cluster, recorded_at=NOW))
    return found


def clone_gone(uid: str, version: str = "7") -> CloneGone:
    return CloneGone(namespace="ns", name="w", uid=uid, resource_version=version)


LIFE = [
    ClusterConnected(incarnation="one"),
    KindSynced(kind=WORKLOADS.name, count=1, resource_version="5"),
    clone_gone("u1"),
    RemoteJobGone(namespace="ns", name="j", uid="u2", resource_version="6", kind=JOBS.name),
]


def test_a_life_is_remembered() -> None:
    found = folded(*LIFE)
    assert (found.of("w", WORKLOADS.name), found.of("w", JOBS.name), found.of("other", JOBS.name)) == (7, 6, 0)
    assert (found.listed("w", WORKLOADS.name), found.listed("w", JOBS.name)) == (True, False)
    assert [found.is_gone("w", uid) for uid in ("u1", "u2", "u3")] == [True, True, False]
    assert not found.is_gone("other", "u1")


@pytest.mark.parametrize(
    "end",
    [
        ClusterRestored(message="went back", restores=1),
        ClusterConnected(incarnation="two"),
        ClusterDisconnected(reason="Removed"),
    ],
)
def test_another_life_begins_with_nothing(end: Event) -> None:
    found = folded(*LIFE, end)
    assert (found.of("w", WORKLOADS.name), found.listed("w", WORKLOADS.name), found.is_gone("w", "u1")) == (
        0,
        False,
        False,
    )


@pytest.mark.parametrize("same", [ClusterConnected(incarnation="one"), ClusterDisconnected(reason="Reconfigured")])
def test_the_same_life_goes_on(same: Event) -> None:
    found = folded(*LIFE, same)
    assert (found.of("w", WORKLOADS.name), found.listed("w", WORKLOADS.name), found.is_gone("w", "u1")) == (
        7,
        True,
        True,
    )


def test_what_went_long_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_REMEMBERED", 2)
    found = folded(*(clone_gone(f"u{number}") for number in range(4)))
    assert [found.is_gone("w", f"u{number}") for number in range(4)] == [False, False, True, True]
