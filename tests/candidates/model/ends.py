"""Liveness, cell by cell: every run without a further fault comes to an end, and every end is as it should be.

In: the sets of `modular`. A run is endless only if controls follow each other in a circle, or cells of one target do
while the control stays; neither does. So whatever the interleaving, and without any fairness, everything stops; and
wherever nothing is left to do, whatever other sources hold, L1 to L5 are asked of every choice of cells that go with
the control."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tests.candidates.model.rest import Left, able, at_rest, beyond, left_in
from tests.candidates.model.world import Violation

if TYPE_CHECKING:
    from tests.candidates.model.modular import Modular


class Rest(NamedTuple):
    """What a quiet cell holds: its candidate and pod, whether that takes a place, and whether others leave one free (or
    have it).
    """

    there: frozenset[tuple[str, Left]]
    own: bool
    free: bool


def check_ends(found: Modular) -> int:
    """Hold every end against the rules; return how many controls have one."""
    return sum(_check_end(found, control) for control in range(len(found.controls)))


def _check_end(found: Modular, control: int) -> bool:
    g, moves = found.controls[control], found.moves
    if found.busy[control] or moves.sources[0].wake_of(g.srcs[0], g.now, g.links) is not None:
        return False
    config, gone = found.config, beyond(found.config, g.links)
    rests = [_rests(found, t, control) for t in range(found.sites)]
    state, pod = moves.sources[0].states[g.srcs[0]], moves.pod(g._replace(cells=()), 0)
    for choice in itertools.product(*rests):
        there = dict(itertools.chain.from_iterable(rest.there for rest in choice))
        hopeless = not any(_has_room(found, choice, t) for t in able(config, g.links))
        found.where = f"an end of control {g}: {choice}"
        at_rest(config, state, pod, there, 0, hopeless=hopeless, gone=gone)
    return all(rests)


def _has_room(found: Modular, choice: Sequence[Rest], t: int) -> bool:
    """Whether a target has room, or this source has it there."""
    here = [rest for rest, steps in zip(choice, found.moves.cells, strict=True) if steps.t == t]
    return any(rest.own for rest in here) or all(rest.free for rest in here)


def _rests(found: Modular, t: int, control: int) -> set[Rest]:
    """Return what a cell may hold when nothing is left to do there, whether others leave its target's place free or
    not.
    """
    from tests.candidates.model.modular import FREE, TAKEN

    steps, rests = found.moves.cells[t], set()
    for cell, wake in found._idle(t, control):
        if wake:
            continue
        left, store = found.steps_left[found.sets[t][control][cell]], steps.stores[found.cells[cell].store]
        there = frozenset(left_in(found.config, steps.t, store).items())
        own = steps.used(found.cells[cell].side)
        if not left & (TAKEN if own else FREE):
            rests.add(Rest(there, bool(own), True))
        if not left & TAKEN:
            rests.add(Rest(there, bool(own), False))
    return rests


def check_runs_end(found: Modular) -> None:
    """Raise `Violation` if a run may go on for ever without a further fault.

    An endless run would stay, from some point on, among controls that lead to each other. Either only the source by
    itself acts then, or some target's pairs go round with steps of that target's in between. Both are looked for; the
    second is more than can really be, since the steps of the other targets are taken to be possible always."""
    count, alone = len(found.controls), 1 << found.sites
    if any(size > 1 for size in Counter(circles(count, [e for e, who in found.quick.items() if who & alone])).values()):
        raise Violation("L", "a source may go on for ever by itself")
    rounds = circles(count, list(found.quick))
    sizes = Counter(rounds)
    around: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for (tail, head), who in found.quick.items():
        if rounds[tail] == rounds[head]:
            around[tail].append((head, who))
    for t in range(found.sites):
        _check_target(found, t, rounds, sizes, around)


def _check_target(
    found: Modular, t: int, rounds: list[int], sizes: Mapping[int, int], around: list[list[tuple[int, int]]]
) -> None:
    """Look for a round of one target's pairs with a step of its own in it."""
    control_of: dict[int, int] = {}
    edges: list[tuple[int, int]] = []
    for control, cells in enumerate(found.sets[t]):
        for cell, number in cells.items():
            control_of[number] = control
            for head, who in around[control]:
                then = found.sets[t][head].get(cell) if who & ~(1 << t) else None
                if then is not None:
                    edges.append((number, then))
    own = [
        (tail, head)
        for tail, head in zip(found.tails, found.heads, strict=True)
        if tail in control_of and head in control_of and rounds[control_of[tail]] == rounds[control_of[head]]
    ]
    numbers = {pair: place for place, pair in enumerate(dict.fromkeys(itertools.chain.from_iterable([*own, *edges])))}
    placed = circles(len(numbers), [(numbers[a], numbers[b]) for a, b in (*own, *edges)])
    for tail, head in own:
        if placed[numbers[tail]] == placed[numbers[head]]:
            found.where = (
                f"target {t}, control {found.controls[control_of[tail]]}, {sizes[rounds[control_of[tail]]]} controls"
            )
            raise Violation("L", f"a source and target {t} may go on for ever, without any further fault")


def circles(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each node which others it goes round with: one number for all that lead to each other (Tarjan's
    algorithm).
    """
    out: list[list[int]] = [[] for _ in range(count)]
    for tail, head in edges:
        out[tail].append(head)
    found, low, order = [-1] * count, [0] * count, [0] * count
    clock, stack = 0, list[int]()
    for root in range(count):
        if order[root]:
            continue
        clock += 1
        order[root] = low[root] = clock
        stack.append(root)
        ahead = [(root, iter(out[root]))]
        while ahead:
            node, rest = ahead[-1]
            for other in rest:
                if not order[other]:
                    clock += 1
                    order[other] = low[other] = clock
                    stack.append(other)
                    ahead.append((other, iter(out[other])))
                    break
                if found[other] < 0:
                    low[node] = min(low[node], order[other])
            else:
                ahead.pop()
                if ahead:
                    low[ahead[-1][0]] = min(low[ahead[-1][0]], low[node])
                while low[node] == order[node] and found[node] < 0:
                    found[stack.pop()] = node
    return found
