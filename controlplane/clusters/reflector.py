"""Follows one kind of one cluster: lists, then watches, then resumes where the watch ended.

In: an API server's pages and lines. Out: deltas to a sink, in the server's order. The place in the stream (a
resourceVersion) advances only after the sink has returned, so what the log does not have is shown again. An ordinary
end of a watch costs one request. A list is taken where the server no longer knows our place (410), and where it was out
of sight for a moment (a cut, a silence, a server's 5xx or 429): its store may have been restored from a backup
meanwhile, and have grown past our place since. The list's difference to what was known tells what vanished, and whether
this is still the history that we followed (`controlplane.clusters.history`). A kind that is not served or forbidden is
said to be off and asked for again now and then; nothing else of the cluster minds.

State of the loop, by `_position`, `_doubtful` and `off`:

    list ──ok──▶ watch ──end──▶ watch (same place)
     ▲ ▲           │
     │ └─410, cut──┘
     └─ off (403, 404): ask again, after up to a minute; quietly
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Literal

from controlplane.clusters.backoff import Backoff, doubled, jittered
from controlplane.clusters.budget import RequestBudget
from controlplane.clusters.concurrency import first_to_end
from controlplane.clusters.contradictions import Contradictions
from controlplane.clusters.deliveries import Deliveries, Patient, never
from controlplane.clusters.deltas import Bookmark, KnownObject, Poison, WatchFailure, of_line
from controlplane.clusters.history import ClusterHistory
from controlplane.clusters.listing import Listing, remember, suspect
from controlplane.clusters.pace import Pace
from controlplane.clusters.protocol import (
    ApiError,
    Change,
    ClusterError,
    Delta,
    Off,
    Sink,
    Synced,
    Unreachable,
    UnreadableResponse,
)
from controlplane.clusters.reflector_hooks import Identify, OnPoison, OnRestored, always, ignore, trusted, unheard
from controlplane.clusters.responses import status_error
from controlplane.clusters.streams import ApiServer, ListPage, ListQuery, WatchQuery
from controlplane.kube.watches import WatchSpec

_FAILURES_TO_SETTLE = 3
_OFF: dict[int, Literal["NotServed", "Forbidden"]] = {403: "Forbidden", 404: "NotServed", 405: "NotServed"}


class Rejected(ClusterError):  # noqa: N818 - a state, as `Unreachable`
    """The API server answered 401 twice in a row: our credentials are no longer good."""


class Reflector:
    """Follows one kind of one cluster for as long as `run` runs; run again, it goes on where it was.

    `known` (uid → place) seeds what the log already holds of the kind, so that what vanished while nobody watched is
    reported `gone`; a place without a version is one of an earlier incarnation. `newest` is the highest resourceVersion
    that was seen of it in this incarnation of the cluster, 0 for none, and `is_gone` knows the UIDs of what was seen to
    go in it. `settled` is set once the kind is synced, off, or has failed so often that nobody should wait for it.
    Nothing is asked for while `begun` is not set: another history is being recorded."""

    def __init__(
        self,
        cluster: str,
        spec: WatchSpec,
        sink: Sink,
        budget: RequestBudget,
        *,
        known: Mapping[str, tuple[str, str, str]] | None = None,
        newest: int = 0,
        is_gone: Callable[[str], bool] = lambda uid: False,
        pace: Pace | None = None,
        on_poison: OnPoison = ignore,
        on_restored: OnRestored = unheard,
        identify: Identify = trusted,
        patient: Patient = never,
        begun: asyncio.Event | None = None,
    ) -> None:
        self.cluster, self.spec = cluster, spec
        self.known = {uid: KnownObject(*place) for uid, place in (known or {}).items()}
        self.off: Off | None = None
        self.settled = asyncio.Event()
        self.poisoned = 0
        self.reopened = 0  # watches after the first one on a connection
        self._sink, self._budget, self._on_poison = sink, budget, on_poison
        self._on_restored, self._identify, self._begun = on_restored, identify, begun or always()
        self._clock, self._random = budget.clock, budget.random
        self._pace = pace or Pace()
        self._backoff = Backoff(self._pace.backoff_base, self._pace.backoff_cap, random=self._random, floor=0.05)
        self._position = ""
        self._handed = ""  # the place up to which the watch was handed over; the log may not have it yet
        self._deliveries = Deliveries(self._taken, self._pace.ahead, patient)
        self._history = ClusterHistory(newest, is_gone)
        self._contradictions = Contradictions()
        self._forgotten = asyncio.Event()
        self._asked = 0  # counts who asked for a list: one that began before does not answer him
        self._era = 0  # counts what `pause`, `forget_position` ended: what began before says nothing of where we are
        self._shown = 0  # the era of what the watch shows
        self._judging = False  # whether this one has found another history, and tells of it
        self._doubtful = self._synced = self._watched = False
        self._silent = self._failures = self._rejections = self._refusals = 0

    @property
    def available(self) -> bool:
        """Whether the kind is being followed: listed at least once and not off."""
        return self._synced and self.off is None

    def forget_position(self) -> None:
        """List again instead of resuming: this is not the cluster, or not its history, that the position belongs to."""
        self._position = ""
        self._history.begin()
        self.known = {uid: place._replace(resource_version="") for uid, place in self.known.items()}
        self._era += 1
        self._forgotten.set()
        self._heard()
        self.settled.clear()

    def pause(self) -> None:
        """Hand over nothing that was shown: another history begins. Who has found that is not disturbed."""
        if not self._judging:
            self._era += 1
            self._forgotten.set()

    def doubt_position(self) -> None:
        """List before going on: the cluster was out of sight, so the position may no longer be one of its history."""
        self._doubtful = True
        self.settled.clear()

    def list_again(self) -> None:
        """List, and end the watch: what was shown before may be wanted by now."""
        self._doubtful, self._asked = True, self._asked + 1
        self._forgotten.set()

    def absent(self, namespace: str, name: str) -> None:
        """Take note that an object is not there: list, and end the watch, if it was shown for too long."""
        if self._contradictions.absent(namespace, name, self.known, self._clock.monotonic()):
            self.list_again()

    async def run(self, api: ApiServer) -> None:
        """Follow the kind until cancelled. Raises `Rejected`, and whatever the sink raises."""
        self._watched = False
        while True:
            try:
                wait = await self._turn(api)
            except Unreachable as error:
                wait = await self._silenced(error)
            except ApiError as error:
                wait = await self._refused(error)
            await self._clock.sleep(wait)

    async def _turn(self, api: ApiServer) -> float:
        """Do the next thing and return the seconds to wait after it."""
        await self._begun.wait()
        if self._position and self.off is not None:
            await self._try_watch(api)
            return 0.0
        if self._silent >= 2:
            await self._check_history(api)
        if not self._position or self._doubtful:
            if self._doubtful:
                await self._identify(api)
            await self._list(api)
            return 0.0
        await self._watch(api)
        return self._backoff.next()

    async def _list(self, api: ApiServer) -> None:
        """List everything, emit the difference to what was known, and watch from the list's version."""
        kind, gap, asked, era = self.spec.kind, self._synced, self._asked, self._era
        listing, limit, token = Listing(kind, self.known), self._pace.page, ""
        while era == self._era:
            try:
                page = await self._page(api, limit, token)
            except ApiError as error:
                if error.status != 410 or not token:
                    raise
                # The first page's snapshot was compacted away before the last page: take the list in one piece.
                listing, limit, token = Listing(kind, self.known), 0, ""
                continue
            if era != self._era:
                return  # another kind found meanwhile that the history went back: the list may be of the one before
            deltas = listing.page(page.items, page.resource_version)
            if (why := self._history.denies_list(page.resource_version, deltas, self.known)) is not None:
                await self._another_history(why)
                return
            await self._deliver(deltas)
            token = page.continue_token
            if not token:
                break
        if era != self._era:
            return
        for poison in listing.poisons:
            self._poison(poison)
        version = page.resource_version
        gone = listing.gone(version)
        if (why := self._history.denies_absence(version, gone, self.known)) is not None:
            await self._another_history(why)
            return
        await self._deliver([*gone, Synced(kind, version, listing.count, gap)])
        if era != self._era:
            return
        self._advance(version)
        self._history.complete = not listing.poisons
        self._contradictions.listed()
        self._synced, self.off, self._doubtful = True, None, asked != self._asked
        self._heard()
        self.settled.set()

    async def _page(self, api: ApiServer, limit: int, token: str) -> ListPage:
        async with self._budget.slot():
            spec = self.spec
            return await api.list(
                ListQuery(spec.kind, spec.namespace, spec.label_selector, spec.field_selector, limit, token)
            )

    async def _watch(self, api: ApiServer) -> None:
        """Watch from the position until the server ends the stream."""
        span = self._pace.watch_longest - self._pace.watch_shortest
        seconds = int(self._pace.watch_shortest + span * self._random())
        began, era = self._clock.monotonic(), self._era
        self.reopened += self._watched
        self._watched = True
        self._silent += 1
        self._shown = era
        self._forgotten.clear()
        self._handed = self._position
        trouble = [self._deliveries.failed.wait()] if self._pace.ahead > 1 else []
        try:
            # A watch from a position that no longer counts is left at once: what it shows belongs to another history.
            await first_to_end(self._consume(api, seconds), self._forgotten.wait(), *trouble)
            if era == self._era:
                await self._deliveries.finish()
        except ClusterError:
            await self._deliveries.finish()
            raise
        finally:
            await self._deliveries.drop()
            if self._clock.monotonic() - began >= self._pace.healthy:
                self._backoff.reset()

    async def _consume(self, api: ApiServer, seconds: int) -> None:
        era = self._era
        async with aclosing(self._stream(api, seconds, self._pace.idle_timeout)) as stream:
            async for lines in stream:
                for start in range(0, len(lines), self._pace.chunk):
                    if era != self._era or self._doubtful:
                        return
                    self._heard()
                    await self._take(lines[start : start + self._pace.chunk])
                if self._doubtful:  # what was shown does not fit: the next line may be a minute away
                    return

    def _stream(self, api: ApiServer, seconds: int, idle: float) -> AsyncGenerator[list[bytes], None]:
        spec, place = self.spec, (self._position, max(1, seconds))
        return api.watch(WatchQuery(spec.kind, *place, idle, spec.namespace, spec.label_selector, spec.field_selector))

    async def _take(self, lines: Sequence[bytes]) -> None:
        """Deliver the lines' deltas in one call, then advance. An ERROR line is raised after what came before it."""
        deltas: list[Delta] = []
        position, failure = self._handed, None
        for line in lines:
            found = of_line(self.spec.kind, line)
            if isinstance(found, (Change, Bookmark)):
                if (why := self._history.denies_line(found.resource_version, self._handed)) is not None:
                    await self._hand_over(deltas, position)
                    await self._deliveries.finish()
                    await self._another_history(why)
                    return
                if isinstance(found, Change):
                    if self._contradictions.missed(found, self.known) and self._history.complete:
                        self._doubtful = True
                        break
                    deltas.append(found)
                    if not found.resource_version:
                        self._history.complete = False  # it has one, which nobody can tell
                position = found.resource_version or position
            elif isinstance(found, WatchFailure):
                failure = status_error(found.status)
                break
            else:
                self._history.complete = False  # it may have been any object's newest version
                self._poison(found)
        await self._hand_over(deltas, position)
        if failure is not None:
            raise failure

    async def _hand_over(self, deltas: Sequence[Delta], position: str) -> None:
        """Deliver what a watch showed up to a position, and advance to it once the log has it; returns when more may be
        handed over."""
        self._handed = position
        if self._pace.ahead > 1:
            await self._deliveries.add(deltas, position)
        else:
            await self._taken(deltas, position)

    async def _taken(self, deltas: Sequence[Delta], position: str) -> None:
        era = self._shown
        if era == self._era:
            await self._deliver(deltas)
        if era == self._era:
            self._advance(position)

    async def _deliver(self, deltas: Sequence[Delta]) -> None:
        """Hand deltas to the sink, a chunk at a time, and remember what it took, or may have taken; the rest is left
        once another history begins."""
        era = self._era
        for start in range(0, len(deltas), self._pace.chunk):
            if era != self._era:
                return
            chunk, note = deltas[start : start + self._pace.chunk], suspect
            try:
                await self._sink(self.cluster, chunk)
                if era == self._era:
                    note = remember
            finally:  # the sink may have been interrupted after the log took it
                note(self.known, chunk)

    async def _silenced(self, error: Unreachable) -> float:
        """Draw the conclusion from no answer, or none that can be read, and return the seconds to wait."""
        self._doubtful = True
        if isinstance(error, UnreadableResponse):
            self._failures += 1
            if self._failures >= _FAILURES_TO_SETTLE:
                return await self._turn_off("Unreadable", str(error))
        return self._backoff.next()

    async def _refused(self, error: ApiError) -> float:
        """Draw the conclusion from a refusal, and return the seconds to wait. Raises `Rejected`."""
        self._silent = 0  # it answers
        if error.status == 401:
            self._rejections += 1
            if self._rejections >= 2:  # the first may be a token that was being renewed
                raise Rejected(f"{self.cluster}: {error.message or 'Unauthorized'}")
        elif error.status in _OFF:
            return await self._turn_off(_OFF[error.status], error.message)
        elif error.status == 410:
            self._position = ""
        elif _from_the_future(error):
            await self._another_history(error.message)
        else:
            self._doubtful |= error.status >= 500 or error.status == 429  # a gateway whose server is away answers so
            self._failures += 1
            if self._failures >= _FAILURES_TO_SETTLE:
                self.settled.set()
        return max(error.retry_after or 0.0, self._backoff.next())

    async def _turn_off(self, reason: Literal["NotServed", "Forbidden", "Unreadable"], message: str) -> float:
        """Say once that the kind is off, and ask again later."""
        if self.off is None or self.off.reason != reason:
            await self._sink(self.cluster, [off := Off(self.spec.kind, reason, message)])
            self.off, self._refusals = off, 0
        self.settled.set()
        self._refusals += 1
        return jittered(doubled(self._pace.off_first, self._pace.off_retry, self._refusals - 1), self._random)

    async def _try_watch(self, api: ApiServer) -> None:
        """Find out whether a kind that may be listed but not watched may be watched by now; if so, list again."""
        async with aclosing(self._stream(api, 1, self._pace.off_try)) as stream:
            async for _ in stream:
                break
        self._position = ""

    async def _check_history(self, api: ApiServer) -> None:
        """After watches that showed not even a bookmark: do we wait for a future that is not this server's?"""
        page = await self._page(api, 1, "")
        self._heard()
        if (why := self._history.denies_list(page.resource_version, [], self.known)) is not None:
            await self._another_history(why)

    def _advance(self, version: str) -> None:
        self._position = version
        self._history.seen(version)

    async def _another_history(self, why: str) -> None:
        """Report a restored backup, and begin anew: what is seen from now on belongs to another incarnation."""
        self._judging = True
        try:
            await self._on_restored(f"the history of {self.spec.kind.name} went back: {why}")
        finally:
            self._judging = False
        self.forget_position()

    def _heard(self) -> None:
        """Note that the server answers and shows something."""
        self._silent = self._failures = self._rejections = 0

    def _poison(self, poison: Poison) -> None:
        self.poisoned += 1
        self._on_poison(self.cluster, self.spec.kind, poison.why)


def _from_the_future(error: ApiError) -> bool:
    """Say whether the server's history is behind our position (its store was restored): it will not come."""
    return error.status == 504 and "Too large resource version" in error.message
