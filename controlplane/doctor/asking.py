"""Asks one thing within a time of its own: an answer, or what was said instead. Nothing raises from here."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from controlplane.clusters.kubeconfig import KubeconfigError
from controlplane.clusters.protocol import ApiError
from controlplane.doctor.findings import Unread, said

_T = TypeVar("_T")


async def asked(question: Awaitable[_T], seconds: float) -> _T | Unread:
    """Return the answer, or why there is none after `seconds` at the most."""
    try:
        return await asyncio.wait_for(question, seconds)
    except Exception as error:
        return unread(error, seconds)


def unread(error: Exception, seconds: float) -> Unread:
    """Return what an error says, without what only a debugger needs."""
    if isinstance(error, TimeoutError):
        return Unread(said=f"no answer within {seconds:g} s")
    if isinstance(error, ApiError):
        return Unread(said=said(f"{error.status} {error.reason}: {error.message}"), status=error.status)
    if isinstance(error, KubeconfigError):
        return Unread(said=said(error.message.removeprefix("load client config failed: ")))
    text = str(error).strip()
    return Unread(said=said(text.splitlines()[0] if text else type(error).__name__))


async def in_thread(call: Callable[[], _T]) -> _T:
    """Return what a call that blocks returns. Whoever stops waiting leaves it behind, and the program can end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(value: _T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, failure = None, None
        try:
            value = call()
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, daemon=True).start()
    return await done
