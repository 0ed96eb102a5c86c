"""What a state holds of its writes: at most one open to a target, and the last no until the object shows something
new.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import OpenWrite, WriteRefusal
from controlplane.runtime.writes import (
    OpenWrites,
    WriteFailure,
    WriteRefused,
    WritesNothing,
    WriteUnneeded,
    WritingController,
    closed,
    dropped,
    opened,
    refused,
)

NOW = datetime(2026, 11, 21, 18, 0, tzinfo=UTC)


class Painted(Event):
    what: str
    cluster: str = "there"

    @property
    def target(self) -> str:
        return self.what


class Wall(OpenWrites[Painted, WriteFailure]):
    name: str


class Painter(WritingController[Painted]):
    FAILED, UNNEEDED = WriteRefused, WriteUnneeded

    def __init__(self, wall: Wall) -> None:
        self.wall = wall

    def _writes(self, stream: str) -> Wall | None:
        return self.wall if stream == "wall/north" else None


def at(position: int) -> Recorded:
    event = Painted(what="-")
    return Recorded(
        position=position, stream="wall/north", version=position, event=event, cluster="there", recorded_at=NOW
    )


def no(what: str, failures: int = 1) -> WriteRefused:
    return WriteRefused(
        target=what, action="Painted", code=403, error="Forbidden", message="no", failures=failures, retry_at=NOW
    )


TARGETS = st.sampled_from(["door", "frame"])
STEPS = st.lists(st.tuples(st.sampled_from(["open", "refuse", "drop", "close"]), TARGETS), max_size=12)


@given(STEPS)
def test_a_target_is_as_the_last_thing_said_of_it(steps: list[tuple[str, str]]) -> None:
    wall, positions = Wall(name="north"), dict[str, int]()
    troubled = set[str]()
    for position, (step, target) in enumerate(steps, 1):
        match step:
            case "open":
                wall = opened(wall, Painted(what=target), at(position))
                positions[target] = position
            case "refuse":
                wall = refused(wall, no(target, position))
                positions.pop(target, None)
                troubled.add(target)
            case "drop":
                wall = dropped(wall, target)
                positions.pop(target, None)
            case _:
                wall = closed(wall, target)
                positions.pop(target, None)
                troubled.discard(target)
        assert {name: effect.position for name, effect in wall.effects.items()} == positions
        assert wall.trouble.keys() == troubled
        assert wall.name == "north"
        painter = Painter(wall)
        writes = painter.open_writes("wall/north")
        assert {write.target: write.position for write in writes} == positions
        assert all(painter.is_open(write) and write.action == "Painted" for write in writes)
        overtaken = [msgspec.structs.replace(write, position=write.position + 1) for write in writes]
        assert not any(painter.is_open(write) for write in overtaken)


def test_a_state_that_nothing_changes_in_is_the_same_one() -> None:
    wall = opened(Wall(name="north"), Painted(what="door"), at(1))
    assert dropped(wall, "frame") is wall
    assert closed(wall, "frame") is wall


def test_a_room_may_remember_more_of_a_no_than_all_do() -> None:
    more = WriteFailure(9, 500, "InternalError", "later", NOW + timedelta(hours=1), "Painted")
    assert refused(Wall(name="north"), no("door"), more).trouble == {"door": more}
    assert refused(Wall(name="north"), no("door")).trouble["door"].until == NOW


def test_of_a_stream_that_is_not_known_nothing_is_open() -> None:
    painter = Painter(opened(Wall(name="north"), Painted(what="door"), at(1)))
    write = OpenWrite("wall/south", "door", "there", 1, "Painted")
    assert painter.open_writes("wall/south") == []
    assert not painter.is_open(write)
    event = painter.failed(write, WriteRefusal(403, "Forbidden", "no"), NOW).event
    assert isinstance(event, WriteRefused)
    assert (event.failures, event.reason) == (1, "Forbidden")


def test_who_writes_nothing_says_so() -> None:
    nobody, write = WritesNothing(), OpenWrite("wall/north", "door", "there", 1, "Painted")
    assert not nobody.open_writes("wall/north")
    assert not nobody.is_open(write)
    for ended in (lambda: nobody.failed(write, WriteRefusal(403, "", ""), NOW), lambda: nobody.unneeded(write, "7")):
        with pytest.raises(NotImplementedError, match="writes nothing, so Painted"):
            ended()
