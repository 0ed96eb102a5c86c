"""Logs to decide again: what seeds and plans of the simulation wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.quiet import hushed, without_collector
from controlplane.dst.play import plan_of
from controlplane.dst.scenes.workloads.run import WorkloadRun
from controlplane.log.event import Recorded
from controlplane.settings import Settings
from controlplane.whatif.compare import Comparison, DecisionComparison
from controlplane.whatif.deciders import Deciders, DecisionSettings, chosen, then


def played(plan: Plan) -> list[Recorded]:
    """Return the log that a plan leaves."""
    with hushed(), without_collector():
        run = WorkloadRun(plan)
        try:
            run.play()
            assert run.trace.violation is None, run.trace.violation
            return list(run.database.read(0, 1_000_000))
        finally:
            run.close()


@cache
def of_seed(seed: int) -> Sequence[Recorded]:
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
