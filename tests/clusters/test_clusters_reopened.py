"""A server that is asked now and then, whose kubeconfig is written anew meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.clusters.management_access import from_kubeconfig
from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.clusters.reopened import ReopenedServer, reopened
from controlplane.clusters.streams import ApiServer
from controlplane.kube.kinds import JOBS, NAMESPACES
from tests.clusters.clocks import ManualClock
from tests.clusters.miniapi import TOKEN, MiniApi, kubeconfig, serving, until


class Kubeconfig:
    """A kubeconfig in a file, and how often it was opened."""

    def __init__(self, path: Path, url: str) -> None:
        self.path, self.url, self.opened, self.closed = path, url, 0, 0
        self.write(TOKEN)

    def write(self, token: str) -> None:
        self.path.write_bytes(kubeconfig(self.url).replace(TOKEN.encode(), token.encode()))

    async def open(self) -> ApiServer:
        server = await from_kubeconfig("m", str(self.path))
        self.opened += 1
        close = server.close

        async def closed() -> None:
            self.closed += 1
            await close()

        server.close = closed  # type: ignore[method-assign]
        return server


@pytest.fixture
async def api() -> AsyncIterator[MiniApi]:
    async with serving(MiniApi()) as served:
        yield served


async def test_a_kubeconfig_that_is_written_anew_is_read_where_the_one_before_is_refused(
    api: MiniApi, tmp_path: Path
) -> None:
    config = Kubeconfig(tmp_path / "config", api.url)
    server = await reopened(config.open)
    assert (await server.get(NAMESPACES, "", "kube-system"))["metadata"]["uid"] == api.incarnation
    api.token = "another"
    config.write("another")
    assert (await server.get(NAMESPACES, "", "kube-system"))["metadata"]["uid"] == api.incarnation
    await server.create(JOBS, "ns", {"metadata": {"name": "one"}})
    assert [(one.method, one.headers["Authorization"]) for one in api.requests] == [
        ("GET", f"Bearer {TOKEN}"),
        ("GET", f"Bearer {TOKEN}"),
        ("GET", "Bearer another"),
        ("POST", "Bearer another"),
    ]
    assert (config.opened, config.closed) == (2, 1)
    await server.close()
    assert config.closed == 2


async def test_one_that_is_refused_still_is_not_opened_for_every_question(api: MiniApi, tmp_path: Path) -> None:
    config, clock = Kubeconfig(tmp_path / "config", api.url), ManualClock()
    server = ReopenedServer(config.open, await config.open(), lambda: clock.seconds)
    api.token = "another"
    for _ in range(5):
        with pytest.raises(ApiError, match="401"):
            await server.get(NAMESPACES, "", "kube-system")
    assert config.opened == 2
    clock.seconds += 11
    config.write("another")
    await server.get(NAMESPACES, "", "kube-system")
    assert config.opened == 3
    await server.close()


async def test_one_that_cannot_be_opened_is_asked_as_it_was(api: MiniApi, tmp_path: Path) -> None:
    config, clock = Kubeconfig(tmp_path / "config", api.url), ManualClock()
    server = ReopenedServer(config.open, await config.open(), lambda: clock.seconds)
    config.path.write_text("{")
    api.token = "another"
    with pytest.raises(ApiError, match="401"):
        await server.get(NAMESPACES, "", "kube-system")
    api.token = TOKEN
    await server.get(NAMESPACES, "", "kube-system")
    await server.close()


async def test_whoever_waits_for_an_answer_gets_it_from_the_one_before(api: MiniApi, tmp_path: Path) -> None:
    config = Kubeconfig(tmp_path / "config", api.url)
    server = await reopened(config.open)
    api.hang = True
    waits = asyncio.create_task(server.get(NAMESPACES, "", "kube-system"))
    await until(lambda: api.requests)
    with pytest.raises(Unreachable):
        await server.get(NAMESPACES, "", "kube-system", 0.05)
    with pytest.raises(Unreachable):
        await server.get(NAMESPACES, "", "kube-system", 0.05)
    assert (config.opened, config.closed) == (2, 0)
    assert not waits.done()
    waits.cancel()
    await until(lambda: config.closed == 1)
    await server.close()


async def test_one_that_is_silent_for_longer_than_whoever_asks_waits_is_opened_anew(
    api: MiniApi, tmp_path: Path
) -> None:
    config = Kubeconfig(tmp_path / "config", api.url)
    server = await reopened(config.open)
    api.hang = True
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await server.get(NAMESPACES, "", "kube-system")
    api.hang = False
    await server.get(NAMESPACES, "", "kube-system")
    assert (config.opened, config.closed) == (2, 1)
    await server.close()
