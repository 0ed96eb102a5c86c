"""A wire between the service and its database that can break: cut, silent, or losing one reply.

In: the URL of a database. Out: another URL of it, on 127.0.0.1, and a switch. A connection is told apart by the
application name that it starts with, so that the reply to an append, and to nothing else, can be lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from sqlalchemy.engine import make_url

Mode = Literal["whole", "cut", "silent"]
_APPENDER = b"controlplane appender"


class Wire:
    """See the module."""

    def __init__(self, url: str) -> None:
        self._target = url
        self._mode: Mode = "whole"
        self._whole = asyncio.Event()
        self._whole.set()
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.replies_to_lose = 0
        self.lost = 0

    async def start(self) -> str:
        """Listen, and return the URL through the wire."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        url = make_url(self._target).set(host="127.0.0.1", port=port, query={})
        return url.render_as_string(hide_password=False)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._break()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def set(self, mode: Mode) -> None:
        """Cut everything and let nobody in; let everybody in and nothing through; or be whole again."""
        self._mode = mode
        if mode == "cut":
            self._break()
        if mode == "silent":
            self._whole.clear()
        else:
            self._whole.set()

    def _break(self) -> None:
        for pair in list(self._pairs):
            for writer in pair:
                writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "cut":
            writer.transport.abort()
            return
        try:
            upstream, up_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, up_writer)
        self._pairs.add(pair)
        appends: list[bool] = []
        ways = [
            asyncio.create_task(self._ask(reader, up_writer, appends)),
            asyncio.create_task(self._answer(upstream, writer, appends)),
        ]
        self._tasks.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        self._pairs.discard(pair)
        for way in ways:
            way.cancel()
        for end in pair:
            end.transport.abort()
        await asyncio.gather(*ways, return_exceptions=True)
        self._tasks.difference_update(ways)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._target)
        query = parse_qs(parts.query)
        socket_folder = query.get("host", [""])[0]
        if socket_folder.startswith("/"):
            port = query.get("port", ["5432"])[0]
            return await asyncio.open_unix_connection(f"{socket_folder}/.s.PGSQL.{port}")
        return await asyncio.open_connection(parts.hostname, parts.port or 5432)

    async def _ask(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, appends: list[bool]) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                if not appends and len(data) > 8:  # libpq first asks for encryption; the names come after that
                    appends.append(_APPENDER in data)
                await self._whole.wait()
                sink.write(data)
                await sink.drain()

    async def _answer(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, appends: list[bool]) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                if self.replies_to_lose and appends and appends[0] and b"new" in data:
                    self.replies_to_lose -= 1
                    self.lost += 1
                    return
                await self._whole.wait()
                sink.write(data)
                await sink.drain()
