"""Trouble on demand between a simulated API server and its clients, the same on every run with the same seed and the
same requests.

In: faults, added and removed at run time, each narrowed by verb, resource or a predicate, limited by a number of
strikes or a fraction. Out: for each request the server asks which faults strike it. Nothing here touches a connection;
`ApiServer` does what a fault says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

FaultKind = Literal["cut", "half-open", "slow", "status", "gone", "duplicate", "reply-lost"]


@dataclass(frozen=True, slots=True)
class MatchedRequest:
    """What one request is about: Kubernetes' verb (`get`, `list`, `watch`, `create`, …), `plural.group`, subresource
    and place.

    `resource` is empty for discovery, health and other paths that are no resource.
    """

    verb: str
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Narrowing(TypedDict, total=False):
    """Whom a fault may strike and how often; see `Faults`."""

    verbs: Collection[str]
    resources: Collection[str]
    when: Callable[[MatchedRequest], bool]
    times: int
    fraction: float


@dataclass(slots=True, eq=False, kw_only=True)
class Fault:
    """One fault: what it does, whom it may strike, how often still (`left`, None: always) and with which
    probability.
    """

    kind: FaultKind
    verbs: frozenset[str]
    resources: frozenset[str]
    when: Callable[[MatchedRequest], bool] | None
    left: int | None
    fraction: float
    seconds: float = 0.0
    status: int = 0
    retry_after: float | None = None
    inline: bool = False

    @property
    def narrow(self) -> bool:
        """Whether it strikes only some requests."""
        return bool(self.verbs or self.resources or self.when or self.left is not None or self.fraction < 1)

    def fits(self, asked: MatchedRequest) -> bool:
        """Whether it may strike a request."""
        return (
            self.left != 0
            and (not self.verbs or asked.verb in self.verbs)
            and (not self.resources or asked.resource in self.resources)
            and (self.when is None or self.when(asked))
        )


class Faults:
    """The faults of one server. Every method that adds one takes the same narrowing and returns the fault, for
    `remove`.

    Narrowing: `verbs` and `resources` (`plural.group`; empty: all), `when` (a predicate of the request), `times` (how
    many strikes; None: until removed), `fraction` (the probability of each strike, drawn from the seeded generator).
    `journal` keeps every strike, in order.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self._faults: list[Fault] = []
        self._watchers: list[Callable[[Fault], None]] = []
        self.journal: list[tuple[FaultKind, MatchedRequest]] = []

    def cut(self, **narrowing: Unpack[Narrowing]) -> Fault:
        """Reset connections: new ones, the ones that carry a request, and those of open watches."""
        return self._add("cut", narrowing)

    def half_open(self, **narrowing: Unpack[Narrowing]) -> Fault:
        """Accept and never answer; open watches fall silent without being closed, and stay so."""
        return self._add("half-open", narrowing)

    def slow(self, seconds: float, **narrowing: Unpack[Narrowing]) -> Fault:
        """Wait so long before a request is looked at."""
        return self._add("slow", narrowing, seconds=seconds)

    def storm(self, status: int, *, retry_after: float | None = None, **narrowing: Unpack[Narrowing]) -> Fault:
        """Answer with a status (5xx, 429) instead of doing what was asked; `retry_after` seconds go into the header."""
        return self._add("status", narrowing, status=status, retry_after=retry_after)

    def gone(self, *, inline: bool = False, **narrowing: Unpack[Narrowing]) -> Fault:
        """Answer the next watch with 410: as the HTTP status, or `inline` as an ERROR line."""
        return self._add("gone", {"times": 1, **narrowing}, inline=inline)

    def duplicate(self, **narrowing: Unpack[Narrowing]) -> Fault:
        """Send lines of watches twice; `times` and `fraction` count lines."""
        return self._add("duplicate", narrowing)

    def reply_lost(self, **narrowing: Unpack[Narrowing]) -> Fault:
        """Carry out the next write, then reset the connection instead of answering."""
        return self._add("reply-lost", {"times": 1, **narrowing})

    def remove(self, fault: Fault) -> None:
        """End a fault; does nothing if it has ended already."""
        if fault in self._faults:
            self._faults.remove(fault)

    def clear(self) -> None:
        """End all faults."""
        self._faults.clear()

    def strike(self, kind: FaultKind, asked: MatchedRequest) -> Fault | None:
        """Return the fault of a kind that strikes a request, using up one of its strikes; None if none does."""
        for fault in self._faults:
            if fault.kind == kind and fault.fits(asked):
                if fault.fraction < 1 and self._random.random() >= fault.fraction:
                    continue
                if fault.left is not None:
                    fault.left -= 1
                self.journal.append((kind, asked))
                return fault
        return None

    def holds(self, kind: FaultKind, asked: MatchedRequest | None = None) -> bool:
        """Whether a fault of a kind is on for a request, or, without one, for everything; uses up nothing."""
        return any(
            fault.kind == kind and (not fault.narrow if asked is None else fault.fits(asked)) for fault in self._faults
        )

    def on_add(self, watcher: Callable[[Fault], None]) -> None:
        """Call `watcher` with every fault that is added, so that open connections feel it at once."""
        self._watchers.append(watcher)

    def _add(
        self,
        kind: FaultKind,
        narrowing: Narrowing,
        *,
        seconds: float = 0.0,
        status: int = 0,
        retry_after: float | None = None,
        inline: bool = False,
    ) -> Fault:
        fault = Fault(
            kind=kind,
            verbs=frozenset(narrowing.get("verbs", ())),
            resources=frozenset(narrowing.get("resources", ())),
            when=narrowing.get("when"),
            left=narrowing.get("times"),
            fraction=narrowing.get("fraction", 1.0),
            seconds=seconds,
            status=status,
            retry_after=retry_after,
            inline=inline,
        )
        self._faults.append(fault)
        for watcher in self._watchers:
            watcher(fault)
        return fault
