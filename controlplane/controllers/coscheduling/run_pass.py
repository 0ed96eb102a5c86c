"""What one pass of deciding about a run looks at, and what it decides, under construction.

In: the state of a run, its surroundings, the time. Out: a `RunPass`, which `decide` and its parts fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.flags import Flags
from controlplane.controllers.coscheduling.observations import NodeObserved, TaskPodObserved
from controlplane.controllers.coscheduling.placement.eviction import NodeView
from controlplane.controllers.coscheduling.placement.gates import NodeCapacity
from controlplane.controllers.coscheduling.placement.volumes import BoundVolume
from controlplane.controllers.coscheduling.state import RunAttempt, RunState
from controlplane.kube.pod_requests import amounts
from controlplane.kube.quantities import NANO
from controlplane.kube.tolerations import Taint
from controlplane.runtime import decision_pass
from controlplane.values import Value

START = datetime(1970, 1, 1, tzinfo=UTC)
"""Before anything was seen."""


class NodeFitness(msgspec.Struct, frozen=True):
    """A node, and the position in the log since which it is as fit or unfit as it is. `capacity` is what it can be
    given, None if nobody said.
    """

    view: NodeView
    since: int
    capacity: NodeCapacity | None = None
    uid: str = ""


def capacity_of(seen: NodeObserved, taints: tuple[Taint, ...]) -> NodeCapacity | None:
    """Return what a node can be given, None if nobody said."""
    if not seen.allocatable:
        return None
    free = amounts(seen.allocatable)
    slots = free.pop("pods", 0) // NANO
    return NodeCapacity(
        name=seen.name, labels=seen.labels, taints=taints, cordoned=seen.cordoned, free=free, free_pods=slots
    )


class RunContext(Value):
    """What a decision may look at beside the run: the flags and defaults that hold now, and the nodes.

    `ready`: everything that decisions rest on is in view; `sees_flags`: so are the flags, or settings take their place.
    `cluster`: where this is. `parent`: the attempt whose task the run is, None if it is nobody's. `beside`: the pods of
    other runs that follow its placeholders, `followed` the placeholders that such runs have. `volumes`: those of its
    claims, None while they are not listed. `patience`: how long a task that never fits waits before it ends; None: for
    ever. `nodes_since`: since when the nodes can be given what they can.
    """

    cluster: str = MANAGEMENT
    ready: bool = True
    sees_flags: bool = True
    flags: Flags = Flags()
    defaults: str = ""
    nodes: Mapping[str, NodeFitness] = {}
    parent: RunAttempt | None = None
    beside: Sequence[TaskPodObserved] = ()
    followed: frozenset[str] = frozenset()
    volumes: Mapping[str, BoundVolume] | None = {}
    patience: timedelta | None = None
    nodes_since: datetime = START


class RunPass(decision_pass.DecisionPass[RunState, events.CoschedulingDecision, events.CoschedulingWrite]):
    """The decisions of one pass, under construction."""

    def __init__(self, state: RunState, around: RunContext, now: datetime) -> None:
        super().__init__(state, now)
        self.around = around

    def is_news(self, attempt: RunAttempt, said: str, message: str) -> bool:
        """Whether something is to be said on a run now: it was not yet, or somebody overwrote it a while ago."""
        if said == message and not attempt.unsaid:
            return False
        until = attempt.quiet_until
        if until is None or self.now >= until:
            return True
        self.wake_at(until)
        return False
