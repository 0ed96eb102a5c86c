"""All that can happen next to a gang: the source sees, decides about one stream, sends a request; a target takes its
turn; time; faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.candidates.model.api import EMPTY, Api
from tests.candidates.model.faults import spent
from tests.candidates.model.gang_world import LEAST, NAMES, STREAMS, GangConfig, GangSource, Joint
from tests.candidates.model.target_steps import TargetSteps
from tests.candidates.model.world import KINDS, LEASE, PATIENCE, SKEW

_LONG = int((LEASE + SKEW + PATIENCE).total_seconds())


class Cell(NamedTuple):
    """What one target holds of one member: its API server's objects, its scheduler's states."""

    store: int
    side: int


class GangGlobal(NamedTuple):
    """A state of the whole. `frozen`: a paused leader, with what it knows."""

    joint: Joint
    cells: tuple[Cell, ...]
    links: int
    now: int
    faults: tuple[int, ...]
    frozen: Joint | None = None
    deviations: int = 0


class GangMove(NamedTuple):
    """A step: what it is, whether it is a fault, where it leads."""

    label: str
    fault: bool
    to: GangGlobal


class GangMoves:
    """The steps of a configuration."""

    def __init__(self, config: GangConfig) -> None:
        self.config = config
        api, bodies = Api(), dict[str, bytes]()
        self.source = GangSource(config, api, bodies)
        self.cells = [TargetSteps(config, m, t, api, bodies) for m in range(len(NAMES)) for t in range(config.targets)]
        self._all = (1 << config.targets) - 1

    def first(self) -> GangGlobal:
        limits = self.config.faults
        faults = (*(getattr(limits, kind) for kind in KINDS), limits.total)
        cells = tuple(Cell(steps.put_store(EMPTY), steps.sides.put({})) for steps in self.cells)
        return GangGlobal(self.source.first(), cells, self._all, 0, faults, None, self.config.deviations or 0)

    def index(self, m: int, t: int) -> int:
        return m * self.config.targets + t

    def with_cell(self, g: GangGlobal, i: int, cell: Cell) -> GangGlobal:
        return g._replace(cells=(*g.cells[:i], cell, *g.cells[i + 1 :]))

    def spend(self, g: GangGlobal, kind: str) -> tuple[int, ...] | None:
        return spent(g.faults, KINDS.index(kind))

    def of(self, g: GangGlobal) -> Iterator[GangMove]:
        """Return every step that changes something."""
        busy = False
        for move in self._quick(g):
            first, busy = not busy, busy or not move.fault
            if self.config.deviations is None or move.fault or first:
                yield move
            elif g.deviations:
                yield GangMove(move.label, True, move.to._replace(deviations=g.deviations - 1))
        yield from self._time(g, busy)

    # --- the source --------------------------------------------------------------------------------------------------

    def _quick(self, g: GangGlobal) -> Iterator[GangMove]:
        for number, stream in enumerate(STREAMS):
            said = self.source.said(g.joint, number, g.now, g.links)
            if said.events:
                after = self.source.appended(g.joint, said, g.now)
                words = ", ".join(type(new.event).__name__ for new in said.events)
                yield GangMove(f"decided about {stream}: {words}", False, g._replace(joint=after))
        for m in range(len(NAMES)):
            for t in range(self.config.targets):
                if g.links >> t & 1:
                    yield from self._sees(g, m, t)
            yield from self._sends(g, g.joint, m, "the source")
            for t in range(self.config.targets):
                yield from self._target(g, m, t)
        for t in range(self.config.targets):
            yield from self._scheduler(g, t)
        yield from self._faults(g)

    def _sees(self, g: GangGlobal, m: int, t: int) -> Iterator[GangMove]:
        i = self.index(m, t)
        store = g.cells[i].store
        after = self.source.see(g.joint, m, t, self.cells[i].stores[store], store, g.now)
        if after != g.joint:
            yield GangMove(f"the source sees member {m} in target {t}", False, g._replace(joint=after))

    def _sends(self, g: GangGlobal, joint: Joint, m: int, who: str) -> Iterator[GangMove]:
        for t, request in self.source.writes(joint, m, g.now):
            if not g.links >> t & 1:
                continue
            i = self.index(m, t)
            cell, steps = g.cells[i], self.cells[i]
            found = self.source.execute(steps.stores[cell.store], request)
            after = cell.store if found is None else steps.put_store(found)
            if after != cell.store:
                verb, body = (
                    self.source.requests[request].verb,
                    sorted(self.source.requests[request].body.get("spec", {})),
                )
                yield GangMove(
                    f"{who} sends for member {m} to target {t}: {verb} {' '.join(body)}",
                    False,
                    self.with_cell(g, i, cell._replace(store=after)),
                )

    # --- the targets -------------------------------------------------------------------------------------------------

    def _target(self, g: GangGlobal, m: int, t: int) -> Iterator[GangMove]:
        """Look at everything, decide, and send all that is open, in one step."""
        i = self.index(m, t)
        cell, steps = g.cells[i], self.cells[i]
        side, store = cell.side, cell.store
        for _ in range(8):
            first = side, store
            side, store = steps.look(side, store, g.now)
            side = steps.look_pods(side, store, g.now)
            for _, request in steps.writes(side, g.now):
                store = steps.execute(store, request) or store
            if (side, store) == first:
                break
        if (side, store) != (cell.side, cell.store):
            yield GangMove(f"target {t} takes its turn for member {m}", False, self.with_cell(g, i, Cell(store, side)))
        yield from self._nodes(g, i, t)

    def _nodes(self, g: GangGlobal, i: int, t: int) -> Iterator[GangMove]:
        cell, steps = g.cells[i], self.cells[i]
        store = steps.stores[cell.store]
        for name, pod in sorted(store["pods"].items()):
            if not pod["spec"].get("nodeName"):
                continue
            rest = {key: other for key, other in store["pods"].items() if key != name}
            gone = steps.memo(("gone", cell.store, name), lambda rest=rest: steps.put_store({**store, "pods": rest}))
            to = self.with_cell(g, i, cell._replace(store=gone))
            if "deletionTimestamp" in pod["metadata"]:
                yield GangMove(f"a pod on target {t} has stopped", False, to)
            elif (left := self.spend(g, "lost_pods")) is not None:
                yield GangMove(f"a pod on target {t} vanishes", True, to._replace(faults=left))

    def _scheduler(self, g: GangGlobal, t: int) -> Iterator[GangMove]:
        here = [self.index(m, t) for m in range(len(NAMES))]
        used = sum(self.cells[i].used(g.cells[i].side) for i in here)
        free = self.config.room[t] - used
        waiting = self._waiting(g, here)
        whole = not self.config.together or used >= LEAST or used + min(free, len(waiting)) >= LEAST
        if waiting and whole and free > 0:
            chosen = waiting if self.config.together else waiting[:1]
            yield from self._say(g, chosen[:free], "reserve", f"target {t} reserves")
            if not self.config.together:
                yield from self._say(g, waiting[1:2], "reserve", f"target {t} reserves the other")
        if waiting and (free <= 0 or not whole):
            yield from self._say(g, waiting, "full", f"target {t} has no room")
        yield from self._bindings(g, t, here)
        if (left := self.spend(g, "timeouts")) is not None:
            for i in here:
                for move in self._say(g, self._named(g, [i]), "give up", f"target {t} gives up the place of {i}"):
                    yield GangMove(move.label, True, move.to._replace(faults=left))

    def _bindings(self, g: GangGlobal, t: int, here: list[int]) -> Iterator[GangMove]:
        able = {i: self.cells[i].could_bind(g.cells[i].side, g.now) for i in here}
        running = {i for i in here if self._on_node(g, i)}
        if self.config.together and len({i for i in here if able[i]} | running) < LEAST and not running:
            return
        for i in here:
            yield from self._say(g, self._named(g, [i]), "bind", f"target {t} binds {i}")

    def _on_node(self, g: GangGlobal, i: int) -> bool:
        pods = self.cells[i].stores[g.cells[i].store]["pods"]
        return any(pod["spec"].get("nodeName") for pod in pods.values())

    def _named(self, g: GangGlobal, here: list[int]) -> list[tuple[int, str]]:
        return [(i, name) for i in here for name in sorted(self.cells[i].sides[g.cells[i].side])]

    def _waiting(self, g: GangGlobal, here: list[int]) -> list[tuple[int, str]]:
        """The candidates of a target for which a node may be looked for."""
        return [
            (i, name)
            for i, name in self._named(g, here)
            if self.cells[i].said(g.cells[i].side, name, "reserve", g.now) is not None
        ]

    def _say(self, g: GangGlobal, whom: list[tuple[int, str]], what: str, label: str) -> Iterator[GangMove]:
        """The scheduler says something of several candidates, of one append."""
        to = g
        for i, name in whom:
            after = self.cells[i].said(to.cells[i].side, name, what, g.now)
            if after is not None:
                to = self.with_cell(to, i, to.cells[i]._replace(side=after))
        if to != g:
            yield GangMove(label, False, to)

    # --- faults and time ---------------------------------------------------------------------------------------------

    def _faults(self, g: GangGlobal) -> Iterator[GangMove]:
        for t in range(self.config.targets):
            if not g.links >> t & 1:
                yield GangMove(f"target {t} can be reached again", False, g._replace(links=g.links | 1 << t))
            elif (left := self.spend(g, "cut")) is not None:
                to = g._replace(links=g.links & ~(1 << t), faults=left)
                yield GangMove(f"target {t} cannot be reached", True, to)
        if g.frozen is None:
            if (left := self.spend(g, "frozen")) is not None:
                yield GangMove("a leader is paused", True, g._replace(frozen=g.joint, faults=left))
            return
        yield GangMove("the paused leader reads the log", False, g._replace(frozen=None))
        for m in range(len(NAMES)):
            yield from self._sends(g, g.frozen, m, "the paused leader")
        yield from self._stale(g, g.frozen)

    def _stale(self, g: GangGlobal, frozen: Joint) -> Iterator[GangMove]:
        """A paused leader appends what it decides on what it knew: the log takes it if no stream that it names has
        moved on.
        """
        for number, stream in enumerate(STREAMS):
            said = self.source.said(frozen, number, g.now, g.links)
            if said.events and self.source.same(frozen, g.joint, said.rests_on):
                after = self.source.appended(g.joint, said, g.now)
                if after != g.joint:
                    words = ", ".join(type(new.event).__name__ for new in said.events)
                    to = g._replace(joint=after)
                    yield GangMove(f"the paused leader decides about {stream}: {words}", False, to)

    def _time(self, g: GangGlobal, busy: bool) -> Iterator[GangMove]:
        wakes = [self.source.said(g.joint, number, g.now, g.links).wake for number in range(len(STREAMS))]
        wakes += [steps.wake_of(g.cells[i].side, g.now) for i, steps in enumerate(self.cells)]
        deadline = min((wake for wake in wakes if wake is not None and g.now < wake < 3600), default=None)
        if deadline is None:
            return
        if not busy:
            yield GangMove(f"time passes to {deadline}", False, g._replace(now=deadline))
        elif (left := self.spend(g, "ticks")) is not None:
            for then in (deadline, g.now + _LONG):
                yield GangMove(f"time passes to {then}, slowly", True, g._replace(now=then, faults=left))
