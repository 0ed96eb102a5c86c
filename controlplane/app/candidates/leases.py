"""Renews the Leases of virtual Nodes, as kubelets do: by them the source's node controller sees that somebody answers
for the Nodes.

In: the Nodes that there are, and the verbs of the source. Out: a Lease for each in `kube-node-lease`, renewed while
this process leads, whether the target is reached or not: that it is not is said by the Node's own condition. A renewal
is no decision, and is in no log. The times are those of kubelets (kubernetes 1.36, pkg/kubelet: 40 seconds, renewed at
a quarter of it)."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from controlplane.clock import Clock
from controlplane.clusters.protocol import ApiError, ClusterError, Executes
from controlplane.controllers.candidates.nodes.controller import VirtualNodes
from controlplane.controllers.candidates.nodes.events import VirtualNodeObserved
from controlplane.kube.kinds import LEASES, NODES, Json, ObjectRef, Request

NAMESPACE = "kube-node-lease"
_DURATION, RENEW = 40, 10.0
_LOOK = 1.0  # seconds until a Node that has just come gets its first one
_log = structlog.get_logger(__name__)


async def renew_leases(nodes: VirtualNodes, home: Callable[[], Executes | None], clock: Clock) -> None:
    """Renew until cancelled. What cannot be renewed is tried again with the others."""
    due: dict[str, float] = {}
    said = ""
    while True:
        executor, now = home(), clock.monotonic()
        for node in nodes.there().values() if executor is not None else ():
            if executor is None or now < due.get(node.uid, now):
                continue
            due[node.uid] = now + RENEW
            try:
                await _renew(executor, node, clock)
                said = ""
            except ClusterError as error:
                if str(error) != said:
                    _log.warning("the lease of a virtual node was not renewed", node=node.name, error=str(error))
                said = str(error)
        await clock.sleep(_LOOK)


async def _renew(executor: Executes, node: VirtualNodeObserved, clock: Clock) -> None:
    ref = ObjectRef(LEASES, NAMESPACE, node.name)
    spec: Json = {
        "holderIdentity": node.name,
        "leaseDurationSeconds": _DURATION,
        "renewTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    owner = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": node.name, "uid": node.uid}
    body: Json = {"metadata": {"ownerReferences": [owner]}, "spec": spec}
    try:
        await executor.execute(Request("patch", ref, body))
    except ApiError as error:
        if error.status != 404:
            raise
        await executor.execute(Request("create", ref, body))
