"""A gang costs work in proportion to its members: what one of them says is no reason to look at all of them, unless
something may follow from it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from controlplane.controllers.candidates.source import gang_counts, gang_pass, gang_state
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.gang_events import GangFormed, GangPermitted, GangWaits
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateReserved,
    CandidateUnschedulable,
    DelegateStatus,
)
from controlplane.controllers.candidates.source.pods import SourceCandidates
from controlplane.log.event import Event, Recorded
from tests.candidates import test_gang_properties as properties
from tests.candidates.told import Told
from tests.support.deep import examples

BOUND: dict[str, Any] = {"reservation": 1, "permit": 1, "node": "n", "pod": "p", "bound_by": 1}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a member's state is looked at: by itself, and as one of its gang."""
    found: Counter[str] = Counter()
    original, init = gang_counts.stage_of, PodPass.__init__

    def stage_of(state: Any) -> Any:
        found["stage"] += 1
        return original(state)

    def made(self: Any, *args: Any) -> None:
        found["pass"] += 1
        init(self, *args)

    for module in (gang_counts, gang_pass):
        monkeypatch.setattr(module, "stage_of", stage_of)
    monkeypatch.setattr(PodPass, "__init__", made)
    return found


def saying(told: Told, size: int, kind: type[Any], *clusters: str, **more: Any) -> Told:
    """Have each target say something of each member, each by itself."""
    for number in range(size):
        for cluster in clusters:
            told.says(kind, cluster, f"m-{number}", **more).settle()
    return told


def has(told: Told, kind: type[Event]) -> bool:
    return any(isinstance(row.event, kind) for row in told.rows)


def placed(size: int) -> Told:
    """A gang comes, is offered, reserved, permitted, bound, and says that it runs; one event after the other."""
    told = Told("a", "b").group(size)
    for number in range(size):
        told.pod(f"m-{number}", group="gang").settle()
    saying(told, size, CandidateReserved, "a", "b", reservation=1, node="n", score=1)
    assert has(told, GangPermitted)
    saying(told, size, CandidateBound, "a", **BOUND)
    assert has(told, GangFormed)
    return saying(told, size, DelegateStatus, "a", **BOUND, sequence=1, pod_status="s", pod_phase="Running")


def nowhere(size: int) -> Told:
    """Two targets say of each member that there is no node."""
    told = Told("a", "b").group(size)
    for number in range(size):
        told.pod(f"m-{number}", group="gang").settle()
    saying(told, size, CandidateUnschedulable, "a", message="full")
    saying(told, size, CandidateUnschedulable, "b", message="full")
    assert has(told, GangWaits)
    return told


@pytest.mark.parametrize("way", [placed, nowhere])
def test_twice_the_members_are_twice_the_work(looks: Counter[str], way: Any) -> None:
    found = []
    for size in (20, 40):
        looks.clear()
        way(size)
        found.append(dict(looks))
    small, large = found
    # Squared it would be four times; before, it was 3,004 and 11,214 passes for what is placed.
    for what in ("stage", "pass"):
        assert large[what] < 2.3 * small[what], (what, small, large)
    assert large["pass"] < 50 * 40


def _plans(self: SourceCandidates, group: str, recorded: Recorded) -> tuple[list[Event], Any]:
    """Return what follows for a gang now, and what its members look at; nothing is noted of that."""
    gangs, outlooks = self.gangs, dict(self.gangs.outlooks)
    events = [new.event for new in self._decide_gang(group, recorded.recorded_at).events]
    gangs.outlooks = outlooks
    # It says why it waits, in the words of one of those who have no node: which one is no matter.
    said = gangs.state(group).waits is not None
    events = [
        msgspec.structs.replace(event, message="") if isinstance(event, GangWaits) else event
        for event in events
        if not (said and isinstance(event, GangWaits))
    ]
    view = gang_state.view_of(group, gangs.state(group), gang_counts.GangCounts(gangs.members(group).values()))
    return events, msgspec.structs.replace(view, version=0)


def test_what_is_spared_has_nothing_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens: where a gang is not looked at for an event, the same follows for it as before the event."""
    original, spared = SourceCandidates._fold_source, Counter[str]()

    def fold(self: SourceCandidates, recorded: Recorded) -> None:
        group = self.gangs._of.get(recorded.stream, "")
        watched = group in self.gangs.groups and group not in self.gangs._stale
        before = _plans(self, group, recorded) if watched else None
        original(self, recorded)
        if before is None or group in self.gangs._stale or self.gangs._of.get(recorded.stream) != group:
            return
        spared[type(recorded.event).__name__] += 1
        assert _plans(self, group, recorded) == before, recorded.event
        fresh = gang_counts.GangCounts(self.gangs.members(group).values())
        assert self.gangs.counts(group)._many == fresh._many

    monkeypatch.setattr(SourceCandidates, "_fold_source", fold)
    few = settings(properties.TestGangs.settings, max_examples=examples(4, 60))
    run_state_machine_as_test(properties.Gangs, settings=few)
    assert spared["CandidateReserved"]
    assert spared["CandidateUnschedulable"]
    assert spared["SourcePodObserved"]
