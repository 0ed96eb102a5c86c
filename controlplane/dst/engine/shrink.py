"""A failing plan made smaller: the steps that the failure does not need are left out (delta debugging, ddmin).

In: a plan that breaks a rule. Out: a plan with as few of its steps that still breaks the same rule. Every try is a
whole run, so `tries` bounds the time; what comes out is minimal in the sense that no single step can be left out,
unless the tries ran out."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.run import Outcome


def shrink(outcome: Outcome, run: Callable[[Plan], Outcome], *, tries: int = 150) -> Outcome:
    """Return the outcome of the smallest plan found that breaks the same rule as `outcome` does."""
    best, left = outcome, tries
    parts = 2
    while len(best.plan.steps) > 1 and left > 0:
        numbers = best.plan.numbers
        size = max(1, len(numbers) // parts)
        smaller = None
        for start in range(0, len(numbers), size):
            if left <= 0:
                break
            left -= 1
            tried = run(best.plan.only(numbers[:start] + numbers[start + size :]))
            if _same(tried, outcome):
                smaller = tried
                break
        if smaller is not None:
            best, parts = smaller, max(2, parts - 1)
        elif size == 1:
            break
        else:
            parts = min(len(numbers), parts * 2)
    return best


def _same(tried: Outcome, outcome: Outcome) -> bool:
    return (
        tried.violation is not None and outcome.violation is not None and tried.violation.rule == outcome.violation.rule
    )
