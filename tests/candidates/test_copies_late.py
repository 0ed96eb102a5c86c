"""The creation of a copy was sent again before it had an answer: what arrives late is seen, and removed."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.references.decide import NamedObject
from controlplane.controllers.candidates.references.events import CopyDecided, CopyDropped
from controlplane.controllers.candidates.references.target_namespace import ARRIVES_WITHIN
from controlplane.controllers.candidates.source.events import CandidateWriteFailed
from controlplane.log.event import Event
from tests.candidates.stage import NS
from tests.candidates.test_copies_there import AT, THERE, Placed

SETTINGS = NamedObject("Secret", "settings")
WATCHED = {"east": {NS}}


def created() -> Placed:
    """Return the state after the creation of a copy was decided, and the pod that named it went."""
    placed = Placed()
    placed.pod("x", SETTINGS)
    placed.named("Secret", "settings", "1")
    (decided,) = placed.copies.decide(THERE, AT).events
    assert isinstance(decided.event, CopyDecided)
    placed.fold(THERE, decided.event, "east")
    placed.pod("x")
    return placed


def test_a_namespace_is_watched_on_for_a_creation_that_arrives_late() -> None:
    placed = created()
    placed.copy("Secret", "settings", "1")
    placed.copy("Secret", "settings", "")
    assert placed.copies.decide(THERE, AT).wake == AT + ARRIVES_WITHIN
    assert placed.copies.watched() == WATCHED
    placed.copy("Secret", "settings", "1")
    (decided,) = placed.copies.decide(THERE, AT + timedelta(seconds=20)).events
    assert isinstance(decided.event, CopyDropped)


def test_it_is_so_where_the_repeated_request_was_refused() -> None:
    placed = created()
    no: Event = CandidateWriteFailed(
        target="Secret/settings",
        action="CopyDecided",
        code=403,
        error="Forbidden",
        message="no",
        failures=1,
        retry_at=AT,
    )
    placed.fold(THERE, no, "east")
    assert placed.copies.watched() == WATCHED


def test_nothing_is_watched_once_no_request_can_be_on_its_way() -> None:
    placed = created()
    placed.copy("Secret", "settings", "1")
    placed.copy("Secret", "settings", "")
    assert placed.copies.watched() == WATCHED
    placed.copies.watch_changed = False
    placed.copies.decide(THERE, AT + ARRIVES_WITHIN - timedelta(seconds=1))
    assert not placed.copies.watch_changed
    assert placed.copies.decide(THERE, AT + ARRIVES_WITHIN).wake is None
    assert placed.copies.watch_changed
    assert placed.copies.watched() == {}


def test_a_copy_that_is_renewed_or_removed_makes_none() -> None:
    placed = Placed()
    placed.copy("Secret", "settings", "1")
    drop = CopyDropped(
        cluster="east",
        kind="Secret",
        name="settings",
        uid="settings",
        resource_version="1",
        reason=CandidateReason.NOT_NAMED,
    )
    placed.fold(THERE, drop, "east")
    placed.copy("Secret", "settings", "")
    assert placed.copies.watched() == {}
