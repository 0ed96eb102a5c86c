"""What a test makes as often as it likes, and who stops it all in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar


class Started(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


S = TypeVar("S", bound=Started)


@asynccontextmanager
async def started(kind: Callable[..., S]) -> AsyncIterator[Callable[..., Awaitable[S]]]:
    """Give out what makes and starts one; all that were made are stopped."""
    made: list[S] = []

    async def make(*words: str, **more: Any) -> S:
        made.append(kind(*words, **more))
        await made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.stop()
