"""The exploration: every state that can be reached, each held against the rules, and from each the way to an end.

Breadth first, so that the path to a violation is a shortest one. Liveness: every state without a further step is as it should be, and from
every state such a one can be reached without a fault; the graph is finite, so a fair run gets there.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass

from tests.candidates.model.moves import Global, Moves
from tests.candidates.model.rules import check, settled
from tests.candidates.model.world import Config, Violation


@dataclass(frozen=True)
class Result:
    """What an exploration found. `complete`: every state within the bounds was seen. `trace` leads to the violation, if there is one."""

    config: Config
    states: int
    edges: int
    depth: int
    ends: int
    seconds: float
    complete: bool
    violation: Violation | None = None
    trace: tuple[str, ...] = ()


def explore(moves: Moves, *, progress: int = 0) -> Result:
    """Explore a configuration; stop at the first violation."""
    began = time.perf_counter()
    config = moves.config
    start = moves.first()
    numbers: dict[Global, int] = {start: 0}
    states = [start]
    parents, labels = array("l", [-1]), [""]
    depths = array("l", [0])
    tails, heads = array("l"), array("l")  # edges without a fault
    ends: list[int] = []
    edges = index = 0
    complete = True

    def result(violation: Violation | None = None, at: int = 0, last: str = "") -> Result:
        trace = [last] if last else []
        while violation is not None and at > 0:
            trace.append(labels[at])
            at = parents[at]
        seconds = time.perf_counter() - began
        deepest = max(depths)
        return Result(
            config, len(states), edges, deepest, len(ends), seconds, complete, violation, tuple(reversed(trace))
        )

    while index < len(states):
        g = states[index]
        if progress and index % progress == 0:
            print(f"{index} of {len(states)}, depth {depths[index]}, {time.perf_counter() - began:.0f} s", flush=True)
        quiet = True
        try:
            for label, fault, to in moves.of(g):
                edges += 1
                quiet = quiet and fault
                found = numbers.get(to)
                if found is None:
                    if len(states) >= config.most_states:
                        complete = False
                        continue
                    found = numbers[to] = len(states)
                    states.append(to)
                    parents.append(index)
                    labels.append(label)
                    depths.append(depths[index] + 1)
                    try:
                        check(moves, to)
                    except Violation as violation:
                        return result(violation, found)
                if not fault:
                    tails.append(index)
                    heads.append(found)
            if quiet:
                ends.append(index)
                settled(moves, g)
        except Violation as violation:
            return result(violation, index)
        index += 1
    stuck = _stuck(len(states), tails, heads, ends)
    if stuck is not None and complete:
        return result(Violation("L", "from here nothing leads to an end, without any further fault"), stuck)
    return result()


def _stuck(count: int, tails: array[int], heads: array[int], ends: list[int]) -> int | None:
    """Return a state from which no end can be reached, None if there is none."""
    into = array("l", bytes(8 * (count + 1)))
    for head in heads:
        into[head + 1] += 1
    for number in range(count):
        into[number + 1] += into[number]
    sources, fill = array("l", bytes(8 * len(heads))), array("l", into)
    for tail, head in zip(tails, heads, strict=True):
        sources[fill[head]] = tail
        fill[head] += 1
    good = bytearray(count)
    ahead = list(ends)
    for number in ends:
        good[number] = 1
    while ahead:
        head = ahead.pop()
        for place in range(into[head], into[head + 1]):
            tail = sources[place]
            if not good[tail]:
                good[tail] = 1
                ahead.append(tail)
    bad = good.find(0)
    return None if bad < 0 else bad
