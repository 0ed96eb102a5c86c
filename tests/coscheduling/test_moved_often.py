"""A placeholder that is sent away from one full node after the other: the pause grows to half an hour and stays
there.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from controlplane.controllers.coscheduling.moving import rests
from controlplane.controllers.coscheduling.state import Moved
from tests.support.rows import each

AT = datetime(2026, 11, 21, 18, 0, tzinfo=UTC)


@each(("times", "pause"), [(1, 1), (2, 2), (5, 16), (6, 30), (40, 30), (60, 30), (5000, 30)])
def test_the_pause_grows_to_half_an_hour_and_no_further(times: int, pause: int) -> None:
    wakes: list[datetime] = []
    turn = cast("Any", SimpleNamespace(now=AT, wake_at=wakes.append))
    assert rests(turn, Moved("old", "node", 0, AT, times), "new")
    assert wakes == [AT + timedelta(minutes=pause)]
    turn.now = AT + timedelta(minutes=pause)
    assert not rests(turn, Moved("old", "node", 0, AT, times), "new")
