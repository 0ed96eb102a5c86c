"""Defines what the scheduling loop hands on and keeps: proposals, and pods between cycle and binding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.controllers.scheduling.framework.plugin import CycleState
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.log.event import Append


@dataclass(slots=True, eq=False)
class Proposal:
    """Events that the loop decided on. `folded`: the stream's version once they are folded; `reserves`: they take a
    node.

    `on_end` hears whether the log took what is about several pods, or about none.
    """

    append: Append
    stream: str
    identity: str
    folded: int
    reserves: bool = False
    on_end: Callable[[bool], None] | None = None


@dataclass(slots=True, eq=False)
class AssumedPod:
    """A pod between its cycle and its binding: what the plugins keep of the cycle, and for whom it still waits beside
    the log.
    """

    framework: Framework
    state: CycleState
    pod: Pod
    node: str
