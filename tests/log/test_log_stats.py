"""How much a log holds: counted over several partitions, beside another log, and as it is typed."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.log import schema
from controlplane.log.event import NewEvent
from controlplane.log.stats import stats
from controlplane.log.verify import NoLog
from tests.log.migrating import partition_size
from tests.log.words import Chose, postgres_opener, request, saw


async def filled(url: str) -> None:
    partition_size(url, 10)
    async with postgres_opener(url) as opener:
        for name, count in (("main", 12), ("other", 3)):
            log = opener(name)
            await log.take_epoch("one")
            for number in range(count):
                await log.append(request(saw(f"s{number % 4}", 7), NewEvent(stream="c", event=Chose(cluster="é"))))


def run(url: str, *arguments: str) -> str:
    done = CliRunner().invoke(cli, ["--database-url", url, "log", "stats", *arguments])
    assert done.exit_code == 0, done.exception
    return done.stdout


async def test_everything_of_a_log_is_counted(database_url: str) -> None:
    await filled(database_url)
    with psycopg.connect(schema.libpq_url(database_url), autocommit=True) as connection:
        connection.execute("SET ROLE controlplane_service")
        found = stats(connection, "main")
        assert (found.events, found.log.first, found.log.last, found.log.streams, found.log.batches) == (
            24,
            1,
            24,
            5,
            12,
        )
        assert found.log.oldest is not None
        assert found.log.newest is not None
        assert found.log.oldest < found.log.newest
        sizes = {"Chose": len('{"cluster":"é"}'.encode()), "Saw": len('{"n":7}')}
        assert [one[:3] for one in found.types] == [(name, 12, 12 * size) for name, size in sizes.items()]
        assert found.types[0].newest == found.log.newest
        assert [one[:3] for one in found.partitions] == [
            ("events_1", 1, 10),
            ("events_11", 11, 20),
            ("events_21", 21, 30),
        ]
        assert (
            {one.table: one.bytes for one in found.tables}["events"] == sum(one.bytes for one in found.partitions) > 0
        )
        assert {"bodies", "batches", "streams", "snapshots"} <= {one.table for one in found.tables}
        assert stats(connection, "other").events == 6
        with pytest.raises(NoLog, match="no log third; there are "):
            stats(connection, "third")


async def test_the_command_line_shows_it(database_url: str) -> None:
    await filled(database_url)
    text = run(database_url)
    assert text.startswith("The log main has 24 events, positions 1 to 24, in 12 batches and 5 streams, from 20")
    assert ["Chose", "12", "192"] in [line.split()[:3] for line in text.splitlines()]
    assert ["events_11", "11", "20"] in [line.split()[:3] for line in text.splitlines()]
    machine: dict[str, Any] = json.loads(run(database_url, "-o", "json", "--log", "other"))
    assert (machine["log"], machine["events"], machine["last"]) == ("other", 6, 6)
    assert [one["type"] for one in machine["types"]] == ["Chose", "Saw"]


async def test_a_log_without_events_is_said_to_have_none(database_url: str) -> None:
    async with postgres_opener(database_url) as opener:
        await opener().take_epoch("one")
    assert run(database_url).startswith("The log main has no event.\n")
    assert json.loads(run(database_url, "-o", "json"))["first"] is None


async def test_times_are_utc_however_the_server_spells_them(database_url: str) -> None:
    """A server has the zone of its machine unless somebody says otherwise, and a database may have another style."""
    await filled(database_url)
    options = "-c TimeZone=Asia/Kathmandu -c DateStyle=German -c IntervalStyle=iso_8601"
    elsewhere = f"{database_url}{'&' if '?' in database_url else '?'}options={quote(options)}"
    assert run(elsewhere) == run(database_url)
    assert run(elsewhere, "-o", "json") == run(database_url, "-o", "json")
    at = "checkpoint", "-o", "jsonpath={.at}"
    done = CliRunner().invoke(cli, ["--database-url", elsewhere, "log", *at])
    assert done.stdout.rstrip().endswith(("Z", "+00:00"))
