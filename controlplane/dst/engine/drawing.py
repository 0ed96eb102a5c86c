"""What plans of all scenes draw alike: kinds of trouble by their weights, when each begins and how long it lasts.

In: a source of random numbers, and a scene's table. Out: names, times, numbered steps. The order in which numbers are
drawn is part of what a seed means."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from controlplane.dst.engine.steps import HORIZON, Step

Trouble = Mapping[str, tuple[int, float, float]]
"""How often each kind is drawn, and how long it lasts: (weight, shortest, longest)."""

#: What goes wrong on the way to an API server.
ON_THE_WAY = frozenset(
    [
        "partition",
        "refuse",
        "mute",
        "slow",
        "lose-replies",
        "throttle",
        "errors",
        "late-errors",
        "conflicts",
        "echo",
        "cut",
    ]
)
#: What happens to a process.
ON_PROCESS = frozenset({"crash", "stop", "pause", "clock"})


def kinds(source: random.Random, table: Trouble, count: int) -> list[str]:
    """Draw so many kinds of a table."""
    return source.choices(list(table), [weight for weight, _, _ in table.values()], k=count)


def span(source: random.Random, table: Trouble, kind: str, earliest: float = 0.0) -> tuple[float, float]:
    """Draw when something of a kind begins, and how long it lasts."""
    _, shortest, longest = table[kind]
    return round(source.uniform(earliest, HORIZON), 3), round(source.uniform(shortest, longest), 1)


def numbered(steps: Iterable[Step], first: int = 1) -> list[Step]:
    """Return steps by time, numbered from `first` on."""
    in_order = sorted(steps, key=lambda step: step.at)
    return [replace(step, number=number) for number, step in enumerate(in_order, start=first)]


def with_later(steps: list[Step], more: Iterable[Step]) -> list[Step]:
    """Return the steps of an edition and those that a later one adds, which are numbered behind them, by time."""
    return sorted(steps + numbered(more, len(steps) + 1), key=lambda step: step.at)


def scenes(
    source: random.Random, table: Mapping[str, tuple[int, Callable[..., list[Step]]]], count: int, *cast: object
) -> list[Step]:
    """Draw so many scenes of a table of weights and scenes, and the steps of each, which are about the same `cast`."""
    drawn = source.choices(list(table), [weight for weight, _ in table.values()], k=count)
    return [step for kind in drawn for step in table[kind][1](source, *cast)]
