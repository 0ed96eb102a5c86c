"""New positions as server-sent events: what has a page ask again.

In: a request, with the position that is shown (`after`, or Last-Event-ID of a stream that broke). Out: an event for
each position after it, at most one a second; several in between are one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from controlplane.pages.site import Site

_APART = 1.0  # seconds between two events
_ALIVE = 15.0  # seconds without one, after which a comment says that the stream is there
_MOST = 500  # streams at a time
_TYPE = "text/event-stream"


def stream(site: Site) -> Callable[[Request], Any]:
    """Return the endpoint; one answer is as long as somebody listens."""
    open_now = 0

    async def answer(request: Request) -> Response:
        await site.access.viewer(request)
        if request.method == "HEAD":  # it would never end, and count as one that listens
            return Response(media_type=_TYPE)
        if open_now >= _MOST:
            return Response("Too many pages are open.\n", 503, {"Retry-After": "30"})
        return StreamingResponse(events(position_of(request)), media_type=_TYPE)

    async def events(shown: int) -> AsyncIterator[str]:
        nonlocal open_now
        open_now += 1
        moved, loop = asyncio.Event(), asyncio.get_running_loop()

        def heard(_position: int) -> None:
            loop.call_soon_threadsafe(moved.set)

        forget = site.follower.listen(heard)
        closing = asyncio.create_task(site.closing.wait())
        try:
            yield "retry: 1000\n\n"
            while not site.closing.is_set():
                if (position := site.follower.position) != shown:
                    shown = position
                    yield f"event: position\nid: {position}\ndata: {position}\n\n"
                    await asyncio.wait([closing], timeout=_APART)
                    continue
                waiting = asyncio.create_task(moved.wait())
                try:
                    await asyncio.wait([waiting, closing], timeout=_ALIVE, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()  # also where whoever listened has left
                moved.clear()
                if site.follower.position == shown:
                    yield ": here\n\n"
        finally:
            open_now -= 1
            closing.cancel()
            forget()

    return answer


def position_of(request: Request) -> int:
    """Return the position that whoever listens has; 0 if he says none that can be read."""
    text = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
