"""Keeps one log's processes the only ones that act on a cluster: two logs on it would each dispatch the same jobs.

In: the Leases that say so on the cluster, a way to its API server, the gate of effects. Out: whoever starts waits while
the processes of another log hold one of them; a leader keeps them, acts only while it has them, and follows again when
it finds that another log took one. Replicas of one log are kept apart by the log itself, so they share the holder. A
cluster that lets us read or write no Lease (403, 404) is used as if there were none, and it is said: that two logs do
not meet is then for its owner to see to. What an `OptionalLease` is for may be left to another log: a leader acts
without it then, and begins anew once nobody has had it for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from controlplane.clock import Clock
from controlplane.clusters.lease import FREE, ClusterLease, LeaseHolder
from controlplane.clusters.protocol import ApiError, ClusterError
from controlplane.clusters.streams import ApiServer
from controlplane.log.event import Fenced, LogUnavailable
from controlplane.runtime.gate import Gate

_log = structlog.get_logger(__name__)

_ASKED, _LEAVE = 5.0, 1.0  # seconds that asking may take at most, and letting go
_RETURN = 2.0  # of what was left to another log: for so many times `duration` nobody has to have it before it is taken
# A renewal counts for us less than for others: what began before it ran out may take its time, and so does noticing.
_SAFETY = 0.6


class ClaimTexts(NamedTuple):
    """What people are told of claims: which `cluster` they are on, the `rule` that they keep and what to do where it is
    in the way, and the `manifest` that gives the right to them."""

    cluster: str
    rule: str
    manifest: str


class OptionalLease(NamedTuple):
    """A Lease without which a process may act all the same: `leaves` is what it leaves to another log then, `for_good`
    how to have it do so always."""

    lease: ClusterLease
    leaves: str
    for_good: str


class AnotherLog(Fenced):
    """The processes of another log act on the cluster; the message names them, and says what to do."""


class ClusterClaims:
    """The Leases of a cluster that the processes of a log hold, for `duration` seconds each.

    `identity` is who the log is, "" while nobody has opened it; `told` hears why this process waits, "" once it does
    not. `optional` is held with the others, and not waited for: `left` says why it is not held, "" if it is or is to
    be, and `returned` is called once nobody has had it for a while."""

    def __init__(
        self,
        leases: Sequence[ClusterLease],
        open_server: Callable[[], Awaitable[ApiServer]],
        identity: Callable[[], Awaitable[str]],
        clock: Clock,
        gate: Gate,
        told: Callable[[str], None],
        texts: ClaimTexts,
        *,
        duration: float,
        optional: OptionalLease | None = None,
    ) -> None:
        self._needed, self._optional, self._open, self._identity = leases, optional, open_server, identity
        self._leases = self._all
        self.left = ""
        self.returned: Callable[[], None] = _nothing
        self._unheld: float | None = None  # since when nobody is seen to hold what was left
        self._clock, self._gate, self._told = clock, gate, told
        self._texts = texts
        self._untold = f"whether another log acts on {texts.cluster} is not known yet"
        self._late = f"the Leases on {texts.cluster} could not be renewed, so another log may act there"
        self._duration, self._renew = duration, duration / 3
        self._patience = min(self._renew, _ASKED)
        self._server: ApiServer | None = None
        self._until = float("-inf")  # when the oldest of our renewals ends
        self._kept = self._without = False

    @property
    def sure(self) -> bool:
        """Whether no other log can have taken them by now, or there are none. Looked at right before a write: the gate
        hears of it only when the next renewal is due."""
        return self._without or self._clock.monotonic() < self._until

    async def free(self) -> None:
        """Return once nobody else is seen to hold one of them. What cannot be asked says nothing."""
        said, held = "", _Held(self._duration)
        while True:
            if await self._known():
                others, now = await self._others(), self._clock.monotonic()
                needed = [self._sentence(lease, other) for lease, other in others.items() if lease in self._needed]
                if not needed and held.may_be_left(self._holder_of_optional(others), now):
                    break
                if needed:
                    held.waited_for((other.identity for lease, other in others.items() if lease in self._needed), now)
                if needed and needed[0] != said:
                    said = needed[0]
                    self._told(said)
                    _log.warning("waiting: the processes of another log act on this cluster", detail=said)
            await self._clock.sleep(self._renew / 3)
        self._leave(others)
        self._told("")

    def _holder_of_optional(self, others: Mapping[ClusterLease, LeaseHolder]) -> str:
        return others.get(self._optional.lease, FREE).identity if self._optional is not None else ""

    def _leave(self, others: Mapping[ClusterLease, LeaseHolder]) -> None:
        """Leave what need not be held to who was seen to hold it, or hold all."""
        optional, self.left, self._unheld = self._optional, "", None
        self._leases = self._all
        if optional is not None and (other := others.get(optional.lease)) is not None:
            detail = f"{_held_by(optional.lease, other)}; {optional.for_good}"
            self.left = f"{optional.leaves} are left to another log: {detail}"
            self._leases = self._needed
            _log.info(f"{optional.leaves} are left to another log", detail=detail)

    async def _look_at_left(self) -> None:
        """See whether anybody still holds what was left."""
        if self._optional is None or not self.left:
            return
        try:
            async with asyncio.timeout(self._patience):
                other = await self._optional.lease.other(await self._reach())
        except (ClusterError, TimeoutError):
            return
        now = self._clock.monotonic()
        if other != FREE:
            self._unheld = None
        elif self._unheld is None:
            self._unheld = now
        elif now - self._unheld >= self._duration * _RETURN:
            _log.info(f"nobody holds the Lease for {self._optional.leaves} any more: beginning anew with it")
            self.returned()

    async def keep(self) -> None:
        """Take them and renew them until cancelled; raises `AnotherLog` if the processes of another log have one."""
        self._gate.set("claim", False, self._untold)
        while not await self._known():
            await self._clock.sleep(self._renew / 3)
        while True:
            began = self._clock.monotonic()
            done = await self._renewed()
            if done:
                self._until = began + self._duration * _SAFETY
            sure = self.sure
            if not sure and self._gate.against("claim") not in (self._untold, self._late):
                _log.warning("nothing is written for now", detail=self._late)
            self._gate.set("claim", sure, self._late)
            await self._look_at_left()
            await self._clock.sleep(self._renew if done else self._renew / 3)

    async def close(self) -> None:
        """Let go of what is held, if the cluster answers."""
        if self._server is not None:
            with contextlib.suppress(ClusterError, TimeoutError):
                async with asyncio.timeout(_LEAVE):
                    for lease in self._leases:
                        await lease.release(self._server)
        await self._hang_up()

    async def _known(self) -> bool:
        """Ask who the log is; whether it answered."""
        try:
            holder = await self._identity()
        except LogUnavailable:
            return False
        for lease in self._all:
            lease.holder = holder
        return True

    @property
    def _all(self) -> Sequence[ClusterLease]:
        return self._needed if self._optional is None else [self._optional.lease, *self._needed]

    async def _others(self) -> Mapping[ClusterLease, LeaseHolder]:
        """Return who else is seen to hold which of them. All are looked at each time: a Lease that nobody renews ends
        so long after it was seen first."""
        try:
            async with asyncio.timeout(self._patience):
                server = await self._reach()
                others = await _each(lease.other(server) for lease in self._all)
            return {lease: other for lease, other in zip(self._all, others, strict=True) if other != FREE}
        except (ClusterError, TimeoutError) as error:
            await self._failed(error)
            return {}

    async def _renewed(self) -> bool:
        """Renew all; whether it was done. Raises `AnotherLog`.

        The first one comes before the others: of two logs that begin at once, one gets no further, and has nothing that
        the other one lacks."""
        try:
            async with asyncio.timeout(self._patience):
                server = await self._reach()
                for leases in (self._leases[:1], self._leases[1:]):
                    others = await _each(lease.renew(server) for lease in leases)
                    for lease, other in zip(leases, others, strict=True):
                        if other != FREE:
                            raise AnotherLog(self._sentence(lease, other))
        except (ClusterError, TimeoutError) as error:
            await self._failed(error)
            return False
        self._kept, self._without = True, False
        return True

    async def _reach(self) -> ApiServer:
        if self._server is None:
            try:
                self._server = await self._open()
            except Exception as error:  # whatever is wrong with the way there, the connection reports it
                raise ClusterError(str(error)) from error
        return self._server

    async def _failed(self, error: Exception) -> None:
        refused = isinstance(error, ApiError) and error.status in (403, 404)
        if refused and not self._without:
            _log.warning(
                f"no Lease on {self._texts.cluster} says that this log acts there, so another one is not kept out",
                detail=str(error),
                grant=f"get, create and patch of leases.coordination.k8s.io ({self._texts.manifest})",
            )
        self._without = refused or (self._without and not self._kept)
        await self._hang_up()

    async def _hang_up(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    def _sentence(self, lease: ClusterLease, other: LeaseHolder) -> str:
        return f"{_held_by(lease, other)}, and {self._texts.rule}; one that has gone is waited for until its Lease ends"


def _held_by(lease: ClusterLease, other: LeaseHolder) -> str:
    process = f" (process {other.process})" if other.process else ""
    return f"Lease {lease.ref.namespace}/{lease.ref.name} is held by the log {other.identity}{process}"


def _nothing() -> None:
    """Do nothing: nobody wants to hear of it."""


class _Held:
    """Whether what need not be held may be left to who holds it: it is, once that was seen twice. Whoever was waited
    for may have held it with the rest, and whoever begins now may be about to take the rest."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._last, self._waited, self._free = "", set[str](), 0.0

    def waited_for(self, holders: Iterable[str], now: float) -> None:
        """Take note of who held the rest."""
        self._waited.update(holders)
        self._free = now

    def may_be_left(self, holder: str, now: float) -> bool:
        """Whether it may; also if nobody holds it."""
        before, self._last = self._last, holder
        if not holder:
            return True
        return holder == before and (holder not in self._waited or now - self._free >= self._patience)


async def _each(asked: Iterable[Awaitable[LeaseHolder]]) -> list[LeaseHolder]:
    """Return all answers, or raise the first error once all have ended."""
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if isinstance(answer, LeaseHolder)]
