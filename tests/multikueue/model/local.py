"""What clusters do by themselves, as a whole: everything that Kueue and the jobs on one can make of its objects before
anybody else looks at them."""

from __future__ import annotations

from tests.candidates.model.intern import Interner
from tests.multikueue.model import elastic_kueue, kueue
from tests.multikueue.model.alike import put
from tests.multikueue.model.world import Store


class Local:
    """The steps of clusters, by the numbers of their objects."""

    def __init__(self, stores: Interner[Store], *, elastic: bool) -> None:
        self._stores = stores
        self._rules = (elastic_kueue.home_steps, elastic_kueue.site_steps)
        if not elastic:
            self._rules = (kueue.home_steps, kueue.site_steps)
        self._next: dict[int, list[tuple[str, int]]] = {}
        self._ahead: dict[int, list[tuple[str, int]]] = {}

    def steps(self, number: int) -> list[tuple[str, int]]:
        """Return what a cluster can do next, and the number of its objects then."""
        if number not in self._next:
            store = self._stores[number]
            steps = self._rules[0 if kueue.is_home(store) else 1]
            found = [(label, put(self._stores, after)) for label, after in steps(store)]
            self._next[number] = [one for one in found if one[1] != number]
        return self._next[number]

    def ahead(self, number: int) -> list[tuple[str, int]]:
        """Return all that a cluster can come to by itself, with the steps there; first what it is now."""
        if number not in self._ahead:
            found = {number: ""}
            line = [number]
            for one in line:
                for label, after in self.steps(one):
                    if after not in found:
                        found[after] = f"{found[one]}{label}, "
                        line.append(after)
            self._ahead[number] = [(label, one) for one, label in found.items()]
        return self._ahead[number]
