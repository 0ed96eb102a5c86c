"""Defines what a plugin answers: a code and reasons, in kube-scheduler's terms.

`Unschedulable` says that preemption might help, `UnschedulableAndUnresolvable` that it cannot. `Skip` takes a plugin
out of the rest of the cycle. Reasons are text that people read in events, so plugins take them from a small closed set.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Code(StrEnum):
    """The codes of a status."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"


class Status(NamedTuple):
    """The answer of one plugin, or of the framework; `plugin` is set by whoever calls the plugin."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Whether the pod may go on; a skip is no refusal."""
        return self.code is Code.SUCCESS or self.code is Code.SKIP

    @property
    def rejected(self) -> bool:
        """Whether it is a refusal, not an error."""
        return self.code is Code.UNSCHEDULABLE or self.code is Code.UNRESOLVABLE

    def by(self, plugin: str) -> Status:
        """Return the status with the name of the plugin that gave it."""
        return self._replace(plugin=plugin)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return a refusal that preemption might resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a refusal that no preemption resolves."""
    return Status(Code.UNRESOLVABLE, reasons)


def failed(*reasons: str) -> Status:
    """Return an error: the cycle ends, and the pod is tried again."""
    return Status(Code.ERROR, reasons)


class NodeStatuses(NamedTuple):
    """The statuses of all nodes at once: `which[row]` is an index into `statuses`, whose first is Success."""

    which: NDArray[np.int32]
    statuses: tuple[Status, ...]

    def of(self, row: int) -> Status:
        """Return the status of one node."""
        return self.statuses[int(self.which[row])]


def node_statuses(count: int, *refused: tuple[NDArray[np.bool_], Status]) -> NodeStatuses:
    """Return statuses over `count` nodes, in which the first refusal that applies to a node wins."""
    which = np.zeros(count, dtype=np.int32)
    for number, (mask, _) in reversed(list(enumerate(refused, start=1))):
        which[mask] = number
    return NodeStatuses(which, (SUCCESS, *(status for _, status in refused)))


def from_each(found: Sequence[Status]) -> NodeStatuses:
    """Return statuses made of one status a node."""
    numbers: dict[Status, int] = {SUCCESS: 0}
    which = np.fromiter(
        (numbers.setdefault(status, len(numbers)) for status in found), dtype=np.int32, count=len(found)
    )
    return NodeStatuses(which, tuple(numbers))
