"""Sees to it that a process leads a log only beside the cluster that the log belongs to.

In: a way to the management cluster, and what the log says of it. Out: nothing, or `WrongCluster`."""

from __future__ import annotations

import asyncio

from controlplane.clusters.connection import incarnation_of
from controlplane.clusters.protocol import ClusterError
from controlplane.controllers.connectivity.identity import unbound
from controlplane.controllers.connectivity.state import Connection
from controlplane.runtime.lifecycle import OpenManagement

# Seconds in which a cluster is to say who it is, before the lead is asked for.
_ASKED = 5.0


class WrongCluster(Exception):  # noqa: N818 - what an operator is told
    """The log belongs to another cluster than the one that this process stands beside; the message says which, and what
    to do.
    """


async def check_cluster(open_management: OpenManagement, known: Connection | None) -> None:
    """Raise `WrongCluster` if the cluster that we stand beside is not the one that the log belongs to.

    One that does not answer, or does not know us, says nothing: the connection goes on asking once we lead.
    """
    try:
        server = await open_management()
    except Exception:  # whatever is wrong with the way there, the connection reports it
        return
    try:
        async with asyncio.timeout(_ASKED):
            identity = await incarnation_of(server)
    except (ClusterError, TimeoutError):
        return
    finally:
        await server.close()
    if (objection := unbound(identity, known)) is not None:
        raise WrongCluster(objection[1])
