"""A log that is led, appended to, archived, dropped, brought back, kept as snapshots, restored from a backup and failed
over in an order that dice choose; and a list that says what it must have.

In: a seed, and where the log is. Out: nothing, or an assertion. `appended` is the list: after each step, whoever reads
the log gets exactly that, but for what is in archives alone."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg import sql

from controlplane.log.archive.checking import check_archives
from controlplane.log.archive.manifest import archives_of
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.ended import Ended
from controlplane.log.event import LogReplaced
from controlplane.log.postgres import PostgresLog
from controlplane.log.snapshots import Contents, PostgresSnapshots, compressed
from controlplane.log.verify import verify
from tests.log.archived import archive, connected, dropped, restored
from tests.log.followers import Follower, Row, again, difference
from tests.log.words import ROLE, TYPES, outcome, request, saw

LONG = ["long/a", "long/b"]


class Place(Protocol):
    """Where the database is, and what may become of it."""

    url: str

    def keep_backup(self) -> None:
        """Keep what it is now."""

    def fail_over(self) -> bool:
        """Put what was kept in its place, or a standby; whether what was appended since the backup is lost."""


class Fuzz:
    """See the module."""

    def __init__(self, place: Place, folder: Path, seed: int) -> None:
        self.place, self.folder, self.dice = place, folder, random.Random(seed)
        self.appended: list[Row] = []
        self.away: set[int] = set()
        """The positions of events that are in archives alone."""
        self.over: set[int] = set()
        """Those that ever were: who read behind them does not need them, also when they come back."""
        self.archives = folder / "archives-0"
        self._kept: tuple[int, set[int], set[int], Path, dict[str, int]] | None = None
        self._open = AsyncExitStack()
        self._number, self._folders, self._marks = 0, 0, dict[str, int]()
        self.followers: list[Follower] = []
        self.said: list[str] = []

    # --- what there is -------------------------------------------------------------------------------------------

    def log(self) -> PostgresLog:
        database = Database(self.place.url, ROLE)
        linger = self.dice.choice([0.0, 0.002])
        made = PostgresLog(database, Codec(TYPES), max_batch=self.dice.choice([3, 8, 1000]), linger=linger)
        self._open.push_async_callback(made.close)
        return made

    def version(self, stream: str) -> int:
        return sum(1 for row in self.appended if row[1] == stream)

    async def play(self, steps: int) -> None:
        async with self._open:
            with connected(self.place.url) as owner:
                self._partitions(owner, 12)
            self.leader = self.log()
            await self.leader.take_epoch("0")
            self.followers = [Follower(self.log()) for _ in range(2)]
            for number in range(steps):
                step = self.dice.choices(list(self.STEPS), weights=list(self.STEPS.values()))[0]
                self.said.append(step)
                try:
                    await getattr(self, f"_{step}")()
                    if step not in self.PLAIN or number % 6 == 0:
                        await self.check()
                except Exception as error:
                    raise AssertionError(f"step {number} of {self.said[-12:]}: {error!r}") from error
            await self.check()
            self.everything_comes_back()
            await self.check()
            assert not self.away

    STEPS = {
        "append": 30, "together": 8, "beside": 4, "read": 8, "lead": 3, "crash": 2, "archive": 6, "drop": 5, "restore": 3,
        "snapshot": 4, "start": 3, "partition": 2, "busy_drop": 2, "backup": 2, "fail_over": 1,
    }  # fmt: skip

    PLAIN = ("append", "together", "beside", "read", "snapshot", "partition", "archive")
    """After these it is not looked each time."""

    # --- what happens --------------------------------------------------------------------------------------------

    def _some(self) -> list[tuple[str, int, str, int]]:
        """Events to append: stream, number, source and mark."""
        found = []
        for _ in range(self.dice.randrange(1, 4)):
            self._number += 1
            # Most streams have several events and end; some go on long after.
            age = self.dice.choice([0, 0, 0, 0, 1, 5])
            now = max(self._number // 25 - age, 0)
            stream = self.dice.choice([*LONG, *(f"short/{now}-{one}" for one in range(4))])
            source = self.dice.choice(["", "", "x", "y"])
            found.append((stream, self._number, source, self._number if self.dice.random() < 0.8 else 1))
        return found

    async def _append(self, log: PostgresLog | None = None) -> None:
        log, some = log or self.leader, self._some()
        new = [saw(stream, n, source=source, mark=mark) for stream, n, source, mark in some]
        stream, expects = some[0][0], self.dice.random()
        expected = {} if expects < 0.5 else {stream: self.version(stream) + (expects > 0.9)}
        told = await outcome(log, request(*new, **expected))
        if expects > 0.9:
            assert told == "VersionConflict", told
            return
        assert told == self._took(some), (told, some)

    def _took(self, some: list[tuple[str, int, str, int]]) -> int:
        """Note what was appended; return how many events are new by their marks."""
        count = 0
        for stream, n, source, mark in some:
            if source and mark <= self._marks.get(source, -1):
                continue
            if source:
                self._marks[source] = mark
            self.appended.append((len(self.appended) + 1, stream, self.version(stream) + 1, n))
            count += 1
        return count

    async def _together(self) -> None:
        asked = [self._some() for _ in range(self.dice.randrange(2, 12))]
        told = await asyncio.gather(
            *(self.leader.append(request(*(saw(s, n, source=o, mark=m) for s, n, o, m in some))) for some in asked)
        )
        assert list(told) == [self._took(some) for some in asked]

    async def _beside(self) -> None:
        operator = self.log()
        await operator.assist()
        await self._append(operator)
        await operator.close()

    async def _read(self) -> None:
        await self.dice.choice(self.followers).read(self.dice.randrange(1, 20))

    async def _lead(self) -> None:
        old, self.leader = self.leader, self.log()
        await self.leader.take_epoch(str(self._number))
        told = await outcome(old, request(saw("long/a", -1)))
        assert told in ("Fenced", "LogArchived"), told
        await old.close()

    async def _crash(self) -> None:
        """The leader's connections are cut, and then it ends while it appends."""
        with connected(self.place.url) as owner:
            owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'controlplane %%' "
                "AND pid <> pg_backend_pid()"
            )
        await self._append()
        self._number += 1
        last = asyncio.ensure_future(self.leader.append(request(saw("long/b", self._number))))
        for _ in range(self.dice.randrange(6)):
            await asyncio.sleep(0)
        await self.leader.close()
        await asyncio.gather(last, return_exceptions=True)
        self.leader = self.log()
        head = await again(lambda: self.leader.take_epoch("after a crash"))
        if head.position > len(self.appended):  # it was committed
            self._took([("long/b", self._number, "", 0)])
        elif not last.cancelled():
            assert last.exception() is not None, "it was told that it is in the log"

    async def _archive(self) -> None:
        with connected(self.place.url) as owner:
            archive(owner, self.archives)

    def _ended(self) -> Ended:
        alive = {row[1] for row in self.dice.sample(self.appended, min(5, len(self.appended)))}
        position = self.dice.choice([1 << 40, len(self.appended) // 2])
        return Ended(position, frozenset({"short"}), lambda stream: stream not in alive)

    def _drop_now(self, ended: Ended) -> None:
        with connected(self.place.url) as owner:
            if not archives_of(self.archives, "main"):
                return
            found = dropped(owner, self.archives, ended)
        if not found.upto:
            return
        gone = {
            row[0]
            for row in self.appended
            if row[1].startswith("short/") and ended.is_over(row[1]) and self._last(row[1]) <= found.upto
        } - self.away
        assert found.events == len(gone), (found, gone)
        self.away |= gone
        self.over |= gone

    def _last(self, stream: str) -> int:
        return max(row[0] for row in self.appended if row[1] == stream)

    async def _drop(self) -> None:
        self._drop_now(self._ended())

    async def _busy_drop(self) -> None:
        """Others append and read meanwhile, of streams that stay."""
        ended = self._ended()
        await self._archive()
        dropping = asyncio.create_task(asyncio.to_thread(self._drop_now, ended))
        while not dropping.done():
            self._number += 1
            some = [(self.dice.choice(LONG), self._number, "", 0)]
            new = [saw(stream, n) for stream, n, _, _ in some]
            told = await outcome(self.leader, request(*new))
            assert told == self._took(some), told
            await self.followers[0].read(5)
        await dropping

    def everything_comes_back(self, wanted: tuple[int, int] | None = None) -> None:
        with connected(self.place.url) as owner:
            if not archives_of(self.archives, "main"):
                return
            found = restored(owner, self.archives, wanted)
            if found.first is None:
                return
            streams = {row[1] for row in self.appended if found.first <= row[0] <= (found.last or 0)}
            self.away -= {row[0] for row in self.appended if row[0] >= found.first or row[1] in streams}

    async def _restore(self) -> None:
        with connected(self.place.url) as owner:
            ((upto,),) = owner.execute("SELECT archived_to FROM controlplane.log_head").fetchall()
        if upto and self.dice.random() < 0.5:
            self.everything_comes_back((self.dice.randrange(1, upto + 1), upto))
        else:
            self.everything_comes_back()

    async def _snapshot(self) -> None:
        """Keep what a follower has read: a process can begin with it."""
        follower = self.dice.choice(self.followers)
        await follower.read()
        store = PostgresSnapshots(follower.log._database, follower.log)
        try:
            place = await again(store.place)
        except LogReplaced:
            place = None
        if place is not None and place.position == follower.position:
            said = json.dumps(follower.rows).encode()
            await again(
                lambda: store.keep("fold", place, Contents({"p": 1}, datetime.now(UTC)), [("p", compressed(said))])
            )
        await store.close()

    async def _start(self) -> None:
        """A new follower begins with the newest snapshot, as a process does."""
        follower = Follower(self.log())
        store = PostgresSnapshots(follower.log._database, follower.log)
        found = await again(lambda: store.found("fold"))
        if found is not None:
            (said,) = [data async for _, data in store.chunks(found)]
            follower.rows = [(p, s, v, n) for p, s, v, n in json.loads(said)]
            follower.position = found.position
            store.resume(found.place)
        await store.close()
        old = self.followers[0]
        self.followers[0] = follower
        await old.log.close()

    async def _partition(self) -> None:
        with connected(self.place.url) as owner:
            self._partitions(owner, self.dice.choice([8, 12, 20]))

    def _partitions(self, owner: psycopg.Connection[object], size: int) -> None:
        body = sql.SQL("RETURNS bigint LANGUAGE sql IMMUTABLE RETURN {}").format(sql.Literal(size))
        owner.execute(sql.SQL("CREATE OR REPLACE FUNCTION controlplane.partition_size() {}").format(body))
        if not self.appended:
            with owner.transaction():
                owner.execute("ALTER TABLE controlplane.events DETACH PARTITION controlplane.events_1")
                owner.execute(
                    sql.SQL(
                        "ALTER TABLE controlplane.events ATTACH PARTITION controlplane.events_1 FOR VALUES FROM "
                        "(MINVALUE) TO ({})"
                    ).format(sql.Literal(size + 1))
                )

    async def _backup(self) -> None:
        self.place.keep_backup()
        kept = self.archives
        self._kept = len(self.appended), set(self.away), set(self.over), kept, dict(self._marks)
        # What is archived from now on goes elsewhere: the log may go on otherwise after a restore.
        self._folders += 1
        self.archives = self.folder / f"archives-{self._folders}"
        if kept.exists():
            shutil.copytree(kept, self.archives)

    async def _fail_over(self) -> None:
        if self._kept is None:
            await self._backup()
            await self._append()
        assert self._kept is not None
        lost = await asyncio.to_thread(self.place.fail_over)
        ahead = 0
        if lost:
            position, self.away, self.over, self.archives, self._marks = self._kept
            ahead = len(self.appended) - position
            del self.appended[position:]
            self._kept = None
            for follower in self.followers:  # who had read more is told when it looks
                await follower.read(1)
                assert follower.position <= position, "it was not told that the log went back"
        told = await outcome(self.leader, request(saw("long/a", -1)))
        if ahead:
            assert told in ("LogReplaced", "Fenced"), told
        elif told == 1:
            self._took([("long/a", -1, "", 0)])
        await self.leader.close()
        self.leader = self.log()
        head = await again(lambda: self.leader.take_epoch("after a failover"))
        assert head.position == len(self.appended)

    # --- what must be --------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Whoever reads gets what was appended, the log is as its hashes say, and so are its archives."""
        present = [row for row in self.appended if row[0] not in self.away]
        reader = Follower(self.log())
        await reader.read()
        await reader.log.close()
        assert reader.rows == present, difference(reader.rows, present)
        for follower, reads in zip(self.followers, (0.8, 0.1), strict=True):  # the second stays far behind
            if self.dice.random() < reads:
                await follower.read()
            self._check_follower(follower)
        with connected(self.place.url) as owner:
            found = verify(owner, "main")
            assert (found.wrong, found.bad_bodies) == ([], [])
        if there := archives_of(self.archives, "main"):
            check_archives(there)

    def _check_follower(self, follower: Follower) -> None:
        """Nothing was read twice, in another order, or passed over; of a stream it has all, but for the first events if
        they were in archives alone when it began."""
        by_position = {row[0]: row for row in follower.rows}
        assert len(by_position) == len(follower.rows), "an event was read twice"
        assert sorted(by_position) == list(by_position), "out of order"
        if follower.position > len(self.appended):  # it was lost, and the follower is told when it reads on
            return
        assert all(self.appended[position - 1] == row for position, row in by_position.items()), "another event"
        there = self.appended[: follower.position]
        missing = {row[0] for row in there} - self.over - set(by_position)
        assert not missing, f"passed over: {sorted(missing)}"
        for stream in {row[1] for row in follower.rows}:
            had = [row[2] for row in follower.rows if row[1] == stream]
            newest = max(row[2] for row in there if row[1] == stream)
            assert had == list(range(had[0], newest + 1)), f"a part of {stream}: {had} of {newest}"
