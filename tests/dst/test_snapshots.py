"""Processes that start from what others had folded decide as those that read the whole log: every rule holds, and what
they hold is what the log alone gives."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.snapshots import SimulatedSnapshots
from controlplane.dst.invariants.workloads import replay
from controlplane.dst.play import plan_of, play
from controlplane.dst.scenes.workloads.processes import SNAPSHOTS
from controlplane.log.ended import NeededPage, NeededStreams
from controlplane.log.postgres import LogPosition
from controlplane.runtime import snapshots
from tests.dst.plans import held
from tests.support.deep import deep_after


@pytest.mark.parametrize("seed", deep_after(0, range(1, 41)))
def test_whoever_starts_from_a_snapshot_holds_what_the_log_gives(seed: int) -> None:
    assert held(play(with_snapshots(plan_of(seed))))


def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions from which processes began, as they come."""
    found: list[int] = []
    resume = SimulatedSnapshots.resume

    def noted(self: SimulatedSnapshots, place: LogPosition) -> None:
        found.append(place.position)
        resume(self, place)

    monkeypatch.setattr(SimulatedSnapshots, "resume", noted)
    return found


def with_snapshots(plan: Plan) -> Plan:
    return replace(plan, traits=(*plan.traits, SNAPSHOTS))


@pytest.mark.deep
def test_processes_do_start_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = begun(monkeypatch)
    assert held(play(with_snapshots(plan_of(3))))
    assert len(positions) >= 2


def test_one_that_lacks_something_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = snapshots.taken

    def some(controller: object) -> dict[str, Any]:
        return {path: {} if path == "index.workloads" else value for path, value in taken(controller).items()}

    monkeypatch.setattr(snapshots, "taken", some)
    outcomes = (play(with_snapshots(plan_of(seed))) for seed in (3, 1, 2))
    assert any(one.violation is not None and one.violation.rule == "the log gives the state" for one in outcomes)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Make each process of a version of its own, so that it begins with what is left without the streams that are over.
    Note how many events each page looked through and had. The UIDs of what went last are a hint, and answers count for
    a while: whoever begins so lacks some."""
    versions, found = count(), list[tuple[int, int]]()
    needed = SimulatedSnapshots.needed

    async def noted(self: SimulatedSnapshots, streams: NeededStreams, after: int) -> NeededPage:
        page = await needed(self, streams, after)
        found.append((page.looked_to - after, len(page.events)))
        return page

    monkeypatch.setattr(snapshots, "fold_version", lambda settings, controllers: f"version {next(versions)}")
    monkeypatch.setattr(SimulatedSnapshots, "needed", noted)
    monkeypatch.setattr(MultiKueueController, "forgets_after", timedelta(minutes=1))
    monkeypatch.setattr(replay, "_NOT_STATE", replay._NOT_STATE | {"_gone", "_answers"})
    return found


@pytest.mark.parametrize("seed", deep_after(1, [3, 4, 5, 9, *(one for one in range(1, 41) if one not in (3, 4, 5, 9))]))
def test_whoever_is_of_another_version_holds_what_the_log_gives(seed: int, pages: list[tuple[int, int]]) -> None:
    assert held(play(with_snapshots(plan_of(seed, edition=9))))
    if seed in (3, 4, 5, 9):
        assert sum(had for _, had in pages) < sum(through for through, _ in pages)
