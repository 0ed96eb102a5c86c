"""What has left the log for an archive is told as such, and how it comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from controlplane.audit.archived_workloads import page
from controlplane.audit.reads import READ, LogReader
from controlplane.cli import cli
from controlplane.log.archive.dropping import Ended
from controlplane.pages.follower import Follower
from controlplane.pages.readers import Readers, connector
from controlplane.pages.routes import API
from controlplane.settings import Settings
from tests.audit.script import write
from tests.audit.test_read_models import looked_through
from tests.docs.fleet_story import story
from tests.log.archived import archive, connected, dropped
from tests.log.migrating import partition_size
from tests.pages.reviews import reviewing
from tests.pages.serving import served, until_ready
from tests.pages.test_access import World, token
from tests.support import postgres

GONE = "team-b/job-etl-0a1b2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the archive is."""
    return tmp_path_factory.mktemp("archive")


@pytest.fixture(scope="module")
def archived(postgres_server: postgres.Server, migrated_template: str, folder: Path) -> Iterator[str]:
    """A log of which one Workload's events are in an archive alone; the read models have what it was. Nobody writes to
    it."""
    name = postgres.new_name("archived")
    url = postgres_server.create(name, migrated_template)
    try:
        partition_size(url, 100)
        for first in range(0, len(story().appended), 50):
            some = story().appended[first : first + 50]
            asyncio.run(write(url, [msgspec.structs.replace(one, caused_by=0) for one in some], types=READ))
        looked_through(url)
        ended = Ended(1 << 40, frozenset({"workload"}), lambda stream: stream == f"workload/{GONE}")
        with connected(url) as owner:
            archive(owner, folder)
            dropped(owner, folder, ended)
        yield url
    finally:
        postgres_server.drop(name)


@pytest.fixture(scope="module")
def pages(archived: str) -> Iterator[TestClient]:
    with served(archived) as client:
        yield client


def test_a_workload_in_an_archive_says_where_and_how_it_comes_back(pages: TestClient, folder: Path) -> None:
    answer = pages.get(f"/workloads/{GONE}")
    assert answer.status_code == 410
    assert "In an archive" in answer.text
    said = pages.get(f"/api/v1/workloads/{GONE}").json()["error"]
    assert f"The Workload {GONE} is over and archived in {folder}" in said
    assert f"`controlplane log restore --from {folder}" in said
    assert "left the database at 20" in said
    assert pages.get("/workloads/team-b/job-sim-0a1b2").status_code == 200
    assert pages.get("/workloads/team-b/job-nobody").status_code == 404


def test_an_event_and_a_time_in_an_archive_are_told_as_such(pages: TestClient) -> None:
    stream = f"workload/{GONE}"
    gone = next(n for n, one in enumerate(story().appended, 1) if one.stream == stream)
    assert pages.get(f"/events/{gone}").status_code == 410
    assert "brings it back" in pages.get(f"/events/{gone}").text
    assert pages.get("/events/999999").status_code == 404


def listed(pages: TestClient, **given: str) -> list[tuple[str, str]]:
    answer = pages.get("/api/v1/workloads", params={"state": "Archived", **given})
    assert answer.status_code == 200, answer.text
    return [(f"{one['namespace']}/{one['name']}", one["state"]) for one in answer.json()["items"]]


def test_what_is_in_an_archive_alone_is_listed(pages: TestClient) -> None:
    assert listed(pages) == [(GONE, "Archived")]
    assert listed(pages, namespace="team-b", text="etl") == [(GONE, "Archived")]
    assert listed(pages, text="nobody") == []
    assert listed(pages, namespace="team-a") == []
    text = pages.get("/workloads", params={"state": "Archived"}).text
    assert f"/workloads/{GONE}" in text
    assert GONE.partition("/")[2] not in pages.get("/workloads", params={"namespace": "team-a"}).text
    assert listed(pages, text="%") == listed(pages, text="'") == listed(pages, after=f"workload/{GONE}") == []
    assert pages.get("/workloads", params={"state": "Archived", "text": "\0"}).status_code == 400


@pytest.mark.parametrize(
    ("given", "there"),
    [
        ({"queue": "team-b-queue"}, True),
        ({"cluster": "west"}, True),
        ({"queue": "team-b-queue", "cluster": "west", "namespace": "team-b"}, True),
        ({"cluster": "east"}, False),
        ({"queue": "team-a-queue"}, False),
        ({"queue": "team-b-queue", "cluster": "east"}, False),
    ],
)
def test_what_is_in_an_archive_alone_is_filtered_by_where_it_was_last(
    pages: TestClient, given: dict[str, str], there: bool
) -> None:
    assert listed(pages, **given) == ([(GONE, "Archived")] if there else [])


async def test_of_another_namespace_nothing_is_listed(archived: str) -> None:
    with connected(archived) as connection:
        reader = LogReader(connection, "main")
        assert [one.stream for one in page(reader, None)] == [f"workload/{GONE}"]
        assert [one.stream for one in page(reader, ["team-b"])] == [f"workload/{GONE}"]
        assert page(reader, ["team-a"]) == page(reader, []) == page(reader, None, after=f"workload/{GONE}") == []


def test_the_command_lists_them(archived: str, folder: Path) -> None:
    def said(*words: str) -> Any:
        return CliRunner().invoke(cli, ["--database-url", archived, "workloads", "--archived", *words])

    found = json.loads(said("-o", "json").stdout)
    assert [(one["namespace"] + "/" + one["name"], one["state"]) for one in found] == [(GONE, "Archived")]
    assert found[0]["archive"].startswith(str(folder))
    what = {name: found[0][name] for name in ("job", "kind", "result", "cluster", "attempt", "queue")}
    of_job = {"job": "etl", "kind": "Job", "queue": "team-b-queue"}
    assert what == {**of_job, "attempt": 2, "cluster": "west", "result": "Succeeded"}
    assert GONE.partition("/")[2] in said("-n", "team-b").stdout
    assert "No archived workloads found in namespace team-x. " in said("-n", "team-x").stderr
    refused = said("--all")
    assert (refused.exit_code, "--archived goes without --all" in refused.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "there", "says"),
    [
        ("--cluster west", True, ""),
        ("--cluster east", False, "No archived workloads found on cluster east.\n"),
        ("--cluster wast", False, "No archived workloads found on cluster wast. Did you mean west or east?\n"),
        ("--queue team-b-queue", True, ""),
        ("--queue team-b/team-b-queue", True, ""),
        ("--queue team-a/team-b-queue", False, "No archived workloads found in queue team-a/team-b-queue.\n"),
        ("--state Succeeded", True, ""),
        ("--state Finished", True, ""),
        ("--state Failed --state Running", False, "No archived workloads found in state Failed or Running.\n"),
        ("--since 2025-01-01", True, ""),
        ("--since 2025-01-01 --until 2100-01-01", True, ""),
        ("--since 2100-01-01", False, "No archived workloads found that ended in that time.\n"),
    ],
)
def test_the_command_lists_those_that_are_asked_for(archived: str, words: str, there: bool, says: str) -> None:
    done = CliRunner().invoke(
        cli, ["--database-url", archived, "workloads", "--archived", "-o", "name", *words.split()]
    )
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"workload/{GONE}\n" if there else "", says)


def test_a_list_of_all_says_that_others_are_archived(archived: str) -> None:
    def said(*words: str) -> str:
        return CliRunner().invoke(cli, ["--database-url", archived, "workloads", *words]).stderr

    note = "Others are in an archive alone: --archived shows them."
    assert note in said("--all")
    assert note in said("--all", "-n", "team-b")
    assert note not in said("--all", "-n", "team-a") + said()


async def test_who_may_not_see_a_namespace_is_not_told_what_is_archived_of_it(archived: str) -> None:
    settings = Settings()
    connect = connector(settings, archived)
    follower, readers = Follower(connect, settings), Readers(connect)
    follower.start()
    try:
        until_ready(follower)
        async with (
            reviewing() as (reviews, cluster),
            World(follower, readers, reviews, cluster).client(authentication="token") as client,
        ):

            async def names(user: str, more: str = "") -> list[str]:
                answer = await client.get(f"{API}/workloads?state=Archived{more}", headers=token(user))
                return [one["name"] for one in answer.json()["items"]] if answer.status_code == 200 else []

            assert await names("auditor") == await names("auditor", "&namespace=team-b") == [GONE.partition("/")[2]]
            assert await names("ada") == await names("ada", "&namespace=team-b") == []
    finally:
        follower.stop()
        readers.close()


async def test_of_a_log_of_which_nothing_is_archived_nothing_is_listed(database_url: str) -> None:
    await write(database_url, [msgspec.structs.replace(one, caused_by=0) for one in story().appended[:140]], types=READ)
    with served(database_url) as pages:
        assert listed(pages) == []
        assert "No Workload fits" in pages.get("/workloads", params={"state": "Archived"}).text
    done = CliRunner().invoke(cli, ["--database-url", database_url, "workloads", "--archived"])
    assert (done.exit_code, done.stderr) == (0, "No archived workloads found.\n")
