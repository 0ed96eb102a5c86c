"""Writes an allocation down as the status of a claim has it: devices, configurations, and the nodes where they are.

In: a claim, what its requests were given, the classes, the node. Out: `status.allocation` as a dict
(kubernetes/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go, v0.36)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.controllers.scheduling.snapshot.objects import Node
from controlplane.kube.devices.objects import (
    Device,
    DeviceClass,
    DeviceID,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from controlplane.kube.kinds import Json


class Given(NamedTuple):
    """A device that a request was given."""

    request: ExactDeviceRequest
    id: DeviceID
    device: Device
    slice: ResourceSlice


def allocation_of(
    claim: ResourceClaim,
    given: Sequence[Given],
    chosen: Sequence[ExactDeviceRequest],
    classes: Mapping[str, DeviceClass],
    node: Node,
) -> Json:
    """Return what a claim was given; `chosen` is the alternative of each of its requests."""
    devices: Json = {"results": [_result(one) for one in given]}
    if config := _config(claim, chosen, classes):
        devices["config"] = config
    found: Json = {"devices": devices}
    if (selector := _nodes(given, node)) is not None:
        found["nodeSelector"] = selector
    return found


def _result(one: Given) -> Json:
    driver, pool, device = one.id
    found: Json = {"request": one.request.reference, "driver": driver, "pool": pool, "device": device}
    if one.request.admin:
        found["adminAccess"] = True
    if one.request.tolerations:
        found["tolerations"] = list(one.request.tolerations)
    return found


def _config(
    claim: ResourceClaim, chosen: Sequence[ExactDeviceRequest], classes: Mapping[str, DeviceClass]
) -> list[Json]:
    """Return the configurations of the classes, each class's once with the requests that it serves, then the
    claim's."""
    found: list[Json] = []
    of_class: dict[str, list[Json]] = {}
    for request in chosen:
        listed = of_class.get(request.device_class)
        if listed is None:
            listed = [
                {
                    "source": "FromClass",
                    "requests": [],
                    **{key: value for key, value in one.items() if key != "requests"},
                }
                for one in classes[request.device_class].config
            ]
            of_class[request.device_class] = listed
            found += listed
        for one in listed:
            one["requests"].append(request.reference)
    for config in claim.config:
        named = config.get("requests") or []
        times = 1 if not named else sum(_means(named, request) for request in chosen)
        found += [{"source": "FromClaim", **config}] * times
    return found


def _means(named: Sequence[str], request: ExactDeviceRequest) -> bool:
    return (request.parent or request.name) in named or request.reference in named


def _nodes(given: Sequence[Given], node: Node) -> Json | None:
    """Return the nodes on which all of the devices can be used, None for every node."""
    fields: list[Json] = []
    expressions: list[Json] = []
    for one in given:
        where = one.device.where if one.slice.each else one.slice.where
        if where.node or one.device.binds:
            here = {"key": "metadata.name", "operator": "In", "values": [node.name]}
            return {"nodeSelectorTerms": [{"matchFields": [here]}]}
        terms = (where.raw or {}).get("nodeSelectorTerms") or []
        if len(terms) == 1:
            _join(fields, terms[0].get("matchFields") or [])
            _join(expressions, terms[0].get("matchExpressions") or [])
    term = {name: listed for name, listed in (("matchFields", fields), ("matchExpressions", expressions)) if listed}
    return {"nodeSelectorTerms": [term]} if term else None


def _join(found: list[Json], more: Sequence[Json]) -> None:
    for one in more:
        if not any(_alike(one, other) for other in found):
            found.append(one)


def _alike(one: Json, other: Json) -> bool:
    same = (one.get("key"), one.get("operator")) == (other.get("key"), other.get("operator"))
    return same and {*(one.get("values") or ())} == {*(other.get("values") or ())}
