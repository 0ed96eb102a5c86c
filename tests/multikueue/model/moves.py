"""All that can happen next in a global state: what Kueue does, what our process does, what the user does, what goes
wrong.

Each step is taken at any time or not at all, which is also a crash at any step: whoever starts again has the same log,
and does what the one before would have done.

*What a cluster does by itself waits until somebody looks* (`Config.lazy`), and so does what our open writes do there. A
step of Kueue's or of a job's controller, and a write that is carried out, read and write only the objects of their own
cluster; neither changes the log, by which alone our process decides. So each commutes with everything that happens on
other clusters, as long as the write stays open and its cluster can be reached. Each step is therefore taken together
with any number of its cluster's own steps and open writes before it (`Ground.ahead`), and states between are not kept.
Where a step ends an open write elsewhere (the log takes it back, the connection breaks), it is taken once for each way
in which that cluster may have gone on before (`Ground.overtaken`). What has to hold in each state is asked of all that
clusters can come to before the next look, independently of each other. Where nothing else is left to do, they go on
alone. That both explorations reach the same states is tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.nominate import INCREMENTAL
from tests.multikueue.model.alike import put
from tests.multikueue.model.api import Refused
from tests.multikueue.model.dispatchers import nominations
from tests.multikueue.model.ground import Ahead
from tests.multikueue.model.process import Sent
from tests.multikueue.model.upheaval import Upheavals
from tests.multikueue.model.world import ROUND, Frame, Global, Move

NOWHERE = -2


class Moves(Upheavals):
    """The steps of a configuration."""

    def first(self) -> Global:
        """Return the first state; where the job is to be there already, the one that is reached if nothing goes
        wrong."""
        g = start = super().first()
        while self.config.running or (self.config.sending and not self.process.sends_job_to(g[1])):
            ahead = (to for label, fault, to in self.of(g) if not fault and "ends" not in label)
            after = next(ahead, g)
            if after == g:
                break
            g = after
        return self.with_frame(g, self.frames[g[0]], faults=self.frame(start).faults)

    def of(self, g: Global) -> Iterator[Move]:
        """Return every step that changes something."""
        f = self.frames[g[0]]
        moves = list(self._steps(g, f))
        busy = any(not fault for _, fault, _ in moves)
        if self.config.lazy and not busy:
            alone = list(self._alone(g, f))
            moves += alone
            busy = bool(alone)
        away = f.links != self.all or any(one >= 0 and not f.adopted >> at & 1 for at, one in enumerate(f.hidden))
        if not busy or (away and (not self.config.prompt or self._only_waits(moves, f))):
            moves += self._with_overtaken(g, self._time(g), NOWHERE)
        for label, fault, to in moves:
            tidy = self.tidy(to)
            if not self.config.alike:
                yield label, fault, tidy
                continue
            for one in self.alike.variants(tidy):
                yield label, fault, one

    def _with_overtaken(self, g: Global, moves: Iterable[Move], place: int) -> Iterator[Move]:
        """Return steps at a cluster, and what they lead to where writes elsewhere were carried out before."""
        for label, fault, to in moves:
            yield label, fault, to
            for before, other in self.overtaken(g, to, place):
                yield f"{before}then {label}", fault, other

    def _only_waits(self, moves: list[Move], f: Frame) -> bool:
        """Whether all that is left is that a worker comes back, or that something goes wrong."""
        return all(fault or self.frames[to[0]].back != f.back for _, fault, to in moves)

    def _steps(self, g: Global, f: Frame) -> Iterator[Move]:
        yield from self._with_overtaken(g, self._anywhere(g, f), NOWHERE)
        for place in range(-1, self.config.clusters):
            number = g[3 + place]
            if not self.config.lazy:
                for label, after in self.local.steps(number):
                    yield f"{self.name(place)}: {label}", False, self.with_store(g, place, after)
            for ahead in self.ahead(g, f, place, number):
                yield from self._with_overtaken(g, self._at(g, f, place, ahead), place)

    def _alone(self, g: Global, f: Frame) -> Iterator[Move]:
        for place in range(-1, self.config.clusters):
            for one in self.ahead(g, f, place, g[3 + place])[1:]:
                yield f"{self.name(place)}: {one.label}", False, self.with_store(g, place, one.number, ended=one.ended)

    def _at(self, g: Global, f: Frame, place: int, ahead: Ahead) -> Iterator[Move]:
        """Return what can happen with one cluster, once it has these objects."""
        here = self.with_store(g, place, ahead.number, ended=ahead.ended)
        prefix = f"{self.name(place)}: {ahead.label}then " if ahead.label else ""
        for label, fault, to in self._with(here, g, f, place, ahead.number):
            yield prefix + label, fault, to

    def _with(self, here: Global, g: Global, f: Frame, place: int, number: int) -> Iterator[Move]:
        yield from self._looks(here, f, place, number)
        if self.reached(f, place):
            for sent in self.process.writes(g[1], place):
                yield from self._sends(here, sent, number)
        yield from self._ghosts(here, f, place, number)
        if place >= 0:
            yield from self._lists(here, f, place, number)
            yield from self._adopts(here, f, place, number)
        else:
            yield from self._nominated(here, f, number)
        if not f.faults[-1]:
            return
        if place >= 0:
            yield from self._upheaval(here, place, number)
            yield from self._on_worker(here, f, place, number)
        else:
            yield from self._people(here, number)

    def _nominated(self, here: Global, f: Frame, number: int) -> Iterator[Move]:
        for label, may, store, asked in nominations(self.stores[number], self.config):
            left = f.faults if asked else self.spend(here, "withdrawn")
            if left is not None:
                to = self.with_store(here, -1, put(self.stores, store))
                yield label, may, self.with_frame(to, f, asked=f.asked | asked, faults=left)

    # --- our process -------------------------------------------------------------------------------------------------

    def _looks(self, g: Global, f: Frame, place: int, number: int) -> Iterator[Move]:
        if not self.watched(g, f, place):
            return
        if place < 0 and not self.process.knows_home(g[1]):
            log = self.process.list_home(g[1], self.stores[number], number)
            if log != g[1]:
                yield "management is listed", False, self.with_log(g, log)
            return
        for slots in (self.config.slots,) if self.config.together else tuple((slot,) for slot in self.config.slots):
            to = g
            for slot in slots:
                log = self.looked(to[1], place, slot, number)
                if log != to[1]:
                    to = self.with_log(to, log)
            if to[1] != g[1]:
                yield f"the {' and the '.join(slots)} on {self.name(place)} are seen", False, to

    def _sends(self, g: Global, sent: Sent, number: int) -> Iterator[Move]:
        request = self.process.requests[sent.request]
        label = f"{request.verb} {sent.target}"
        self.well_formed(sent)
        after = self.answer(g, sent.place, number, sent.request)
        if isinstance(after, Refused):
            # A conflict is explained by news that is on its way, but on the stream of another Workload maybe.
            if (after.error != "Conflict" and after.code != 404) or self._explained(g, sent.place, number):
                log = self.process.failed(g[1], sent, after.code, after.error)
                yield f"{label}: {after.error}", False, self.with_log(g, log)
            return
        to = self.with_store(g, sent.place, after)
        if after != number:
            if not self.config.lazy:
                yield label, False, to
            if (left := self.spend(g, "failed")) is not None:
                log = self.process.failed(g[1], sent, 500, "InternalError")
                yield f"{label}: InternalError, and it is done", True, self.with_log(self.left(to, left), log)

        elif request.verb == "patch" and self._explained(g, sent.place, number):
            yield f"{label}: it is so already", False, self.with_log(g, self.process.unneeded(g[1], sent))

    def _explained(self, g: Global, place: int, number: int) -> bool:
        """Whether our process has seen what a cluster has: no news of it comes any more."""
        log = g[1]
        return len(self.config.workloads) > 1 and all(
            self.looked(log, place, slot, number) == log for slot in self.config.slots
        )

    def _anywhere(self, g: Global, f: Frame) -> Iterator[Move]:
        """Return the steps that no cluster takes part in."""
        yield from self._links(g, f)
        if not f.faults[-1]:
            return
        for sent in self._open(g, f):
            ghosts = tuple(sorted({*f.ghosts, (sent.place, sent.request)}))
            if ghosts != f.ghosts and (left := self.spend(g, "delayed")) is not None:
                to = self.with_frame(g, f, ghosts=ghosts, faults=left)
                yield f"the write to {sent.target} is delayed", True, to
            if (left := self.spend(g, "failed")) is not None:
                log = self.process.failed(g[1], sent, 500, "InternalError")
                yield f"write to {sent.target}: InternalError", True, self.with_log(self.left(g, left), log)
        if (left := self.spend(g, "restarted")) is not None:
            yield "another process takes over", True, self._restarted(self.left(g, left))
        if (left := self.spend(g, "forgot")) is not None:
            given = 0  # that it was given up is forgotten
            if self.config.execution != NEVER_TWICE:
                given = sum(1 << place for place in self.places if self.process.gave_up(g[1], place))
            # So is an end that only the log knew.
            untold = self.untold if any(self.process.knows_end(g[1], place) for place in self.places) else 0
            to = self.with_frame(g, f, faults=left, given=f.given | given, over=f.over | untold if f.over else 0)
            yield "another process begins with an empty log", True, (to[0], self.process.forget(), *g[2:])
        if (left := self.spend(g, "paused")) is not None:
            ghosts = tuple(sorted({*f.ghosts, *((sent.place, sent.request) for sent in self._open(g, f))}))
            to = self.with_frame(g, f, ghosts=ghosts, faults=left)
            yield "the leader stands still, and another process takes over", True, self._restarted(to)

    def _open(self, g: Global, f: Frame) -> Iterator[Sent]:
        for place in range(-1, self.config.clusters):
            if place < 0 or f.links >> place & 1:
                yield from self.process.writes(g[1], place)

    def _restarted(self, g: Global) -> Global:
        return (g[0], self.process.restart(g[1]), *g[2:])

    def _ghosts(self, g: Global, f: Frame, place: int, number: int) -> Iterator[Move]:
        for ghost in f.ghosts:
            if ghost[0] != place or (place >= 0 and (not f.links >> place & 1 or f.hidden[place] >= 0)):
                continue
            after = self.answer(g, place, number, ghost[1])
            if isinstance(after, int) and after != number:
                left = tuple(other for other in f.ghosts if other != ghost)
                to = self.with_frame(g, self.frames[g[0]], ghosts=left)
                verb = self.process.requests[ghost[1]].verb
                yield f"a {verb} arrives late on {self.name(place)}", False, self.with_store(to, place, after)

    def _time(self, g: Global) -> Iterator[Move]:
        """Time passes to the next deadline when nothing else is to be done, and while a worker is away."""
        wake = self.process.wake(g[1])
        if wake is not None and wake > 0:
            to = self.with_log(g, self.process.pass_time(g[1], wake))
            if self.config.dispatcher == INCREMENTAL:
                f = self.frames[to[0]]
                to = self.with_frame(to, f, waited=min(f.waited + wake, ROUND * self.config.clusters))
            yield f"{wake} s pass", False, to

    def tidy(self, g: Global) -> Global:
        """Return the state without requests on their way that would be refused from now on."""
        f = self.frames[g[0]]
        if not f.ghosts:
            return g
        ghosts = tuple(ghost for ghost in f.ghosts if self._alive(g, f, *ghost))
        return g if ghosts == f.ghosts else self.with_frame(g, f, ghosts=ghosts)

    def _alive(self, g: Global, f: Frame, place: int, request: int) -> bool:
        """Whether a request on its way may still do something: a creation always may, whatever names an object or its
        version that is not there any more cannot, but after the cluster was put back to a backup."""
        if self.process.requests[request].verb == "create" or (
            place >= 0 and (f.saved[place] >= 0 or f.hidden[place] >= 0)
        ):
            return True
        return self.answer(g, place, g[3 + place], request) not in (g[3 + place],) and not isinstance(
            self.answer(g, place, g[3 + place], request), Refused
        )
