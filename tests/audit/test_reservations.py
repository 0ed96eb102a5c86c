"""Each reservation of a candidate, as the view `reservations` tells it from what the source saw and decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from controlplane.audit.reads import READ
from controlplane.controllers.candidates.source import events
from controlplane.controllers.candidates.source import observations as seen
from controlplane.log.event import NewEvent
from tests.audit.samples import sample
from tests.audit.script import write
from tests.audit.test_actors import told
from tests.audit.test_views import query
from tests.candidates.stage import NS
from tests.candidates.told import Told

ROWS = (
    "SELECT cluster, number::int AS number, node, outcome, reason, permitted_at IS NOT NULL AS permitted, until IS "
    "NOT NULL AS ended FROM audit.reservations WHERE namespace = %s AND name = 'web' ORDER BY position"
)


async def rows(url: str, story: Told) -> list[tuple[Any, ...]]:
    await told(url, story)
    return [tuple(row.values()) for row in query(url, ROWS, NS)]


def unreserved(story: Told, why: str) -> Told:
    return story.says(seen.CandidateUnreserved, "a", reservation=1, why=why, message=f"{why}!").settle()


async def test_one_that_binds_and_one_of_another_target(database_url: str) -> None:
    story = Told("a", "b").asked().reserves("a").settle().reserves("b").settle()
    story.binds("a").settle().candidate_gone("b").settle()
    assert await rows(database_url, story) == [
        ("a", 1, "n", "Bound", "", True, True),
        ("b", 1, "n", "Dropped", "AnotherTargetWon", False, True),
    ]


async def test_one_that_is_held_still(database_url: str) -> None:
    """What is said again of it is no other; what the candidate's own deletion does to it is seen when it is gone."""
    story = Told("a", "b").asked().reserves("a").settle().reserves("b").settle()
    story.noise().settle()
    story.noise().settle()
    assert await rows(database_url, story) == [
        ("a", 1, "n", "Held", "", True, False),
        ("b", 1, "n", "Held", "", False, False),
    ]
    (first, *_) = query(database_url, "SELECT epoch, candidate, score, since, until, expires FROM audit.reservations")
    assert (first["epoch"], first["score"], first["until"], first["expires"]) == (1, 1, None, None)
    assert first["candidate"].startswith("web-")


@pytest.mark.parametrize(
    ("tell", "outcome", "reason"),
    [
        (lambda story: unreserved(story, "Timeout"), "Lapsed", "Timeout"),
        (lambda story: unreserved(story, "Revoked"), "Withdrawn", "Revoked"),
        (lambda story: unreserved(story, "NodeGone"), "Unreserved", "NodeGone"),
        (lambda story: unreserved(story, "x\0y"), "Unreserved", "x\ufffdy"),
        (lambda story: story.says(seen.CandidateRefused, "a", reservation=1, why="PodSecurity"), "Unreserved", "PodSecurity"),
        (lambda story: story.says(seen.CandidateUnschedulable, "a", reservation=1, why="NoNode"), "Unreserved", ""),
        (lambda story: story.says(seen.CandidateWaiting, "a", reservation=1), "Unreserved", ""),
        (lambda story: story.candidate_gone("a"), "Gone", ""),
        (lambda story: story.pod_gone().settle().candidate_gone("a"), "Dropped", "SourceDeleted"),
        (lambda story: story.status("a"), "Bound", ""),
    ],
)  # fmt: skip
async def test_how_one_ended(database_url: str, tell: Callable[[Told], Told], outcome: str, reason: str) -> None:
    story = Told("a").asked().reserves("a").settle()
    tell(story)
    assert await rows(database_url, story) == [("a", 1, "n", outcome, reason, True, True)]


async def test_each_of_a_candidate_is_one(database_url: str) -> None:
    """One after the other, one that took the place of another unseen, and one of a candidate that was made anew."""
    story = Told("a").asked().reserves("a").settle()
    unreserved(story, "Timeout").reserves("a", number=2).settle().reserves("a", number=3).settle()
    story.candidate_gone("a").settle()
    story.says(seen.CandidateReserved, "a", reservation=3, node="m", uid="another")
    found = await rows(database_url, story)
    assert [row[1:5] for row in found] == [
        (1, "n", "Lapsed", "Timeout"),
        (2, "n", "Unreserved", ""),
        (3, "n", "Gone", ""),
        (3, "m", "Held", ""),
    ]


async def test_it_lasts_from_one_sight_to_the_other(database_url: str) -> None:
    story = Told("a").asked().reserves("a").settle()
    unreserved(story, "Timeout")
    await told(database_url, story)
    (row,) = query(
        database_url,
        "SELECT r.since = b.recorded_at AS begins, r.until = e.recorded_at AS ends, b.type AS first, e.type AS last, "
        "r.message FROM audit.reservations r JOIN audit.events b ON b.position = r.position JOIN audit.events e ON "
        "e.position = r.last_position",
    )
    assert tuple(row.values()) == (True, True, "CandidateReserved", "CandidateUnreserved", "Timeout!")


LETTERS = {
    "w": seen.CandidateWaiting,
    "r": seen.CandidateReserved,
    "n": seen.CandidateReserved,  # the next reservation
    "t": seen.CandidateUnreserved,
    "u": seen.CandidateUnschedulable,
    "b": seen.CandidateBound,
    "g": seen.CandidateGone,
    "p": events.PermitGranted,
    "d": events.CandidateDropped,
}
NEXT = {"b": "Bound", "g": "Gone", "t": "Lapsed"}


def story_of(letters: str) -> Iterator[tuple[Any, int]]:
    """Yield the events of a candidate, and the number of its reservation at each."""
    number = 1
    for letter in letters:
        number += letter == "n"
        event = sample(LETTERS[letter])
        if isinstance(event, seen.CandidateSeen):
            yield msgspec.structs.replace(event, name="c", uid="u", reservation=number, why="Timeout"), number
        elif isinstance(event, seen.CandidateGone):
            yield msgspec.structs.replace(event, name="c", uid="u"), number
        else:
            yield msgspec.structs.replace(event, candidate="c"), number


def expected(letters: str) -> list[tuple[int, str, int | None]]:
    """Return the reservations in words: what holds is compared with what is said next, decisions apart."""
    found: list[tuple[int, str, int | None]] = []
    number, held, dropped = 1, 0, False
    for place, letter in enumerate(letters):
        number += letter == "n"
        dropped |= letter == "d"
        if letter in "pd":
            continue
        now = number if letter in "rn" else 0
        if held and now != held:
            found[-1] = (
                held,
                "Bound" if letter == "b" else "Dropped" if dropped else NEXT.get(letter, "Unreserved"),
                place,
            )
        if now and now != held:
            found.append((now, "Held", None))
        held = now
    return found


async def test_any_history_is_told_as_a_walk_through_it_would(database_url: str) -> None:
    random = Random(7)
    letters = ["".join(random.choices([*LETTERS], k=random.randint(1, 12))) for _ in range(200)]
    new, places = [], {}
    for number, text in enumerate(letters):
        for place, (event, _) in enumerate(story_of(text)):
            new.append(NewEvent(stream=f"sourcepod/{NS}/p{number}", event=event, cluster="a"))
            places[len(new)] = place
    await write(database_url, new, types=READ)
    found: dict[str, list[Any]] = {}
    asked = "SELECT name, number::int AS number, outcome, last_position FROM audit.reservations ORDER BY position"
    for row in query(database_url, asked):
        last = places[row["last_position"]] if row["last_position"] else None
        found.setdefault(row["name"], []).append((row["number"], row["outcome"], last))
    assert {text: found.get(f"p{number}", []) for number, text in enumerate(letters)} == {
        text: expected(text) for text in letters
    }
    assert {outcome for rows in found.values() for _, outcome, _ in rows} >= {
        "Bound",
        "Dropped",
        "Gone",
        "Lapsed",
        "Held",
    }
