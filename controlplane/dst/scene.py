"""What can be played: a run under way, and the scenes by name, each with how its plans are drawn and who plays them.

In: the name of a scene. Out: its plans and its outcomes. A scene is imported when it is asked for: it brings the rooms
that it plays."""

from __future__ import annotations

from typing import Protocol

from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.trace import Trace


class SceneRun(Protocol):
    """A run under way."""

    loop: VirtualLoop
    trace: Trace

    @property
    def events(self) -> int:
        """How many events were recorded, in all logs."""

    def play(self) -> None:
        """Play the plan, end all trouble, wait for the end."""

    def close(self) -> None:
        """Let nothing of the run live on."""

    def warned(self, level: str, text: str) -> None:
        """Take over what a process says about itself."""
