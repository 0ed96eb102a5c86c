"""A real kube-apiserver with its etcd, on loopback, in a temporary directory, for as long as the tests run.

`KUBEBUILDER_ASSETS` names the folder with both binaries, as for every other tool that tests against them; without it,
or without `openssl` for the service-account key, there is no real server and its tests are skipped."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

READY_WITHIN = 90.0


@dataclass(frozen=True)
class RealServer:
    url: str
    token: str


def missing() -> str:
    """Why there is no real server here; empty if there is one."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        return "KUBEBUILDER_ASSETS is not set"
    absent = [name for name in ("etcd", "kube-apiserver") if not os.access(Path(folder) / name, os.X_OK)]
    if absent:
        return f"{folder} lacks {', '.join(absent)}"
    return "" if shutil.which("openssl") else "openssl is not there"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def running(folder: Path, *flags: str) -> Iterator[RealServer]:
    """Run etcd and kube-apiserver with their data in `folder`; both are gone afterwards. `flags` are further ones of
    kube-apiserver.
    """
    assets = Path(os.environ["KUBEBUILDER_ASSETS"])
    etcd, peer, port, token = free_port(), free_port(), free_port(), secrets.token_hex(16)
    key, tokens = folder / "sa.key", folder / "tokens.csv"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    tokens.write_text(f"{token},admin,admin-uid,system:masters\n")
    with contextlib.ExitStack() as stack:
        stack.enter_context(_process(folder / "etcd.log", assets / "etcd", *_etcd_flags(folder / "etcd", etcd, peer)))
        process = stack.enter_context(
            _process(
                folder / "apiserver.log",
                assets / "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{etcd}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={folder / 'certs'}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={key}",
                f"--service-account-key-file={key}",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--endpoint-reconciler-type=none",
                "--disable-admission-plugins=ServiceAccount",
                *flags,
            )
        )
        server = RealServer(f"https://127.0.0.1:{port}", token)
        _wait_ready(server, process, folder / "apiserver.log")
        yield server


def _etcd_flags(data: Path, client: int, peer: int) -> list[str]:
    return [
        "--name=default",
        f"--data-dir={data}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


@contextlib.contextmanager
def _process(log: Path, *command: object) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(server: RealServer, process: subprocess.Popen[bytes], log: Path) -> None:
    trusting = ssl._create_unverified_context()
    request = urllib.request.Request(f"{server.url}/readyz", headers={"Authorization": f"Bearer {server.token}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError), opener.open(request, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise AssertionError(f"kube-apiserver is not ready: {log.read_text()[-2000:]}")
