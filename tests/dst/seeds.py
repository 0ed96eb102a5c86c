"""What of the seeds that a scene is played with broke a rule, in words."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.story import command, summary


def broken(outcome: Outcome) -> str:
    """Return which rule a run broke, and the command that plays it again; "" if it broke none."""
    return "" if outcome.violation is None else f"{summary(outcome)}\n  {command(outcome.plan)}"


def failures(seeds: Iterable[int], known: Container[int], play: Callable[[int], Outcome]) -> str:
    """Return which of some seeds broke a rule, without those of which it is known; "" if none did."""
    failed = [text for seed in seeds if seed not in known and (text := broken(play(seed)))]
    return "\n".join(["of these, each by itself:", *failed]) if failed else ""
