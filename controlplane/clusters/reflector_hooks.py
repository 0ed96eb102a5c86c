"""What a reflector asks of those around it, and says to them.

In: nothing. Out: the shapes of its callbacks, and the callbacks of one that nobody listens to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controlplane.clusters.streams import ApiServer
from controlplane.kube.kinds import Kind

OnPoison = Callable[[str, Kind, str], None]
"""Called for each line or item that could not be used: cluster, kind, why."""

OnRestored = Callable[[str], Awaitable[None]]
"""Awaited when the cluster's history is found to be another one than what was seen of it; listing begins when it
returns."""

Identify = Callable[[ApiServer], Awaitable[None]]
"""Awaited before a list that is taken because the cluster was out of sight; raises if it is another cluster by now."""


def always() -> asyncio.Event:
    """Return an event that is set."""
    event = asyncio.Event()
    event.set()
    return event


async def unheard(why: str) -> None:
    """Report to nobody."""


async def trusted(api: ApiServer) -> None:
    """Take it for the same cluster."""


def ignore(cluster: str, kind: Kind, why: str) -> None:
    """Count nothing."""
