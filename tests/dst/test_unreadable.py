"""Objects of which no more can be read than their names: each is recorded as refused, and all else goes on."""

from __future__ import annotations

import pytest

from controlplane.dst.play import play
from tests.dst.plans import held, plan, step, told
from tests.support.deep import deep_after


@pytest.mark.parametrize("where", deep_after(2, ["management", "w1", "w2"]))
@pytest.mark.parametrize("value", deep_after(1, [1, 2]))
def test_what_cannot_be_read_is_refused_and_all_else_goes_on(where: str, value: int) -> None:
    outcome = play(
        plan(
            step(5, "submit", "job-1", 60, 2),
            step(10, "unreadable-object", where, 60, value),
            step(40, "compact", where),
            step(80, "crash", "replica-1", 0, 5),
            step(120, "submit", "once-2", 20, 1),
            step(299, "cut", "w3"),
        )
    )
    assert held(outcome)
    assert told(outcome, "ObservationRefused", "abyss")


@pytest.mark.parametrize("name", deep_after(1, ["once-1", "job-1"]))
@pytest.mark.parametrize("value", deep_after(2, range(6)))
def test_what_was_never_read_is_not_gone(name: str, value: int) -> None:
    """The log goes back to before the job was sent, and the copies cannot be read when the next one is begun."""
    spoiled = [
        step(60 + second, "malform", where, 120, value + second) for where in ("w1", "w2", "w3") for second in (0, 1)
    ]
    outcome = play(plan(step(5, "restore-log", "", 60), step(10, "submit", name, 90), *spoiled))
    assert held(outcome)
    assert told(outcome, "starting over with what it holds")
    assert told(outcome, "object refused", name)
