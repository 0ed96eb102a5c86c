"""An exploration that covers every interleaving of any number of sources, because it forgets how they, and their
candidates, hang together.

Two things are forgotten. Both only add behaviour, so a rule that holds here holds in every interleaving of the joint
model:

- *The other sources.* Sources meet at the places of a target, at the clock, and in the faults that a run may have. Here
  a place may be free or taken whenever a scheduler looks, time may stop anywhere, and all faults of the run may be this
  source's (`component`).
- *Which cells go together.* A *control* is what the source has: its stream, its pod, a paused leader, the network, the
  clock, the faults that are left. A *cell* is what one target (a *site*) holds of it. With each control, and each site,
  go the cells that were seen with it. A step of one cell, or of the source with it, takes the cells of the other sites
  along, all of them.

Where only the placing is explored (`placing`), each candidate that there can be has a site of its own: a target and an
epoch. The source sees them one by one then, as a watch delivers them, and decides when it likes: after one sight, or
several.

Rules about one cell are asked of each; S1, about two, of every two cells that go with one control. `ends` asks for
liveness. S7 follows from three rules about one cell: only the word "reserve", which is said while a place is free by
all sources' books, takes a place; it takes one; and what runs is in the books."""

from __future__ import annotations

import time
from array import array
from collections import deque
from dataclasses import dataclass

from controlplane.controllers.candidates.source.state import SourceState
from tests.candidates.model.component import GRAIN, Component
from tests.candidates.model.ends import check_ends, check_runs_end
from tests.candidates.model.moves import Moves
from tests.candidates.model.rest import waits_for_absent
from tests.candidates.model.rules import excused, facts, running
from tests.candidates.model.shapes import Cell, Global, Move
from tests.candidates.model.world import Config, Violation

How = tuple[tuple[str, int], ...]
AS_IT_IS: How = ()
LATER: How = (("later", 0),)
"""What happens to a cell while the control changes: nothing, time passes, or a paused leader may still send these
requests to it."""
LATEST = 160  # seconds; every run is over long before
FREE, TAKEN = 1, 2
"""A cell has a further step without a fault if a place is free, and if it is another source's."""


@dataclass(frozen=True)
class Proof:
    """What was found. `pairs` are the cells of all controls; `ends` the controls in which nothing is left to do."""

    config: Config
    controls: int
    cells: int
    pairs: int
    steps: int
    ends: int
    latest: int
    seconds: float
    cpu: float
    violation: Violation | None = None
    where: str = ""


class Modular:
    """The least sets that are closed under all steps. `sets[t][control]` has the cells of target t, each with its
    number.
    """

    def __init__(self, config: Config, *, of: Moves | None = None, source: int = 0) -> None:
        """Take one source of a configuration; `of` the joint model whose source it is to be, so that numbers mean the
        same in both.
        """
        self.config, self.moves = config, Component(config)
        self.sites = len(self.moves.cells)
        if of is not None:
            self.moves.share(of, source)
        self.controls: list[Global] = []
        self.cells: list[Cell] = []
        self._controls: dict[Global, int] = {}
        self._cells: dict[Cell, int] = {}
        self.sets: list[list[dict[int, int]]] = [[] for _ in range(self.sites)]
        self.busy = bytearray()  # by control: it has a step of its own without a fault
        self.steps_left = bytearray()  # by pair: FREE and TAKEN
        self.quick: dict[
            tuple[int, int], int
        ] = {}  # controls that follow each other without a fault: by whose steps, a bit each
        self.tails, self.heads = (
            array("l"),
            array("l"),
        )  # pairs that follow each other without a fault, by a step with the cell
        # By target and control: with which others its cells go too, and what happens to them on the way.
        self._along: list[list[set[tuple[int, How]]]] = [[] for _ in range(self.sites)]
        self._work: deque[tuple[int, int, int]] = deque()
        self._fresh: deque[int] = deque()
        self._own: dict[tuple[int, int, int, tuple[int, ...], bool, bool], list[tuple[Move, int]]] = {}
        self.live: list[dict[int, set[str]]] = [{} for _ in range(self.sites)]  # by control: who runs or could be bound
        self.steps = 0
        self.where = ""
        first = self.moves.first()
        self._first = first.cells
        start = self._control(first)
        for t, cell in enumerate(first.cells):
            self._add(t, start, self._cell(cell))

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _control(self, g: Global) -> int:
        bare = g._replace(cells=())
        found = self._controls.get(bare)
        if found is None:
            found = self._controls[bare] = len(self.controls)
            self.controls.append(bare)
            self.busy.append(0)
            for t in range(self.sites):
                self.sets[t].append({})
                self._along[t].append(set())
            self._fresh.append(found)
        return found

    def number(self, bare: Global) -> int | None:
        """Return the number of a control, None if it cannot be."""
        return self._controls.get(bare)

    def goes(self, t: int, control: int, cell: Cell) -> bool:
        """Whether a cell of a target can go with a control."""
        return self._cells.get(cell) in self.sets[t][control]

    def _cell(self, cell: Cell) -> int:
        found = self._cells.get(cell)
        if found is None:
            found = self._cells[cell] = len(self.cells)
            self.cells.append(cell)
        return found

    def whole(self, control: int, t: int, cell: int) -> Global:
        """Return a state with one target's cell in its place, and the first ones elsewhere."""
        cells = (*self._first[:t], self.cells[cell], *self._first[t + 1 :])
        return self.controls[control]._replace(cells=cells)

    def _add(self, t: int, control: int, cell: int) -> int:
        known = self.sets[t][control]
        number = known.get(cell)
        if number is None:
            number = known[cell] = len(self.steps_left)
            self.steps_left.append(0)
            self._work.append((t, control, cell))
        return number

    def _take_along(self, t: int, control: int, to: int, how: How = AS_IT_IS) -> None:
        """Let whatever goes with a control go with another."""
        along = self._along[t][control]
        if (to == control and how == AS_IT_IS) or (to, how) in along:
            return
        along.add((to, how))
        for cell in list(self.sets[t][control]):
            self._add(t, to, self._turned(t, cell, how))

    def _turned(self, t: int, cell: int, how: How) -> int:
        if how == AS_IT_IS or (how == LATER and not self.cells[cell].ghosts):
            return cell
        if how == LATER:
            return self._cell(self.moves.at_once(self.cells[cell], t))
        return self._cell(self.moves.also_sent(self.cells[cell], t, how))

    # --- the fixpoint ------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Find all that can be and hold it against the rules; return how many controls have an end. Raises
        `Violation`.
        """
        grown = -1
        while grown != len(self.steps_left):
            grown = len(self.steps_left)
            while self._fresh or self._work:
                if self._fresh:
                    self._from_control(self._fresh.popleft())
                else:
                    self._from_cell(*self._work.popleft())
            for control in range(len(self.controls)):
                self._time_passes(control)
        check_runs_end(self)
        return check_ends(self)

    def _from_control(self, control: int) -> None:
        g = self.controls[control]._replace(cells=self._first)
        self.where = f"control {g}"
        source = self.moves.sources[0]
        if source.wake(g.srcs[0], g.now, g.links) == g.srcs[0]:
            wake = source.wake_of(g.srcs[0], g.now, g.links)
            waits_for_absent(self.config, source.states[g.srcs[0]], wake, g.now, g.links)
        for move in self.moves.alone(g):
            to = self._control(move.to)
            self._note(control, to, move, self.sites)
            self.busy[control] |= not move.fault
            for t in range(self.sites):
                self._take_along(t, control, to)
        for move in self.moves.slowly(g):
            to = self._control(move.to)
            for t in range(self.sites):
                self._take_along(t, control, to, LATER)
        paused = self.moves.paused(g)
        if paused is not None:
            for t, sends in enumerate(paused[1]):
                self._take_along(t, control, self._control(paused[0]), sends or AS_IT_IS)

    def _note(self, control: int, to: int, move: Move, actor: int) -> None:
        self.steps += 1
        if not move.fault and to != control:
            self.quick[control, to] = self.quick.get((control, to), 0) | 1 << actor

    def _from_cell(self, t: int, control: int, cell: int) -> None:
        for to, how in list(self._along[t][control]):
            self._add(t, to, self._turned(t, cell, how))
        g = self.whole(control, t, cell)
        self.where = f"target {t}, {g}"
        self._check(t, control, cell, g)
        number = self.sets[t][control][cell]
        for move, after in self._steps(t, control, cell, g):
            faults = move.to.faults
            bare = move.to._replace(cells=(), now=g.now) if after < 0 else g._replace(cells=(), faults=faults)
            to = self._control(bare)
            now = self._cell(move.to.cells[t]) if after < 0 else after
            self._note(control, to, move, t)
            self._check_place(t, cell, now, move)
            then = self._add(t, to, now)
            if not move.fault:
                self.steps_left[number] |= self._needs(t, move)
                if then != number:
                    self.tails.append(number)
                    self.heads.append(then)
            for other in range(self.sites):
                if other != t:
                    self._take_along(other, control, to)

    def _steps(self, t: int, control: int, cell: int, g: Global) -> list[tuple[Move, int]]:
        """Return the steps of a cell: a target's own with the number of the cell that follows, those with the source
        with -1.
        """
        target = self.moves.cells[t].t
        key = (t, cell, g.now, g.faults, self.config.silent(g.links, target), self.config.forbids(g.links, target))
        own = self._own.get(key)
        if own is None:
            moves = (move._replace(to=self.moves.canonical(move.to)) for move in self.moves.of_target(g, t))
            own = self._own[key] = [(move, self._cell(move.to.cells[t])) for move in moves]
        joint = (move._replace(to=self.moves.canonical(move.to)) for move in self.moves.with_target(g, t))
        return [*own, *((move, -1) for move in joint)]

    def _needs(self, t: int, move: Move) -> int:
        if move.label.startswith(f"target {t}: reserve"):
            return FREE
        if move.label.startswith(f"target {t}: full") and self.moves.cells[t].t not in self.config.preempt:
            return TAKEN
        return FREE | TAKEN

    def _time_passes(self, control: int) -> None:
        """Let time pass where nothing is left to do before the next deadline, whoever it is that waits for it."""
        g = self.controls[control]
        if self.busy[control]:
            return
        wake = self.moves.sources[0].wake_of(g.srcs[0], g.now, g.links)
        wakes = [self._idle(t, control) for t in range(self.sites)]
        for at in (wake or 0, *(until for idle in wakes for _, until in idle)):
            if at % GRAIN:
                raise AssertionError(f"somebody looks again at {at}, which is not a multiple of {GRAIN}")
        if not self.moves.every_time and not self._permitted(control, wakes):
            return
        for then in self.moves.times(g.now):
            if then > LATEST:
                self.where = f"control {g}"
                raise Violation("L", "a time is waited for again and again")
            if wake is not None and g.now < wake < then:
                return
            kept = [[cell for cell, until in idle if not g.now < until < then] for idle in wakes]
            if all(kept):
                to = self._control(g._replace(now=then))
                for t, cells in enumerate(kept):
                    for cell in cells:
                        self._add(t, to, self._turned(t, cell, LATER))

    def _permitted(self, control: int, idle: list[list[tuple[int, int]]]) -> bool:
        """Whether a permit is about that is not over, or the source waits for a time: only then it matters how late it
        is.
        """
        g = self.controls[control]
        source, src = self.moves.sources[0], g.srcs[0]
        if self.moves.lasts(src, g.now) or source.wake_of(src, g.now, g.links) is not None:
            return True
        return any(self.moves.pending(t, self.cells[cell]) > g.now for t, cells in enumerate(idle) for cell, _ in cells)

    def _idle(self, t: int, control: int) -> list[tuple[int, int]]:
        """Return the cells without a further step, if a place is free or if it is not, each with when its target looks
        again (0: never).
        """
        g = self.controls[control]
        found = []
        for cell, number in self.sets[t][control].items():
            if self.steps_left[number] != FREE | TAKEN:
                wake = self.moves.target_wakes(g, t, self.cells[cell].side)
                found.append((cell, wake or 0))
        return found

    # --- the rules ---------------------------------------------------------------------------------------------------

    def _check_place(self, t: int, before: int, after: int, move: Move) -> None:
        """S7: only the word "reserve" takes a place, and it takes one."""
        steps = self.moves.cells[t]
        took = steps.used(self.cells[after].side) - steps.used(self.cells[before].side)
        if took > (1 if move.label.startswith(f"target {t}: reserve") else 0):
            raise Violation("S7", f"{took} places are taken by: {move.label}")

    def _check(self, t: int, control: int, cell: int, g: Global) -> None:
        """Hold a cell against the rules about one, and against what else may go with its control (S1)."""
        found = self.cells[cell]
        if running(self.moves, t, found.store) > self.moves.cells[t].used(found.side):
            raise Violation("S7", f"more runs on target {t} than is in the books")
        names = facts(self.moves, g, t)
        if not names:
            return
        state = self.moves.sources[0].states[g.srcs[0]]
        permit = state.permit
        named = {permit.candidate} if permit is not None and permit.kind == "Bind" else set()
        self._at_most_one(state, {*names, *named}, g)
        known = self.live[t].setdefault(control, set())
        if names <= known:
            return
        known |= names
        for other in range(self.sites):
            if other != t:
                for name in self.live[other].get(control, ()):
                    for mine in names:
                        self._at_most_one(state, {name, mine}, g)

    def _at_most_one(self, state: SourceState, live: set[str], g: Global) -> None:
        """S1: of candidates that may run at the same time, all but one belong to epochs that were ended without
        knowing.
        """
        live = {name for name in live if not excused(self.config, state, name, g.links)}
        if len(live) > 1:
            raise Violation("S1", f"more than one may run at {g.now}: {sorted(live)}")


def prove(config: Config) -> Proof:
    """Explore one source against everything that others may do; stop at the first violation."""
    began, used, found = time.perf_counter(), time.process_time(), Modular(config)
    violation, ends = None, 0
    try:
        ends = found.run()
    except Violation as stopped:
        violation = stopped
    return Proof(
        config,
        len(found.controls),
        len(found.cells),
        len(found.steps_left),
        found.steps,
        ends,
        max(g.now for g in found.controls),
        time.perf_counter() - began,
        time.process_time() - used,
        violation,
        found.where if violation is not None else "",
    )
