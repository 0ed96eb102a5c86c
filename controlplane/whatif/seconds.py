"""Says how many seconds something takes that happens again: as many as it took in the log, or else as is usual there.

In: what the log says of Workloads and their copies. Out: seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import median

from controlplane.whatif.past import PastCopy, PastWorkload


def nth(known: Sequence[float], number: int, usual: float) -> float:
    """Return the seconds that something takes the next time: as many as it took then, or the last time that is
    known."""
    return known[min(number, len(known) - 1)] if known else usual


def usually(seconds: Iterable[float]) -> float:
    """Return the median; 0 of none."""
    found = list(seconds)
    return median(found) if found else 0.0


class UsualSeconds:
    """How long it usually takes until a copy is seen (`create`), until its job is seen (`make`) and runs (`start`),
    until one that is to be deactivated is evicted (`obey`), until what a copy that was evicted had, or a Workload, is
    free (`stop`, `drain`), and until what is removed is gone (`leave`, by what it is)."""

    def __init__(self, pasts: Sequence[PastWorkload]) -> None:
        copies = [copy for past in pasts for known in past.copies.values() for copy in known]
        self.make = usually((seen - asked).total_seconds() for past in pasts for asked, seen in past.made)
        self.create = usually((one.created - one.asked).total_seconds() for one in copies if one.created is not None)
        self.start = usually(_all(past.starts for past in pasts))
        self.drain = usually(_all(past.drains for past in pasts))
        self.stop = usually(_all(copy.stops for copy in copies))
        self.obey = usually(_all(copy.obeys for copy in copies))
        self.leave = {of: usually(_leaves(copies, of)) for of in ("Workload", "Job")}


_all = chain.from_iterable


def _leaves(copies: Iterable[PastCopy], of: str) -> Iterable[float]:
    return (copy.leaves[of] for copy in copies if of in copy.leaves)
