"""Two API servers as their administrator has them, and a kubelet that answers logs and echoes what is said to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import MERGE_PATCH, Json, Kind, ObjectRef, Request, meta


async def as_kubelet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer logs, and upgrade exec to a connection that echoes what is said on it, whatever that is."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        if path.startswith("/containerLogs/"):
            said = f"log of {path}\n".encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said) + said)
        else:
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n")
            writer.write(b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n")
            while data := await reader.read(1000):
                writer.write(data)
                await writer.drain()
        await writer.drain()
    writer.close()


class Clusters:
    """Both API servers, as their administrator."""

    def __init__(self, folder: Path, kubeconfigs: dict[str, Json]) -> None:
        self.folder, self.kubeconfigs = folder, kubeconfigs
        self.api = {name: Transport(name, parse_kubeconfig(_yaml(one))) for name, one in kubeconfigs.items()}

    async def put(self, cluster: str, kind: Kind, name: str, body: Json, namespace: str = "") -> Json:
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        whole = {**head, **body, "metadata": {"name": name, **meta(body)}}
        return await self.api[cluster].create(kind, namespace, whole)

    async def patch(
        self, cluster: str, kind: Kind, namespace: str, name: str, body: Json, subresource: str = ""
    ) -> Json:
        ref = ObjectRef(kind, namespace, name)
        return await self.api[cluster].write(Request("patch", ref, body, subresource, MERGE_PATCH))

    async def kubectl(self, cluster: str, *words: str, given: Any = None, may_fail: bool = False) -> str:
        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["kubectl", "--kubeconfig", str(self.folder / f"{cluster}.kubeconfig"), *words],
                input=None if given is None else json.dumps(given),
                capture_output=True,
                text=True,
                check=False,
            )

        done = await asyncio.to_thread(run)
        assert may_fail or done.returncode == 0, done.stderr
        return done.stdout if done.returncode == 0 else done.stderr

    async def apply(self, cluster: str, *objects: Json) -> None:
        await self.kubectl(
            cluster, "apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": list(objects)}
        )

    async def account(self, cluster: str, namespace: str, name: str) -> Json:
        """Return a kubeconfig with the token of a ServiceAccount."""
        config: Json = json.loads(json.dumps(self.kubeconfigs[cluster]))
        token = (await self.kubectl(cluster, "create", "token", name, "-n", namespace)).strip()
        config["users"][0]["user"] = {"token": token}
        return config


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value).encode()
