"""Where observed objects are, and which observations say nothing new."""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.controllers.connectivity.events import KindSynced, cluster_stream
from controlplane.controllers.connectivity.objects import Deduplicator, ObjectPlaces
from controlplane.controllers.coscheduling.observations import NodeGone, NodeObserved
from controlplane.log.event import Event, Recorded


def recorded(event: Event, stream: str = "node/n", cluster: str = "c") -> Recorded:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Recorded(position=1, stream=stream, version=1, event=event, cluster=cluster, recorded_at=at)


def node(version: str, *, cordoned: bool = False) -> NodeObserved:
    return NodeObserved(name="n", uid="u", resource_version=version, cordoned=cordoned)


def test_what_was_seen_and_did_not_go_is_known_where_it_was_seen() -> None:
    places = ObjectPlaces({NodeObserved: "nodes"}, {NodeGone: "nodes"})
    places.fold(recorded(node("7")))
    assert places.known("c", "nodes") == {"u": ("", "n", "7")}
    assert places.known("other", "nodes") == places.known("c", "pods") == {}
    assert places.newest.of("c", "nodes") == 7
    places.fold(recorded(NodeGone(name="n", uid="u", resource_version="9")))
    assert places.known("c", "nodes") == {}
    assert places.newest.is_gone("c", "u")
    assert places.newest.of("c", "nodes") == 9


def test_a_whole_list_counts_for_the_kind() -> None:
    places = ObjectPlaces({NodeObserved: "nodes"}, {NodeGone: "nodes"})
    assert not places.newest.listed("c", "nodes")
    places.fold(recorded(KindSynced(kind="nodes", count=0, resource_version="20"), cluster_stream("c")))
    assert places.newest.listed("c", "nodes")
    assert places.newest.of("c", "nodes") == 20


def test_only_another_version_is_no_news() -> None:
    repeats = Deduplicator()
    assert not repeats.says_nothing_new("s", node("1"))
    assert repeats.says_nothing_new("s", node("2"))
    assert not repeats.says_nothing_new("s", node("3", cordoned=True))
    assert not repeats.says_nothing_new("s", node("4"))
    repeats.forget("s")
    assert not repeats.says_nothing_new("s", node("5"))


def test_a_version_that_was_offered_is_news_until_another_one_says_the_same() -> None:
    """What was on its way to the log may have been taken back, and is shown again with what came after it."""
    repeats = Deduplicator()
    assert not repeats.says_nothing_new("s", node("1"))
    assert not repeats.says_nothing_new("s", node("1"))
    assert repeats.says_nothing_new("s", node("2"))
    assert not repeats.says_nothing_new("s", node("1"))


def test_what_a_list_shows_is_offered_again() -> None:
    """The watch before may have ended before the log had what it showed."""
    repeats = Deduplicator()
    assert not repeats.says_nothing_new("s", node("1"))
    assert not repeats.says_nothing_new("s", node("2"), listed=True)
    assert repeats.says_nothing_new("s", node("3"))
