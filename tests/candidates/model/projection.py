"""What a state of the joint model says of one source, in the words of `modular`: to test that nothing is forgotten.

In: a joint state, a source, the exploration of that source. Out: the control, and for each site the cells of which one
has to be known with it. The numbers differ, since each exploration has its own; what is behind them is carried over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.candidates.model.api import Store
from tests.candidates.model.intern import freeze
from tests.candidates.model.modular import Modular
from tests.candidates.model.moves import MANAGEMENT, Moves
from tests.candidates.model.placing import without_version
from tests.candidates.model.shapes import Cell, Global
from tests.candidates.model.source_steps import SourceSteps
from tests.candidates.model.target_steps import TargetSteps

Ghost = tuple[str, int]


class Projection:
    """The way from joint states to the parts of source `s`."""

    def __init__(self, part: Modular, joint: Moves, s: int) -> None:
        self.part, self.joint, self.s = part, joint, s
        self.source: SourceSteps = part.moves.sources[0]
        self.placing = part.config.placing
        self._untouched = joint.first().pods[0]
        self._left = sorted({control.faults for control in part.controls})
        # What is behind a number stays, so it is looked for under its number here once: many states have it.
        self._sources: dict[int, int] = {}
        self._sides: dict[tuple[int, int, str], int] = {}
        self._stores: dict[tuple[int, int, str], int] = {}

    def has(self, g: Global) -> bool:
        """Whether the parts of a joint state are known together, with at least the faults left that the joint run has
        left.
        """
        options = [list(self._cells(g, site)) for site in range(self.part.sites)]
        for faults, frozen in itertools.product(self._left, self._frozen(g)):
            if any(here < there for here, there in zip(faults, g.faults, strict=True)):
                continue
            control = self.part.number(self._control(g)._replace(faults=faults, frozen=frozen))
            if control is not None and all(
                any(self.part.goes(site, control, cell) for cell in cells) for site, cells in enumerate(options)
            ):
                return True
        return False

    def _control(self, g: Global) -> Global:
        pod = g.pods[self.s]
        if self.placing and self.joint.pod(g, self.s) is not None:
            pod = self._untouched
        return g._replace(srcs=(self._source(g.srcs[self.s]),), pods=(pod,), cells=(), deviations=0)

    def _frozen(self, g: Global) -> list[tuple[int, int] | None]:
        """Return what a paused leader may still write to the pod: it may have done so, too."""
        if g.frozen is None or g.frozen[0] != self.s:
            return [None]
        writes = self.joint.sources[self.s].writes(g.frozen[1], g.now)
        return [None, *((0, number) for _, cluster, number in writes if cluster == MANAGEMENT)]

    def _source(self, src: int) -> int:
        if src not in self._sources:
            kept = self.source.kept(self.joint.sources[self.s].states[src])
            self._sources[src] = self.source.states.put(kept)
        return self._sources[src]

    def _cells(self, g: Global, site: int) -> Iterator[Cell]:
        """Return what the cell of a site may be: a paused leader may have sent any of what it had to send, or none."""
        name = self.source.views[site][1]
        steps = self.part.moves.cells[site]
        cell = g.cells[self.joint.index(self.s, steps.t)]
        bare = Cell(self._store(steps, cell.store, name), self._side(steps, cell.side, name))
        late = self._store(steps, cell.slot, name) if cell.slot >= 0 else -1
        slots = [late] if late < 0 or not self._idle(g, site, late, bare.store) else [late, -1]
        delayed = [ghost for who, number in cell.ghosts for ghost in self._request(steps, who, number, name)]
        owed = self._owed(g, steps, name)
        for count in range(len(owed) + 1):
            for some, slot in itertools.product(itertools.combinations(owed, count), slots):
                yield bare._replace(ghosts=(*sorted(some), *delayed), slot=slot)

    def _idle(self, g: Global, site: int, late: int, store: int) -> bool:
        """Whether a late sight is none of this candidate: it is as it is now, or the source would learn nothing from
        it.
        """
        src, seen = self._source(g.srcs[self.s]), self.part.moves.cells[site].stores[late]
        return late == store or self.source.see(src, seen, late, site, g.now, g.links) == src

    def _side(self, steps: TargetSteps, number: int, name: str) -> int:
        key = (steps.t, number, name)
        if key not in self._sides:
            only = {about: state for about, state in steps.sides[number].items() if name in ("", about)}
            self._sides[key] = steps.sides.put(only)
        return self._sides[key]

    def _store(self, steps: TargetSteps, number: int, name: str) -> int:
        key = (steps.t, number, name)
        if key not in self._stores:
            store = steps.stores[number]
            only: Store = {
                "candidates": {about: found for about, found in store["candidates"].items() if name in ("", about)},
                "pods": {about: found for about, found in store["pods"].items() if name in ("", about)},
                "lives": {
                    about: count for about, count in store["lives"].items() if about.endswith(f"/{name}") or not name
                },
            }
            self._stores[key] = steps.stores.put(only, freeze(only))
        return self._stores[key]

    def _request(self, steps: TargetSteps, who: str, number: int, name: str) -> list[Ghost]:
        """Return a request on its way as it is called here, if it is about this candidate."""
        if who == "t":
            return [(who, number)] if name in ("", steps.requests[number].ref.name) else []
        request = self.joint.sources[self.s].requests[number]
        asked = without_version(request) if self.placing else request
        return [(who, self.source.requests.put(asked, repr(asked)))] if name in ("", request.ref.name) else []

    def _owed(self, g: Global, steps: TargetSteps, name: str) -> list[Ghost]:
        if g.frozen is None or g.frozen[0] != self.s:
            return []
        joint = self.joint.sources[self.s]
        here = self.part.config.target(steps.t)
        writes = [number for _, cluster, number in joint.writes(g.frozen[1], g.now) if cluster == here]
        found = [ghost for number in writes for ghost in self._request(steps, "s", number, name)]
        return [("p", number) for _, number in found]
