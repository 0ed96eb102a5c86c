"""Defines what reflectors and connections ask of an API server beyond the verbs: pages of a list, lines of a watch, its
version.

Kept apart from the HTTP client so that a simulated cluster can stand behind it without a socket.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from controlplane.clusters.protocol import ClusterPort
from controlplane.kube.kinds import Json, Kind


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list: items as served (they may be anything), the list's version, and where the next page
    begins.
    """

    items: Sequence[Any]
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list is asked for; an empty namespace is all of them, and `limit` 0 everything at once."""

    kind: Kind
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """What a watch is asked for: from which version on, for how long at the most, and after how many seconds without a
    byte it counts as cut.
    """

    kind: Kind
    resource_version: str
    timeout_seconds: int
    idle_timeout: float
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""


Lines = AsyncGenerator[list[bytes], None]  # what a watch yields


class ApiServer(ClusterPort, Protocol):
    """The whole of one API server as this package uses it. Each call raises `ApiError` or `Unreachable` and has its own
    time-out.
    """

    async def list(self, query: ListQuery) -> ListPage:
        """Return a page over one namespace, or all of them."""
        raise NotImplementedError

    def watch(self, query: WatchQuery) -> Lines:
        """Yield complete watch lines, as many as are at hand, until the server ends the stream in the ordinary way.

        A refusal raises `ApiError` before the first line; a cut, or `idle_timeout` seconds without a byte, raises
        `Unreachable`."""
        raise NotImplementedError

    async def resources(self, api_version: str) -> Json:
        """Return the APIResourceList of a group and version; 404 if it is not served."""
        raise NotImplementedError

    async def version(self, timeout: float) -> Json:
        """Return `/version`: a request that every API server answers cheaply."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close every connection."""
        raise NotImplementedError
