"""How well a flavor would do: at once, by preemption, by borrowing, or not at all; and which of two does better.

In: what was found for each resource of a flavor. Out: modes, compared as a ClusterQueue's `flavorFungibility` says
(kubernetes-sigs/kueue pkg/scheduler/flavorassigner/flavorassigner.go)."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import NamedTuple

from controlplane.controllers.quota.engine.model import (
    PREEMPTION_OVER_BORROWING,
    TRY_NEXT_FLAVOR,
    FlavorFungibility,
)


class AssignmentMode(IntEnum):
    """What an assignment needs; the better the larger."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


class Possibility(IntEnum):
    """What a flavor needs for a resource, as fine as flavors are compared; the better the larger.

    `NO_CANDIDATES`: preemption would help, but there is nobody to preempt. `RECLAIM`: everybody to preempt is in
    another ClusterQueue.
    """

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4

    @property
    def text(self) -> str:
        """Kueue's name of it."""
        return self.name.title().replace("_", "")

    @property
    def mode(self) -> AssignmentMode:
        """The mode of an assignment with it."""
        if self is Possibility.NO_FIT:
            return AssignmentMode.NO_FIT
        return AssignmentMode.FIT if self is Possibility.FIT else AssignmentMode.PREEMPT


class Granular(NamedTuple):
    """A possibility, and how far away the quota is: 0 in the ClusterQueue itself, more in larger Cohorts."""

    possibility: Possibility
    borrowing: int


WORST = Granular(Possibility.NO_FIT, sys.maxsize)
BEST = Granular(Possibility.FIT, 0)


def is_preferred(a: Granular, b: Granular, fungibility: FlavorFungibility) -> bool:
    """Return whether `a` does better than `b`."""
    if Possibility.NO_FIT in (a.possibility, b.possibility):
        return a.possibility is not Possibility.NO_FIT
    hopeless = Possibility.NO_CANDIDATES
    if (a.possibility is hopeless) != (b.possibility is hopeless):
        return a.possibility is not hopeless
    if fungibility.preference == PREEMPTION_OVER_BORROWING:
        return (-a.borrowing, a.possibility) > (-b.borrowing, b.possibility)
    return (a.possibility, -a.borrowing) > (b.possibility, -b.borrowing)


def tries_next(found: Granular, fungibility: FlavorFungibility) -> bool:
    """Return whether the next flavor is tried after one that does so well."""
    if found.possibility <= Possibility.NO_CANDIDATES:
        return True
    if found.possibility < Possibility.FIT and fungibility.when_can_preempt == TRY_NEXT_FLAVOR:
        return True
    return found.borrowing > 0 and fungibility.when_can_borrow == TRY_NEXT_FLAVOR
