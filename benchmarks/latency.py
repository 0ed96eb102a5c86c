"""A distance to API servers: a process that passes their bytes on later.

In: half of a round trip in milliseconds and the servers' ports as arguments. Out: one line of JSON with the port for
each; it ends with its stdin. It does not look into what it passes on, so that TLS goes through."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import orjson

_CHUNK = 1 << 16


class Proxy:
    """One way to one server, `delay` seconds long in each direction."""

    def __init__(self, port: int, delay: float) -> None:
        self._port, self._delay = port, delay

    async def serve(self) -> int:
        """Listen on a free port of 127.0.0.1 and return it."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def write() -> None:
            with contextlib.suppress(OSError):
                while True:
                    when, chunk = await due.get()
                    await asyncio.sleep(when - loop.time())
                    if not chunk:
                        break
                    writer.write(chunk)
                    await writer.drain()
            writer.close()

        writing = asyncio.create_task(write())
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                due.put_nowait((loop.time() + self._delay, chunk))
        due.put_nowait((loop.time() + self._delay, b""))
        await writing


async def main(delay: float, ports: list[int]) -> None:
    """Serve until stdin ends."""
    found = [await Proxy(port, delay).serve() for port in ports]
    sys.stdout.buffer.write(orjson.dumps(found) + b"\n")
    sys.stdout.buffer.flush()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) / 1000, [int(port) for port in sys.argv[2:]]))
