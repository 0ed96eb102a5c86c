"""Keeps the volumes and nodes that are reserved for claims, and that the watches do not show so yet.

In: what was reserved for a pod in flight together with its node, and that it is not in flight any more. Out: for whom a
volume is kept, and where a claim's volume will be made. Two pods in flight would take one volume otherwise; two pods
that share a claim share its reservation. It stands among the tables of a `Cluster`, as the pods in flight stand in the
snapshot."""

from __future__ import annotations

from typing import NamedTuple

from controlplane.controllers.scheduling.snapshot.storage import ClaimReference, PersistentVolume, VolumeClaim

Place = tuple[str, str]


class VolumeReservation(NamedTuple):
    """What is reserved for one pod: volumes by name, each with the claim that gets it; and claims whose volume is made
    on `node`.
    """

    node: str
    volumes: dict[str, ClaimReference]
    claims: frozenset[Place]


class VolumeReservations:
    """The reservations of all pods in flight."""

    def __init__(self) -> None:
        self._pods: dict[str, VolumeReservation] = {}
        self._volumes: dict[str, dict[str, ClaimReference]] = {}
        self._claims: dict[Place, dict[str, str]] = {}

    def put(self, identity: str, reservation: VolumeReservation) -> None:
        """Reserve something for a pod; what was reserved for it before is free again."""
        self.drop(identity)
        self._pods[identity] = reservation
        for name, reference in reservation.volumes.items():
            self._volumes.setdefault(name, {})[identity] = reference
        for place in reservation.claims:
            self._claims.setdefault(place, {})[identity] = reservation.node

    def drop(self, identity: str) -> None:
        """Give a pod's reservation back, if it has one."""
        reservation = self._pods.pop(identity, None)
        if reservation is None:
            return
        for name in reservation.volumes:
            self._volumes[name].pop(identity)
            if not self._volumes[name]:
                del self._volumes[name]
        for place in reservation.claims:
            self._claims[place].pop(identity)
            if not self._claims[place]:
                del self._claims[place]

    def of(self, identity: str) -> VolumeReservation | None:
        """Return what is reserved for a pod."""
        return self._pods.get(identity)

    def first(self, thing: str | Place) -> str:
        """Return the pod for which a volume (by name), or a claim (by place), was reserved before all others; it says
        so to the API server.
        """
        found = self._volumes.get(thing) if isinstance(thing, str) else self._claims.get(thing)
        return next(iter(found or ()), "")

    def kept(self, volume: PersistentVolume) -> ClaimReference | None:
        """Return for which claim a volume is kept: as it shows itself, or as it is reserved."""
        found = self._volumes.get(volume.name)
        return next(iter(found.values())) if found else volume.claim

    def selected(self, claim: VolumeClaim) -> str | None:
        """Return the node for which a claim's volume is made: as it shows itself, or as it is reserved."""
        found = self._claims.get(claim.place)
        return next(iter(found.values())) if found and claim.selected_node is None else claim.selected_node
