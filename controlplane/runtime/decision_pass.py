"""One pass of deciding about a stream, under construction: what was said so far, which targets are taken, when to look
again.

In: a state with its open writes (`controlplane.runtime.writes`), and the time. Out: a `PassResult`. A write is left out
while its target is busy, or rests after an API server said no; then the plan says when to look again. What to decide is
each controller's own."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar, cast

import msgspec

from controlplane.log.event import Event
from controlplane.runtime.writes import D, OpenWrites

E = TypeVar("E", bound=Event)
S = TypeVar("S", bound=OpenWrites[Any, Any])


class PassResult(msgspec.Struct, Generic[E]):
    """What one pass decided, and when to look again though nothing happens."""

    decisions: list[E] = []
    wake: datetime | None = None


class DecisionPass(Generic[S, E, D]):
    """The decisions `E` about a state `S`; those that mean a write are `D`."""

    def __init__(self, state: S, now: datetime) -> None:
        self.state, self.now = state, now
        self.plan: PassResult[E] = PassResult()
        self._taken: set[str] = set()

    def say(self, decision: E) -> None:
        """Add a decision that is no write."""
        self.plan.decisions.append(decision)

    def wake_at(self, when: datetime | None) -> None:
        """Look again at `when` at the latest."""
        if when is not None and (self.plan.wake is None or when < self.plan.wake):
            self.plan.wake = when

    def write(self, decision: D) -> bool:
        """Add a write unless its target is busy or resting; return whether it was added."""
        target = decision.target
        effect, trouble = self.state.effects.get(target), self.state.trouble.get(target)
        if target in self._taken or (effect is not None and not self._overrides(decision, effect.decision)):
            return False
        if trouble is not None and trouble.until > self.now:
            self.wake_at(trouble.until)
            return False
        self._taken.add(target)
        self.say(cast("E", decision))
        return True

    def _overrides(self, decision: D, opened: D) -> bool:
        """Whether a decision takes the place of an open one."""
        return False
