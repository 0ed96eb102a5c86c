"""The time of decisions follows the log and not the machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controlplane.runtime.log_clock import LogClock

START = datetime(2026, 1, 1, tzinfo=UTC)


class Machine:
    """A machine whose wall clock and monotonic clock go apart."""

    def __init__(self) -> None:
        self.wall, self.passed = START, 100.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


def test_before_the_log_was_read_it_is_the_machines_time() -> None:
    assert LogClock(Machine()).now() == START


def test_a_jump_of_the_wall_clock_changes_nothing() -> None:
    machine = Machine()
    clock = LogClock(machine)
    clock.anchor(START + timedelta(hours=1))
    machine.wall += timedelta(days=400)
    machine.passed += 5
    assert clock.now() == START + timedelta(hours=1, seconds=5)


def test_it_goes_on_with_the_log_and_never_back_to_an_older_event() -> None:
    machine = Machine()
    clock = LogClock(machine)
    clock.anchor(START)
    clock.anchor(START + timedelta(hours=2))
    machine.passed += 60
    clock.anchor(START + timedelta(hours=2, seconds=30))
    assert clock.now() == START + timedelta(hours=2, seconds=60)
