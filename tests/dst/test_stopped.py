"""Whoever is asked to stop stops, whatever it is about to do: also while clusters come and go."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from controlplane.clusters import connections
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from tests.dst.plans import held, plan, step, told
from tests.support.deep import deep_after

CLUSTERS = ("w1", "w2", "w3")


def comings_and_goings(moment: float, seed: int) -> list[Step]:
    """Clusters are removed, one after the other, and the process is asked to stop in the middle of it."""
    steps = [step(20 + number / 4, "delete-cluster", name, 9) for number, name in enumerate(CLUSTERS)]
    return sorted([*steps, step(20 + moment, "stop", "replica-1", 0, seed)], key=lambda one: one.at)


def seconds_to_stop(seed: int, moment: float) -> float:
    """How long the process took to end: with nothing in its way, no longer than writes on their way are waited for."""
    outcome = play(plan(*comings_and_goings(moment, seed), seed=seed))
    assert held(outcome)
    (asked,) = told(outcome, "replica-1#1: is asked to stop")
    (ended,) = told(outcome, "replica-1#1: has stopped")
    return float(ended.split()[0]) - float(asked.split()[0])


#: Two hundred starts and stops, of which every twentieth together is a test.
STOPS, TESTS = [(first * 100 + number, number / 25) for first in range(1, 9) for number in range(25)], 20


@pytest.mark.parametrize("first", deep_after(1, range(TESTS)))
def test_who_is_asked_to_stop_while_clusters_go_stops(first: int) -> None:
    """After each a new process goes on, and all of it settles."""
    for seed, moment in STOPS[first::TESTS]:
        assert seconds_to_stop(seed, moment) < 7


def test_who_overhears_that_it_is_to_stop_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancellation of a cluster's task cannot be told from one's own, if it is awaited."""

    async def end(*tasks: asyncio.Task[Any]) -> None:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await asyncio.sleep(0.5)
                await task

    monkeypatch.setattr(connections, "end", end)
    assert any(seconds_to_stop(number, number / 25) > 14 for number in range(25))
