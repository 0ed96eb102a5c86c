"""Liveness, target by target: every run without a further fault comes to an end, and every end is as it should be.

In: the sets of `modular`. A run is endless only if controls follow each other in a circle, or cells of one target do while the control
stays; neither does. So whatever the interleaving, and without any fairness, everything stops; and wherever nothing is left to do, whatever
other sources hold, L1, L2 and L5 are asked of every choice of cells that go with the control.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tests.candidates.model.rules import at_rest
from tests.candidates.model.world import Violation

if TYPE_CHECKING:
    from tests.candidates.model.modular import Modular


class Rest(NamedTuple):
    """What a quiet cell holds: its candidates and pods, whether each runs, and whether another source has to hold the place for that."""

    there: frozenset[tuple[str, bool]]
    free: bool


def check_ends(found: Modular) -> int:
    """Hold every end against the rules; return how many controls have one."""
    return sum(_check_end(found, control) for control in range(len(found.controls)))


def _check_end(found: Modular, control: int) -> bool:
    g, moves = found.controls[control], found.moves
    if found.busy[control] or moves.sources[0].wake_of(g.srcs[0], g.now, g.links) is not None:
        return False
    rests = [_rests(found, t, control) for t in range(found.config.targets)]
    invited = [t for t in range(found.config.targets) if t not in found.config.uninvited]
    state, pod = moves.sources[0].states[g.srcs[0]], moves.pod(g._replace(cells=()), 0)
    for choice in itertools.product(*rests):
        there = dict(itertools.chain.from_iterable(rest.there for rest in choice))
        hopeless = not any(choice[t].free for t in invited)
        found.where = f"an end of control {g}: {choice}"
        at_rest(state, pod, there, 0, hopeless=hopeless)
    return all(rests)


def _rests(found: Modular, t: int, control: int) -> set[Rest]:
    """Return what a target may hold when nothing is left to do there, with its place free for others and not."""
    from tests.candidates.model.modular import FREE, TAKEN

    steps, rests = found.moves.cells[t], set()
    for cell, wake in found._idle(t, control):
        if wake:
            continue
        left, store = found.steps_left[found.sets[t][control][cell]], steps.stores[found.cells[cell].store]
        names = {*store["candidates"], *store["pods"]}
        there = frozenset((n, bool(store["pods"].get(n, {}).get("spec", {}).get("nodeName"))) for n in names)
        own = steps.used(found.cells[cell].side)
        if not left & (TAKEN if own else FREE):
            rests.add(Rest(there, True))
        if not left & TAKEN:
            rests.add(Rest(there, False))
    return rests


def check_runs_end(found: Modular) -> None:
    """Raise `Violation` if there is a circle of steps without a fault."""
    if _circle(len(found.steps_left), found.tails, found.heads):
        found.where = "cells of one target"
        raise Violation("L", "a target may go on for ever while its source does nothing")
    pairs = sorted(found.quick)
    if _circle(len(found.controls), [a for a, _ in pairs], [b for _, b in pairs]):
        found.where = "controls"
        raise Violation("L", "a source may go on for ever, without any further fault")


def _circle(count: int, tails: Iterable[int], heads: Iterable[int]) -> bool:
    """Whether a graph has a circle: whether something is left once everything without a way in was taken away, again and again."""
    edges = list(zip(tails, heads, strict=True))
    into, first = array("l", bytes(8 * count)), array("l", bytes(8 * (count + 1)))
    for tail, head in edges:
        into[head] += 1
        first[tail + 1] += 1
    for number in range(count):
        first[number + 1] += first[number]
    out, fill = array("l", bytes(8 * len(edges))), array("l", first)
    for tail, head in edges:
        out[fill[tail]] = head
        fill[tail] += 1
    ahead = [number for number in range(count) if not into[number]]
    taken = 0
    while ahead:
        tail = ahead.pop()
        taken += 1
        for place in range(first[tail], first[tail + 1]):
            into[out[place]] -= 1
            if not into[out[place]]:
                ahead.append(out[place])
    return taken < count
