"""One source by itself, with everything that others could do to it left open: what the exploration target by target is made of.

Its steps are those of `Moves`, in three sorts: of the source alone, of the source or a target together with one target's cell, and of the
clock. What the other sources hold is any place, at any time; how far they have come is any time.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.candidates.model.moves import MOST_AHEAD, Moves
from tests.candidates.model.shapes import Cell, Global, Move

GRAIN = 2  # seconds: lease, skew and patience are multiples of it, so every time of the model is one


class Component(Moves):
    """The steps of source 0."""

    def places(self, g: Global, t: int) -> tuple[bool, ...]:
        """Return that a place may be free, and may be another source's."""
        return True, False

    def canonical(self, g: Global) -> Global:
        """Return the state without dead requests. A paused leader stays: whether it can still do anything is asked of all targets."""
        return super().canonical(g._replace(frozen=None))._replace(frozen=g.frozen)

    def alone(self, g: Global) -> Iterator[Move]:
        """Return the steps that look at no target and change none; `g` has first cells."""
        yield from self._own(g, 0)
        yield from self._deletion(g, 0)
        yield from self._network(g)
        for move in (*self._sends(g, 0, g.srcs[0], "source 0"), *self._leaders(g)):
            if move.to.cells == g.cells and "overwrites" not in move.label:
                yield move

    def with_target(self, g: Global, t: int) -> Iterator[Move]:
        """Return the steps that look at target t or change it; the other cells of `g` are the first ones."""
        if g.links >> t & 1:
            yield from self._sight(g, 0, t)
        leaders = [(g.srcs[0], "source 0")]
        if g.frozen is not None:
            leaders.append((g.frozen[1], "the paused leader of source 0"))
            if not self.versions_checked:
                yield from self._overwrites(g, 0, g.frozen[1], t)
        for src, who in leaders:
            yield from (move for move in self._sends(g, 0, src, who) if move.to.cells[t] != g.cells[t])
        yield from self._ghosts(g, 0, t)

    def of_target(self, g: Global, t: int) -> Iterator[Move]:
        """Return the steps of a target's own: they depend on its cell, the clock and the faults that are left, and on nothing else."""
        yield from self._target(g, 0, t)

    def slowly(self, g: Global) -> Iterator[Move]:
        """Return the steps of the clock while there is something to do, which are faults: to any time that anybody may wait for."""
        left = self.spend(g, "ticks")
        if left is not None:
            for then in times(g.now):
                yield Move(f"time passes to {then}, slowly", True, g._replace(now=then, faults=left))

    def at_once(self, cell: Cell, t: int) -> Cell:
        """Return a cell once time has passed: without bindings that were on their way."""
        g = self.first()
        i = self.index(0, t)
        return self._without_late_bindings(self.with_cell(g, i, cell), i, 0)


def times(now: int) -> range:
    """Return the times that the clock may jump to: no deadline is further ahead than all that can follow a permit."""
    return range(now + GRAIN, now + MOST_AHEAD + 1, GRAIN)
