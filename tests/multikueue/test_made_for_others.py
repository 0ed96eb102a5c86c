"""A copy that says that it was made for another management cluster, and has the name of a Workload here: a group of
pods, say, that both have. It may run for somebody else; or this cluster was built anew, and it is the same job.
"""

from __future__ import annotations

from typing import Any

from controlplane.audit.explain import explain
from controlplane.controllers.connectivity.events import ClusterConnected, LogRebound, cluster_stream
from controlplane.controllers.multikueue.observe import MANAGEMENT
from controlplane.job_kinds.base import MADE_FOR
from controlplane.kube.kinds import JOBS, WORKLOADS
from tests.multikueue.observed import observe, remote_job, workload
from tests.multikueue.rendered import TEMPLATE, body, request_of
from tests.multikueue.scene import HOME_KINDS, Scene
from tests.support.rows import each

OTHER = "1d0b6ad9-0000-4000-8000-000000000000"
THEIRS = {"unmarked": True, "made_for": OTHER}


def theirs(scene: Scene, cluster: str = "a") -> Scene:
    """Another management cluster runs a job of the Workload's name on a worker."""
    scene.clone(cluster, {"Admitted": True, "QuotaReserved": True}, bound_to="x", **THEIRS)
    return scene.remote_job(cluster, suspended=False, inactive=False, **THEIRS)


def test_it_is_neither_taken_over_nor_removed_and_the_job_starts_nowhere_else() -> None:
    """It was: whoever was not chosen was removed, and who was chosen counted as the job of this cluster."""
    scene = theirs(Scene("a", "b")).reserved()
    assert scene.names() == []
    scene.tick(hours=24)
    assert scene.names() == []
    scene.remote_job_gone("a").clone_gone("a")
    assert scene.names() == ["Nomination", "Clone a", "Clone b"]


def test_it_is_left_alone_while_the_workload_waits_for_quota() -> None:
    scene = theirs(Scene("a", "b")).job().workload({"QuotaReserved": False})
    scene.tick(hours=24)
    assert scene.names() == []


def test_it_is_left_alone_when_the_workload_goes() -> None:
    scene = theirs(Scene("a", "b")).reserved().gone().tick(hours=24)
    assert scene.names() == []
    assert scene.state.unknown_on == ["a"]


def test_one_that_comes_while_the_job_runs_elsewhere_changes_nothing() -> None:
    scene = theirs(Scene("a", "b").running("b"), "a")
    scene.remote_job("b", status="33" * 32, finished=True, inactive=True).clone("b", {"Finished": "JobFinished"})
    scene.tick(seconds=2)
    assert scene.names() == ["StatusRelay"]
    scene.job(finished=True, status="33" * 32).workload({"Finished": True}).tick(seconds=2)
    assert scene.names() == ["Removal Job b"]
    scene.remote_job_gone("b").clone_gone("b").tick(hours=24)
    assert scene.names() == []


def test_a_job_that_is_deleted_goes_without_waiting_for_it() -> None:
    scene = theirs(Scene("a", "b").running("b"), "a").gone().tick(seconds=2)
    assert scene.names() == ["Removal Job b"]
    scene.remote_job_gone("b")
    assert scene.names() == ["Removal Workload b"]
    scene.clone_gone("b").tick(hours=24)
    assert scene.names() == []


def test_what_says_that_it_is_ours_from_then_on_is_taken_over() -> None:
    """As an operator does, who built the management cluster anew: the annotation is his word."""
    scene = theirs(Scene("a", "b")).reserved()
    assert scene.names() == []
    scene.clone("a", unmarked=False, made_for="").remote_job("a", unmarked=False, made_for="")
    assert "Nomination" in scene.names()


def seen_early(*, mark: str, first: bool) -> Scene:
    """A new log lists a worker a moment before it knows who its management cluster is; it records that first, or right
    after the connection."""
    scene, seen = Scene("a"), []
    scene.fleet.index.connections.pop(MANAGEMENT)
    for kind, obj in ((WORKLOADS, workload()), (JOBS, remote_job())):
        if mark:
            obj["metadata"].setdefault("annotations", {})[MADE_FOR] = mark
        seen.append((scene.stream, observe("a", kind, obj, scene=scene).event, "a"))
    assert all(event.unmarked for _, event, _ in seen)
    kinds = [kind.name for kind in HOME_KINDS]
    connected = (cluster_stream(MANAGEMENT), ClusterConnected(kinds=kinds, incarnation="us"), MANAGEMENT)
    for one in [*seen, connected] if first else [connected, *seen]:
        scene.fold(*one)
    return scene


@each(
    ("mark", "first", "removed"),
    [(mark, first, mark == "us") for mark in ("", "them", "us") for first in (True, False)],
)
def test_what_is_seen_before_the_management_cluster_is_known_is_told_apart_afterwards(
    mark: str, first: bool, removed: bool
) -> None:
    """What counted as ours then, whoever made it, was removed as an orphan."""
    scene = seen_early(mark=mark, first=first).tick(hours=1)
    assert scene.names() == (["Removal Job a"] if removed else [])


@each(("mark", "first", "waits"), [(mark, first, mark == "them") for mark in ("them", "us") for first in (True, False)])
def test_a_workload_beside_what_was_seen_before_waits_for_what_is_another_s(
    mark: str, first: bool, waits: bool
) -> None:
    scene = seen_early(mark=mark, first=first).reserved()
    assert (scene.names() == []) == waits


def test_why_says_whose_it_is() -> None:
    scene = theirs(Scene("a", "b")).reserved()
    context = scene.fleet.index.context(scene.state)
    found = explain(scene.state, context, [], scene.now)
    assert "waits for what is on a to go, where the job may run" in found.sentence
    assert f"made for another management cluster, {OTHER}" in found.sentence


def test_what_was_made_for_the_cluster_that_this_one_replaced_is_ours() -> None:
    """The log follows another cluster, by an operator's word, and goes on with what it made for the one before."""
    scene = Scene("a")
    known = scene.fleet.index.connections
    for identity in ("one", "two"):
        scene.fold(cluster_stream(MANAGEMENT), LogRebound(by="somebody"))
        scene.fold(cluster_stream(MANAGEMENT), ClusterConnected(incarnation=identity), MANAGEMENT)
    assert known[MANAGEMENT].identities == ("two", "one")
    scene.fold(cluster_stream(MANAGEMENT), ClusterConnected(incarnation="two"), MANAGEMENT)
    assert known[MANAGEMENT].identities == ("two", "one")


@each(
    ("mark", "unmarked", "made_for"),
    [
        ("us", False, ""),
        ("", True, ""),
        ("them", True, "them"),
        ("us before", True, ""),
        ("x" * 9000, True, "x" * 64),
        (7, True, ""),
    ],
)
def test_a_copy_is_known_by_the_management_cluster_that_it_was_made_for(
    mark: Any, unmarked: bool, made_for: str
) -> None:
    scene = Scene("a")
    copies = ((WORKLOADS, workload()), (JOBS, remote_job()))
    for kind, obj in copies:
        if mark:
            obj["metadata"].setdefault("annotations", {})[MADE_FOR] = mark
        assert not observe("a", kind, obj, scene=scene).event.unmarked, "our cluster has not said who it is"
    for identity in ("us before", "us"):
        scene.fold(cluster_stream(MANAGEMENT), ClusterConnected(incarnation=identity), MANAGEMENT)
    seen = [observe("a", kind, obj, scene=scene).event for kind, obj in copies]
    assert [(one.unmarked, one.made_for) for one in seen] == 2 * [(unmarked, made_for)]


def test_what_is_created_is_made_for_the_cluster_as_it_is_now_and_may_be_there_from_before() -> None:
    """An answer was lost, and the log follows another cluster since: it is the same copy."""
    scene = Scene("a")
    for identity in ("us before", "us"):
        seen = ClusterConnected(kinds=[kind.name for kind in HOME_KINDS], incarnation=identity)
        scene.fold(cluster_stream(MANAGEMENT), seen, MANAGEMENT)
    ref, bodies = body(TEMPLATE)
    scene.reserved().workload(nominated=["a"], template=ref)
    assert "Clone a" in scene.names()
    created = request_of(scene, bodies, "CloneDecided")
    assert created.body["metadata"]["annotations"][MADE_FOR] == "us"
    assert created.maker == (MADE_FOR, "us", "us before")
