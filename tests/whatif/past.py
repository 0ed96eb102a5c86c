"""A recorded log with what was read out of it, to be played again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.controllers.quota.admission.hosting import engine_settings
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.dst.engine.plan import Plan
from controlplane.dst.scenes.workloads.processes import settings_of
from controlplane.settings.quota import BUILTIN
from controlplane.whatif.agreement import Agreement, agreement, quota_agreement
from controlplane.whatif.capacity import Capacities
from controlplane.whatif.history import History
from controlplane.whatif.measure import Figures, Measures
from controlplane.whatif.simulated_log import Alternative
from controlplane.whatif.simulation import Simulation, SimulationResult
from tests.whatif.logs import PlayedLog, in_force, played


class Past:
    """A log with what was read out of it."""

    def __init__(self, events: PlayedLog) -> None:
        self.events, self.history = events, History(events.requests)
        for one in events:
            self.history.take(one)
        self.capacities = Capacities(self.history)
        self.begin, self.end = events[0].recorded_at - timedelta(seconds=1), events[-1].recorded_at

    def play(
        self,
        begin: int = 0,
        policy: Mapping[str, Any] | None = None,
        quota: EngineSettings | None = None,
        **alternative: Any,
    ) -> SimulationResult:
        """Play it from a position on; `quota` is how the engine decides, if otherwise than in the log."""
        began = self.events[begin - 1].recorded_at if begin else self.begin
        begin = sum(one.recorded_at <= began for one in self.events)
        changed = msgspec.structs.replace(in_force(self.events).policy, **(policy or {}))
        by = quota or engine_settings(settings_of([BUILTIN]))
        given = Alternative(**alternative)
        simulation = Simulation(self.history, self.capacities, changed, began, self.end, given, quota=by)
        for one in self.events[:begin]:
            simulation.before(one)
        return simulation.play()

    def recorded(self, begin: int = 0) -> Figures:
        measures = Measures(
            self.events[begin - 1].recorded_at if begin else self.begin, self.end, self.history.requests
        )
        for one in self.events:
            measures.take(one)
        return measures.result({name: one for name, one in self.capacities.of.items() if "/" not in name})

    def agrees(self, found: SimulationResult, begin: int = 0) -> Agreement:
        began = self.events[begin - 1].recorded_at if begin else self.begin
        return agreement(self.history, found.placements, began, self.end)

    def quota_agrees(self, found: SimulationResult, begin: int = 0) -> Agreement:
        began = self.events[begin - 1].recorded_at if begin else self.begin
        return quota_agreement(self.history, found.quota, began, self.end)


_PASTS: dict[int, Past] = {}


def past(of: Plan) -> Past:
    """Return the past of a plan, which is played once."""
    if id(of) not in _PASTS:
        _PASTS[id(of)] = Past(played(of))
    return _PASTS[id(of)]


def near(one: float, other: float, share: float = 0.02, least: float = 0.5) -> bool:
    return abs(one - other) <= max(least, share * max(one, other))
