"""A workload in a cycle: what it would get, whom it would preempt, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.controllers.quota.engine import reasons
from controlplane.controllers.quota.engine.amounts import Usage
from controlplane.controllers.quota.engine.assignment import Assignment
from controlplane.controllers.quota.engine.info import Info, Progress
from controlplane.controllers.quota.engine.preemption import PreemptionTarget
from controlplane.controllers.quota.engine.snapshot import QueueNode


@dataclass(slots=True, eq=False)
class Entry:
    """The head of a ClusterQueue, nominated. `nominated` holds its flavors while they are looked for once more;
    `goes_first`: it waits for its victims, and what they leave is kept for it. `second_pass`: the how manieth time it
    is considered again for places, 0 if it has no quota yet."""

    info: Info
    queue: QueueNode
    assignment: Assignment = field(default_factory=Assignment)
    targets: list[PreemptionTarget] = field(default_factory=list)
    progress: Progress | None = None
    admitted: bool = False
    message: str = ""
    reason: str = ""
    requeue: str = reasons.GENERIC
    nominated: Mapping[str, Mapping[str, str]] | None = None
    goes_first: bool = False
    second_pass: int = 0
    evicted: bool = False

    @property
    def usage(self) -> Usage:
        """The quota that it takes: none if it has it already."""
        if self.second_pass:
            return {}
        used = self.assignment.usage
        return used if self.replaces is None else {place: max(0, amount) for place, amount in used.items()}

    @property
    def replaces(self) -> Info | None:
        """The slice whose place it takes, None for none. That one has its quota until it has ended, so that nothing is
        free before."""
        return self.assignment.replaces

    def record(self, assignment: Assignment, targets: list[PreemptionTarget]) -> None:
        """Note what it would get, and whom it would preempt for that."""
        self.assignment, self.targets = assignment, targets
        self.message, self.progress = assignment.message(), assignment.progress

    def wait(self, reason: str, requeue: str, message: str | None = None) -> None:
        """Note that it waits, and why."""
        self.reason, self.requeue = reason, requeue
        if message is not None:
            self.message = message
