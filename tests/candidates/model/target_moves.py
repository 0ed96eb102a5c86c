"""What can happen next at the targets: they look, decide and send, their schedulers find nodes or none, and pods live
and stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from controlplane.kube.kinds import Request, meta
from tests.candidates.model.shapes import Cell, Global, Move, short
from tests.candidates.model.target_steps import TargetSteps
from tests.candidates.model.world import Config, Violation, at

_PHASES = {"Pending": "Running", "Running": "Succeeded"}


class TargetMoves:
    """The steps of the targets; `Moves` has everybody's."""

    config: Config
    cells: list[TargetSteps]

    def spend(self, g: Global, kind: str) -> tuple[int, ...] | None:
        """See `Moves`."""
        raise NotImplementedError

    def index(self, s: int, t: int) -> int:
        """Return the number of a cell."""
        return s * self.config.targets + t

    def with_cell(self, g: Global, i: int, cell: Cell) -> Global:
        """Return the state with another cell."""
        return g._replace(cells=(*g.cells[:i], cell, *g.cells[i + 1 :]))

    def target_wakes(self, g: Global, i: int, side: int) -> int | None:
        """Return when a target looks again by itself: never while its scheduler is down."""
        steps = self.cells[i]
        return None if self.config.silent(g.links, steps.t) else steps.wake_of(side, g.now)

    def _stops(self, g: Global, t: int) -> Iterator[Move]:
        """A target can be reached and does not do its part, for ever: its scheduler is down, or no Pod may be made."""
        for place, kind in ((3, "silent"), (4, "forbidden")):
            bit = 1 << self.config.targets * place + t
            if g.links & bit:
                yield Move(f"target {t} is not {kind} any more", True, g._replace(links=g.links & ~bit))
            elif (left := self.spend(g, kind)) is not None:
                yield Move(f"target {t} is {kind}", True, g._replace(links=g.links | bit, faults=left))

    def _open(self, g: Global, i: int, side: int) -> list[tuple[str, int]]:
        """Return the open writes of a target that its API server may carry out."""
        steps = self.cells[i]
        writes = steps.writes(side, g.now)
        if not self.config.forbids(g.links, steps.t):
            return writes
        return [(name, number) for name, number in writes if not steps.makes_pod(number)]

    def _target(self, g: Global, s: int, t: int) -> Iterator[Move]:
        i = self.index(s, t)
        cell, steps = g.cells[i], self.cells[i]
        if self.config.silent(g.links, steps.t):
            yield from self._nodes(g, i, t)
            return
        if self.config.coarse:
            yield from self._target_turn(g, s, t)
            return
        side, store = steps.look(cell.side, cell.store, g.now, self.config.forbids(g.links, steps.t))
        if (side, store) != (cell.side, cell.store):
            yield Move(f"target {t} looks at {s}'s candidates", False, self._moved(g, i, side, store))
        side = steps.look_pods(cell.side, cell.store, g.now)
        if side != cell.side:
            yield Move(f"target {t} looks at {s}'s pods", False, self._moved(g, i, side, cell.store))
        for name, request in self._open(g, i, cell.side):
            after = steps.execute(cell.store, request)
            asked = steps.requests[request]
            if after is not None and after != cell.store:
                self._check_binding(g, i, asked)
                what = asked.subresource or f"{asked.verb} {asked.ref.kind.kind}"
                yield Move(f"target {t} sends {what}: {short(asked.body)}", False, self._moved(g, i, cell.side, after))
            if not cell.delayed and (left := self.spend(g, "delayed")) is not None:
                delayed = self.with_cell(g, i, cell._replace(ghosts=(*cell.ghosts, ("t", request))))
                yield Move(f"a request of target {t} about {name} is delayed", True, delayed._replace(faults=left))
        yield from self._scheduler(g, s, t)
        yield from self._nodes(g, i, t)

    def _check_binding(self, g: Global, i: int, asked: Request) -> None:
        """S2: a binding that is made has an unexpired permit for the reservation that is held."""
        if asked.subresource != "binding":
            return
        cell, steps = g.cells[i], self.cells[i]
        candidate = steps.stores[cell.store]["candidates"].get(asked.ref.name)
        permit = candidate["spec"].get("permit") if candidate is not None else None
        if permit is None or datetime.fromisoformat(permit["until"]) <= at(g.now):
            raise Violation("S2", f"{asked.ref.name} is bound at {g.now} by the permit {permit}")

    def _moved(self, g: Global, i: int, side: int, store: int) -> Global:
        return self.with_cell(g, i, g.cells[i]._replace(side=side, store=store))

    def places(self, g: Global, t: int) -> tuple[bool, ...]:
        """Return whether a place of a target is free: by the books of all sources' candidates there."""
        cells = (self.index(r, t) for r in range(self.config.sources))
        return (sum(self.cells[i].used(g.cells[i].side) for i in cells) < self.config.capacity,)

    def _words(self, t: int, free: bool) -> list[str]:
        """Return what a scheduler may say while a place is free, or is not."""
        full = [] if free and self.cells[t].t not in self.config.preempt else ["full"]
        return [*(["reserve"] if free else []), *full, "bind"]

    def _scheduler(self, g: Global, s: int, t: int) -> Iterator[Move]:
        i = self.index(s, t)
        cell, steps = g.cells[i], self.cells[i]
        words = [word for free in self.places(g, t) for word in self._words(t, free)]
        for name in sorted(steps.sides[cell.side]):
            for what in dict.fromkeys(words):
                after = steps.said(cell.side, name, what, g.now)
                if after is not None and after != cell.side:
                    yield Move(f"target {t}: {what} {s}", False, self._moved(g, i, after, cell.store))
            if (left := self.spend(g, "timeouts")) is not None:
                after = steps.said(cell.side, name, "give up", g.now)
                if after is not None:
                    moved = self._moved(g, i, after, cell.store)._replace(faults=left)
                    yield Move(f"target {t} gives up its reservation for {s}", True, moved)

    def _nodes(self, g: Global, i: int, t: int) -> Iterator[Move]:
        """Pods start, end, stop and vanish; Candidates are deleted by whoever may."""
        cell, steps = g.cells[i], self.cells[i]
        store = steps.stores[cell.store]
        yield from self._removals(g, i, t)
        for name, pod in sorted(store["pods"].items()):
            if not pod["spec"].get("nodeName"):
                continue
            rest = {key: other for key, other in store["pods"].items() if key != name}
            gone = steps.memo(("gone", cell.store, name), lambda rest=rest: steps.put_store({**store, "pods": rest}))
            if "deletionTimestamp" in meta(pod):
                yield Move(f"the pod on target {t} has stopped", False, self._moved(g, i, cell.side, gone))
                continue
            if (left := self.spend(g, "lost_pods")) is not None:
                yield Move(
                    f"the pod on target {t} vanishes", True, self._moved(g, i, cell.side, gone)._replace(faults=left)
                )
            phase = pod.get("status", {}).get("phase", "Pending")
            if self.config.life and phase in _PHASES:
                lived = {**pod, "status": {"phase": _PHASES[phase]}}
                number = steps.memo(
                    ("lives", cell.store, name),
                    lambda lived=lived, name=name: steps.put_store({**store, "pods": {**store["pods"], name: lived}}),
                )
                yield Move(f"the pod on target {t} is {_PHASES[phase]}", False, self._moved(g, i, cell.side, number))

    def _removals(self, g: Global, i: int, t: int) -> Iterator[Move]:
        cell, steps = g.cells[i], self.cells[i]
        store, left = steps.stores[cell.store], self.spend(g, "removals")
        for name, candidate in sorted(store["candidates"].items()):
            if left is not None and "deletionTimestamp" not in meta(candidate):
                going = {**candidate, "metadata": {**meta(candidate), "deletionTimestamp": "now"}}
                with_it = {**store, "candidates": {**store["candidates"], name: going}}
                number = steps.memo(("removed", cell.store, name), lambda with_it=with_it: steps.put_store(with_it))
                removed = self._moved(g, i, cell.side, number)._replace(faults=left)
                yield Move(f"somebody deletes the Candidate on target {t}", True, removed)

    def _target_turn(self, g: Global, s: int, t: int) -> Iterator[Move]:
        """Look at everything, decide, and send all that is open, in one step."""
        before, i = g, self.index(s, t)
        cell, steps = g.cells[i], self.cells[i]
        side, store = cell.side, cell.store
        for _ in range(8):
            first = side, store
            side, store = steps.look(side, store, g.now, self.config.forbids(g.links, steps.t))
            side = steps.look_pods(side, store, g.now)
            for _, request in self._open(g, i, side):
                after = steps.execute(store, request)
                if after is not None and after != store:
                    self._check_binding(self._moved(before, i, side, store), i, steps.requests[request])
                    store = after
            if (side, store) == first:
                break
        if (side, store) != (cell.side, cell.store):
            yield Move(f"target {t} takes its turn for {s}", False, self._moved(before, i, side, store))
        for name, request in self._open(g, i, cell.side):
            if not cell.delayed and (left := self.spend(g, "delayed")) is not None:
                delayed = self.with_cell(g, i, cell._replace(ghosts=(*cell.ghosts, ("t", request))))
                yield Move(f"a request of target {t} about {name} is delayed", True, delayed._replace(faults=left))
        yield from self._scheduler(before, s, t)
        yield from self._nodes(before, i, t)
