"""Credentials out of an exec plugin: real commands, of which some hang, fail, chatter, or print what is none."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from controlplane.clusters.exec_credentials import ExecCredentials, ExecFailed
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.protocol import Unreachable
from controlplane.clusters.transport import Transport
from controlplane.settings.access_providers import ExecConfig
from tests.clusters import pki
from tests.clusters.clocks import ManualClock
from tests.clusters.miniapi import TOKEN, MiniApi, serving

V1, BETA = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


def command(folder: Path, body: str) -> str:
    """A shell script that counts its runs in the file `runs` beside it."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def printing(folder: Path, credential: Any) -> str:
    (folder / "credential").write_text(credential if isinstance(credential, str) else json.dumps(credential))
    return command(folder, f"cat {folder}/credential")


def credential(version: str = V1, **status: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def of(
    path: str, version: str = V1, seconds: float = 30.0, clock: ManualClock | None = None, **more: Any
) -> ExecCredentials:
    return ExecCredentials(ExecConfig(path, version, **more), {"server": "https://a"}, seconds=seconds, clock=clock)


@pytest.mark.parametrize("version", [V1, BETA])
async def test_a_token_is_remembered_until_it_is_refused(tmp_path: Path, version: str) -> None:
    held = of(printing(tmp_path, credential(version, token=TOKEN)), version)
    assert [await held.authorization() for _ in range(3)] == [f"Bearer {TOKEN}"] * 3
    assert runs(tmp_path) == 1
    held.rejected()
    await held.authorization()
    assert runs(tmp_path) == 2
    assert TOKEN not in repr(held)


async def test_credentials_are_renewed_when_they_expire(tmp_path: Path) -> None:
    clock = ManualClock()
    until = clock.now() + timedelta(minutes=10)
    printed = credential(token=TOKEN, expirationTimestamp=until.astimezone(UTC).isoformat())
    held = of(printing(tmp_path, printed), clock=clock)
    await held.authorization()
    clock.seconds += 599
    await held.authorization()
    assert runs(tmp_path) == 1
    later = (until + timedelta(minutes=10)).astimezone(UTC).isoformat()
    printing(tmp_path, credential(token="other", expirationTimestamp=later))
    clock.seconds += 2
    assert await held.authorization() == "Bearer other"
    assert runs(tmp_path) == 2


async def test_the_command_is_told_what_it_asks_for_and_none_of_our_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTROLPLANE_DATABASE_URL", "postgresql://u:hidden@h/d")
    monkeypatch.setenv("SOMETHING", "else")
    path = command(
        tmp_path, f'env > {tmp_path}/env; [ -t 0 ] || echo "$@" > {tmp_path}/args; cat {tmp_path}/credential'
    )
    (tmp_path / "credential").write_text(json.dumps(credential(token=TOKEN)))
    held = of(path, args=("--for", "a b"), env=(("REGION", "x"),), provide_cluster_info=True, interactive_mode="Always")
    await held.authorization()
    env = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert (env["REGION"], env["SOMETHING"]) == ("x", "else")
    assert "CONTROLPLANE_DATABASE_URL" not in env
    told = {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://a"}},
    }
    assert json.loads(env["KUBERNETES_EXEC_INFO"]) == told
    assert (tmp_path / "args").read_text() == "--for a b\n"


FAILURES: dict[str, tuple[Any, str]] = {
    "text": ("s3cr3t", "printed no ExecCredential"),
    "nothing": ("", "printed no ExecCredential"),
    "deep": ("[" * 100_000, "printed no ExecCredential"),
    "another kind": ({"apiVersion": V1, "kind": "Secret"}, "printed no ExecCredential"),
    "another version": (
        credential(BETA, token="s3cr3t"),
        f"is configured to use {V1} and returned another API version",
    ),
    "no status": ({"apiVersion": V1, "kind": "ExecCredential"}, "did not return a status field"),
    "empty": (credential(), "did not return a token or cert/key pair"),
    "half a pair": (credential(clientCertificateData="x"), "returned only certificate or key, not both"),
    "two lines": (credential(token="s3cr3t\r\nX: y"), "returned a token that no header can hold"),
    "expired": (
        credential(token="s3cr3t", expirationTimestamp="2020-01-01T00:00:00Z"),
        "returned credentials that have expired",
    ),
    "a number": ({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": 3}}, "printed no ExecCredential"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_what_is_no_credential_is_said_without_its_text(tmp_path: Path, case: str) -> None:
    printed, why = FAILURES[case]
    path = printing(tmp_path, printed)
    with pytest.raises(ExecFailed) as failure:
        await of(path).authorization()
    assert str(failure.value) == f"getting credentials: exec: executable {path} {why}"
    assert "s3cr3t" not in str(failure.value)


async def test_a_command_that_fails_rests_and_is_run_again(tmp_path: Path) -> None:
    clock = ManualClock()
    path = command(tmp_path, "echo s3cr3t; echo s3cr3t >&2; exit 3")
    held = of(path, clock=clock)
    for _ in range(2):
        with pytest.raises(ExecFailed, match=r"failed with exit code 3$"):
            await held.authorization()
    assert runs(tmp_path) == 1
    clock.seconds += 11
    printing(tmp_path, credential(token=TOKEN))
    assert await held.authorization() == f"Bearer {TOKEN}"


async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ExecFailed, match="no such file or directory"):
        await of(str(tmp_path / "missing")).authorization()


# Fills the pipe faster than it is read: what is left in it when the command is killed is never read.
FLOOD = """exec python3 -c '
import fcntl, os
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
while True:
    os.write(1, bytes(1 << 20))
'"""
# A process in a session of its own holds the output open.
DAEMON = "setsid sleep 20 &\nexit 0"


@pytest.mark.parametrize("body", ["sleep 1000", "yes", FLOOD, DAEMON], ids=["sleep", "yes", "flood", "daemon"])
async def test_a_command_that_does_not_end_is_killed(tmp_path: Path, body: str) -> None:
    path = command(tmp_path, f"echo $$ > {tmp_path}/pid\n{body}")
    with pytest.raises(ExecFailed, match=r"did not end within 1 seconds|printed more than"):
        await of(path, seconds=1.0).authorization()
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_command_is_killed_with_whoever_waits_for_it(tmp_path: Path) -> None:
    path = command(tmp_path, f"echo $$ > {tmp_path}/pid\nsleep 1000")
    waiting = asyncio.create_task(of(path).authorization())
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_requests_carry_the_token_and_failures_are_no_answer(tmp_path: Path, api: MiniApi) -> None:
    held = of(printing(tmp_path, credential(token=TOKEN)))
    transport = Transport("w", ClientConfig(server=api.url, credentials=held))
    try:
        assert await transport.version(5)
    finally:
        await transport.close()
    failing = Transport("w", ClientConfig(server=api.url, credentials=of(command(tmp_path, "exit 1"))))
    try:
        with pytest.raises(Unreachable, match=r"getting credentials: exec: .* failed with exit code 1"):
            await failing.version(5)
    finally:
        await failing.close()


async def test_a_client_certificate_is_presented_and_renewed(tmp_path: Path) -> None:
    made = pki.make(tmp_path, "IP:127.0.0.1")
    pair = {"clientCertificateData": made.client_certificate.decode(), "clientKeyData": made.client_key.decode()}
    api = MiniApi()
    async with serving(api, made.server_context):
        held = of(printing(tmp_path, credential(token=TOKEN, **pair)))
        transport = Transport("w", ClientConfig(server=api.url, ca_data=made.ca, credentials=held))
        try:
            assert await transport.version(5)
            printing(tmp_path, "none")
            held.rejected()
            with pytest.raises(Unreachable, match="printed no ExecCredential"):
                await transport.version(5)
            again = tmp_path / "again"
            again.mkdir()
            other = pki.make(again, "IP:127.0.0.1")  # of an authority that the server does not trust
            strange = {
                "clientCertificateData": other.client_certificate.decode(),
                "clientKeyData": other.client_key.decode(),
            }
            renewed = of(printing(again, credential(token=TOKEN, **strange)))
            stranger = Transport("w", ClientConfig(server=api.url, ca_data=made.ca, credentials=renewed))
            with pytest.raises(Unreachable):
                await stranger.version(5)
            printing(again, credential(token=TOKEN, **pair))
            renewed.rejected()
            assert await stranger.version(5)
            await stranger.close()
        finally:
            await transport.close()
