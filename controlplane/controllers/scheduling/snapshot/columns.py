"""Keeps node labels as columns of numbers, so that a rule over all nodes is array arithmetic.

In: nodes by row. Out: for each label key that a rule has asked for, one array with the number of each node's value (-1:
the node lacks the label), kept up to date as nodes come, change and go. Values are numbered once and keep their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from controlplane.controllers.scheduling.snapshot.objects import Node
from controlplane.kube.selectors import Requirement

MISSING = -1
T = TypeVar("T", bound=np.generic)


def grown(array: NDArray[T], rows: int, fill: int = 0) -> NDArray[T]:
    """Return an array with room for more rows, the new ones filled."""
    larger = np.full((rows, *array.shape[1:]), fill, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


class LabelColumn:
    """The values of one label key on all nodes: `codes[row]` numbers into `values`, or is -1."""

    def __init__(self, key: str, nodes: Sequence[Node], capacity: int) -> None:
        self.key = key
        self.values: list[str] = []
        self.numbers: dict[str, int] = {}
        self._codes = np.full(capacity, MISSING, dtype=np.int32)
        self.size = len(nodes)
        for row, node in enumerate(nodes):
            self._codes[row] = self._number(node.labels.get(key))

    @property
    def codes(self) -> NDArray[np.int32]:
        """The numbers of all nodes' values, by row."""
        return self._codes[: self.size]

    def number(self, value: str) -> int:
        """Return the number of a value, -1 if no node has ever had it."""
        return self.numbers.get(value, MISSING)

    def put(self, row: int, node: Node, capacity: int) -> None:
        """Set a node's row."""
        if capacity > len(self._codes):
            self._codes = grown(self._codes, capacity, MISSING)
        self._codes[row] = self._number(node.labels.get(self.key))

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
        if value is None:
            return MISSING
        number = self.numbers.get(value)
        if number is None:
            number = self.numbers[value] = len(self.values)
            self.values.append(value)
        return number


def all_of(masks: Iterable[NDArray[np.bool_]], count: int) -> NDArray[np.bool_]:
    """Return where all masks hold; everywhere if there are none."""
    result = np.ones(count, dtype=np.bool_)
    for mask in masks:
        result &= mask
    return result
