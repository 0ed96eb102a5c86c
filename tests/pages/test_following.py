"""What is followed step by step is what is read at once; and what the pages do while the database is away, wrong, or
new."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from controlplane.audit.reads import READ, LogReader
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.local_connection import service_started, service_stopped
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.scheduling.events import PendingPodObserved
from controlplane.log.event import NewEvent
from controlplane.pages import server
from controlplane.pages.beside import listen
from controlplane.pages.directory import Row, Wanted
from controlplane.pages.follower import Follower
from controlplane.pages.readers import connector
from controlplane.settings import Settings
from controlplane.settings.web import WebSettings
from tests.audit.script import write
from tests.docs.fleet_story import story
from tests.pages.serving import served, until_ready
from tests.support import postgres
from tests.support.deep import deep_after
from tests.support.waiting import PATIENCE


def appended() -> list[NewEvent]:
    return [msgspec.structs.replace(one, caused_by=0) for one in story().appended]


def tell(url: str, events: list[NewEvent]) -> None:
    asyncio.run(write(url, events, types=READ))


def rows_of(follower: Follower) -> list[Row]:
    """The rows, without what is only known of what was live when it was read."""
    with follower.lock:
        found = follower.directory.page(Wanted(), "name", limit=500).rows
        assert sum(follower.directory.counts.values()) == len(found)
    return [row._replace(attempt=0) for row in found]


@contextmanager
def follower_of(url: str) -> Iterator[Follower]:
    settings = Settings()
    follower = Follower(connector(settings, url), settings)
    follower.start()
    until_ready(follower)
    try:
        yield follower
    finally:
        follower.stop()


def until_at(follower: Follower, position: int) -> None:
    """Wait until a position is shown."""
    came = threading.Event()
    forget = follower.listen(lambda now: came.set() if now >= position else None)
    if follower.position < position:
        assert came.wait(PATIENCE)
    forget()


@pytest.mark.parametrize("first", deep_after(1, [150, 240, 0, 1, 40, 100, 160, 200, 280, 334]))
def test_followed_from_anywhere_is_as_read_at_once(
    postgres_server: postgres.Server, migrated_template: str, first: int
) -> None:
    name, events = postgres.new_name("followed"), appended()
    url = postgres_server.create(name, migrated_template)
    try:
        tell(url, events[:first])
        with follower_of(url) as follower:
            tell(url, events[first:])
            until_at(follower, len(events))
            with follower_of(url) as whole:
                assert rows_of(follower) == rows_of(whole)
                assert follower.trends.of("", story().now) == whole.trends.of("", story().now)
    finally:
        postgres_server.drop(name)


def test_a_stream_that_cannot_be_folded_stops_no_page(postgres_server: postgres.Server, migrated_template: str) -> None:
    """The log keeps such an event for ever, and every reader comes by it again."""
    name, events = postgres.new_name("odd"), appended()
    pod = PendingPodObserved(uid="1", resource_version="1", scheduler="s")
    seen = next(one.event for one in events if isinstance(one.event, WorkloadObserved))
    odd = [NewEvent(stream=stream, event=pod) for stream in ("pod/nameless", "candidate/nameless", "workload/a/b/c")]
    odd += [NewEvent(stream="workload/nameless", event=seen)]
    url = postgres_server.create(name, migrated_template)
    try:
        tell(url, [*events[:100], *odd])
        with follower_of(url) as follower:
            assert follower.position == 104
            tell(url, [*odd, *events[100:]])
            until_at(follower, len(events) + 8)
            assert follower.ready
            assert rows_of(follower)
    finally:
        postgres_server.drop(name)


def test_a_position_is_told_once_its_rows_are_shown(
    postgres_server: postgres.Server, migrated_template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sees a position asks for the page: what it gets then must be of that position, since nothing tells it
    again."""
    name, events, early = postgres.new_name("told"), appended(), list[bool]()
    url = postgres_server.create(name, migrated_template)
    try:
        tell(url, events[:150])
        with follower_of(url) as follower:
            announced, put = {follower.position}, follower.directory.put

            def noted(row: Row) -> None:
                early.append(follower.position not in announced)
                put(row)

            monkeypatch.setattr(follower.directory, "put", noted)
            follower.listen(announced.add)
            tell(url, events[150:])
            until_at(follower, len(events))
    finally:
        postgres_server.drop(name)
    assert early
    assert not any(early)


def test_the_pages_read_as_the_readers_role_and_cannot_write(fleet_url: str) -> None:
    with connector(Settings(), fleet_url, timedelta(seconds=7))() as reader:
        said = reader.connection.execute(
            "SELECT current_user, current_setting('default_transaction_read_only'), "
            "current_setting('statement_timeout')"
        ).fetchone()
        assert said == ("controlplane_reader", "on", "7s")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.connection.execute("SELECT * FROM controlplane.events")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            reader.connection.execute("CREATE TEMPORARY TABLE here (n int)")


def test_a_database_that_is_away_is_said_and_comes_back(fleet_url: str) -> None:
    """The way to the database is one that nobody answers at first, and then the right one."""
    away = "postgresql://nobody@127.0.0.1:9/none"
    with served(away, ready=False) as pages:
        site: Any = pages.app.state.site  # type: ignore[attr-defined]
        for address in ("/workloads", "/workloads/team-b/sim", "/", "/outages"):
            answer = pages.get(address)
            assert answer.status_code == 503
            assert answer.headers["Retry-After"] == "5"
            assert '<meta http-equiv="refresh" content="5">' in answer.text
        assert "cannot be read" in pages.get("/outages").text
        right = connector(site.settings, fleet_url)
        site.follower._connect = site.readers._connect = right
        until_ready(site.follower)
        assert pages.get("/workloads").status_code == pages.get("/outages").status_code == 200


@pytest.mark.parametrize("kept", [100, 160])
def test_a_log_that_was_put_back_and_went_on_is_read_anew(
    postgres_server: postgres.Server, migrated_template: str, kept: int
) -> None:
    """By the time that the database answers again, the log is as long as the one that was followed, or longer."""
    first, second, events = postgres.new_name("before"), postgres.new_name("after"), appended()
    url, other = (postgres_server.create(name, migrated_template) for name in (first, second))
    moved = [msgspec.structs.replace(one, stream=one.stream.replace("/team-a/", "/team-c/")) for one in events[kept:]]
    try:
        tell(url, events[:200])
        tell(other, [*events[:kept], *moved])
        with follower_of(url) as follower:
            follower._connect = connector(Settings(), other)
            postgres_server.drop(first)
            until_at(follower, len(events))
            with follower_of(other) as whole:
                assert rows_of(follower) == rows_of(whole)
    finally:
        for name in (first, second):
            postgres_server.drop(name)


def test_a_follower_that_lost_the_database_says_of_when_it_is(fleet_url: str) -> None:
    with served(fleet_url) as pages:
        follower: Follower = pages.app.state.site.follower  # type: ignore[attr-defined]
        follower.stop()  # or it would say in a moment that all is well
        follower.trouble = "no route to host"
        assert "the database cannot be read now (no route to host)" in pages.get("/workloads").text


def test_what_is_followed_is_shown_while_the_database_is_away(fleet_url: str) -> None:
    with served(fleet_url) as pages:
        readers = pages.app.state.site.readers  # type: ignore[attr-defined]
        there = {path: pages.get(path).text for path in ("/", "/workloads", "/queues", "/usage?days=3660")}
        readers.close()
        readers._connect = lambda: psycopg.connect("postgresql://nobody@127.0.0.1:9/none")
        for path, before in there.items():
            answer = pages.get(path)
            assert answer.status_code == 200, path
            assert "the database cannot be read now" in answer.text
            assert "is of position" in answer.text
            assert answer.text.count("<tr") == before.count("<tr") > 0, "what was there is there"
        for path in ("/workloads/team-b/sim", "/?at=2026-01-01T13:00:00Z", "/api/v1/workloads", "/outages"):
            answer = pages.get(path)
            assert answer.status_code == 503, path
            assert "What is shown is of position" not in answer.text


def test_a_database_without_the_schema_says_what_to_run(empty_database_url: str) -> None:
    with served(empty_database_url, ready=False, role="") as pages:
        answer = pages.get("/outages")
        assert (answer.status_code, "run `controlplane db upgrade`" in answer.text) == (503, True)


def test_what_is_too_much_says_to_ask_for_less(fleet_url: str) -> None:
    with served(fleet_url, patience=timedelta(milliseconds=1)) as pages:
        answer = pages.get("/workloads?at=2026-01-01 13:00")
        assert (answer.status_code, "ask for less, such as one namespace" in answer.text) == (503, True)


def test_a_role_that_cannot_be_taken_is_one_sentence(fleet_url: str) -> None:
    named = msgspec.structs.replace(Settings(), web=msgspec.structs.replace(WebSettings(), role="nobody-there"))
    with pytest.raises(server.RoleError, match='there is no role "nobody-there"'):
        server._take_role(named, fleet_url)


def events_of(answer: http.client.HTTPResponse, count: int) -> list[dict[str, str]]:
    """Read so many events of a stream."""
    found, event = list[dict[str, str]](), dict[str, str]()
    while len(found) < count:
        line = answer.readline().decode().rstrip("\n")
        if line:
            key, _, value = line.partition(":")
            event[key] = value.strip()
        elif "event" in event:
            found.append(event)
            event = {}
        else:
            event = {}
    return found


async def no_cluster() -> ApiServer:
    raise AssertionError


async def test_new_positions_are_told_and_a_stream_that_broke_goes_on(database_url: str) -> None:
    events = appended()
    await write(database_url, events[:100], types=READ)
    stop, up = asyncio.Event(), asyncio.Event()
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        serving = asyncio.create_task(server.serve(Settings(), database_url, stop, no_cluster, listening, up.set))
        await up.wait()

        def opened(after: str, **headers: str) -> http.client.HTTPResponse:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("GET", f"/stream?after={after}", headers=headers)
            answer = connection.getresponse()
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            return answer

        answer = await asyncio.to_thread(opened, "0")
        (first,) = await asyncio.to_thread(events_of, answer, 1)
        assert first == {"event": "position", "id": "100", "data": "100"}
        await write(database_url, events[100:110], types=READ)
        (second,) = await asyncio.to_thread(events_of, answer, 1)
        assert second["id"] == "110"
        answer.close()
        await write(database_url, events[110:120], types=READ)
        again = await asyncio.to_thread(opened, "0", **{"Last-Event-ID": "110"})
        (third,) = await asyncio.to_thread(events_of, again, 1)
        assert third["id"] == "120"
        stop.set()
        await asyncio.wait_for(serving, PATIENCE)
    assert LogReader.connect(database_url).head() == 120


async def test_whoever_asks_for_the_head_of_the_stream_holds_none_open(database_url: str) -> None:
    await write(database_url, appended()[:10], types=READ)
    stop, up = asyncio.Event(), asyncio.Event()
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        serving = asyncio.create_task(server.serve(Settings(), database_url, stop, no_cluster, listening, up.set))
        await up.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HEAD /stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        assert b"content-type: text/event-stream" in answer
        writer.close()
        stop.set()
        await serving


def test_times_are_utc_whatever_the_database_says(postgres_server: postgres.Server, migrated_template: str) -> None:
    name = postgres.new_name("tokyo")
    url = postgres_server.create(name, migrated_template)
    try:
        tell(url, appended())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'".encode())
        with served(url) as pages:
            (one, *_) = pages.get("/api/v1/outages").json()["items"]
            assert one["since"].endswith("Z")
            shown = one["since"][:19].replace("T", " ")
            assert shown in pages.get("/outages").text
    finally:
        postgres_server.drop(name)


def test_what_cannot_be_followed_is_said_and_begun_anew(fleet_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failed = Follower._fill, threading.Event()

    def fill(self: Follower, reader: LogReader) -> None:
        if not failed.is_set():
            failed.set()
            raise ValueError("an event that nobody can read")
        real(self, reader)

    monkeypatch.setattr(Follower, "_fill", fill)
    with served(fleet_url) as pages:
        assert pages.get("/workloads").status_code == 200


def test_the_options_of_the_url_stay(fleet_url: str) -> None:
    with connector(Settings(), f"{fleet_url}&options=-c%20work_mem%3D3MB")() as reader:
        said = reader.connection.execute("SELECT current_setting('work_mem'), current_setting('timezone')").fetchone()
        assert said == ("3MB", "UTC")


async def test_who_leaves_the_stream_leaves_nobody_waiting(database_url: str) -> None:
    await write(database_url, appended()[:100], types=READ)
    stop, up = asyncio.Event(), asyncio.Event()

    def waiting() -> int:
        return sum("Event.wait" in repr(task.get_coro()) for task in asyncio.all_tasks())

    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        serving = asyncio.create_task(server.serve(Settings(), database_url, stop, no_cluster, listening, up.set))
        await up.wait()
        before = waiting()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /stream?after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"data: 100")
        async with asyncio.timeout(PATIENCE):
            while waiting() < before + 2:  # for the end of the service, and for the next position
                await asyncio.sleep(0.05)
            writer.close()
            while waiting() > before:
                await asyncio.sleep(0.05)
        stop.set()
        await serving


def test_a_log_that_nobody_keeps_says_so_on_every_page_of_the_present(database_url: str) -> None:
    tell(database_url, [service_started(1, "alpha", "1"), service_stopped(1, "alpha")])
    with served(database_url) as pages:
        follower: Follower = pages.app.state.site.follower  # type: ignore[attr-defined]
        began = time.monotonic()
        while not follower.unrecorded:
            assert time.monotonic() - began < PATIENCE
            time.sleep(0.01)
        told = "Nobody records what happens: no process leads the log main since "
        assert told in pages.get("/workloads").text
        assert told in pages.get("/").text
