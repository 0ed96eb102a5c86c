"""Decides about the Node that stands for one target: whether it is there, and what it shows.

In: what is seen of the Node, of the target's own nodes and of the connection to it. Out: at most one write, and the
request for it. Pure. A target that cannot be reached makes the Node not ready; its pods stay, since they may run."""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_address
from typing import Any

from controlplane.controllers.candidates.nodes.events import (
    TargetNodesCounted,
    VirtualNodeMade,
    VirtualNodeObserved,
    VirtualNodeRemoved,
    VirtualNodeShown,
    VirtualNodeStatus,
)
from controlplane.controllers.candidates.objects import (
    TAINT,
    TARGET_LABEL,
    TARGET_NAME,
    target_label,
    target_of,
    virtual_node,
)
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.events import CandidateWrite
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube import fields
from controlplane.kube.kinds import NODES, Json, ObjectRef, Request
from controlplane.kube.requests import timestamp
from controlplane.values import Value

READY, UNREACHABLE = "TargetReady", "TargetUnreachable"
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_LABELS = {
    "kubernetes.io/role": "virtual",
    "node-role.kubernetes.io/virtual": "",
    "node.kubernetes.io/exclude-from-external-load-balancers": "",
    "type": "virtual-kubelet",  # by which many DaemonSets keep off nodes that are none
}


class NodePolicy(Value):
    """Where the kubelet API of this process is reached, and its version."""

    address: str = ""
    port: int = 0
    version: str = ""


class NodeContext(Value):
    """What a decision looks at beside the Node. `wanted`: some namespace may use the target; `pods`: how many source
    pods are bound to the Node, or may be."""

    policy: NodePolicy
    cluster: str
    wanted: bool
    pods: int
    connection: Connection


def decide(
    context: NodeContext, seen: VirtualNodeObserved | None, counts: TargetNodesCounted | None
) -> CandidateWrite | None:
    """Return the write that brings the Node in line, None if it is."""
    name = virtual_node(context.cluster)
    if seen is None:
        known = context.connection.phase != "Unknown"
        return VirtualNodeMade(name=name, reason=CandidateReason.TARGET_NAMED) if context.wanted and known else None
    if seen.deleting:
        return None
    at: dict[str, Any] = {"name": name, "uid": seen.uid, "resource_version": seen.resource_version}
    if not context.wanted:
        return None if context.pods else VirtualNodeRemoved(**at, reason=CandidateReason.TARGET_NOT_NAMED)
    wanted = status_for(context, counts or TargetNodesCounted(problem="its nodes were not read yet"))
    # Right after a start nothing is known of the target, and what the Node says is left to stand.
    if context.connection.phase == "Unknown" or wanted == seen.status:
        return None
    return VirtualNodeShown(**at, status=wanted, reason=CandidateReason.TARGET_SHOWS)


def status_for(context: NodeContext, counts: TargetNodesCounted) -> VirtualNodeStatus:
    """Return what the Node is to show."""
    connection, policy = context.connection, context.policy
    if connection.connected:
        ready, why = "True", READY
        message = f"cluster {context.cluster} is reached" + (f"; {counts.problem}" if counts.problem else "")
    else:
        ready, why = "False", UNREACHABLE
        message = f"cluster {context.cluster} cannot be reached ({connection.reason or connection.phase})"
    version = f"{connection.server_version or 'v0.0.0'}-controlplane.{policy.version}"
    return VirtualNodeStatus(
        ready=ready,
        why=why,
        message=message,
        capacity=counts.capacity,
        allocatable=counts.allocatable,
        address=policy.address,
        port=policy.port if policy.address else 0,
        version=version,
    )


def status_of(node: Json) -> VirtualNodeStatus:
    """Return what a Node shows; `Misfit` for one that does not fit."""
    status = fields.section(node, "status")
    info = fields.section(status, "nodeInfo", "status")
    endpoints = fields.section(status, "daemonEndpoints", "status")
    said = next((c for c in fields.items(status, "conditions", "status") if c.get("type") == "Ready"), {})
    own = ("InternalIP", "InternalDNS")
    address = next(
        (str(a.get("address")) for a in fields.items(status, "addresses", "status") if a.get("type") in own), ""
    )
    return VirtualNodeStatus(
        ready=str(said.get("status", "")),
        why=str(said.get("reason", "")),
        message=str(said.get("message", "")),
        capacity={key: str(value) for key, value in fields.section(status, "capacity", "status").items()},
        allocatable={key: str(value) for key, value in fields.section(status, "allocatable", "status").items()},
        address=address,
        port=fields.number(fields.section(endpoints, "kubeletEndpoint", "status.daemonEndpoints"), "Port", "Port"),
        version=fields.text(info, "kubeletVersion", "status.nodeInfo"),
    )


def observed(node: Json) -> VirtualNodeObserved:
    """Return the event of a Node that carries our label."""
    return VirtualNodeObserved(**fields.identity(node), target=target_of(node), status=status_of(node))


def request(decision: CandidateWrite, cluster: str, before: VirtualNodeStatus, now: datetime) -> Request | None:
    """Return the request of a write; `before` is what the Node shows."""
    short = target_label(cluster)
    owner = (TARGET_LABEL, short)
    match decision:
        case VirtualNodeMade():
            labels = {**_LABELS, TARGET_LABEL: short, "kubernetes.io/hostname": decision.name}
            named = {"annotations": {TARGET_NAME: cluster}} if short != cluster else {}
            body: Json = {
                "metadata": {"labels": labels, **named},
                "spec": {"taints": [{"key": TAINT, "value": short, "effect": "NoSchedule"}]},
            }
            return Request("create", ObjectRef(NODES, "", decision.name), body, owner_label=owner)
        case VirtualNodeShown():
            status = _status(decision.status, decision.name, before, now)
            return Request(
                "patch",
                ObjectRef(NODES, "", decision.name),
                {"status": status},
                subresource="status",
                uid=decision.uid,
                resource_version=decision.resource_version,
            )
        case VirtualNodeRemoved():
            version = decision.resource_version
            ref = ObjectRef(NODES, "", decision.name)
            return Request("delete", ref, uid=decision.uid, resource_version=version, owner_label=owner)
        case _:
            return None


def _status(wanted: VirtualNodeStatus, name: str, before: VirtualNodeStatus, now: datetime) -> Json:
    at = timestamp(now)
    said = {"lastHeartbeatTime": at, "lastTransitionTime": at}
    ready = {"type": "Ready", "status": wanted.ready, "reason": wanted.why, "message": wanted.message, **said}
    others = [
        {"type": kind, "status": "False", "reason": "VirtualNode", "message": "the target's nodes say it", **said}
        for kind in _PRESSURES
    ]
    gone = {
        field: {key: None for key in getattr(before, field) if key not in getattr(wanted, field)}
        for field in ("capacity", "allocatable")
    }
    return {
        "capacity": {**gone["capacity"], **wanted.capacity},
        "allocatable": {**gone["allocatable"], **wanted.allocatable},
        "conditions": [ready, *others],
        "addresses": _addresses(wanted.address, name),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": wanted.port}},
        "nodeInfo": {"kubeletVersion": wanted.version, **_INFO},
    }


_INFO = {
    **dict.fromkeys(("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion"), ""),
    "containerRuntimeVersion": "controlplane://candidates",
    "operatingSystem": "linux",
    "architecture": "",
}


def _addresses(address: str, name: str) -> list[Json]:
    try:
        ip_address(address)
        kind = "InternalIP"
    except ValueError:
        kind = "InternalDNS"
    found = [{"type": kind, "address": address}] if address else []
    # An API server that prefers names would look the Node's up: the address is given as its hostname too.
    return [*found, {"type": "Hostname", "address": address or name}]
