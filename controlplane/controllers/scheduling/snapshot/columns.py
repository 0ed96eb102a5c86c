"""Keeps node labels as columns of numbers, so that a rule over all nodes is array arithmetic.

In: nodes by row. Out: for each label key that a rule has asked for, one array with the number of each node's value (-1:
the node lacks the label), kept up to date as nodes come, change and go. A value keeps its number while no node changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from controlplane.controllers.scheduling.snapshot.objects import Node
from controlplane.kube.selectors import Requirement

MISSING = -1
_SPARE = 64
T = TypeVar("T", bound=np.generic)
V = TypeVar("V")


def grown(array: NDArray[T], rows: int, fill: int = 0) -> NDArray[T]:
    """Return an array with room for more rows, the new ones filled."""
    larger = np.full((rows, *array.shape[1:]), fill, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


class Numbering(Generic[V]):
    """Values and the number of each. Those that no node has any more give their numbers back from time to time: with
    each node that is renewed come values that nobody had before."""

    def __init__(self) -> None:
        self.values: list[V] = []
        self.numbers: dict[V, int] = {}

    def add(self, value: V) -> int:
        """Return the number of a value, a new one if it has none yet."""
        number = self.numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number

    def tidy(self, codes: NDArray[np.int32], size: int) -> None:
        """Number anew what the first `size` codes name, and change these, if most of the values are in none."""
        if len(self.values) <= 2 * size + _SPARE:
            return
        used, positions = np.unique(codes[:size], return_inverse=True)
        missing = int(np.count_nonzero(used < 0))
        codes[:size] = positions - missing
        codes[size:] = MISSING
        self.values = [self.values[number] for number in used[missing:].tolist()]
        self.numbers = {value: number for number, value in enumerate(self.values)}


class LabelColumn:
    """The values of one label key on all nodes: `codes[row]` numbers into `values`, or is -1."""

    def __init__(self, key: str, nodes: Sequence[Node], capacity: int) -> None:
        self.key = key
        self._known: Numbering[str] = Numbering()
        self._codes = np.full(capacity, MISSING, dtype=np.int32)
        self.size = len(nodes)
        for row, node in enumerate(nodes):
            self._codes[row] = self._number(node.labels.get(key))

    @property
    def values(self) -> Sequence[str]:
        """The values by number; some may be of no node any more."""
        return self._known.values

    @property
    def codes(self) -> NDArray[np.int32]:
        """The numbers of all nodes' values, by row."""
        return self._codes[: self.size]

    def number(self, value: str) -> int:
        """Return the number of a value, -1 if no node has it."""
        return self._known.numbers.get(value, MISSING)

    def put(self, row: int, node: Node, capacity: int) -> None:
        """Set a node's row."""
        if capacity > len(self._codes):
            self._codes = grown(self._codes, capacity, MISSING)
        self._codes[row] = self._number(node.labels.get(self.key))
        self._known.tidy(self._codes, self.size)

    def move(self, source: int, target: int) -> None:
        """Copy a row over another."""
        self._codes[target] = self._codes[source]

    def meets(self, requirement: Requirement) -> NDArray[np.bool_]:
        """Return which nodes meet a requirement on this label."""
        met = np.zeros(len(self.values) + 1, dtype=np.bool_)  # the last is that of a missing label
        if requirement.operator in ("In", "NotIn"):
            for value in requirement.values:
                if (number := self.number(value)) >= 0:
                    met[number] = True
            if requirement.operator == "NotIn":
                met = ~met
        elif requirement.operator == "Exists":
            met[:-1] = True
        elif requirement.operator == "DoesNotExist":
            met[-1] = True
        else:
            met[:-1] = [requirement.matches({self.key: value}) for value in self.values]
        return met[self.codes]

    def _number(self, value: str | None) -> int:
        return MISSING if value is None else self._known.add(value)


def all_of(masks: Iterable[NDArray[np.bool_]], count: int) -> NDArray[np.bool_]:
    """Return where all masks hold; everywhere if there are none."""
    result = np.ones(count, dtype=np.bool_)
    for mask in masks:
        result &= mask
    return result
