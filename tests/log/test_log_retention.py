"""Bodies that are stored already: values are left out of them, batch by batch, and old ones are removed. Events stay as
they are.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.log import retention, schema
from controlplane.log.archive.manifest import archives_of
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.event import Append, Body, Event, NewEvent, body_of
from controlplane.log.postgres import PostgresLog
from controlplane.log.redaction import LARGEST, Redaction
from controlplane.runtime.bodies import Bodies
from controlplane.settings import SettingsError, load
from tests.log.archived import written

SECRET = "hunter2-in-plain-text"


class Made(Event):
    namespace: str
    template: str


def job(number: int) -> Body:
    return body_of({"annotations": {}, "spec": {"number": number, "env": [{"name": "TOKEN", "value": SECRET}]}})


def plain(number: int) -> Body:
    return body_of({"active": number})


async def stored(url: str, *of: tuple[str, Body]) -> None:
    """Store bodies whole, as the version before did, each named by an event of a namespace."""
    async with PostgresLog(Database(url, "controlplane_service"), Codec([Made])) as log:
        await log.take_epoch("one")
        events = [
            NewEvent(
                stream=f"job/jobs.batch/{namespace}/j{number}",
                event=Made(namespace=namespace, template=body.ref),
                bodies=(body,),
            )
            for number, (namespace, body) in enumerate(of)
        ]
        await log.append(Append(events))
    execute(url, "UPDATE controlplane.bodies SET redacted = NULL")


def execute(url: str, statement: Any) -> list[Any]:
    with psycopg.connect(schema.libpq_url(url), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def rows(url: str) -> dict[str, tuple[Any, bool | None]]:
    return {
        bytes(hash_).hex(): (body, redacted)
        for hash_, body, redacted in execute(url, "SELECT hash, body, redacted FROM controlplane.bodies")
    }


async def test_what_was_stored_whole_is_redacted_under_its_hash(database_url: str) -> None:
    large = body_of({"spec": "x" * LARGEST})
    await stored(database_url, ("a", job(1)), ("a", plain(1)), ("a", large))
    assert retention.redact(database_url, Redaction()) == 2
    assert rows(database_url) == {
        job(1).ref: ({"annotations": {}, "spec": {"number": 1, "env": [{"name": "TOKEN"}]}}, True),
        plain(1).ref: ({"active": 1}, False),
        large.ref: ({"size": len(large.text)}, True),
    }
    assert retention.redact(database_url, Redaction(), everything=True) == 0, "what is done is done"


async def test_it_goes_on_where_it_was_interrupted(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await stored(database_url, *(("a", job(number)) for number in range(25)))
    monkeypatch.setattr(retention, "_BATCH", 10)
    original, asked = Redaction.of, []

    def interrupted(self: Redaction, body: Body) -> Body | int:
        asked.append(body)
        if len(asked) == 15:
            raise KeyboardInterrupt
        return original(self, body)

    with monkeypatch.context() as patch:
        patch.setattr(Redaction, "of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            retention.redact(database_url, Redaction())
    assert sum(redacted is True for _, redacted in rows(database_url).values()) == 10, "whole batches"
    assert retention.redact(database_url, Redaction()) == 15
    assert SECRET not in json.dumps([body for body, _ in rows(database_url).values()])


async def test_nothing_is_made_of_what_was_redacted_under_the_hash_of_the_whole(database_url: str) -> None:
    await stored(database_url, ("a", job(1)), ("a", plain(1)))
    retention.redact(database_url, Redaction())
    async with PostgresLog(Database(database_url, "controlplane_service"), Codec([Made])) as log:
        assert set(await log.bodies([job(1).ref, plain(1).ref])) == {job(1).ref, plain(1).ref}
        assert await Bodies(log).get([job(1).ref, plain(1).ref]) == {plain(1).ref: plain(1).text.encode()}


async def test_old_bodies_go_and_those_that_a_newer_event_names_stay(database_url: str) -> None:
    await stored(database_url, ("a", job(1)), ("a", job(2)), ("b", job(3)))
    execute(database_url, "UPDATE controlplane.bodies SET recorded_at = now() - interval '40 days'")
    execute(
        database_url,
        "UPDATE controlplane.events SET recorded_at = now() - interval '40 days' WHERE position <> 2",
    )
    assert retention.purge(database_url, timedelta(days=50)) == (0, 0)
    assert retention.purge(database_url, timedelta(days=30), "c") == (0, 0)
    assert retention.purge(database_url, timedelta(days=30), "a") == (1, len(job(1).text))
    assert set(rows(database_url)) == {job(2).ref, job(3).ref}
    assert retention.purge(database_url, timedelta(days=30)).bodies == 1
    assert set(rows(database_url)) == {job(2).ref}
    assert execute(database_url, "SELECT count(*) FROM controlplane.events") == [(3,)]


async def test_some_namespaces_keep_theirs_for_another_time(database_url: str) -> None:
    await stored(database_url, ("a", job(1)), ("b", job(2)), ("c", job(3)), ("a", plain(1)), ("b", plain(1)))
    for table in ("bodies", "events"):
        execute(database_url, f"UPDATE controlplane.{table} SET recorded_at = now() - interval '40 days'")
    assert retention.purge(database_url, timedelta(days=30), but=["a", "b"], dry_run=True) == (1, len(job(3).text))
    assert len(rows(database_url)) == 4
    given = ["--database-url", database_url, "-o", "json", "log", "retention"]
    environment = {
        "CONTROLPLANE_LOG_RETENTION_NAMESPACES": "a=240h,b=9000h",
        "CONTROLPLANE_LOG_RETENTION_BODIES": "720h",
    }
    for arguments, left in ((["--dry-run"], 4), ([], 2)):
        run = CliRunner().invoke(cli, [*given, *arguments], env=environment)
        assert [(one["namespace"], one["bodies"]) for one in json.loads(run.output)["bodies"]] == [
            ("a", 1),
            ("b", 0),
            (None, 1),
        ]
        assert len(rows(database_url)) == left
    assert set(rows(database_url)) == {job(2).ref, plain(1).ref}


async def test_retention_archives_what_is_old_and_wants_a_folder(database_url: str, tmp_path: Path) -> None:
    await written(database_url, 10)
    given = ["--database-url", database_url, "log", "retention"]
    environment = {"CONTROLPLANE_LOG_RETENTION_EVENTS": "1ms"}
    said = CliRunner().invoke(cli, given, env=environment)
    assert "name the folder" in str(said.exception)
    environment["CONTROLPLANE_LOG_RETENTION_ARCHIVE"] = str(tmp_path / "new")
    said = CliRunner().invoke(cli, [*given, "--dry-run"], env=environment)
    assert f"The positions 1 to 18 would be archived to {tmp_path / 'new'}." in said.output
    assert not (tmp_path / "new").exists()
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(CliRunner().invoke, cli, given, env=environment).result()
    assert "has no snapshot of this version" in str(said.exception or said.output)
    assert [one.manifest.last for one in archives_of(tmp_path / "new", "main")] == [18]


@pytest.mark.parametrize(
    ("value", "told"),
    [("a", '"a" is none'), ("a=soon", "a: "), ("a=-1h", "a: must not be negative"), ("a=1h,a=2h", "a is there twice")],
)
def test_a_wrong_age_is_told_with_its_namespace(value: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load(None, {"CONTROLPLANE_LOG_RETENTION_NAMESPACES": value})


def test_without_settings_nothing_is_removed(database_url: str) -> None:
    said = CliRunner().invoke(cli, ["--database-url", database_url, "log", "retention"])
    assert "everything is kept for ever" in str(said.exception)


async def test_the_command_line_removes_and_redacts(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await stored(database_url, ("a", job(1)), ("b", job(2)), ("b", plain(1)))
    monkeypatch.setattr(retention, "_BATCH", 1)
    given = ["--database-url", database_url, "-o", "json"]
    run = CliRunner().invoke(cli, ["log", "purge-bodies", "--older-than", "0", "--namespace", "a", *given])
    assert json.loads(run.output) == {"bodies": 1, "bytes": len(job(1).text)}
    assert json.loads(CliRunner().invoke(cli, ["log", "redact-bodies", *given]).output) == {"bodies": 1}
    done = CliRunner().invoke(cli, ["log", "purge-bodies", "--older-than", "30d", "--database-url", database_url])
    assert done.output == "0 bodies were removed, with 0 bytes of JSON.\n"
    wrong = CliRunner().invoke(cli, ["log", "purge-bodies", "--older-than", "30 days"])
    assert wrong.exit_code == 2
    assert set(rows(database_url)) == {job(2).ref, plain(1).ref}


async def test_the_upgrade_redacts_what_is_there(database_url: str) -> None:
    await stored(database_url, ("a", job(1)))
    run = CliRunner().invoke(cli, ["db", "upgrade", "--database-url", database_url])
    assert "Values were left out of 1 stored bodies.\n" in run.output
    assert SECRET not in json.dumps(rows(database_url)[job(1).ref][0])


def test_the_service_may_not(database_url: str) -> None:
    with psycopg.connect(schema.libpq_url(database_url)) as connection:
        connection.execute("SET ROLE controlplane_service")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM controlplane.bodies")
