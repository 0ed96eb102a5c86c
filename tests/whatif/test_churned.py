"""A past that was full of trouble is played again as it was, from its beginning and from the midst of it."""

from __future__ import annotations

from functools import cache

import pytest

from tests.support.deep import deep_after, deep_but
from tests.support.played import log_of
from tests.whatif.fleets import CHURNED, NOT_SIMULATED
from tests.whatif.past import Past, near

#: What `make test` plays again.
KEPT = ("a cluster is lost", "priorities change", "a store is put back")


@cache
def churned(name: str) -> Past:
    """Return the past of a fleet. A rule of the simulation has no jobs that are made again under a name."""
    found = log_of((CHURNED | NOT_SIMULATED)[name])
    assert not found.violation or "was deleted and is still there" in found.violation
    return Past(found)


@pytest.mark.parametrize("name", deep_but(KEPT, list(CHURNED)))
def test_every_placement_is_played_as_it_was(name: str) -> None:
    log = churned(name)
    found, was = log.play(), log.recorded()
    agreed = log.agrees(found)
    assert (agreed.agree, agreed.differ) == (agreed.recorded, [])
    assert (found.figures.finished, found.figures.moves) == (was.finished, was.moves)
    assert near(found.figures.wait_total, was.wait_total)


@pytest.mark.parametrize("name", deep_but(KEPT[:2], [name for name in CHURNED if name != "a store is put back"]))
@pytest.mark.parametrize("share", deep_but((0.4,), [0.25, 0.4, 0.55, 0.7]))
def test_it_may_begin_in_the_midst_of_it(name: str, share: float) -> None:
    log = churned(name)
    begin = int(len(log.events) * share)
    agreed = log.agrees(log.play(begin), begin)
    assert (agreed.agree, agreed.differ) == (agreed.recorded, [])


@pytest.mark.parametrize("name", deep_after(1, list(NOT_SIMULATED)))
def test_what_is_not_simulated_takes_the_room_that_it_had(name: str) -> None:
    log = churned(name)
    found = log.play()
    agreed = log.agrees(found)
    assert (agreed.agree, agreed.differ) == (agreed.recorded, [])
    assert sum(found.beyond.values()) >= 3
