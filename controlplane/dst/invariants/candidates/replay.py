"""The log alone gives the state: what a process holds, leading or following, equals a fold of the log beside it.

In: the controllers of a process after a batch, and the same controllers folded beside it. Out: the first difference in
words. Most of a state is frozen values, so a value is compared again only when either side has put another one in its
place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.workloads.replay import holders

RULE = "the log gives the state"
Parts = list[tuple[str, Any]]


class CandidateReplayRules:
    """Compares what processes hold with what the log gives."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._equal: dict[str, dict[tuple[str, object], tuple[object, object]]] = {}
        self.batches = 0

    def folded(self, process: str, mine: Parts, ours: Parts) -> None:
        """Look at a process that has folded everything there is."""
        self.batches += 1
        wrong = _difference(mine, ours, self._equal.setdefault(process, {}))
        if wrong:
            self._trace.violate(RULE, f"{process}: {wrong}")

    def afresh(self, log: str, mine: Parts, ours: Parts) -> None:
        """Compare a fold from the beginning with the one that went along."""
        wrong = _difference(mine, ours, {})
        if wrong:
            self._trace.violate(RULE, f"{log} from its beginning: {wrong}")


def of_source(hosted: HostedControllers) -> Parts:
    """Return what a process of the source holds."""
    placing, copies = hosted.sources, hosted.copies
    assert placing is not None
    assert copies is not None
    nodes = hosted.virtual_nodes
    own: Parts = [
        ("virtual nodes", {} if nodes is None else nodes.nodes),
        ("nodes to bind to", placing.nodes),
        ("sources", placing.sources),
        ("connections", placing.connections),
        ("outage", placing.outage),
        ("targets", placing._own),
        ("namespaces", placing._namespaces),
        ("gangs", placing.gangs.groups),
        ("named", copies.named),
        ("copies", {stream: msgspec.structs.astuple(there) for stream, there in copies._there.items()}),
        ("where", copies._where),
    ]
    return [*own, *_index(hosted)]


def _index(hosted: HostedControllers) -> Iterator[tuple[str, Any]]:
    for part, among in holders(hosted.fleet.index):
        yield part, among[part.rpartition(".")[2]]


def of_scheduler(controllers: SchedulerControllers) -> Parts:
    """Return what a scheduler holds."""
    return [
        ("candidates", controllers.targets.candidates),
        ("invitations", controllers.targets.invitations),
        ("placements", controllers.placements.states),
        ("victims", controllers.evictions.states),
        ("connection", controllers.here.connection),
    ]


def _difference(mine: Parts, ours: Parts, equal: dict[tuple[str, object], tuple[object, object]]) -> str:
    for (part, left), (_, right) in zip(mine, ours, strict=True):
        if not isinstance(left, dict) or not isinstance(right, dict):
            if left != right:
                return f"{part}: {left!r} and {right!r}"
            continue
        for key in [*left, *(key for key in right if key not in left)]:
            one, other = left.get(key), right.get(key)
            known = equal.get((part, key))
            if known is not None and known[0] is one and known[1] is other:
                continue
            if one != other:
                return f"{part}: {key}: {one!r} and {other!r}"
            equal[part, key] = (one, other)
    return ""
