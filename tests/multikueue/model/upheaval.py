"""What goes wrong with clusters as wholes, and what people do: connections that break, backups, other clusters behind a
name, deletions, evictions."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.kube.kinds import Json
from tests.candidates.model.faults import spent
from tests.multikueue.model import kueue
from tests.multikueue.model.alike import put
from tests.multikueue.model.ground import Ground
from tests.multikueue.model.world import EMPTY, KINDS, LARGE, Frame, Global, Move, Store

LOST = -4
SLOTS = ("workload", "next")
_INDEX = {kind: number for number, kind in enumerate(KINDS)}


class Upheavals(Ground):
    """Steps that are not our process's writes and sights."""

    def spend(self, g: Global, kind: str) -> tuple[int, ...] | None:
        """Return the faults that are left after one of a kind, None if there is none."""
        faults = self.frames[g[0]].faults
        return spent(faults, _INDEX[kind]) if faults[-1] else None

    def left(self, g: Global, faults: tuple[int, ...]) -> Global:
        """Return the state with so many faults left."""
        return self.with_frame(g, self.frames[g[0]], faults=faults)

    def watched(self, g: Global, f: Frame, place: int) -> bool:
        """Whether what happens on a cluster is shown to our process."""
        bit = 1 << max(place, 0)
        return place < 0 or (bool(f.links & bit) and not f.stale & bit and self.process.in_view(g[1], place))

    def looked(self, log: int, place: int, slot: str, number: int) -> int:
        """Return the log after a look at one object."""
        return self.process.look(log, place, slot, self.stores[number], number)

    # --- connections -------------------------------------------------------------------------------------------------

    def _links(self, g: Global, f: Frame) -> Iterator[Move]:
        for place, name in enumerate(self.config.names):
            bit = 1 << place
            in_view = self.process.in_view(g[1], place)
            other = f.hidden[place] >= 0 and not f.adopted & bit
            if not f.links & bit and f.saved[place] != LOST:
                yield f"{name} can be reached again", False, self.with_frame(g, f, links=f.links | bit)
            if (not f.links & bit and (in_view or self.process.untried(g[1], place))) or (other and in_view):
                log = self.process.lose(g[1], place)
                to = self.with_frame(g, f, stale=f.stale & ~bit)
                yield f"{name} is found to be away", False, self.with_log(to, log)
            elif f.links & bit and in_view and not f.stale & bit and (left := self.spend(g, "cut")) is not None:
                yield f"{name} cannot be reached", True, self.with_frame(g, f, links=f.links & ~bit, faults=left)
            if f.links & bit and (left := self.spend(g, "lost")) is not None:
                saved = (*f.saved[:place], LOST, *f.saved[place + 1 :])
                to = self.with_frame(g, f, links=f.links & ~bit, saved=saved, faults=left)
                yield f"{name} is lost for ever", True, to
            if other:
                yield from self._other(g, f, place, name)

    def _other(self, g: Global, f: Frame, place: int, name: str) -> Iterator[Move]:
        """Another cluster answers under the name; the one before may be back."""
        bit = 1 << place
        hidden = (*f.hidden[:place], -1, *f.hidden[place + 1 :])
        to = self.with_frame(g, f, hidden=hidden)
        yield f"{name} is the cluster again that it was", False, self.with_store(to, place, f.hidden[place])
        unused = f.links & bit and not self.process.in_view(g[1], place) and self.process.untried(g[1], place)
        if unused and self.process.rests_on(g[1], place):
            log = self.process.lose(g[1], place)
            yield f"{name} is another cluster, and not used", False, self.with_log(g, log)

    def _adopts(self, g: Global, f: Frame, place: int, number: int) -> Iterator[Move]:
        """The other cluster under a name is used, since nothing rests on the one before."""
        bit, name = 1 << place, self.config.names[place]
        if f.hidden[place] < 0 or f.adopted & bit or not f.links & bit or self.process.in_view(g[1], place):
            return
        if self.process.rests_on(g[1], place):
            return
        f = self.frames[g[0]]
        may = self.config.execution != NEVER_TWICE and self.process.gave_up(g[1], place)
        given = f.given | bit << self.config.clusters if may or f.given & bit else f.given
        to = self.with_frame(g, f, adopted=f.adopted | bit, stale=f.stale & ~bit, given=given & ~bit)
        log = self.process.adopted(g[1], place, self.stores[number], number)
        yield f"{name} is another cluster, and used", False, self.with_log(to, log)

    def _lists(self, g: Global, f: Frame, place: int, number: int) -> Iterator[Move]:
        bit = 1 << place
        if not f.links & bit or (f.hidden[place] >= 0 and not f.adopted & bit):
            return
        if self.process.in_view(g[1], place) and not f.stale & bit:
            return
        yield f"{self.config.names[place]} is listed", False, self._listed(g, place, number)

    def _listed(self, g: Global, place: int, number: int) -> Global:
        f, bit, store = self.frames[g[0]], 1 << place, self.stores[number]
        if f.saved[place] == -2:  # put back
            saved = (*f.saved[:place], -3, *f.saved[place + 1 :])
            to = self.with_frame(g, f, saved=saved, stale=f.stale & ~bit)
            return self.with_log(to, self.process.put_back(g[1], place, store, number))
        if f.stale & bit and self.process.in_view(g[1], place):
            g = self.with_log(g, self.process.lose(g[1], place))
            f = self.frames[g[0]]
        log = self.process.connected(g[1], place, store, number)
        return self.with_log(self.with_frame(g, f, stale=f.stale & ~bit), log)

    # --- clusters as wholes ------------------------------------------------------------------------------------------

    def _upheaval(self, g: Global, place: int, number: int) -> Iterator[Move]:
        """A worker is put back to a backup, or another one answers under its name."""
        f = self.frames[g[0]]
        name, bit = self.config.names[place], 1 << place
        if f.saved[place] == -1 and f.faults[_INDEX["restored"]] and f.faults[-1]:
            saved = (*f.saved[:place], number, *f.saved[place + 1 :])
            yield f"a backup of {name} is made", True, self.with_frame(g, f, saved=saved)
        if f.saved[place] >= 0 and f.saved[place] != number and (left := self.spend(g, "restored")) is not None:
            saved = (*f.saved[:place], -2, *f.saved[place + 1 :])
            to = self.with_store(g, place, f.saved[place])
            after = self.frames[to[0]]
            # Nobody can know of a job that is there again before the cluster is listed.
            before, again = (kueue.is_ours(self.stores[one]["job"]) for one in (number, f.saved[place]))
            given = after.given | bit if again and not before else after.given
            to = self.with_frame(to, after, saved=saved, stale=f.stale | bit, faults=left, given=given)
            yield f"{name} is put back", True, to
        if f.hidden[place] < 0 and f.links & bit and (left := self.spend(g, "swapped")) is not None:
            hidden = (*f.hidden[:place], number, *f.hidden[place + 1 :])
            to = self.with_frame(g, f, hidden=hidden, stale=f.stale | bit, faults=left)
            empty = (*to[: 3 + place], put(self.stores, EMPTY), *to[4 + place :])
            yield f"another cluster answers as {name}", True, empty

    # --- people and Kueue --------------------------------------------------------------------------------------------

    def _people(self, g: Global, number: int) -> Iterator[Move]:
        home = self.stores[number]
        job = home["job"]
        if self._can_grow(job) and (left := self.spend(g, "resized")) is not None:
            larger = put(self.stores, {**home, "job": {**job, "spec": {**job["spec"], "parallelism": LARGE}}})
            yield "the user makes the job larger", True, self.with_store(self.left(g, left), -1, larger)
        for slot in self.config.slots[:-1]:
            workload = home[slot]
            placed = kueue.condition(workload, "QuotaReserved") and not kueue.condition(workload, "Evicted")
            over = kueue.condition(workload, "Finished")
            if placed and not over and (left := self.spend(g, "evicted")) is not None:
                after = kueue.evict({**home, "workload": workload})["workload"]
                evicted = put(self.stores, {**home, slot: after})
                yield f"the {slot} is evicted", True, self.with_store(self.left(g, left), -1, evicted)
        if job is not None and (left := self.spend(g, "deleted")) is not None:
            gone = put(self.stores, EMPTY)
            yield "the user deletes the job", True, self.with_store(self.left(g, left), -1, gone)

    def _can_grow(self, job: Json | None) -> bool:
        elastic = self.config.elastic and job is not None and not kueue.complete(job)
        return elastic and job is not None and job["spec"]["parallelism"] < LARGE

    def _on_worker(self, g: Global, f: Frame, place: int, number: int) -> Iterator[Move]:
        store, name = self.stores[number], self.config.names[place]
        clone, job = store["workload"], store["job"]
        if kueue.condition(clone, "Admitted") and (left := self.spend(g, "preempted")) is not None:
            yield f"{name} evicts the copy", True, self._stored(g, left, place, kueue.preempted(store))
        if clone is not None and job is not None and kueue.is_ours(job) and not kueue.complete(job):
            fresh = not kueue.condition(clone, "Finished") and "deletionTimestamp" not in clone["metadata"]
            if fresh and (left := self.spend(g, "unsynced")) is not None:
                yield f"{name} finds the copy out of sync", True, self._stored(g, left, place, kueue.unsynced(store))
        # A watch shows what an object was before it shows that it is gone.
        there = kueue.is_ours(job), clone is not None
        for slot, kind, is_there in zip(("job", "workload"), ("removed", "stripped"), there, strict=True):
            left = self.spend(g, kind)
            if is_there and left is not None and self._shown(g, f, place, slot, number):
                rest = {**store, slot: None}
                to = self._without_sign(self._stored(g, left, place, rest), place, rest)
                yield f"somebody deletes the {slot} on {name}", True, to
        if self.process.logs[g[1]].routed >> place & 1 and (left := self.spend(g, "reconfigured")) is not None:
            to = self.with_log(self.left(g, left), self.process.without(g[1], place))
            yield f"{name} is taken out of the configuration", True, to

    def _stored(self, g: Global, faults: tuple[int, ...], place: int, store: object) -> Global:
        return self.with_store(self.left(g, faults), place, put(self.stores, store))  # type: ignore[arg-type]

    def _without_sign(self, g: Global, place: int, store: Store) -> Global:
        """Return the state after somebody deleted something on a worker. An end there that was never seen is `untold`;
        it counts no more if nothing there says so either."""
        f, bit = self.frames[g[0]], 1 << place
        if not f.over & bit or kueue.complete(store["job"]) or self.process.knows_end(g[1], place):
            return g
        shows = any(kueue.condition(store[slot], "Finished") for slot in SLOTS)
        return self.with_frame(g, f, over=(f.over if shows else f.over & ~bit) | self.untold)

    def _shown(self, g: Global, f: Frame, place: int, slot: str, number: int) -> bool:
        """Whether our process has seen an object as it is, or cannot see it now."""
        return not self.watched(g, f, place) or self.looked(g[1], place, slot, number) == g[1]
