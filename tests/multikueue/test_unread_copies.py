"""A copy that is there and that nobody could ever read: what runs there is unknown, and it is not gone."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.multikueue import events, observations
from controlplane.kube.kinds import JOBS, WORKLOADS
from tests.multikueue.scene import JOB, NS, WL, Scene

COPIES = {"its Workload": (WORKLOADS.name, WL), "its job": (JOBS.name, JOB)}


def refused(scene: Scene, cluster: str, kind: str, name: str, uid: str = "u", **changes: Any) -> Scene:
    event = observations.ObservationRefused(
        **{
            "kind": kind,
            "namespace": NS,
            "name": name,
            "uid": uid,
            "resource_version": "7",
            "field": "status.conditions[].reason",
            "error": "status.conditions[].reason: expected a string, found int",
            "object": "cc" * 32,
            **changes,
        }
    )
    scene.fold(f"refused/{cluster}/{kind}/{NS}/{name}", event, cluster)
    return scene


def chosen_and_forgotten(cluster: str = "a") -> Scene:
    """A Workload that runs on a cluster, of which a new log knows no more than its own object says."""
    scene = Scene("a", "b").job(suspended=False)
    return scene.workload({"QuotaReserved": True, "Admitted": True}, check="Ready", cluster_name=cluster, nominated=[])


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_workload_is_not_taken_from_a_cluster_whose_copy_cannot_be_read(copy: tuple[str, str]) -> None:
    """Else its job would run on another cluster as well."""
    scene = refused(chosen_and_forgotten(), "a", *copy)
    assert scene.names() == []
    scene.tick(hours=24)
    assert scene.names() == []


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_workload_is_sent_nowhere_while_a_copy_of_it_cannot_be_read(copy: tuple[str, str]) -> None:
    """Not even one that has lost the name of its cluster with its quota."""
    scene = refused(Scene("a", "b").reserved(), "a", *copy)
    assert scene.names() == []
    scene.tick(hours=24)
    assert scene.names() == []


def test_it_goes_on_as_soon_as_the_copy_can_be_read() -> None:
    scene = refused(chosen_and_forgotten(), "a", *COPIES["its Workload"], uid="clone-a")
    scene = refused(scene, "a", *COPIES["its job"], uid="rjob-a")
    scene.clone("a", {"Admitted": True, "QuotaReserved": True})
    assert scene.names() == []
    scene.remote_job("a", suspended=False, status="11" * 32, inactive=False).tick(seconds=2)
    assert scene.names() == ["StatusRelay"]


@pytest.mark.parametrize(
    ("copy", "gone"),
    [
        (COPIES["its Workload"], observations.CloneGone(namespace=NS, name=WL, uid="u")),
        (COPIES["its job"], observations.RemoteJobGone(namespace=NS, name=JOB, uid="u", kind=JOBS.name)),
    ],
    ids=COPIES,
)
def test_it_is_sent_anew_once_the_copy_is_gone(copy: tuple[str, str], gone: observations.ObjectGone) -> None:
    scene = refused(Scene("a", "b").reserved(), "a", *copy)
    assert scene.names() == []
    of_a_job = isinstance(gone, observations.RemoteJobGone)
    scene.fold(f"refused/a/{JOBS.name}/{NS}/{JOB}" if of_a_job else scene.stream, gone, "a")
    assert "Clone a" in scene.names()


def test_the_end_of_another_object_of_that_name_ends_nothing() -> None:
    scene = refused(Scene("a", "b").reserved(), "a", *COPIES["its Workload"], uid="new")
    scene.fold(scene.stream, observations.CloneGone(namespace=NS, name=WL, uid="old"), "a")
    assert scene.names() == []


def test_what_was_read_before_counts_as_it_was() -> None:
    scene = Scene("a", "b").running("a")
    refused(scene, "a", *COPIES["its Workload"], uid="clone-a")
    refused(scene, "a", *COPIES["its job"], uid="rjob-a")
    assert not scene.fleet.index.unread_of(scene.state)
    scene.remote_job("a", status="22" * 32)
    scene.tick(seconds=2)
    assert scene.names() == ["StatusRelay"]


def test_a_cluster_that_is_lost_with_such_a_copy_is_given_up_as_any_other() -> None:
    scene = refused(chosen_and_forgotten(), "a", *COPIES["its Workload"])
    scene.lose("a").tick(minutes=16)
    retry = next(one for one in scene.decide() if isinstance(one, events.CheckStateDecided))
    assert retry.state == "Retry"


def test_one_that_vanished_while_nobody_watched_is_noticed() -> None:
    scene = refused(Scene("a", "b").reserved(), "a", *COPIES["its Workload"])
    refused(scene, "a", *COPIES["its job"], uid="v")
    index = scene.fleet.index
    assert index.known("a", WORKLOADS.name) == {"u": (NS, WL, "7")}
    assert index.known("a", JOBS.name) == {"v": (NS, JOB, "7")}
    assert index.stream_of_remote_job("a", "v") == f"refused/a/{JOBS.name}/{NS}/{JOB}"


def test_copies_are_no_orphans_while_there_is_a_workload_that_cannot_be_read() -> None:
    """The log was lost: nobody has ever read it, and its job may run."""
    scene = refused(Scene("a"), "@management", *COPIES["its Workload"], uid="wl-uid")
    scene.clone("a", {"Admitted": True, "QuotaReserved": True}, bound_to="x").remote_job("a", suspended=False)
    scene.tick(hours=24)
    assert scene.names() == []
    scene.fold(scene.stream, observations.WorkloadGone(namespace=NS, name=WL, uid="another"))
    assert scene.names() == []
    scene.fold(scene.stream, observations.WorkloadGone(namespace=NS, name=WL, uid="wl-uid"))
    assert scene.names() == ["Removal Job a"]


def test_what_nobody_can_read_on_the_management_cluster_is_no_copy() -> None:
    scene = refused(Scene("a", "b").reserved(), "@management", *COPIES["its Workload"])
    assert "Nomination" in scene.names()
