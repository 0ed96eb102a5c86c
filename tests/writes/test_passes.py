"""A pass writes to a target once, not while a write to it is open, and not while it rests; then it says when to look
again.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controlplane.log.event import Event
from controlplane.runtime.decision_pass import DecisionPass
from controlplane.runtime.writes import Effect, OpenWrites, WriteFailure
from tests.support.rows import each

NOW = datetime(2026, 11, 21, 18, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)


class Said(Event):
    what: str = ""


class Painted(Said):
    colour: str = "red"
    cluster: str = "there"

    @property
    def target(self) -> str:
        return self.what


class Wall(OpenWrites[Painted, WriteFailure]):
    pass


class Painting(DecisionPass[Wall, Said, Painted]):
    def _overrides(self, decision: Painted, opened: Painted) -> bool:
        return decision.colour == "white" != opened.colour


def troubled(until: datetime) -> dict[str, WriteFailure]:
    return {"door": WriteFailure(1, 403, "Forbidden", "no", until, "Painted")}


def busy(colour: str) -> dict[str, Effect[Painted]]:
    return {"door": Effect(1, Painted(what="door", colour=colour), NOW)}


@each(
    ("wall", "colour", "written", "wake"),
    [
        (Wall(), "red", True, None),
        (Wall(effects=busy("red")), "blue", False, None),
        (Wall(effects=busy("red")), "white", True, None),
        (Wall(effects=busy("white")), "white", False, None),
        (Wall(trouble=troubled(LATER)), "red", False, LATER),
        (Wall(trouble=troubled(NOW)), "red", True, None),
        (Wall(effects=busy("red"), trouble=troubled(LATER)), "white", False, LATER),
        (Wall(effects=busy("red"), trouble=troubled(LATER)), "blue", False, None),
    ],
)
def test_a_write_is_added_unless_its_target_is_busy_or_rests(
    wall: Wall, colour: str, written: bool, wake: datetime | None
) -> None:
    turn, decision = Painting(wall, NOW), Painted(what="door", colour=colour)
    assert turn.write(decision) is written
    assert (turn.plan.decisions, turn.plan.wake) == ([decision] if written else [], wake)


def test_a_target_is_written_to_once_a_pass_and_what_is_said_keeps_its_order() -> None:
    turn = Painting(Wall(), NOW)
    turn.say(Said(what="first"))
    assert turn.write(Painted(what="door"))
    assert not turn.write(Painted(what="door", colour="white"))
    assert turn.write(Painted(what="frame"))
    assert [decision.what for decision in turn.plan.decisions] == ["first", "door", "frame"]


def test_the_earliest_time_to_look_again_counts() -> None:
    turn = Painting(Wall(), NOW)
    for when in (None, LATER, NOW, None, LATER):
        turn.wake_at(when)
    assert turn.plan.wake == NOW


def test_two_passes_share_nothing() -> None:
    first, second = Painting(Wall(), NOW), Painting(Wall(), NOW)
    first.write(Painted(what="door"))
    assert second.plan.decisions == []
    assert second.write(Painted(what="door"))
