"""The lead: held by heartbeats, taken over only when they have stopped for a lease, and never believed in by two at
once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from controlplane.clock import SystemClock
from controlplane.log.codec import Codec
from controlplane.log.event import Append, Fenced, LogHead, LogReplaced, LogUnavailable
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from tests.runtime.bench import BenchLog, ManualClock, settle
from tests.runtime.errands import shown

LEASE, RENEW = 4.0, 1.0


class Replica:
    """One process that may lead. `keeping` is its heartbeat-giving, once started."""

    def __init__(self, store: MemoryStore, clock: ManualClock, name: str) -> None:
        self.log = BenchLog(store, clock)
        self.gate = Gate()
        self.leader = Leader(self.log, name, clock, self.gate, lease=LEASE, renew=RENEW)
        self.acquiring: asyncio.Task[LogHead] | None = None
        self.keeping: asyncio.Task[None] | None = None

    @property
    def sure(self) -> bool:
        return self.leader.sure

    def wait_for_lead(self) -> asyncio.Task[LogHead]:
        self.acquiring = asyncio.create_task(self.leader.acquire())
        return self.acquiring

    def keep(self) -> asyncio.Task[None]:
        self.keeping = asyncio.create_task(self.leader.keep())
        return self.keeping

    async def stop(self) -> None:
        tasks = [task for task in (self.acquiring, self.keeping) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def replicas(clock: ManualClock) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two on one log; the first leads, and gives no heartbeats yet."""
    store = MemoryStore()
    first, second = Replica(store, clock, "first"), Replica(store, clock, "second")
    assert await first.leader.acquire() == LogHead(0, 1)
    try:
        yield first, second
    finally:
        await first.stop()
        await second.stop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_the_second_waits_for_as_long_as_the_first_gives_signs_of_life(clock: ManualClock) -> None:
    async with replicas(clock) as (first, second):
        first.keep()
        waiting = second.wait_for_lead()
        for _ in range(60):
            await clock.pass_(0.5)
            assert first.sure
            assert not second.sure
        assert not waiting.done()


async def test_the_second_takes_over_when_the_first_was_silent_for_a_lease(clock: ManualClock) -> None:
    async with replicas(clock) as (_, second):
        waiting = second.wait_for_lead()
        await clock.pass_(LEASE - 0.1)
        assert not waiting.done()
        await clock.pass_(RENEW)
        assert (await waiting).epoch == 2
        assert second.sure


async def test_the_second_takes_over_at_once_when_the_first_resigned(clock: ManualClock) -> None:
    async with replicas(clock) as (first, second):
        waiting = second.wait_for_lead()
        await clock.pass_(0.1)
        await first.leader.release()
        assert not first.sure
        await clock.pass_(RENEW)
        assert (await waiting).epoch == 2


async def test_one_that_hesitates_leaves_a_lead_to_others_for_a_lease_and_takes_it_then(clock: ManualClock) -> None:
    async with replicas(clock) as (first, second):
        third = Replica(second.log._store, clock, "third")
        second.leader.hesitates = lambda: True
        hesitating, waiting = second.wait_for_lead(), third.wait_for_lead()
        await clock.pass_(0.1)
        await first.leader.release()
        await clock.pass_(RENEW)
        assert (await waiting).epoch == 2
        await clock.pass_(LEASE + RENEW)
        assert not hesitating.done(), "the lease has to end first"
        await clock.pass_(LEASE + RENEW)
        assert (await hesitating).epoch == 3
        await third.stop()


async def test_a_leader_that_was_overtaken_is_fenced_and_no_longer_sure(clock: ManualClock) -> None:
    async with replicas(clock) as (first, second):
        keeping = first.keep()
        await second.log.take_epoch("second, by force")
        await clock.pass_(RENEW + 0.1)
        assert isinstance(keeping.exception(), Fenced)
        assert not first.sure


async def test_resigning_late_takes_nothing_from_the_next(clock: ManualClock) -> None:
    async with replicas(clock) as (first, second):
        await second.log.take_epoch("second, by force")
        await first.leader.release()
        await first.leader.release()
        third = Replica(second.log._store, clock, "third")
        waiting = third.wait_for_lead()
        await clock.pass_(LEASE / 2)
        assert not waiting.done()
        await third.stop()


async def test_who_leads_nothing_has_nothing_to_resign(clock: ManualClock) -> None:
    async with replicas(clock) as (first, second):
        await second.leader.release()
        await clock.pass_(LEASE / 2)
        assert first.sure
        assert not (await second.log.heartbeat()).free


@pytest.mark.parametrize("how", ["paused", "cut off from the log"])
async def test_a_silent_leader_stops_being_sure_before_another_can_lead(clock: ManualClock, how: str) -> None:
    async with replicas(clock) as (first, second):
        keeping = first.keep()
        await clock.pass_(10.3)
        if how == "paused":
            keeping.cancel()
        else:
            first.log.away = True
        waiting = second.wait_for_lead()
        led: list[tuple[bool, bool]] = []
        for _ in range(60):
            await clock.pass_(0.1)
            led.append((first.sure, second.sure))
        assert waiting.done()
        assert (True, True) not in led
        assert led[0] == (True, False)
        assert (False, False) in led
        assert led[-1] == (False, True)


async def test_a_leader_without_a_log_closes_the_gate_only_when_it_is_no_longer_sure(clock: ManualClock) -> None:
    async with replicas(clock) as (first, _):
        first.keep()
        first.log.away = True
        await clock.pass_(LEASE * 0.75 - 0.5)
        assert first.sure
        assert first.gate.is_open
        await clock.pass_(1.0)
        assert not first.sure
        assert first.gate.against("leader") == "connection refused"


async def test_a_leader_is_sure_again_when_the_log_answers_and_nobody_came(clock: ManualClock) -> None:
    async with replicas(clock) as (first, _):
        keeping = first.keep()
        first.log.away = True
        await clock.pass_(60.0)
        assert not first.sure
        first.log.away = False
        await clock.pass_(RENEW + 0.1)
        assert first.sure
        assert first.gate.is_open
        assert not keeping.done()


async def test_a_lead_counts_from_when_it_was_asked_for(clock: ManualClock) -> None:
    """The answer may have been under way for long; the log's lease ran all the while."""
    async with replicas(clock) as (first, _):
        slow = asyncio.Event()
        renew = first.log.renew

        async def late(*, resign: bool = False) -> None:
            await renew(resign=resign)
            await slow.wait()

        first.log.renew = late  # type: ignore[method-assign]
        first.keep()
        await clock.pass_(RENEW + LEASE)
        slow.set()
        await settle()
        assert not first.sure


async def test_the_lead_of_a_log_that_does_not_answer_is_waited_for(clock: ManualClock) -> None:
    replica = Replica(MemoryStore(), clock, "only")
    replica.log.away = True
    waiting = replica.wait_for_lead()
    await clock.pass_(10.0)
    assert not waiting.done()
    assert not replica.sure
    replica.log.away = False
    await clock.pass_(RENEW)
    assert (await waiting).epoch == 1
    assert replica.sure


async def test_a_log_that_gives_nobody_the_lead_is_told(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may answer whoever reads all the while: a right to a function is missing, or it takes no writes."""

    async def denied(holder: str, heartbeat: object) -> LogHead | None:
        raise LogUnavailable("permission denied for function take_epoch")

    replica = Replica(MemoryStore(), clock, "only")
    with monkeypatch.context() as patched, structlog.testing.capture_logs() as said:
        patched.setattr(replica.log, "lead", denied)
        waiting = replica.wait_for_lead()
        await clock.pass_(LEASE - 0.1)
        assert replica.leader.refused == "", "a moment is nothing to tell of"
        await clock.pass_(LEASE)
        assert replica.leader.refused == "permission denied for function take_epoch"
    assert [line["error"] for line in said] == ["permission denied for function take_epoch"]
    await clock.pass_(RENEW)
    assert (await waiting).epoch == 1
    assert replica.leader.refused == ""


async def test_heartbeats_that_are_refused_are_told_once(clock: ManualClock) -> None:
    async with replicas(clock) as (first, _):
        first.keep()
        with structlog.testing.capture_logs() as said:
            first.log.away = True
            await clock.pass_(10 * RENEW)
            first.log.away = False
            await clock.pass_(2 * RENEW)
        assert [(line["event"], line.get("error")) for line in said] == [
            ("a heartbeat could not be sent", "connection refused"),
            ("heartbeats are sent again", None),
        ]


async def test_a_lease_is_counted_from_when_the_last_sign_was_seen(clock: ManualClock) -> None:
    """Whoever begins to watch cannot know how old the last heartbeat is: the database's clock may have jumped since."""
    async with replicas(clock) as (_, second):
        await clock.pass_(100 * LEASE)
        waiting = second.wait_for_lead()
        await clock.pass_(LEASE - 0.1)
        assert not waiting.done()
        await clock.pass_(RENEW)
        assert (await waiting).epoch == 2


async def test_a_leader_whose_log_went_back_leads_no_more(clock: ManualClock) -> None:
    async with replicas(clock) as (first, _):
        store = first.log._store
        await first.log.append(Append([shown("a")]))
        restore = store.backup()
        await first.log.append(Append([shown("b")]))
        keeping = first.keep()
        restore()
        await clock.pass_(RENEW + 0.1)
        error = keeping.exception()
        assert isinstance(error, LogReplaced)
        assert error.ends_at == 1
        assert not first.sure
        with pytest.raises(LogReplaced):
            await first.log.append(Append([shown("c")]))


async def test_whoever_finds_another_one_leading_says_so_once(clock: ManualClock) -> None:
    async with replicas(clock) as (first, second):
        with structlog.testing.capture_logs() as said:
            second.wait_for_lead()
            await clock.pass_(RENEW)
            assert said == []  # the last heartbeat may have been given long ago
            first.keep()
            await clock.pass_(10 * RENEW)
        assert said == [
            {"event": "following", "detail": "another process leads this log", "epoch": 1, "log_level": "info"}
        ]


async def test_whoever_takes_the_lead_at_once_does_not_say_that_it_follows(clock: ManualClock) -> None:
    with structlog.testing.capture_logs() as said:
        async with replicas(clock) as (first, second):
            await first.leader.release()
            assert (await second.leader.acquire()).epoch == 2
    assert said == []


async def test_the_time_for_which_the_machine_is_suspended_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """CLOCK_MONOTONIC stands still then, so that a leader that woke up acted on a lead that somebody else had."""
    read, suspended = time.clock_gettime, 0.0
    monkeypatch.setattr(
        time, "clock_gettime", lambda which: read(which) + (suspended if which == time.CLOCK_BOOTTIME else 0.0)
    )
    clock = SystemClock()
    leader = Leader(MemoryLog(MemoryStore(), Codec([]), clock.now), "one", clock, Gate(), lease=LEASE, renew=RENEW)
    await leader.acquire()
    assert leader.sure
    suspended = LEASE
    assert not leader.sure
