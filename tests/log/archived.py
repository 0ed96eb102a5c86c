"""A log with small partitions, and the shortest ways to archive it, to drop what is over, and to bring it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from controlplane.log import schema
from controlplane.log.archive import exchange
from controlplane.log.archive.dropping import DropResult, Ended, drop
from controlplane.log.archive.manifest import Archive
from controlplane.log.archive.restoring import RestoreResult, restore
from controlplane.log.archive.writing import write_archives
from controlplane.log.event import NewEvent, body_of
from tests.log.migrating import partition_size
from tests.log.words import Saw, postgres_opener, request, saw
from tests.support import postgres

SIZE = 20
EVENTS = "SELECT * FROM controlplane.events WHERE log = 'main' ORDER BY position"
STREAMS = "SELECT stream, events, archived_to FROM audit.streams WHERE log = 'main' ORDER BY stream"
BATCHES = "SELECT * FROM controlplane.batches WHERE log = 'main' ORDER BY last"


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(schema.libpq_url(url), autocommit=True) as connection:
        yield connection


async def written(url: str, rounds: int = 25, log: str = "main", size: int | None = SIZE) -> None:
    """Append batches of three events: each round of one stream that ends with it, of one that goes on, with a body, and
    of one that is in every fifth round."""
    if size is not None:
        partition_size(url, size)
    async with postgres_opener(url) as opened:
        keeper = opened(log)
        await keeper.take_epoch("one")
        for number in range(rounds):
            body = body_of({"number": number, "log": log})
            long = NewEvent(stream="long/a", event=Saw(n=number, text=body.ref), bodies=(body,), cluster="c", trace="t")
            more = [saw("long/rare", number)] if number % 5 == 0 else [saw(f"short/{number}", -number)]
            await keeper.append(request(saw(f"short/{number}", number), long, *more))


def over(position: int = 1 << 40, *but: str) -> Ended:
    """Streams `short/…` are over, but for some."""
    return Ended(position, frozenset({"short"}), lambda stream: stream not in but)


def archive(
    owner: psycopg.Connection[Any], directory: Path, *args: Any, log: str = "main", **more: Any
) -> list[Archive]:
    with exchange.alone(owner):
        return list(write_archives(owner, log, directory, *args, **more))


def dropped(
    owner: psycopg.Connection[Any], directory: Path, ended: Ended | None = None, log: str = "main"
) -> DropResult:
    with exchange.alone(owner):
        return drop(owner, log, directory, ended or over(), read_models=False)


def restored(
    owner: psycopg.Connection[Any], directory: Path, *args: Any, log: str = "main", **more: Any
) -> RestoreResult:
    with exchange.alone(owner):
        return restore(owner, log, directory, *args, **more)


def rows(owner: psycopg.Connection[Any], query: str = EVENTS) -> list[Any]:
    return [tuple(map(repr, row)) for row in owner.execute(query.encode()).fetchall()]


@contextmanager
def another(server: postgres.Server, template: str) -> Iterator[str]:
    """A database beside that of the test."""
    name = postgres.new_name("another")
    yield server.create(name, template)
    server.drop(name)
