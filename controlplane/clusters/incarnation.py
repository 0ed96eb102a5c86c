"""Asks a cluster who it is.

In: its API server. Out: the UID of its namespace kube-system, which is another one in each cluster that was built
anew."""

from __future__ import annotations

from controlplane.clusters.protocol import ApiError, UnreadableResponse
from controlplane.clusters.streams import ApiServer
from controlplane.kube.kinds import NAMESPACES, meta


async def incarnation_of(server: ApiServer, timeout: float | None = None) -> str:
    """Return kube-system's UID, "" where the API server says that we may not see it. Raises `ClusterError`, also for
    what only a gateway in its place says: that is no answer."""
    try:
        found = short_text(meta(await server.get(NAMESPACES, "", "kube-system", timeout)).get("uid"))
    except ApiError as error:
        if error.status not in (403, 404) or not error.reason:
            raise
        return ""
    if not found:
        raise UnreadableResponse(f"{server.name}: the answer is not the namespace kube-system")
    return found


def short_text(found: object) -> str:
    """Return a text of a cluster about itself; "" if it is no text, or not one to show."""
    return found if isinstance(found, str) and len(found) <= 253 and found.isprintable() else ""
