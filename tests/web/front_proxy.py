"""A front proxy for tests: authorities, client certificates, and requests that are sent as an API server sends them
on."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy

from controlplane.kube.kinds import Json
from tests.clusters import pki

HEADERS = {
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def make(folder: Path) -> None:
    """Make the authorities: of the server, of the front proxy, and another one."""
    for name in ("server", "front", "other"):
        (folder / name).mkdir()
        pki.make(folder / name, "IP:127.0.0.1")


def config_map(authority: Path, names: str = '["client"]', **data: str) -> Json:
    """Return the ConfigMap as an API server writes it."""
    trusted = {"requestheader-client-ca-file": authority.read_text(), "requestheader-allowed-names": names}
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {**HEADERS, **trusted, **data}}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


@dataclass(frozen=True)
class Client:
    """Sends requests to a port; `shows` is the folder of the authority whose client certificate it has, "" for none."""

    folder: Path
    port: int

    async def ask(
        self,
        path: str,
        shows: str = "front",
        user: str = "jane",
        groups: tuple[str, ...] = (),
        method: str = "GET",
        session: aiohttp.ClientSession | None = None,
        **headers: str,
    ) -> Answer:
        sent = CIMultiDict(headers)
        if user:
            sent["X-Remote-User"] = user
        for group in groups:
            sent.add("X-Remote-Group", group)
        if session is not None:
            return await self._send(session, method, path, sent)
        async with self.session(shows) as made:
            return await self._send(made, method, path, sent)

    async def _send(self, session: aiohttp.ClientSession, method: str, path: str, headers: CIMultiDict[str]) -> Answer:
        async with session.request(method, f"https://127.0.0.1:{self.port}{path}", headers=headers) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def raw(self, request: bytes) -> bytes:
        """Send bytes with the front proxy's certificate, and return the first line of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context("front"))
        writer.write(request)
        try:
            return await reader.readline()
        finally:
            writer.close()

    def session(self, shows: str) -> aiohttp.ClientSession:
        """Return a session whose connections show a certificate."""
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.context(shows)))

    def context(self, shows: str) -> ssl.SSLContext:
        """Return a client's side of TLS that shows a certificate."""
        trust = ssl.create_default_context(cafile=str(self.folder / "server" / "ca.crt"))
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if shows:
            trust.load_cert_chain(self.folder / shows / "client.crt", self.folder / shows / "client.key")
        return trust
