"""What happened, line by line, in virtual time: the proof that a seed replays, and the raw material of the story.

In: notes of everybody. Out: one digest over all of them, and the lines themselves. A line carries the number of steps
that the loop had taken, so two runs that differ anywhere differ in their digests. The first violation ends the run:
what comes after it is only noise."""

from __future__ import annotations

import hashlib
from typing import Literal, NamedTuple

from controlplane.dst.engine.loop import VirtualLoop

Topic = Literal["plan", "store", "request", "log", "decision", "process", "connection", "warning", "violation"]


class TraceLine(NamedTuple):
    """One line: virtual seconds, the loop's steps, what it is about, who, what."""

    at: float
    step: int
    topic: Topic
    actor: str
    text: str

    def __str__(self) -> str:
        return f"{self.at:.6f} {self.step} {self.topic} {self.actor}: {self.text}"


class Violation(NamedTuple):
    """A rule that was broken: its name, and how."""

    rule: str
    detail: str


class Trace:
    """The lines of one run, and its first violation."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.lines: list[TraceLine] = []
        self.violation: Violation | None = None

    def note(self, topic: Topic, actor: str, text: str) -> None:
        """Add a line."""
        self.lines.append(TraceLine(self._loop.time(), self._loop.steps, topic, actor, text))

    def violate(self, rule: str, detail: str) -> None:
        """Note a broken rule and stop the loop; only the first one counts."""
        if self.violation is None:
            self.violation = Violation(rule, detail)
            self.note("violation", rule, detail)
            self._loop.stopped = True

    def digest(self) -> str:
        """Return the SHA-256 of all lines."""
        return hashlib.sha256("\n".join(map(str, self.lines)).encode()).hexdigest()
