"""Logs to decide again: what seeds and plans of the simulation wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.dst.engine.plan import Plan
from controlplane.dst.play import plan_of
from controlplane.log.event import Recorded
from controlplane.settings import Settings
from controlplane.whatif.compare import Comparison, DecisionComparison
from controlplane.whatif.deciders import Deciders, DecisionSettings, chosen, then
from tests.support.played import PlayedLog, log_of


def played(plan: Plan) -> PlayedLog:
    """Return the log that a plan leaves, which has to break no rule."""
    found = log_of(plan)
    assert not found.violation, found.violation
    return found


@cache
def of_seed(seed: int) -> PlayedLog:
    return played(plan_of(seed))


def in_force(events: Iterable[Recorded]) -> DecisionSettings:
    """Return what was decided by, as the log says."""
    said = [one.event for one in events if isinstance(one.event, PolicyInForce)]
    return then(Settings(), said[-1]) if said else chosen(Settings())


def compared(events: Sequence[Recorded], by: DecisionSettings | None = None) -> Comparison:
    """Return what a log's decisions are beside those by some settings, else by those that were in force."""
    comparison = DecisionComparison(Deciders(by or in_force(events)))
    for recorded in events:
        comparison.take(recorded)
    return comparison.finish()
