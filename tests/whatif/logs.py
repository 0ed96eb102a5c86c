"""Logs to decide again: what seeds and plans of the simulation wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import msgspec

from controlplane.controllers.connectivity.events import PolicyInForce
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.quiet import hushed
from controlplane.dst.play import plan_of
from controlplane.dst.scenes.workloads.run import WorkloadRun
from controlplane.kube.quantities import NANO, nanos
from controlplane.log.event import Recorded
from controlplane.runtime.collector import without_collector
from controlplane.settings import Settings
from controlplane.whatif.compare import Comparison, DecisionComparison
from controlplane.whatif.deciders import Deciders, DecisionSettings, chosen, then


class PlayedLog(list[Recorded]):
    """The events of a log, and what its Workloads ask for, by stream."""

    requests: dict[str, dict[str, float]]


def played(plan: Plan) -> PlayedLog:
    """Return the log that a plan leaves."""
    with hushed(), without_collector():
        run = WorkloadRun(plan)
        try:
            run.play()
            assert run.trace.violation is None, run.trace.violation
            found = PlayedLog(run.database.read(0, 1_000_000))
            found.requests = requests_of(found, run.database.store.texts)
            return found
        finally:
            run.close()


def requests_of(events: Iterable[Recorded], texts: Mapping[str, bytes]) -> dict[str, dict[str, float]]:
    """Return what Workloads ask for, as their specs say."""
    found: dict[str, dict[str, float]] = {}
    for one in events:
        if not isinstance(one.event, WorkloadObserved):
            continue
        stored = str(one.event.kept.get("template", one.event.template))
        if stored in texts:
            spec = msgspec.json.decode(texts[stored])["spec"]
            asks: Counter[str] = Counter()
            for pods in spec["podSets"]:
                for container in pods["template"]["spec"]["containers"]:
                    for name, amount in container.get("resources", {}).get("requests", {}).items():
                        asks[name] += int(pods["count"]) * nanos(amount) / NANO  # type: ignore[assignment]
            found[one.stream] = dict(asks)
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
