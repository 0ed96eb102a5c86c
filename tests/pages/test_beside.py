"""The pages beside a service: a process of their own that is begun anew, and ends with whoever began it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import pytest

from controlplane.cli.web import why_empty
from controlplane.pages import beside as module
from controlplane.pages.beside import beside, listen, url_of
from controlplane.settings import Settings
from controlplane.settings.web import LOOPBACK
from controlplane.web.ops import ListenError
from tests.cli.test_audit_verbs import fails
from tests.support.waiting import PATIENCE


def children() -> list[int]:
    """The processes that serve pages on a socket of this one."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text, command = status.read_text(), status.with_name("cmdline").read_text()
        except OSError:
            continue
        if f"\nPPid:\t{os.getpid()}\n" in text and "--listening" in command and "State:\tZ" not in text:
            found.append(int(status.parent.name))
    return found


async def answered(address: str) -> int:
    """Return the status of a page, once there is one."""

    def ask() -> int:
        try:
            with urllib.request.urlopen(f"{address}healthz", timeout=PATIENCE) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    while not (status := await asyncio.to_thread(ask)):
        await asyncio.sleep(0.05)
    return status


@pytest.mark.deep
async def test_it_is_begun_anew_and_ends_with_the_block(fleet_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.1)
    async with beside("127.0.0.1", 0, {"CONTROLPLANE_DATABASE_URL": fleet_url}) as address:
        assert await answered(address) == 200
        (first,) = children()
        os.kill(first, signal.SIGKILL)
        assert await answered(address) == 200
        assert children() not in ([], [first])
    assert children() == []


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A program in the place of the pages: it notes that it was begun, and ends when its input does."""
    program = tmp_path / "pages"
    program.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/begun\nexec cat >/dev/null\n")
    program.chmod(0o755)
    return program


async def begun(program: Path, number: int) -> list[int]:
    """The processes that were begun, once there are as many."""
    noted = program.with_name("begun")
    async with asyncio.timeout(PATIENCE):
        while len(found := noted.read_text().split() if noted.exists() else []) < number:
            await asyncio.sleep(0.02)
    return [int(one) for one in found]


async def test_what_ended_is_begun_anew_on_the_same_socket(monkeypatch: pytest.MonkeyPatch, stand_in: Path) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    monkeypatch.setattr(module.sys, "executable", str(stand_in))
    async with beside("127.0.0.1", 0, {}) as address:
        (first,) = await begun(stand_in, 1)
        os.kill(first, signal.SIGKILL)
        _, second = await begun(stand_in, 2)
        with socket.create_connection(("127.0.0.1", int(address.rstrip("/").rpartition(":")[2])), timeout=PATIENCE):
            pass  # whoever asks meanwhile waits, and is not refused
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


async def test_what_cannot_be_begun_just_now_is_tried_again(monkeypatch: pytest.MonkeyPatch, stand_in: Path) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    monkeypatch.setattr(module.sys, "executable", str(stand_in.with_name("not-there-yet")))
    async with beside("127.0.0.1", 0, {}):
        await asyncio.sleep(0)
        stand_in.rename(stand_in.with_name("not-there-yet"))
        assert len(await begun(stand_in, 1)) == 1


@pytest.fixture(autouse=True)
def messages_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program within this process leaves the messages of the tests alone."""
    monkeypatch.setattr("controlplane.telemetry.configure", lambda *_: None)


def test_an_address_that_is_taken_is_one_sentence(fleet_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"Another program listens on 127.0.0.1:{port} already: .* web.port"):
            listen("127.0.0.1", port)
        code, told = fails(capsys, fleet_url, "web", "--port", str(port))
        assert (code, "choose another port with web.port" in told) == (7, True)
    assert url_of(listen("::1", 0)).startswith("http://[::1]:")


@pytest.mark.parametrize(
    ("family", "everywhere", "opened"),
    [(socket.AF_INET, "0.0.0.0", "127.0.0.1"), (socket.AF_INET6, "::", "[::1]")],
)
def test_what_is_published_on_loopback_is_opened_there(family: int, everywhere: str, opened: str) -> None:
    """In a container the pages listen on every address, and answer to the names of loopback alone."""
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        bound.bind((everywhere, 0))
        port = bound.getsockname()[1]
        assert url_of(bound, LOOPBACK) == f"http://{opened}:{port}/"
        assert everywhere in url_of(bound)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"web_address": "0.0.0.0"}, 3, "web.authentication is none, and web.address is 0.0.0.0"),
        ({"web_authentication": "proxy"}, 3, "web.trustedProxies must name the proxy"),
        ({"web_authentication": "token"}, 3, "there is no management cluster"),
        ({"web_role": "nobody-there"}, 4, 'web.role: there is no role "nobody-there"'),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    fleet_url: str,
    given: dict[str, str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"CONTROLPLANE_{name.upper()}", value)
    ended, told = fails(capsys, fleet_url, "web", "--port", "0")
    assert (ended, said in told) == (code, True), told


def test_a_log_that_is_not_there_is_said_with_those_that_are(fleet_url: str, empty_database_url: str) -> None:
    def of(log: str, url: str) -> str:
        database = msgspec.structs.replace(Settings().database, log=log)
        return why_empty(msgspec.structs.replace(Settings(), database=database), url)

    assert of("main", fleet_url) == ""
    assert "the log mian is empty; the logs of this database are main" in of("mian", fleet_url)
    assert of("main", "postgresql://nobody@127.0.0.1:9/none") == ""
    assert of("main", empty_database_url) == "", "the schema is missing, which the pages say"
