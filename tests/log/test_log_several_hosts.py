"""A URL that names the members of a cluster, as one writes it for Patroni: everything finds the one that takes
writes."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from click.testing import CliRunner
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from controlplane.audit.reads import LogReader
from controlplane.cli import cli
from controlplane.log import schema, timeline
from controlplane.log.connect import Database
from tests.log.words import postgres_opener, request, saw


@pytest.fixture
def members(database_url: str) -> str:
    """The database behind a member that does not answer, for whoever wants to write."""
    given = conninfo_to_dict(schema.libpq_url(database_url))
    login = ":".join(quote(str(given[part]), safe="") for part in ("user", "password") if given.get(part))
    host = quote(str(given["host"]), safe="")
    return (
        f"postgresql://{login}@127.0.0.1:1,{host}:{given.get('port', 5432)}/{given['dbname']}"
        "?target_session_attrs=read-write"
    )


async def test_the_log_is_written_and_read(members: str) -> None:
    async with postgres_opener(members) as opener:
        log = opener("main")
        await log.take_epoch("one")
        await log.append(request(saw("s", 1)))
    async with await Database(members).connect("test") as connection:
        assert await (await connection.execute("SELECT count(*) FROM controlplane.events")).fetchone() == (1,)


def test_the_schema_is_made_and_checked(members: str) -> None:
    assert schema.upgrade(members) == (schema.check(members), schema.revisions()[-1])


def test_who_reads_cannot_write_there(members: str) -> None:
    with LogReader.connect(members) as reader:
        assert reader.clock()
        with pytest.raises(errors.ReadOnlySqlTransaction):
            reader.connection.execute("UPDATE controlplane.log_head SET position = 0")


def test_the_commands_find_it(members: str) -> None:
    for words in (["clusters"], ["db", "check"], ["db", "upgrade"]):
        done = CliRunner().invoke(cli, ["--database-url", members, *words])
        assert done.exit_code == 0, (words, done.output, done.exception)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u@a/d", [("a", None)]),
        ("postgresql:///d", [(None, None)]),
        ("postgresql://u@a,b:5433/d", [("a", ""), ("b", "5433")]),
        ("postgresql://u@a:1,b:2/d?target_session_attrs=read-write", [("a", "1"), ("b", "2")]),
        ("postgresql://u@/d?host=/x,/y&port=5432", [("/x", "5432"), ("/y", "5432")]),
    ],
)
def test_the_members_of_a_url_are_told_apart(url: str, hosts: list[tuple[str | None, str | None]]) -> None:
    members = [conninfo_to_dict(one) for one in timeline.members(url, target_session_attrs="any")]
    assert [(one.get("host"), one.get("port")) for one in members] == hosts
    assert {(one["dbname"], one["target_session_attrs"]) for one in members} == {("d", "any")}
