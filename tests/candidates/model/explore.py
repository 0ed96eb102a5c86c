"""The exploration: every state that can be reached, each held against the rules, and from each the way to an end.

Breadth first, so that the path to a violation is a shortest one. Liveness: every state without a further step is as it
should be, and from every state such a one can be reached without a fault; the graph is finite, so a fair run gets
there."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tests.candidates.model.rules import check, settled
from tests.candidates.model.world import Config, Violation

Rule = Callable[[Any, Any], None]


class Steps(Protocol):
    """What can happen: the first state, and what can follow each."""

    config: Config

    def first(self) -> Any:
        """Return the first state."""

    def of(self, g: Any) -> Iterator[Any]:
        """Return every step from a state: its label, whether it is a fault, where it leads."""


@dataclass(frozen=True)
class Result:
    """What an exploration found. `complete`: every state within the bounds was seen. `trace` leads to the violation, if
    there is one.
    """

    config: Config
    states: int
    edges: int
    depth: int
    ends: int
    seconds: float
    complete: bool
    violation: Violation | None = None
    trace: tuple[str, ...] = ()


class _Graph:
    """What was seen so far: states with the way to them, and the edges that need no fault."""

    def __init__(self, start: Any) -> None:
        self.numbers: dict[Any, int] = {start: 0}
        self.states = [start]
        self.parents, self.labels, self.depths = array("l", [-1]), array("l", [0]), array("l", [0])
        self.texts = {"": 0}
        self.tails, self.heads = array("l"), array("l")
        self.ends: list[int] = []
        self.edges = 0
        self.complete = True

    def add(self, to: Any, index: int, label: str) -> int:
        """Take in a new state; return its number."""
        number = self.numbers[to] = len(self.states)
        self.states.append(to)
        self.parents.append(index)
        self.labels.append(self.texts.setdefault(label, len(self.texts)))
        self.depths.append(self.depths[index] + 1)
        return number

    def trace(self, number: int) -> tuple[str, ...]:
        """Return the steps that lead to a state."""
        steps, texts = [], list(self.texts)
        while number > 0:
            steps.append(texts[self.labels[number]])
            number = self.parents[number]
        return tuple(reversed(steps))


def explore(moves: Steps, *, progress: int = 0, safe: Rule = check, over: Rule = settled) -> Result:
    """Explore a configuration; stop at the first violation: `safe` is asked of every state, `over` of those without a
    further step.
    """
    began = time.perf_counter()
    graph, index = _Graph(moves.first()), 0
    violation: Violation | None = None
    at = 0
    while index < len(graph.states) and violation is None:
        if progress and index % progress == 0:
            spent = time.perf_counter() - began
            print(f"{index} of {len(graph.states)}, depth {graph.depths[index]}, {spent:.0f} s", flush=True)
        violation, at = _expand(moves, graph, index, safe, over)
        index += 1
    if violation is None and graph.complete:
        stuck = _stuck(len(graph.states), graph.tails, graph.heads, graph.ends)
        if stuck is not None:
            violation, at = Violation("L", "from here nothing leads to an end, without any further fault"), stuck
    return Result(
        moves.config,
        len(graph.states),
        graph.edges,
        max(graph.depths),
        len(graph.ends),
        time.perf_counter() - began,
        graph.complete,
        violation,
        graph.trace(at) if violation is not None else (),
    )


def _expand(moves: Steps, graph: _Graph, index: int, safe: Rule, over: Rule) -> tuple[Violation | None, int]:
    """Take in all that can follow a state; return the violation that is found, and in which state."""
    g, quiet, at = graph.states[index], True, index
    try:
        for label, fault, to in moves.of(g):
            graph.edges += 1
            quiet = quiet and fault
            found = graph.numbers.get(to)
            if found is None:
                if len(graph.states) >= moves.config.most_states:
                    graph.complete = False
                    continue
                found = at = graph.add(to, index, label)
                safe(moves, to)
                at = index
            if not fault:
                graph.tails.append(index)
                graph.heads.append(found)
        if quiet:
            graph.ends.append(index)
            over(moves, g)
    except Violation as violation:
        return violation, at
    return None, index


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
