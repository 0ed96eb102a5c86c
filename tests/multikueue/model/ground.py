"""The values of an exploration, and what is asked of a state: where the job may run, how a request ends."""

from __future__ import annotations

from controlplane.controllers.multikueue.context import NEVER_TWICE
from tests.candidates.model.intern import Interner
from tests.multikueue.model import kueue
from tests.multikueue.model.alike import Alike, put
from tests.multikueue.model.api import Api, Refused
from tests.multikueue.model.dispatchers import HELD
from tests.multikueue.model.local import Local
from tests.multikueue.model.process import Process
from tests.multikueue.model.world import (
    EMPTY,
    KINDS,
    Config,
    Frame,
    Global,
    Store,
    Violation,
    foreign_job,
    user_job,
    user_workload,
)


class Ground:
    """The values of a configuration, and what is asked of a state."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.api = Api()
        self.process = Process(config, self.api)
        self.stores: Interner[Store] = Interner()
        self.frames: Interner[Frame] = Interner()
        self.alike = Alike(config.clusters, self.process, self.stores, self.frames)
        self.local = Local(self.stores, elastic=config.elastic)
        self.places = range(config.clusters)
        self.all = (1 << config.clusters) - 1
        self._answers: dict[tuple[int, int, frozenset[str]], int | Refused] = {}
        self._taken: dict[tuple[int, int, int, int], frozenset[str]] = {}

    def first(self) -> Global:
        """Return the first state: the Workload waits for quota, all workers are connected."""
        config = self.config
        sites = [put(self.stores, self._site(place)) for place in self.places]
        faults = (*(getattr(config.faults, kind) for kind in KINDS), config.faults.total)
        none = (-1,) * config.clusters
        frame = Frame(self.all, 0, 0, 0, 0, faults, (), none, none)
        elastic = config.elastic
        user = {"workload": user_workload(elastic=elastic), "job": user_job(elastic=elastic)}
        home = put(self.stores, {**EMPTY, **user})
        g = (self.framed(frame), self.process.first(), home, *sites)
        return self.alike.least(g) if config.alike else g

    def _site(self, place: int) -> Store:
        """Return what a worker has at first."""
        site = {**EMPTY, "job": foreign_job()} if place < self.config.foreign else EMPTY
        return {**site, "queue": HELD} if place < self.config.held else site

    def framed(self, frame: Frame) -> int:
        """Return the number of a frame."""
        return self.frames.put(frame, frame)

    def frame(self, g: Global) -> Frame:
        """Return the frame of a state."""
        return self.frames[g[0]]

    def store(self, g: Global, place: int) -> Store:
        """Return the objects of a cluster."""
        return self.stores[g[3 + place]]

    def name(self, place: int) -> str:
        """Return the name of a cluster."""
        return self.config.names[place] if place >= 0 else "management"

    def may_run(self, g: Global) -> int:
        """Return the workers, as bits, on which the job runs or can by what they do themselves, whether anybody can see
        it or not; behind them those that were there before under the same names, and are not used any more.
        """
        f, found = self.frames[g[0]], 0
        for place in self.places:
            bit = 1 << place
            if self.runs(g[3 + place]):
                found |= bit
            if f.hidden[place] >= 0 and self.runs(f.hidden[place]):
                found |= bit << self.config.clusters if f.adopted & bit else bit
        return found

    def runs(self, number: int) -> bool:
        """Whether a job of ours runs on a worker with these objects, or can by what the worker does itself."""
        return self.local.can_run(number) if self.config.lazy else kueue.runs_ours(self.stores[number]["job"])

    def answer(self, g: Global, place: int, number: int, request: int) -> int | Refused:
        """Return the number of a cluster's objects after a request, or how it is refused."""
        creates = self.process.requests[request].verb == "create"
        taken = self._uids(g, place, number) if creates else frozenset()
        key = number, request, taken
        if key not in self._answers:
            try:
                store = self.api.execute(self.stores[number], self.process.requests[request], taken)
                self._answers[key] = put(self.stores, store)
            except Refused as no:
                self._answers[key] = no
        return self._answers[key]

    def _uids(self, g: Global, place: int, number: int) -> frozenset[str]:
        """Return the UIDs that somebody may still know: those that a new object of a cluster cannot have."""
        key = g[0], g[1], place, number
        if key not in self._taken:
            f = self.frames[g[0]]
            numbers = {number, f.saved[place], f.hidden[place]} - {-1, -2, -3, -4}
            stored = (obj["metadata"]["uid"] for one in numbers for obj in self.stores[one].values() if obj is not None)
            asked = (self.process.requests[request].uid for where, request in f.ghosts if where == place)
            self._taken[key] = self.process.uids(g[1], place) | frozenset(stored) | frozenset(asked)
        return self._taken[key]

    def with_store(self, g: Global, place: int, number: int) -> Global:
        """Return the state with other objects on a cluster."""
        if g[3 + place] == number:
            return g
        g = (*g[: 3 + place], number, *g[4 + place :])
        if place < 0:
            return g
        f, job, bit = self.frames[g[0]], self.stores[number]["job"], 1 << place
        if job is None and self.process.in_view(g[1], place):
            gone = bit if f.given & bit else 0  # what was given up has no say any more
            return self.with_frame(g, f, given=f.given & ~bit, over=f.over & ~gone)
        if kueue.complete(job) and not f.over & bit:
            return self.with_frame(g, f, over=f.over | bit | self.all + 1)
        return g

    def with_frame(self, g: Global, f: Frame, **changes: object) -> Global:
        """Return the state with a changed frame."""
        after = f._replace(**changes)  # type: ignore[arg-type]
        return g if after == f else (self.framed(after), *g[1:])

    def with_log(self, g: Global, log: int) -> Global:
        """Return the state with another log. Where the job is to go, it may run nowhere else, but where its grace is
        over."""
        winner = self.process.sends_job_to(log)
        if winner and winner != self.process.sends_job_to(g[1]):
            running, given = self.may_run(g), 0
            for place, name in enumerate(self.config.names):
                if name == winner:
                    continue
                if self.config.execution != NEVER_TWICE and self.process.gave_up(log, place):
                    given |= 1 << place
                elif running >> place & 1:
                    raise Violation("S2", f"the job is to go to {winner}, and runs on {name}")
            f = self.frames[g[0]]
            g = self.with_frame(g, f, given=f.given | given)
        return (g[0], log, *g[2:])
