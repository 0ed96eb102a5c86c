"""An outcome told to people: how it ended in a line, or what happened, when, to whom and why.

In: an outcome. Out: lines of text. The story leaves out what any run consists of (changes of objects, events that were
recorded) except around its end, where they matter; the whole trace is there for those who ask for it."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.dst.engine.plan import EDITION, Plan, spell
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.trace import TraceLine

_TOLD = frozenset({"plan", "process", "connection", "decision", "warning", "violation"})
_CLOSE = 40  # lines before the end of which everything is told
_MARK = {"plan": "*", "process": "#", "connection": "~", "decision": ">", "warning": "!", "violation": "X"}


def summary(outcome: Outcome) -> str:
    """Return how a run of a seed ended, in one line."""
    figures = f"{outcome.seconds:.0f} s, {outcome.events} events, {outcome.steps} steps, trace {outcome.digest[:16]}"
    if outcome.violation is None:
        return f"seed {outcome.plan.seed}: ok ({figures})"
    return f"seed {outcome.plan.seed}: FAILED, {outcome.violation.rule}: {outcome.violation.detail} ({figures})"


def command(plan: Plan) -> str:
    """Return the command that plays exactly this plan again."""
    edition = "" if plan.edition == EDITION else f" --plan {plan.edition}"
    edition = f" --scene {plan.scene}{edition}" if plan.scene else edition
    chosen = "" if len(plan.steps) == plan.size else f" --steps {spell(plan.numbers) or 'none'}"
    return f"controlplane simulate --seed {plan.seed}{edition}{chosen} --story"


def story(outcome: Outcome, *, whole: bool = False) -> Iterator[str]:
    """Yield the lines of the story; `whole`: of the trace."""
    end = _end(outcome)
    for place, line in enumerate(outcome.lines[: end + 1]):
        if whole or line.topic in _TOLD or place > end - _CLOSE:
            yield _told(line)


def _end(outcome: Outcome) -> int:
    """Return the place of the violation, or of the last line."""
    for place, line in enumerate(outcome.lines):
        if line.topic == "violation":
            return place
    return len(outcome.lines) - 1


def _told(line: TraceLine) -> str:
    minutes, seconds = divmod(line.at, 60)
    actor = f"{line.actor}:" if line.topic == "violation" else f"{line.actor:<14}"
    return f"{int(minutes):3d}:{seconds:06.3f} {_MARK.get(line.topic, ' ')} {actor} {line.text}"
