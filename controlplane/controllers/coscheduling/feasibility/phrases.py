"""The words of judging: what each event says about workers, and about the PipelineRuns that are to go to one.

In: an event of `controlplane.controllers.coscheduling.feasibility`. Out: one short line, as `controlplane.audit.words`
has them. A test sees to it that no event is missing."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.connectivity.eligibility import ClustersJudged
from controlplane.controllers.coscheduling.feasibility import events
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, told


def _node(event: events.WorkerNodeObserved) -> str:
    room = ", ".join(f"{name} {amount}" for name, amount in sorted(event.allocatable.items()))
    return f"node {event.name} {'is cordoned' if event.cordoned else 'takes pods'}: {room or 'nothing to give'}"


def _judged(event: ClustersJudged) -> str:
    fits = [name for name, fit in sorted(event.clusters.items()) if fit.fits]
    others = [f"{name} ({fit.detail})" for name, fit in sorted(event.clusters.items()) if not fit.fits]
    taken = f"run fits on {', '.join(fits)}" if fits else "run fits on no cluster"
    short = [f"{name} ({fit.short})" for name, fit in sorted(event.clusters.items()) if fit.short]
    parts = [taken, *([f"not on {', '.join(others)}"] if others else [])]
    return "; ".join([*parts, *([f"its Workload asks for too little on {', '.join(short)}"] if short else [])])


def _read(event: events.WorkerObjectRead) -> str:
    outcome = {"Found": "is there", "Missing": "is not there", "Unknown": f"cannot be read: {event.message}"}
    return f"{event.kind} {event.namespace}/{event.name} {outcome[event.outcome]}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        events.WorkerNodeObserved: _node,
        events.WorkerNodeGone: "node {e.name} is gone",
        events.WorkerClassObserved: lambda e: f"storage class {e.name} binds {'late' if e.late else 'at once'}",
        events.WorkerClassGone: "storage class {e.name} is gone",
        events.WorkerFlagsObserved: lambda e: f"flag coschedule is {e.data.get('coschedule', 'not set')}",
        events.WorkerFlagsGone: "ConfigMap feature-flags is gone",
        events.WorkerPlaceholderObserved: lambda e: (
            f"placeholder's pod {e.name} " + (f"is on node {e.node}" if e.node else "is on no node")
        ),
        events.WorkerPlaceholderGone: "placeholder's pod {e.name} is gone",
        events.DispatchedRunObserved: lambda e: "run waits for a cluster" if e.waits else "run waits for no cluster",
        events.DispatchedRunGone: "run is gone",
        events.RunChargeObserved: lambda e: (
            "Workload asks for "
            + (", ".join(f"{name} {amount}" for name, amount in sorted(e.asked.items())) or "nothing")
        ),
        events.RunChargeGone: "Workload is gone",
        events.WorkerObjectRead: _read,
        ClustersJudged: _judged,
    }
)
