"""Where a connection's kubeconfig comes from, and what becomes of it when that changes: Secrets, files, certificates,
revoked tokens.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.clusters import connection
from controlplane.clusters.connection_reports import Connected, ConnectFailed, Disconnected, Lost
from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.clusters.sources import PathSource, SecretSource
from controlplane.kube.kinds import JOBS, ObjectRef, Request
from tests.clusters.fleet import QUICK, fleet, of_secret
from tests.clusters.miniapi import (
    END,
    TOKEN,
    MiniApi,
    kubeconfig,
    serving,
    until,
)


@pytest.mark.parametrize("by", ["heartbeat", "request", "watch"])
async def test_revoked_credentials_are_a_loss_that_says_so(api: MiniApi, by: str) -> None:
    timing = QUICK if by == "heartbeat" else replace(QUICK, heartbeat=1000.0)
    async with fleet(timing=timing) as f:
        of_secret(f, api)
        await f.connected()
        executor = f.connections.executor("w")
        api.token = "renewed"
        if by == "request":
            assert executor is not None
            with pytest.raises(ApiError):
                await executor.execute(Request("delete", ObjectRef(JOBS, "ns", "a"), uid="u"))
        if by == "watch":
            api.stream().put_nowait(END)
        await until(lambda: f.log.of(Lost))
        assert f.log.of(Lost)[0].reason == "Unauthorized"
        await until(lambda: len(f.log.of(ConnectFailed)) >= 2)
        failed = f.log.of(ConnectFailed)[-1]
        assert failed.reason == "ClientConnectionFailed"
        assert "Unauthorized" in failed.message
        f.secrets["secret-w"] = kubeconfig(api.url, "renewed")
        f.connections.secret_changed("secret-w")
        await f.connected(2)
        assert not any(TOKEN in str(fact) or "renewed" in str(fact) for fact in f.log.facts)


async def test_a_secret_that_comes_later_and_one_that_is_bad(api: MiniApi) -> None:
    async with fleet() as f:
        f.connections.set("w", SecretSource("s"))
        await until(lambda: f.log.facts)
        missing = ConnectFailed("BadKubeConfig", 'load client config failed: Secret "s" not found', 0, None)
        assert f.log.facts == [("w", missing)]
        f.secrets["s"] = kubeconfig(api.url).replace(b'"token"', b'"tokenFile"')
        f.connections.secret_changed("s")
        await until(lambda: len(f.log.facts) == 2)
        insecure = ConnectFailed("InsecureKubeConfig", "load client config failed: tokenFile is not allowed", 0, None)
        assert f.log.facts[1] == ("w", insecure)
        f.connections.secret_changed("s")
        f.connections.secret_changed("another")
        f.secrets["s"] = kubeconfig(api.url)
        f.connections.secret_changed("s")
        await f.connected()
        assert f.kinds() == ["ConnectFailed", "ConnectFailed", "Reached", "Connected"]


async def test_certificates_that_cannot_be_used_wait_for_another_kubeconfig(api: MiniApi) -> None:
    async with fleet() as f:
        f.secrets["s"] = kubeconfig("https://127.0.0.1:1").replace(
            b'"server"', b'"certificate-authority-data": "bm8gcGVt", "server"'
        )
        f.connections.set("w", SecretSource("s"))
        await until(lambda: f.log.facts)
        failed = f.log.of(ConnectFailed)[0]
        assert (failed.reason, failed.attempt, failed.next_attempt_at) == ("BadKubeConfig", 0, None)
        of_secret(f, api, "w")
        await f.connected()
        assert len(f.log.of(ConnectFailed)) == 1


async def test_a_management_cluster_that_does_not_hand_out_secrets_is_asked_again(api: MiniApi) -> None:
    async with fleet() as f:
        f.secrets["s"] = Unreachable("management: cut")
        f.connections.set("w", SecretSource("s"))
        await until(lambda: f.log.of(ConnectFailed))
        failed = f.log.of(ConnectFailed)[0]
        assert (failed.reason, failed.attempt) == ("BadKubeConfig", 1)
        f.secrets["s"] = kubeconfig(api.url)
        await f.connected()
        f.secrets["s"] = Unreachable("management: cut")
        f.connections.secret_changed("s")
        await asyncio.sleep(0.1)
        assert f.kinds()[-1] == "Connected"
        f.secrets["s"] = ApiError(404, "NotFound", "")
        await until(lambda: f.kinds()[-1] == "ConnectFailed")
        assert f.kinds()[-2] == "Disconnected"


async def test_the_same_kubeconfig_again_is_nothing_and_another_reconnects(api: MiniApi) -> None:
    async with serving(MiniApi(incarnation="inc-2")) as second, fleet() as f:
        of_secret(f, api)
        await f.connected()
        for _ in range(3):
            f.connections.set("w", SecretSource("secret-w"))
            f.connections.secret_changed("secret-w")
            await asyncio.sleep(0.02)
        assert f.kinds() == ["Reached", "Connected"]
        f.secrets["secret-w"] = kubeconfig(second.url)
        f.connections.secret_changed("secret-w")
        await f.connected(2)
        assert f.kinds() == ["Reached", "Connected", "Disconnected", "Reached", "Connected"]
        assert f.log.of(Disconnected)
        await until(lambda: api.open_watches == 0)
        assert f.log.of(Connected)[-1].incarnation == "inc-2"


async def test_files_are_followed_by_content(api: MiniApi, tmp_path: Path) -> None:
    for number, content in enumerate((b"{}", kubeconfig(api.url), kubeconfig(api.url, "wrong"))):
        (tmp_path / f"..data{number}").write_bytes(content)
    link = tmp_path / "worker"
    link.symlink_to(tmp_path / "..data0")

    def swap(number: int) -> None:
        (tmp_path / "new").symlink_to(tmp_path / f"..data{number}")
        (tmp_path / "new").rename(link)

    async with fleet(path_prefix=str(tmp_path)) as f:
        f.connections.set("w", PathSource(str(link)))
        await until(lambda: f.log.of(ConnectFailed))
        swap(1)
        await f.connected()
        swap(2)
        await until(lambda: f.log.of(Disconnected))
        link.unlink()
        await until(lambda: any("cannot resolve" in fact.message for fact in f.log.of(ConnectFailed)))
        f.connections.set("w", SecretSource("s"))
        await until(lambda: any("Secret" in fact.message for fact in f.log.of(ConnectFailed)))


async def test_a_file_that_stays_as_it_is_is_not_looked_into_again(
    api: MiniApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, parsed, read = tmp_path / "kubeconfig", list[bytes](), list[bytes]()
    file.write_bytes(kubeconfig(api.url))
    parse, load = connection.parse_kubeconfig, connection.load

    def parsing(data: bytes) -> object:
        parsed.append(data)
        return parse(data)

    async def reading(*arguments: object) -> bytes:
        read.append(await load(*arguments))  # type: ignore[arg-type]
        return read[-1]

    monkeypatch.setattr(connection, "parse_kubeconfig", parsing)
    monkeypatch.setattr(connection, "load", reading)
    async with fleet(path_prefix=str(tmp_path)) as f:
        f.connections.set("w", PathSource(str(file)))
        await f.connected()
        before = len(read)
        await until(lambda: len(read) > before + 3)
        assert len(parsed) == 1
