"""Counts one node with the pods on it: what a plugin's node-by-node form looks at, and what a dry run changes.

A `NodeInfo` is made from a snapshot and is never written back to it: preemption and nominated pods add and remove pods
on a clone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from controlplane.controllers.scheduling.snapshot.objects import HostPort, Node, Pod

_ANY = "0.0.0.0"  # noqa: S104 - the API's wildcard, nothing is bound here


class NodeImages(Protocol):
    """What a node's images are weighed against: how many nodes there are, and which of them have an image, with its
    size.
    """

    @property
    def images(self) -> Mapping[str, Mapping[str, int]]:
        """The size of each image by node."""

    def __len__(self) -> int:
        """Return how many nodes there are."""


class NodeInfo:
    """A node, its pods by identity, and what they take: requests, non-zero requests, host ports.

    `snapshot` and `row` say where it comes from; a node made by hand has none.
    """

    __slots__ = ("node", "nonzero", "pods", "ports", "requested", "row", "snapshot")

    def __init__(self, node: Node, row: int = -1, pods: Iterable[Pod] = (), snapshot: NodeImages | None = None) -> None:
        self.node = node
        self.snapshot = snapshot
        self.row = row
        self.pods: dict[str, Pod] = {}
        self.requested: Counter[str] = Counter()
        self.nonzero = [0, 0]
        self.ports: Counter[HostPort] = Counter()
        for pod in pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        """Count a pod in."""
        self.pods[pod.identity] = pod
        self._count(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Count a pod out; KeyError if it is not here."""
        del self.pods[pod.identity]
        self._count(pod, -1)

    def clone(self) -> NodeInfo:
        """Return a copy that can be changed."""
        copy = NodeInfo(self.node, self.row, (), self.snapshot)
        copy.pods = dict(self.pods)
        copy.requested = Counter(self.requested)
        copy.nonzero = list(self.nonzero)
        copy.ports = Counter(self.ports)
        return copy

    def port_taken(self, wanted: HostPort) -> bool:
        """Return whether a host port is in use."""
        return any(count > 0 and conflict(wanted, used) for used, count in self.ports.items())

    def _count(self, pod: Pod, step: int) -> None:
        for name, amount in pod.requests.items():
            self.requested[name] += step * amount
        self.nonzero[0] += step * pod.nonzero[0]
        self.nonzero[1] += step * pod.nonzero[1]
        for port in pod.ports:
            self.ports[port] += step


def conflict(one: HostPort, other: HostPort) -> bool:
    """Return whether two host ports cannot be had together: same protocol and port, and addresses that overlap."""
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.ip == other.ip or _ANY in (one.ip, other.ip)
