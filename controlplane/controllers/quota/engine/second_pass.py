"""Who has quota and is considered once more: for a topology assignment that was delayed, or in the place of nodes that
failed.

In: workloads that need that, and tries that failed. Out: when each is tried next. The first try comes a second after a
workload needs it, each further one after twice as long, up to half a minute (kubernetes-sigs/kueue
pkg/cache/queue/second_pass_queue.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FIRST, MOST = 1.0, 30.0


class Try(NamedTuple):
    """The next try of a workload: the how manieth it is, and not before which moment."""

    number: int
    due: float


class SecondPass:
    """The next try of each workload, by its namespace and name."""

    def __init__(self, tries: Mapping[str, Try] | None = None) -> None:
        self.tries: dict[str, Try] = dict(tries or {})

    def need(self, key: str, now: float) -> None:
        """Note that a workload needs another pass; one of which that is known keeps its moment."""
        if key not in self.tries:
            self.tries[key] = Try(1, now + FIRST)

    def failed(self, key: str, now: float) -> None:
        """Note that a try has failed."""
        number = self.tries[key].number + 1 if key in self.tries else 1
        self.tries[key] = Try(number, now + min(MOST, FIRST * 2 ** min(number - 1, 10)))

    def drop(self, key: str) -> None:
        """Note that a workload needs no other pass, or is gone."""
        self.tries.pop(key, None)
