"""The values of an exploration, and what is asked of a state: where the job may run, how a request ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from controlplane.controllers.multikueue.context import NEVER_TWICE
from tests.candidates.model.intern import Interner
from tests.multikueue.model import kueue
from tests.multikueue.model.alike import Alike, put
from tests.multikueue.model.api import Api, Refused
from tests.multikueue.model.dispatchers import HELD
from tests.multikueue.model.local import Local
from tests.multikueue.model.process import Process, Sent
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


class Ahead(NamedTuple):
    """What can become of a cluster before anybody looks: by which steps, the number of its objects then, whether on the
    way the job ran to its end (on the management cluster: the Workload lost its quota)."""

    label: str
    number: int
    ended: bool


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
        self.no_faults = (0,) * (len(KINDS) + 1)
        self.untold = 1 << config.clusters + 1
        self._answers: dict[tuple[int, int, frozenset[str]], int | Refused] = {}
        self._taken: dict[tuple[int, int, int, int], frozenset[str]] = {}
        self._ahead: dict[tuple[Any, ...], list[Ahead]] = {}
        self._can_run: dict[int, bool] = {}

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
            if any(self._runs(one.number) for one in self.ahead(g, f, place, g[3 + place])):
                found |= bit
            if f.hidden[place] >= 0 and any(self._runs(number) for number in self._by_itself(f.hidden[place])):
                found |= bit << self.config.clusters if f.adopted & bit else bit
        return found

    def _runs(self, number: int) -> bool:
        """Whether a job of ours runs on a worker with these objects."""
        if number not in self._can_run:
            self._can_run[number] = kueue.runs_ours(self.stores[number]["job"])
        return self._can_run[number]

    def _by_itself(self, number: int) -> list[int]:
        """Return what may become of a worker that nobody writes to."""
        return [one for _, one in self.local.ahead(number)] if self.config.lazy else [number]

    def _unseen(self, g: Global) -> int:
        """Return the workers, as bits, that were given up and are not in view again."""
        f = self.frames[g[0]]
        return f.given & self.all & (f.stale | ~self.process.seen_now(g[1]))

    # --- what waits until somebody looks -----------------------------------------------------------------------------

    def reached(self, f: Frame, place: int) -> bool:
        """Whether our process reaches a cluster."""
        return place < 0 or bool(f.links >> place & 1)

    def ahead(self, g: Global, f: Frame, place: int, number: int) -> list[Ahead]:
        """Return all that can become of a cluster's objects before anybody looks: by what it does itself, and by the
        open writes. First what they are now.
        """
        sent = self.process.writes(g[1], place) if self.config.lazy and self.reached(f, place) else []
        requests = tuple(one.request for one in sent)
        taken = self._uids(g, place, number) if any(self._creates(one) for one in requests) else None
        key = place < 0, number, requests, taken
        if key not in self._ahead:
            found: dict[tuple[int, bool], str] = {(number, self._ended(place, number)): ""}
            line = list(found)
            for at, ended in line if self.config.lazy else ():
                for label, after in [*self.local.steps(at), *self._written(g, place, at, sent)]:
                    to = after, ended or self._ended(place, after)
                    if to not in found:
                        found[to] = f"{found[at, ended]}{label}, "
                        line.append(to)
            self._ahead[key] = [Ahead(label, *to) for to, label in found.items()]
        return self._ahead[key]

    def _ended(self, place: int, number: int) -> bool:
        if place < 0:
            return self.config.attempt and not kueue.condition(self.stores[number]["workload"], "QuotaReserved")
        return kueue.complete(self.stores[number]["job"])

    def _creates(self, request: int) -> bool:
        return self.process.requests[request].verb == "create"

    def _written(self, g: Global, place: int, number: int, sent: list[Sent]) -> Iterator[tuple[str, int]]:
        for one in sent:
            self.well_formed(one)
            after = self.answer(g, place, number, one.request)
            if not isinstance(after, Refused) and after != number:
                yield f"{self.process.requests[one.request].verb} {one.target}", after

    def well_formed(self, sent: Sent) -> None:
        """S5: a request names the object, or the version, that it means."""
        request = self.process.requests[sent.request]
        label = f"{request.verb} {sent.target}"
        if request.verb != "create" and not (request.uid or request.resource_version):
            raise Violation("S5", f"{label}: it says neither of which object nor of which version")
        if request.verb == "delete" and not request.uid:
            raise Violation("S5", f"{label}: it does not say of which object")

    def overtaken(self, g: Global, to: Global, but: int) -> Iterator[tuple[str, Global]]:
        """Return what else a step leads to: on all clusters but one, the writes may have been carried out before it
        that are not open after it, or not to that cluster any more.
        """
        f, after = self.frames[g[0]], self.frames[to[0]]
        if (g[1] == to[1] and f.links == after.links) or not self.config.lazy:
            return
        line = [("", to)]
        for place in range(-1, self.config.clusters):
            other = place >= 0 and f.hidden[place] != after.hidden[place]
            if place == but or other or not self._withdrawn(g, f, to, after, place):
                continue
            ahead = self.ahead(g, f, place, g[3 + place])
            line = [
                (
                    f"{label}{self.name(place)}: {there.label}" if there.label else label,
                    self._put_ahead(one, g, place, there),
                )
                for label, one in line
                for there in ahead
            ]
        yield from line[1:]

    def _withdrawn(self, g: Global, f: Frame, to: Global, after: Frame, place: int) -> bool:
        """Whether a step ends writes to a cluster."""
        if not self.reached(f, place):
            return False
        before = {one.request for one in self.process.writes(g[1], place)}
        if not self.reached(after, place):
            return bool(before)
        return bool(before - {one.request for one in self.process.writes(to[1], place)})

    def _put_ahead(self, to: Global, g: Global, place: int, ahead: Ahead) -> Global:
        """Return the state with other objects on a cluster, that had them before the step from another state."""
        there = self.with_store((to[0], g[1], *to[2:]), place, ahead.number, ended=ahead.ended)
        return (there[0], to[1], *there[2:])

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

    def with_store(self, g: Global, place: int, number: int, *, ended: bool = False) -> Global:
        """Return the state with other objects on a cluster; `ended` as in `Ahead`."""
        if g[3 + place] == number and not ended:
            return g
        g = (*g[: 3 + place], number, *g[4 + place :])
        if place < 0:
            over = ended or self._ended(place, number)
            return self.with_frame(g, self.frames[g[0]], faults=self.no_faults) if over else g
        f, job, bit = self.frames[g[0]], self.stores[number]["job"], 1 << place
        if ended and not f.over & bit:
            g = self.with_frame(g, f, over=f.over | bit | self.all + 1)
            f = self.frames[g[0]]
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
        over (S2), and nothing is on its way that would end it (S11)."""
        ending = self.process.ends_on(g[1]) & self.process.ends_on(log)
        if ending and (begun := ending & (self.process.begins_on(log) - self.process.begins_on(g[1]))):
            where = sorted(name for _, name in begun)
            raise Violation("S11", f"the job is to begin on {where}, where a write from before would end it")
        winner = self.process.sends_job_to(log)
        if winner and winner != self.process.sends_job_to(g[1]):
            running, given, unseen = self.may_run(g), 0, self._unseen(g)
            for place, name in enumerate(self.config.names):
                if name == winner:
                    continue
                if self.config.execution != NEVER_TWICE and self.process.gave_up(log, place):
                    given |= 1 << place
                elif (running & ~unseen) >> place & 1:
                    raise Violation("S2", f"the job is to go to {winner}, and runs on {name}")
            f = self.frames[g[0]]
            g = self.with_frame(g, f, given=f.given | given)
        return (g[0], log, *g[2:])
