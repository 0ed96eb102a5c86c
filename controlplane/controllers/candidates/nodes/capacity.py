"""Adds up what the schedulable nodes of a target have, node by node.

In: the target's nodes as they are shown. Out: `TargetNodesCounted`. A node that says what it said costs a comparison:
kubelets report every few seconds, and a target may have thousands. Pure."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import NamedTuple

from controlplane.controllers.candidates.nodes.events import TargetNodesCounted
from controlplane.kube.fields import section
from controlplane.kube.kinds import Json, meta
from controlplane.kube.quantities import NANO, nanos, spell

Amounts = dict[str, int]


class _NodeAmounts(NamedTuple):
    """What a node says it has, and what that is in billionths."""

    said: tuple[Json, Json]
    capacity: Amounts
    allocatable: Amounts


class TargetCapacity:
    """The nodes of one target."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeAmounts] = {}
        self._capacity, self._allocatable = _Totals(), _Totals()

    def put(self, node: Json) -> None:
        """Take a node as it is now."""
        uid = str(meta(node).get("uid"))
        status = section(node, "status")
        said = section(status, "capacity", "status"), section(status, "allocatable", "status")
        before = self._nodes.get(uid)
        if section(node, "spec").get("unschedulable"):
            self.drop(uid)
        elif before is None or before.said != said:
            self.drop(uid)
            self._nodes[uid] = found = _NodeAmounts(said, _read(said[0]), _read(said[1]))
            self._add(found, 1)

    def drop(self, uid: str) -> None:
        """Forget a node."""
        if (node := self._nodes.pop(uid, None)) is not None:
            self._add(node, -1)

    def clear(self) -> None:
        """Forget all nodes."""
        for uid in list(self._nodes):
            self.drop(uid)

    def counted(self) -> TargetNodesCounted:
        """Return what they have together."""
        return TargetNodesCounted(
            nodes=len(self._nodes), capacity=self._capacity.spelled(), allocatable=self._allocatable.spelled()
        )

    def _add(self, node: _NodeAmounts, sign: int) -> None:
        self._capacity.add(node.capacity, sign)
        self._allocatable.add(node.allocatable, sign)


class _Totals:
    """Sums by resource, of those that any node has."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._having: Counter[str] = Counter()

    def add(self, amounts: Amounts, sign: int) -> None:
        """Add the amounts of a node, or take them away."""
        for resource, amount in amounts.items():
            self._sums[resource] += sign * amount
            self._having[resource] += sign

    def spelled(self) -> dict[str, str]:
        """Return the sums, rounded up to thousandths."""
        having = sorted(resource for resource, nodes in self._having.items() if nodes)
        return {resource: spell(resource, -(-self._sums[resource] * 1000 // NANO)) for resource in having}


def _read(said: Json) -> Amounts:
    """Return amounts; one that is none is left out."""
    found: Amounts = {}
    for resource, amount in said.items():
        with contextlib.suppress(ValueError):
            found[resource] = nanos(amount)
    return found
