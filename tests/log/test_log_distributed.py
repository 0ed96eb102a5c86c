"""The log distributed over the nodes of a Citus cluster.

What is changed in functions for it is tried on any PostgreSQL. The rest needs a coordinator, which
`CONTROLPLANE_TEST_CITUS_URL` names: with it, all tests here run on a distributed log
(docs/howto/production/citus.md)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from controlplane.log import citus, schema
from controlplane.log.archive.manifest import ArchiveError
from controlplane.log.schema import libpq_url
from controlplane.log.verify import verify
from tests.audit.database import VIEWS
from tests.cli.processes import finished
from tests.log import archived
from tests.log.words import everything, postgres_opener, request, saw

DISTRIBUTED = os.environ.get("CONTROLPLANE_TEST_CITUS_URL", "")
needs_citus = pytest.mark.skipif(not DISTRIBUTED, reason="needs a Citus coordinator (CONTROLPLANE_TEST_CITUS_URL)")
REFUSED = {
    "config_changes",
    "outage_workloads",
    "outages",
    "pending_reasons",
    "quota_usage",
    "runs",
    "usage",
    "workload_timeline",
}
plain = pytest.mark.undistributed("it is about a PostgreSQL without Citus")


def rows(url: str, query: str, *parameters: Any) -> list[Any]:
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        return connection.execute(query.encode(), parameters).fetchall()


def test_every_table_that_says_of_which_log_its_rows_are_is_distributed(database_url: str) -> None:
    """A migration that adds a table has to say where it lies."""
    query = (
        "SELECT n.nspname || '.' || c.relname, EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND "
        "a.attname = 'log') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', "
        "'p') AND NOT c.relispartition AND n.nspname IN ('controlplane', 'read_models')"
    )
    found = rows(database_url, query)
    assert {name for name, by_log in found if by_log} == set(citus.TABLES)
    assert {name for name, by_log in found if not by_log} == {citus.EVERYWHERE, "controlplane.alembic_version"}


@plain
def test_a_database_without_citus_is_refused_in_a_sentence(database_url: str) -> None:
    done = finished("db", "distribute", "--database-url", database_url)
    assert done.returncode == 4
    assert done.stderr == (
        "Error: the database has no extension citus: run this on the coordinator of a Citus cluster\n"
    )


@plain
async def test_the_changed_functions_do_what_they_did(database_url: str) -> None:
    """They are those of this schema, may be changed again, and are the same to whoever appends, leads and verifies."""
    names = "SELECT proname, pronargs, md5(prosrc) FROM pg_proc WHERE pronamespace = 'controlplane'::regnamespace"
    before = set(rows(database_url, names))
    with psycopg.connect(libpq_url(database_url)) as connection:
        citus._change_functions(connection)
    after = set(rows(database_url, names))
    assert {(name, count) for name, count, _ in before ^ after} == set(citus.changes())
    with psycopg.connect(libpq_url(database_url)) as connection:
        citus._change_functions(connection)
    assert set(rows(database_url, names)) == after
    async with postgres_opener(database_url) as opener:
        log, other = opener("main"), opener("main")
        heartbeat = await other.heartbeat()
        assert (heartbeat.epoch, heartbeat.free) == (0, True)
        assert (await log.take_epoch("one")).epoch == 1
        stale = await other.heartbeat()
        await log.renew()
        assert await other.lead("two", stale) is None
        assert (await other.lead("two", await other.heartbeat())).epoch == 2  # type: ignore[union-attr]
        assert (await log.take_epoch("one")).epoch == 3
        assert await log.append(request(*(saw(f"s{n}", n, source=f"x{n}", mark=n) for n in range(50)))) == 50
        assert await log.append(request(saw("s1", 7), s1=1)) == 1
        await log.renew(resign=True)
        assert (await other.heartbeat()).free
        assert len(await everything(other)) == 51
    done = finished("log", "verify", "--database-url", database_url)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_citus
def test_each_log_is_on_one_node_and_all_of_it(database_url: str) -> None:
    assert citus.distribute(database_url) == []
    query = (
        "SELECT count(DISTINCT colocationid), bool_and(partmethod = 'h') FROM pg_dist_partition WHERE partmethod <> 'n'"
    )
    assert rows(database_url, query) == [(1, True)]
    done = finished("db", "distribute", "--database-url", database_url)
    assert (done.returncode, done.stdout) == (0, f"The log is distributed ({schema.revisions()[-1]}).\n")


@needs_citus
async def test_logs_are_appended_to_at_once_and_each_verifies(database_url: str) -> None:
    names = [f"log-{number}" for number in range(6)]
    async with postgres_opener(database_url) as opener:
        logs = [opener(name) for name in names]
        for log in logs:
            await log.take_epoch("one")

        async def write(log: Any) -> None:
            for n in range(20):
                assert await log.append(request(saw("a", n, source="s", mark=n + 1), saw(f"b{n}", n))) == 2

        await asyncio.gather(*map(write, logs))
        for log in logs:
            assert [found.position for found in await everything(log)] == list(range(1, 41))
    where = (
        "SELECT count(DISTINCT p.groupid) FROM unnest(%s::text[]) l (log) JOIN pg_dist_placement p"
        " ON p.shardid = get_shard_id_for_distribution_column('controlplane.log_head', l.log)"
    )
    assert rows(database_url, where, names) == [(2,)]
    verified = [finished("log", "verify", "--database-url", database_url, "--log", name) for name in names]
    assert [(one.returncode, one.stderr) for one in verified] == [(0, "")] * 6


@needs_citus
@pytest.mark.parametrize("role", citus.ROLES)
async def test_views_answer_to_people_and_to_the_service_on_each_node(database_url: str, role: str) -> None:
    """For one log and over all; whoever asks a view is who asks the nodes. Bodies are not for people."""
    async with postgres_opener(database_url) as opener:
        for name in ("main", "other"):
            log = opener(name)
            await log.take_epoch("one")
            await log.append(request(saw("a", 1)))
    refused = REFUSED | ({"job_labels"} if role == "controlplane_reader" else set())
    nodes = rows(database_url, "SELECT nodename, nodeport FROM pg_dist_node WHERE isactive")
    assert len(nodes) == 3
    for host, port in nodes:
        given = make_conninfo(libpq_url(database_url), host=host, port=port)
        with psycopg.connect(given, autocommit=True) as connection:
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            assert set(refused_views(connection)) == refused
            assert len(connection.execute("SELECT FROM audit.events").fetchall()) == 2


def refused_views(connection: psycopg.Connection[Any]) -> Iterator[str]:
    for view in VIEWS:
        for which in ("WHERE log = 'main'", ""):
            try:
                connection.execute(sql.SQL("SELECT * FROM audit.{} {}").format(sql.Identifier(view), sql.SQL(which)))
            except psycopg.Error:
                yield view


@needs_citus
async def test_events_are_archived_and_do_not_leave(database_url: str, tmp_path: Path) -> None:
    await archived.written(database_url)
    with archived.connected(database_url) as owner:
        assert len(archived.archive(owner, tmp_path)) == 3
        before = archived.rows(owner)
        with pytest.raises(ArchiveError, match="can be archived, but neither leave the database nor be brought back"):
            archived.dropped(owner, tmp_path)
        assert archived.rows(owner) == before
        assert verify(owner, "main").wrong == []
