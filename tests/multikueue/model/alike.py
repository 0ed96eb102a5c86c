"""One state for all that differ only by which worker is which.

Workers are alike: they begin alike, the same can happen to each, and our process treats them alike. A state is
therefore explored in one order of its workers only (`Alike.least`), that of their objects. Two things of the product
know workers apart. Of two copies that were admitted in the same second the one wins that was seen first: the log keeps
in which order they were seen (`knowledge.kept`). And of two that have *ended* the first by name counts: a log that
knows of two ends is left as it is, and explored in every order (`Alike.variants`). That both explorations reach the
same is tested."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, pairwise, permutations, product
from typing import Any

from tests.candidates.model.intern import Interner
from tests.multikueue.model.api import Api
from tests.multikueue.model.process import Process
from tests.multikueue.model.values import Order, exchanged_json
from tests.multikueue.model.world import Frame, Global, Store


class Alike:
    """Exchanges the workers of states."""

    def __init__(self, clusters: int, process: Process, stores: Interner[Store], frames: Interner[Frame]) -> None:
        self._clusters, self._process = clusters, process
        self._stores, self._frames = stores, frames
        self._orders = list(permutations(range(clusters)))
        self._memo: dict[Any, Any] = {}

    def variants(self, g: Global) -> Iterable[Global]:
        """Return what a state is explored as."""
        if self._process.ended_on(g[1]) > 1:
            return {self.exchanged(g, order) for order in self._orders}
        return (self.least(g),)

    def least(self, g: Global) -> Global:
        """Return the least of the states that differ from this one only by which worker is which."""
        keys = self._keys(g[0])
        marks = [(g[3 + place], keys[place]) for place in range(self._clusters)]
        if all(before < after for before, after in pairwise(marks)):
            return g
        places = sorted(range(self._clusters), key=marks.__getitem__)
        groups = [list(permutations(group)) for _, group in groupby(places, key=marks.__getitem__)]
        if all(len(group) == 1 for group in groups):
            return self.exchanged(g, _order(places))
        return min(
            self.exchanged(g, _order([place for group in chosen for place in group])) for chosen in product(*groups)
        )

    def exchanged(self, g: Global, order: Order) -> Global:
        """Return a state with its workers in another order."""
        if order == self._orders[0]:
            return g
        sites = [0] * self._clusters
        for place, to in enumerate(order):
            sites[to] = g[3 + place]
        return self._frame(g[0], order), self._process.exchanged(g[1], order), self._home(g[2], order), *sites

    def _keys(self, frame: int) -> list[Any]:
        """Return what the frame says of each worker."""
        if frame not in self._memo:
            f, count = self._frames[frame], self._clusters
            sets = (f.links, f.stale, f.given, f.given >> count, f.over, f.adopted, f.asked)
            self._memo[frame] = [
                (
                    tuple(one >> place & 1 for one in sets),
                    f.saved[place],
                    f.hidden[place],
                    tuple(request for where, request in f.ghosts if where == place),
                )
                for place in range(count)
            ]
        found: list[Any] = self._memo[frame]
        return found

    def _frame(self, frame: int, order: Order) -> int:
        key = ("frame", frame, order)
        if key not in self._memo:
            f, count = self._frames[frame], self._clusters
            saved, hidden = list(f.saved), list(f.hidden)
            for place, to in enumerate(order):
                saved[to], hidden[to] = f.saved[place], f.hidden[place]
            ghosts = sorted(
                (order[where], request) if where >= 0 else (where, self._process.exchanged_request(request, order))
                for where, request in f.ghosts
            )
            after = f._replace(
                links=_bits(f.links, order),
                stale=_bits(f.stale, order),
                given=_bits(f.given, order) | _bits(f.given >> count, order) << count,
                over=_bits(f.over, order) | f.over >> count << count,
                adopted=_bits(f.adopted, order),
                asked=_bits(f.asked, order),
                saved=tuple(saved),
                hidden=tuple(hidden),
                ghosts=tuple(ghosts),
            )
            self._memo[key] = self._frames.put(after, after)
        return int(self._memo[key])

    def _home(self, home: int, order: Order) -> int:
        key = ("home", home, order)
        if key not in self._memo:
            self._memo[key] = put(self._stores, exchanged_json(self._stores[home], order))
        return int(self._memo[key])


def put(stores: Interner[Store], store: Store) -> int:
    """Return the number of a cluster's objects."""
    return stores.put(store, Api.encoded(store))


def _bits(bits: int, order: Order) -> int:
    return sum((bits >> place & 1) << to for place, to in enumerate(order))


def _order(places: list[int]) -> Order:
    """Return where each worker goes when they stand in this row."""
    return tuple(places.index(place) for place in range(len(places)))
