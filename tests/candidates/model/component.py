"""One source by itself, with everything that others could do to it left open: what the exploration cell by cell is made
of.

Its steps are those of `Moves`, in three sorts: of the source alone, of the source or a target together with one cell,
and of the clock. What the other sources hold is any place, at any time; how far they have come is any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from controlplane.controllers.candidates.objects import candidate_name
from tests.candidates.model.moves import MANAGEMENT, Moves
from tests.candidates.model.placing import PlacingSteps
from tests.candidates.model.shapes import Cell, Global, Move
from tests.candidates.model.source_steps import SourceSteps
from tests.candidates.model.target_steps import TargetSteps
from tests.candidates.model.world import Config, at

GRAIN = 4  # seconds: all deadlines of the model are multiples of it, which the exploration holds to be so


class Component(Moves):
    """The steps of source 0.

    Nothing in a component knows what time it is, only how much of it has passed since a permit was given or a wait
    began. So the clock need not move for the sake of others while neither is about: what would follow is what follows
    now, later. With `every_time` it does all the same, up to that time."""

    every_time = 0

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._by_site(self.cells)

    def _by_site(self, targets: Sequence[TargetSteps]) -> None:
        """Give each target a site, or, where only the placing is explored, each candidate that there can be: they meet
        in nothing.
        """
        source, self.cells = self.sources[0], []
        source.views = []
        for steps in targets:
            cluster = self.config.target(steps.t)
            for name in self._names(cluster, source.s) if self.config.placing else [""]:
                source.views.append((cluster, name))
                self.cells.append(steps)

    def _names(self, cluster: str, s: int) -> list[str]:
        epochs = range(1, self.config.epochs + 1)
        return [candidate_name("web", self.config.cluster(s), "web#1", epoch, cluster) for epoch in epochs]

    def index(self, s: int, t: int) -> int:
        return t

    def source_of(self, i: int) -> SourceSteps:
        return self.sources[0]

    def site_of(self, cluster: str, name: str) -> int:
        views = enumerate(self.sources[0].views)
        found = [site for site, (where, known) in views if where == cluster and known in ("", name)]
        if not found:
            raise AssertionError(f"{name} in {cluster} is of a later epoch than {self.config.epochs}")
        return found[0]

    def share(self, joint: Moves, s: int) -> None:
        """Take the steps of one source from a joint model, and the numbers of its states with them."""
        self.api, self.pods = joint.api, joint.pods
        sort = PlacingSteps if self.config.placing else SourceSteps
        source = sort(self.config, s, joint.api, joint.sources[s].bodies)
        source.requests = joint.sources[s].requests  # the targets know requests by number
        self.sources = [source]
        self._by_site(joint.cells[joint.index(s, 0) : joint.index(s, 0) + self.config.targets])

    def places(self, g: Global, t: int) -> tuple[bool, ...]:
        """Return that a place may be free, and may be another source's."""
        return True, False

    def canonical(self, g: Global) -> Global:
        """Return the state without dead requests. A paused leader stays: whether it can still do anything is asked of
        all targets.
        """
        return super().canonical(g._replace(frozen=None))._replace(frozen=g.frozen)

    def alone(self, g: Global) -> Iterator[Move]:
        """Return the steps that look at no target and change none; `g` has first cells."""
        yield from self._own(g, 0)
        yield from self._deletion(g, 0)
        yield from self._network(g)
        yield from self._sends(g, 0, g.srcs[0], "source 0", only=-1)
        yield from self._leaders(g)

    def _leaders(self, g: Global) -> Iterator[Move]:
        """Return what a paused leader may still write to the pod; what it may still send to targets goes with the cells
        (`paused`).
        """
        if not self.versions_checked:
            yield from super()._leaders(g)
        elif g.frozen is not None:
            awake = g._replace(frozen=None)
            yield Move("the paused leader of source 0 reads the log", True, awake)
            for move in self._to_pod(awake, 0, g.frozen[1], "the paused leader of source 0 writes to the pod"):
                yield move._replace(fault=True)

    def paused(self, g: Global) -> tuple[Global, list[tuple[tuple[str, int], ...]]] | None:
        """Return the control after a leader was paused, and for each site what it may still send; None if it has
        nothing to send.

        Each request arrives once, at any time, or never. The log takes none of its decisions any more, and what it
        sends to one site does not depend on what it sends to another. What it may still write to the pod stays with the
        control, as `frozen`."""
        left = self.spend(g, "frozen")
        if left is None or g.frozen is not None or not self.versions_checked:
            return None
        sends: list[list[tuple[str, int]]] = [[] for _ in self.cells]
        frozen = None
        for _, cluster, request in self.sources[0].writes(g.srcs[0], g.now):
            if cluster == MANAGEMENT:
                frozen = (0, request)
            else:
                site = self.site_of(cluster, self.sources[0].requests[request].ref.name)
                sends[site].append(("p", request))
        if frozen is None and not any(sends):
            return None
        return g._replace(faults=left, frozen=frozen), [tuple(sorted(each)) for each in sends]

    def also_sent(self, cell: Cell, t: int, sends: tuple[tuple[str, int], ...]) -> Cell:
        """Return a cell to which a paused leader may still send something."""
        g, i = self.first(), self.index(0, t)
        ghosts = (*sorted({*cell.ghosts, *sends}),)
        return self.canonical(self.with_cell(g, i, cell._replace(ghosts=ghosts))).cells[i]

    def _frozen_writes(self, g: Global, s: int, src: int) -> Iterator[Move]:
        """What a paused leader does to the pod; what it does to targets is among the steps with them."""
        yield from self._sends(g, s, src, "the paused leader of source 0", only=-1)

    def with_target(self, g: Global, t: int) -> Iterator[Move]:
        """Return the steps that look at target t or change it; the other cells of `g` are the first ones."""
        late = list(self._ghosts(g, 0, t))
        if self.reachable(g, t):
            yield from self._sight(g, 0, t)
            late += self._late_sight(g, 0, t)
        # What is on its way may stay there for any time: nobody waits for it.
        yield from (move._replace(fault=True) for move in late)
        leaders = [(g.srcs[0], "source 0")]
        if g.frozen is not None and not self.versions_checked:
            leaders.append((g.frozen[1], "the paused leader of source 0"))
            yield from self._overwrites(g, 0, g.frozen[1], t)
        for src, who in leaders:
            yield from self._sends(g, 0, src, who, only=t)

    def of_target(self, g: Global, t: int) -> Iterator[Move]:
        """Return the steps of a target's own: they depend on its cell, the clock and the faults that are left, and on
        nothing else.
        """
        yield from self._target(g, 0, t)

    def slowly(self, g: Global) -> Iterator[Move]:
        """Return the steps of the clock while there is something to do, which are faults: to any time that anybody may
        wait for.
        """
        left = self.spend(g, "ticks")
        if left is not None and (self.every_time or self.times_matter(g)):
            for then in self.times(g.now):
                yield Move(f"time passes to {then}, slowly", True, g._replace(now=then, faults=left))

    def at_once(self, cell: Cell, t: int) -> Cell:
        """Return a cell once time has passed: without bindings that were on their way."""
        g = self.first()
        i = self.index(0, t)
        return self._without_late_bindings(self.with_cell(g, i, cell), i, 0)

    def times_matter(self, g: Global) -> bool:
        """Whether a permit was ever given, or the source waits for a time of its own."""
        if self.sources[0].states[g.srcs[0]].permits:
            return True
        return self.sources[0].wake_of(g.srcs[0], g.now, g.links) is not None

    def lasts(self, src: int, now: int) -> bool:
        """Whether the source's open permit is not over yet, or not long enough to be outlived."""
        permit = self.sources[0].states[src].permit
        return permit is not None and at(now) < permit.until + timedelta(seconds=self.config.clock.all_over)

    def pending(self, t: int, cell: Cell) -> int:
        """Return the latest end of a permit that a target's candidates carry, in seconds of the model; 0 without
        any.
        """
        steps = self.cells[t]

        def latest() -> int:
            permits = [c["spec"].get("permit") for c in steps.stores[cell.store]["candidates"].values()]
            ends = [datetime.fromisoformat(p["until"]) for p in permits if p is not None]
            return max((int((end - at(0)).total_seconds()) for end in ends), default=0)

        found: int = steps.memo(("pending", cell.store), latest)
        return found

    def times(self, now: int) -> list[int]:
        """Return the times that the clock may jump to: no deadline is further ahead than all that can follow a
        permit.
        """
        then = range(now + GRAIN, now + self.config.clock.all_over + 1, GRAIN)
        return [time for time in then if not self.every_time or time <= self.every_time]
