"""All that can happen next in a global state: what the protocol does, what goes wrong, what the user does.

A global state is a tuple of numbers (see `Global`). Each process's step is taken at any time or not at all, which is
also a crash at any step: whoever starts again has the same log, and does what the one before would have done."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.controllers.candidates.source.delegate_status import rank
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.kube.kinds import Json
from tests.candidates.model.api import EMPTY, Api, Refused, Store
from tests.candidates.model.faults import spent
from tests.candidates.model.intern import Interner, freeze
from tests.candidates.model.placing import PlacingSteps
from tests.candidates.model.shapes import Cell, Global, Move, short
from tests.candidates.model.source_steps import SourceSteps
from tests.candidates.model.target_moves import TargetMoves
from tests.candidates.model.target_steps import TargetSteps
from tests.candidates.model.world import KINDS, Config, Violation, source_pod

MANAGEMENT = "@management"


class Moves(TargetMoves):
    """The steps of a configuration. `versions_checked`: whether the log refuses an append on a stream that has moved
    on.
    """

    versions_checked = True

    def __init__(self, config: Config) -> None:
        self.config = config
        self.api = Api()
        bodies: dict[str, bytes] = {}
        sort = PlacingSteps if config.placing else SourceSteps
        self.sources = [sort(config, s, self.api, bodies) for s in range(config.sources)]
        self.cells = [
            TargetSteps(config, s, t, self.api, bodies) for s in range(config.sources) for t in range(config.targets)
        ]
        self.pods: Interner[Store] = Interner()
        self._all = (1 << config.targets) - 1

    def first(self) -> Global:
        store: Store = {"candidates": {}, "pods": {"web": source_pod(self.config.restart)}, "lives": {}}
        pod = self.pods.put(store, freeze(store))
        cells = tuple(Cell(steps.put_store(EMPTY), steps.sides.put({})) for steps in self.cells)
        limits = self.config.faults
        faults = (*(getattr(limits, kind) for kind in KINDS), limits.total)
        return Global(
            tuple(source.first() for source in self.sources),
            (pod,) * self.config.sources,
            cells,
            self._all,
            0,
            faults,
            None,
            self.config.deviations or 0,
        )

    # --- helpers -----------------------------------------------------------------------------------------------------

    def spend(self, g: Global, kind: str) -> tuple[int, ...] | None:
        """Return the faults left after one of a kind."""
        return spent(g.faults, KINDS.index(kind))

    def source_of(self, i: int) -> SourceSteps:
        """Return the source that a cell is of."""
        return self.sources[i // self.config.targets]

    def site_of(self, cluster: str, name: str) -> int:
        """Return the number of the site of a candidate: here that of its target."""
        return "abcdef".index(cluster)

    def reachable(self, g: Global, t: int) -> bool:
        """Whether the source reaches the target of a site."""
        return bool(g.links >> self.cells[t].t & 1)

    def pod(self, g: Global, s: int) -> Json | None:
        return self.pods[g.pods[s]]["pods"].get("web")

    def with_src(self, g: Global, s: int, src: int) -> Global:
        return g._replace(srcs=(*g.srcs[:s], src, *g.srcs[s + 1 :]))

    # --- what happens ------------------------------------------------------------------------------------------------

    def of(self, g: Global) -> Iterator[Move]:
        """Return every step that changes something."""
        busy = False
        for move in self._quick(g):
            first, busy = not busy, busy or not move.fault
            if self.config.deviations is None or move.fault or first:
                yield move._replace(to=self.canonical(move.to))
            elif g.deviations:
                to = self.canonical(move.to)._replace(deviations=g.deviations - 1)
                yield Move(move.label, True, to)
        for move in self._time(g, busy):
            yield move._replace(to=self.canonical(move.to))

    def canonical(self, g: Global) -> Global:
        """Return the state without what cannot have any effect any more: requests that the server would refuse from now
        on.
        """
        for i, cell in enumerate(g.cells):
            dead = tuple(ghost for ghost in cell.ghosts if not self._alive(g, i, ghost))
            if dead:
                g = self.with_cell(g, i, cell._replace(ghosts=tuple(x for x in cell.ghosts if x not in dead)))
        if g.frozen is not None and self.versions_checked:
            s, src = g.frozen
            if src == g.srcs[s]:
                return g
            open_ = [
                (self.index(s, "abcdef".index(cluster)), request)
                for _, cluster, request in self.sources[s].writes(src, g.now)
                if cluster != MANAGEMENT
            ]
            if not any(self._alive(g, i, ("s", request)) for i, request in open_):
                return g._replace(frozen=None)
        return g

    def _alive(self, g: Global, i: int, ghost: tuple[str, int]) -> bool:
        steps, store = self.cells[i], g.cells[i].store
        if ghost[0] == "t":
            return steps.execute(store, ghost[1]) not in (None, store)
        source = self.source_of(i)
        if source.requests[ghost[1]].verb == "create":
            return True

        def run() -> int | None:
            after = source.execute(steps.stores[store], ghost[1])
            return None if after is None else steps.put_store(after)

        return steps.memo(("from the source", store, ghost[1]), run) not in (None, store)

    def _quick(self, g: Global) -> Iterator[Move]:
        for s in range(self.config.sources):
            if self.config.coarse:
                yield from self._source_turn(g, s)
                yield from self._deletion(g, s)
            else:
                yield from self._source(g, s)
                yield from self._deletion(g, s)
            for t in range(self.config.targets):
                yield from self._target(g, s, t)
                yield from self._ghosts(g, s, t)
        yield from self._network(g)
        yield from self._leaders(g)

    def _time(self, g: Global, busy: bool) -> Iterator[Move]:
        """Time passes up to the next deadline: freely when nothing else is left to do, else as a fault (somebody is
        slow).
        """
        deadline = self._deadline(g)
        if deadline is None:
            return
        cells = tuple(self._without_late_bindings(g, i, deadline) for i in range(len(g.cells)))
        if not busy:
            yield Move(f"time passes to {deadline}", False, g._replace(now=deadline, cells=cells))
        elif (left := self.spend(g, "ticks")) is not None:
            for then in (deadline, g.now + self.config.clock.all_over):
                yield Move(f"time passes to {then}, slowly", True, g._replace(now=then, cells=cells, faults=left))

    def _without_late_bindings(self, g: Global, i: int, now: int) -> Cell:
        """A binding that was begun in time is made or lost before its lease ends: `skew` is that long, by
        assumption.
        """
        cell, steps = g.cells[i], self.cells[i]
        kept = tuple(
            ghost for ghost in cell.ghosts if ghost[0] != "t" or steps.requests[ghost[1]].subresource != "binding"
        )
        return cell._replace(ghosts=kept) if kept != cell.ghosts else cell

    def _deadline(self, g: Global) -> int | None:
        wakes = [source.wake_of(g.srcs[s], g.now, g.links) for s, source in enumerate(self.sources)]
        wakes += [self.target_wakes(g, i, cell.side) for i, cell in enumerate(g.cells)]
        ahead = [wake for wake in wakes if wake is not None and g.now < wake]
        return min(ahead, default=None)

    def _source(self, g: Global, s: int) -> Iterator[Move]:
        yield from self._own(g, s)
        for t in range(self.config.targets):
            if g.links >> t & 1:
                yield from self._sight(g, s, t)
                yield from self._late_sight(g, s, t)
        yield from self._sends(g, s, g.srcs[s], f"source {s}")

    def _own(self, g: Global, s: int) -> Iterator[Move]:
        """A source's steps without any target."""
        source, src = self.sources[s], g.srcs[s]
        after = source.look_pod(src, self.pod(g, s), g.pods[s], g.now, g.links)
        if after != src:
            yield Move(f"source {s} looks at its pod", False, self.with_src(g, s, after))
        else:
            after = source.wake(src, g.now, g.links)
            if after != src:
                yield Move(f"source {s} decides", False, self.with_src(g, s, after))

    def _source_turn(self, g: Global, s: int) -> Iterator[Move]:
        """Look at everything, decide, and send all that is open, in one step."""
        before, source = g, self.sources[s]
        src = source.look_pod(g.srcs[s], self.pod(g, s), g.pods[s], g.now, g.links)
        src = source.wake(src, g.now, g.links)
        for t in range(self.config.targets):
            i = self.index(s, t)
            cell = g.cells[i]
            if g.links >> t & 1:
                src = source.see(src, self.cells[i].stores[cell.store], cell.store, t, g.now, g.links)
                if cell.slot >= 0:
                    g = self.with_cell(g, i, cell._replace(slot=-1))
        g = self.with_src(g, s, src)
        tried: set[str] = set()
        while True:
            ahead = [
                move
                for move in self._sends(g, s, g.srcs[s], f"source {s}")
                if not move.fault and move.label not in tried
            ]
            if not ahead:
                break
            tried.add(ahead[0].label)
            g = ahead[0].to
        if g != before:
            yield Move(f"source {s} takes its turn: {'; '.join(sorted(tried)) or 'sends nothing'}", False, g)
        for t in range(self.config.targets):
            yield from (move for move in self._sight(before, s, t) if move.fault)
            yield from self._late_sight(before, s, t)
        yield from (move for move in self._sends(before, s, before.srcs[s], f"source {s}") if move.fault)

    def _deletion(self, g: Global, s: int) -> Iterator[Move]:
        if (left := self.spend(g, "deletions")) is not None and self.pod(g, s) is not None:
            gone: Store = {"candidates": {}, "pods": {}, "lives": {}}
            pods = (*g.pods[:s], self.pods.put(gone, freeze(gone)), *g.pods[s + 1 :])
            yield Move(f"the user deletes pod {s}", True, g._replace(pods=pods, faults=left))

    def _sight(self, g: Global, s: int, t: int) -> Iterator[Move]:
        source, src, i = self.sources[s], g.srcs[s], self.index(s, t)
        cell, steps = g.cells[i], self.cells[i]
        after = source.see(src, steps.stores[cell.store], cell.store, t, g.now, g.links)
        if after != src:
            seen = self.with_cell(g, i, cell._replace(slot=-1)) if cell.slot >= 0 else g
            yield Move(f"source {s} sees target {t}", False, self.with_src(seen, s, after))
            if cell.slot < 0 and (left := self.spend(g, "late")) is not None:
                held = self.with_cell(g, i, cell._replace(slot=cell.store))
                yield Move(f"a sight of target {t} is on its way to source {s}", True, held._replace(faults=left))

    def _late_sight(self, g: Global, s: int, t: int) -> Iterator[Move]:
        source, i = self.sources[s], self.index(s, t)
        cell = g.cells[i]
        if cell.slot >= 0:
            late = source.see(g.srcs[s], self.cells[i].stores[cell.slot], cell.slot, t, g.now, g.links)
            freed = self.with_cell(g, i, cell._replace(slot=-1))
            yield Move(f"source {s} sees target {t} as it was", False, self.with_src(freed, s, late))

    def _sends(self, g: Global, s: int, src: int, who: str, only: int | None = None) -> Iterator[Move]:
        """The writes of a source (`only` those to one target, or with -1 those to its own pod)."""
        source = self.sources[s]
        for target, cluster, request in source.writes(src, g.now):
            t = -1 if cluster == MANAGEMENT else self.site_of(cluster, source.requests[request].ref.name)
            if only is not None and t != only:
                continue
            if t < 0:
                yield from self._to_pod(g, s, request, f"{who} writes {target}")
                continue
            if not self.reachable(g, t):
                continue
            i = self.index(s, t)
            cell = g.cells[i]
            after = self._at_target(g, s, i, request)
            if after is not None and after != cell.store:
                asked = source.requests[request]
                label = f"{who} sends to target {t}: {asked.verb} {short(asked.body)}"
                yield Move(label, False, self.with_cell(g, i, cell._replace(store=after)))
            ghost = ("s", request)
            if not cell.delayed and (left := self.spend(g, "delayed")) is not None:
                delayed = self.with_cell(g, i, cell._replace(ghosts=(*cell.ghosts, ghost)))
                yield Move(f"a request of {who} to target {t} is delayed", True, delayed._replace(faults=left))

    def _at_target(self, g: Global, s: int, i: int, request: int) -> int | None:
        """Return the target's store after a request of the source; hold it against the rules about other people's
        objects.
        """
        steps, source = self.cells[i], self.sources[s]
        key = ("from the source", g.cells[i].store, request)

        def run() -> int | None:
            after = source.execute(steps.stores[g.cells[i].store], request)
            return None if after is None else steps.put_store(after)

        after = steps.memo(key, run)
        asked = source.requests[request]
        if after is not None and after != g.cells[i].store and asked.verb == "delete":
            self._check_delete(g, s, i, asked.ref.name)
        return after

    def _check_delete(self, g: Global, s: int, i: int, name: str) -> None:
        """S10: a candidate is deleted only if its pod is gone or over, its epoch has ended, or another was bound."""
        state, pod = self.sources[s].states[g.srcs[s]], self.pod(g, s)
        if pod is None or rank(pod["status"]["phase"]) == 2 or (state.shown is not None and state.shown.failed):
            return
        whose = self.cells[i].stores[g.cells[i].store]["candidates"][name]["spec"]["source"]
        if whose["epoch"] != state.epoch or not state.electing or (state.delegate and state.delegate != name):
            return
        raise Violation("S10", f"{name} is deleted although it may still be the one")

    def _to_pod(self, g: Global, s: int, request: int, label: str) -> Iterator[Move]:
        store, asked = self.pods[g.pods[s]], self.sources[s].requests[request]
        try:
            after = self.api.execute(store, asked)
        except Refused:
            return
        if after == store:
            return
        before, now = store["pods"]["web"], after["pods"]["web"]
        phases = before["status"]["phase"], now["status"]["phase"]
        if rank(phases[1]) < rank(phases[0]) or (rank(phases[0]) == 2 and phases[0] != phases[1]):
            raise Violation("S6", f"the source pod goes from {phases[0]} back to {phases[1]}")
        pods = (*g.pods[:s], self.pods.put(after, freeze(after)), *g.pods[s + 1 :])
        written = g._replace(pods=pods)
        # A source sees what it writes: only the user's deletion can come between, and it can before or after.
        if label.startswith("source"):
            src = self.sources[s].look_pod(g.srcs[s], now, pods[s], g.now, g.links)
            written = self.with_src(written, s, src)
        yield Move(f"{label}: {phases[1]}", False, written)

    def _ghosts(self, g: Global, s: int, t: int) -> Iterator[Move]:
        i = self.index(s, t)
        cell, steps = g.cells[i], self.cells[i]
        for ghost in cell.ghosts:
            rest = cell._replace(ghosts=tuple(other for other in cell.ghosts if other != ghost))
            yield Move(f"a delayed request to target {t} is lost", False, self.with_cell(g, i, rest))
            if ghost[0] != "t":
                after = self._at_target_late(g, s, i, ghost[1])
            else:
                after = steps.execute(cell.store, ghost[1])
                if after is not None and after != cell.store:
                    self._check_binding(g, i, steps.requests[ghost[1]])
            if after is not None and after != cell.store:
                landed = self.with_cell(g, i, rest._replace(store=after))
                yield Move(f"a delayed request to target {t} arrives", False, landed)

    def _at_target_late(self, g: Global, s: int, i: int, request: int) -> int | None:
        return self._at_target(g, s, i, request)

    # --- the network and the leaders ---------------------------------------------------------------------------------

    def _network(self, g: Global) -> Iterator[Move]:
        for t in range(self.config.targets):
            up, away, forgotten = (1 << self.config.targets * n + t for n in range(3))
            if self.config.away(g.links, t):
                given_up = self.config.forgotten(g.links, t)
                if not given_up or self.config.execution != NEVER_TWICE:  # else the operator is taken at their word
                    back = (g.links | up) & ~(away | forgotten)
                    yield Move(f"target {t} is back, which nobody expected", True, g._replace(links=back))
                if not given_up:
                    yield Move(f"an operator gives target {t} up", True, g._replace(links=g.links | forgotten))
            elif not g.links & up:
                yield Move(f"target {t} can be reached again", False, g._replace(links=g.links | up))
            else:
                if (left := self.spend(g, "cut")) is not None:
                    yield Move(f"target {t} cannot be reached", True, g._replace(links=g.links & ~up, faults=left))
                if (left := self.spend(g, "away")) is not None:
                    gone = g.links & ~up | away
                    yield Move(f"target {t} has gone for ever", True, g._replace(links=gone, faults=left))
            yield from self._stops(g, t)

    def _leaders(self, g: Global) -> Iterator[Move]:
        """The second leader: one that was paused still believes what it knew then, decides on it, and sends it."""
        if g.frozen is None:
            left = self.spend(g, "frozen")
            if left is not None:
                for s, src in enumerate(g.srcs):
                    if self.versions_checked and not any(
                        c != MANAGEMENT for _, c, _ in self.sources[s].writes(src, g.now)
                    ):
                        continue  # it could do nothing: the log refuses what it decides
                    yield Move(f"a leader of source {s} is paused", True, g._replace(frozen=(s, src), faults=left))
            return
        s, src = g.frozen
        yield Move(f"the paused leader of source {s} reads the log", False, g._replace(frozen=None))
        yield from self._frozen_writes(g, s, src)

    def _frozen_writes(self, g: Global, s: int, src: int) -> Iterator[Move]:
        """What a paused leader does by what it knew."""
        yield from self._sends(g, s, src, f"the paused leader of source {s}")
        yield from self._stale_append(g, s, src)

    def _stale_append(self, g: Global, s: int, src: int) -> Iterator[Move]:
        """What the paused leader decides is refused by the log, since the stream has moved on."""
        if not self.versions_checked:
            for t in range(self.config.targets):
                yield from self._overwrites(g, s, src, t)

    def _overwrites(self, g: Global, s: int, src: int, t: int) -> Iterator[Move]:
        """What the paused leader decides on the sight of a target, if the log takes any append."""
        i = self.index(s, t)
        store = g.cells[i].store
        late = self.sources[s].see(src, self.cells[i].stores[store], store, t, g.now, g.links)
        if late != src:
            yield Move(f"the paused leader of source {s} overwrites the log", False, self.with_src(g, s, late))
