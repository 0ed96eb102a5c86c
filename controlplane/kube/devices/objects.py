"""Reads ResourceClaims, DeviceClasses and ResourceSlices as schedulers look at them (resource.k8s.io/v1).

In: Kubernetes objects as dicts. Out: `ResourceClaim`, `DeviceClass`, `ResourceSlice`; a wrong type is a `PodMisfit`
that names the field. What goes into an allocation unchanged (configurations, tolerations) is kept as it came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from controlplane.kube.devices.selectors import Amount
from controlplane.kube.devices.versions import Version
from controlplane.kube.kinds import Json
from controlplane.kube.pod_fields import (
    Obj,
    PodMisfit,
    flag,
    instant,
    items,
    number,
    section,
    strings,
    text,
)
from controlplane.kube.quantities import nanos
from controlplane.kube.selectors import NodeTerm, node_terms

Attribute = bool | int | str | Version
EXACT_COUNT, ALL = "ExactCount", "All"


class DeviceID(NamedTuple):
    """A device: who drives it, and its name in a pool."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Where:
    """The nodes from which something is reached: one by name, all, or those of a selector; None of it is nowhere."""

    node: str = ""
    everywhere: bool = False
    terms: tuple[NodeTerm, ...] | None = None
    raw: Obj | None = None

    @property
    def said(self) -> bool:
        """Whether anything is said."""
        return bool(self.node) or self.everywhere or self.terms is not None


@dataclass(frozen=True, slots=True)
class ExactDeviceRequest:
    """What a claim asks for: `count` devices of a class that every selector takes, or all of them.

    `share`: a part of a device is asked for (`capacity`). `parent` is the request whose alternative this is."""

    name: str
    parent: str
    device_class: str
    mode: str
    count: int
    admin: bool
    selectors: tuple[str | None, ...]
    tolerations: tuple[Json, ...]
    share: bool

    @property
    def reference(self) -> str:
        """How results name it: `request`, or `request/alternative`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


class DeviceRequest(NamedTuple):
    """One request of a claim by its alternatives, the best first; one that has none stands alone."""

    name: str
    options: tuple[ExactDeviceRequest, ...]
    prioritized: bool


class DeviceConstraint(NamedTuple):
    """All devices of the requests have the same value of an attribute, or all different ones (`distinct`)."""

    attribute: str
    distinct: bool
    requests: frozenset[str]


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A ResourceClaim. `allocation` is what it was given, None if it was given nothing; `reserved` the UIDs of those
    who use it, `owner` that of the object that controls it. `conditions`: a device of it has conditions to be bound.
    """

    namespace: str
    name: str
    uid: str
    requests: tuple[DeviceRequest, ...]
    constraints: tuple[DeviceConstraint | None, ...]
    config: tuple[Json, ...]
    allocation: Json | None
    reserved: frozenset[str]
    terminating: bool
    owner: str
    finalizers: tuple[str, ...]
    resource_version: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass. `extended_resource`: the extended resource that its devices are given out for, "" for none;
    `created`: when it was made, in seconds since 1970.
    """

    name: str
    selectors: tuple[str | None, ...]
    config: tuple[Json, ...]
    extended_resource: str = ""
    created: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One device. Attributes by domain and name; `qualified` as the slice spells them; `unread` those whose value is of
    no known type. `shared`: several claims may have it at once; `conditions`: its driver has to say that it is ready.
    """

    name: str
    attributes: dict[str, dict[str, Attribute]]
    qualified: dict[str, Attribute]
    unread: str
    capacity: dict[str, dict[str, Amount]]
    taints: tuple[Json, ...]
    consumes: tuple[tuple[str, dict[str, int]], ...]
    where: Where
    binds: bool
    shared: bool
    conditions: bool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ResourceSlice:
    """A ResourceSlice: a part of a pool. `each`: every device says for itself from where it is reached."""

    name: str
    driver: str
    pool: str
    generation: int
    count: int
    where: Where
    each: bool
    devices: tuple[Device, ...]
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    twice: str = ""


def read_resource_claim(obj: Obj, where: str) -> ResourceClaim:
    """Return a ResourceClaim; `PodMisfit` names the field."""
    meta, spec, status = section(obj, "metadata", where), section(obj, "spec", where), section(obj, "status", where)
    devices, inside = section(spec, "devices", f"{where}.spec"), f"{where}.spec.devices"
    owners = items(meta, "ownerReferences", f"{where}.metadata")
    controlling = (text(o, "uid", where) for o in owners if flag(o, "controller", where))
    allocation = section(status, "allocation", f"{where}.status")
    for at, result in enumerate(_results(allocation, where)):
        allocated_device(result, f"{where}.status.allocation.devices.results[{at}]")
    users = items(status, "reservedFor", f"{where}.status")
    return ResourceClaim(
        namespace=text(meta, "namespace", f"{where}.metadata"),
        name=text(meta, "name", f"{where}.metadata"),
        uid=text(meta, "uid", f"{where}.metadata"),
        requests=read_device_requests(devices, inside),
        constraints=tuple(
            _constraint(one, f"{inside}.constraints[{at}]")
            for at, one in enumerate(items(devices, "constraints", inside))
        ),
        config=_config(devices, inside),
        allocation=dict(allocation) if status.get("allocation") is not None else None,
        reserved=frozenset(text(one, "uid", f"{where}.status.reservedFor") for one in users),
        terminating=bool(text(meta, "deletionTimestamp", f"{where}.metadata")),
        owner=next(controlling, ""),
        finalizers=strings(meta, "finalizers", f"{where}.metadata"),
        resource_version=text(meta, "resourceVersion", f"{where}.metadata"),
    )


def read_device_requests(devices: Obj, where: str) -> tuple[DeviceRequest, ...]:
    """Return what a claim or its template asks for; `where` is the path of its `devices`, which `PodMisfit` names."""
    return tuple(_wanted(one, f"{where}.requests[{at}]") for at, one in enumerate(items(devices, "requests", where)))


def allocated_device(result: Obj, where: str = "result") -> DeviceID | None:
    """Return the device that a result of an allocation takes, None if it takes none from others (admin access)."""
    found = DeviceID(text(result, "driver", where), text(result, "pool", where), text(result, "device", where))
    return None if flag(result, "adminAccess", where) else found


def allocated_devices(allocation: Obj | None) -> list[DeviceID]:
    """Return the devices that an allocation takes from others."""
    found = (allocated_device(result) for result in _results(allocation or {}, "claim"))
    return [one for one in found if one is not None]


def binding_conditions(allocation: Obj | None) -> bool:
    """Return whether a device of an allocation has conditions that its driver has to meet before a pod is bound."""
    return any(result.get("bindingConditions") for result in _results(allocation or {}, "claim"))


def _results(allocation: Obj, where: str) -> list[Json]:
    inside = f"{where}.status.allocation"
    return items(section(allocation, "devices", inside), "results", f"{inside}.devices")


def _wanted(obj: Obj, where: str) -> DeviceRequest:
    name = text(obj, "name", where)
    listed = items(obj, "firstAvailable", where)
    if obj.get("exactly") is not None:
        return DeviceRequest(name, (_request(section(obj, "exactly", where), name, "", f"{where}.exactly"),), False)
    options = (
        _request(one, text(one, "name", where), name, f"{where}.firstAvailable[{at}]") for at, one in enumerate(listed)
    )
    return DeviceRequest(name, tuple(options), True)


def _request(obj: Obj, name: str, parent: str, where: str) -> ExactDeviceRequest:
    mode = text(obj, "allocationMode", where) or EXACT_COUNT
    return ExactDeviceRequest(
        name=name,
        parent=parent,
        device_class=text(obj, "deviceClassName", where),
        mode=mode,
        count=number(obj, "count", where, 1 if mode == EXACT_COUNT else 0),
        admin=flag(obj, "adminAccess", where),
        selectors=_selectors(obj, where),
        tolerations=tuple(items(obj, "tolerations", where)),
        share=obj.get("capacity") is not None,
    )


def _constraint(obj: Obj, where: str) -> DeviceConstraint | None:
    requests = frozenset(strings(obj, "requests", where))
    for name in ("matchAttribute", "distinctAttribute"):
        if obj.get(name) is not None:
            return DeviceConstraint(text(obj, name, where), name == "distinctAttribute", requests)
    return None


def _selectors(obj: Obj, where: str) -> tuple[str | None, ...]:
    found: list[str | None] = []
    for at, one in enumerate(items(obj, "selectors", where)):
        inside = f"{where}.selectors[{at}]"
        cel = section(one, "cel", inside)
        found.append(text(cel, "expression", f"{inside}.cel") if one.get("cel") is not None else None)
    return tuple(found)


def _config(obj: Obj, where: str) -> tuple[Json, ...]:
    found = items(obj, "config", where)
    for at, one in enumerate(found):
        strings(one, "requests", f"{where}.config[{at}]")
    return tuple(found)


def read_device_class(obj: Obj, where: str) -> DeviceClass:
    """Return a DeviceClass; `PodMisfit` names the field."""
    meta, spec, inside = section(obj, "metadata", where), section(obj, "spec", where), f"{where}.spec"
    return DeviceClass(
        text(meta, "name", f"{where}.metadata"),
        _selectors(spec, inside),
        _config(spec, inside),
        text(spec, "extendedResourceName", inside),
        instant(meta, "creationTimestamp", f"{where}.metadata") or 0.0,
    )


def read_resource_slice(obj: Obj, where: str) -> ResourceSlice:
    """Return a ResourceSlice; `PodMisfit` names the field."""
    spec, inside = section(obj, "spec", where), f"{where}.spec"
    pool = section(spec, "pool", inside)
    driver = text(spec, "driver", inside)
    counters: dict[str, dict[str, int]] = {}
    twice = ""
    for at, one in enumerate(items(spec, "sharedCounters", inside)):
        at_set = f"{inside}.sharedCounters[{at}]"
        name = text(one, "name", at_set)
        twice = name if name in counters else twice
        counters[name] = _counters(one, at_set)
    return ResourceSlice(
        name=text(section(obj, "metadata", where), "name", f"{where}.metadata"),
        driver=driver,
        pool=text(pool, "name", f"{inside}.pool"),
        generation=number(pool, "generation", f"{inside}.pool"),
        count=number(pool, "resourceSliceCount", f"{inside}.pool"),
        where=_where(spec, inside),
        each=flag(spec, "perDeviceNodeSelection", inside),
        devices=tuple(
            _device(one, driver, f"{inside}.devices[{at}]") for at, one in enumerate(items(spec, "devices", inside))
        ),
        counters=counters,
        twice=twice,
    )


def _device(obj: Obj, driver: str, where: str) -> Device:
    qualified: dict[str, Attribute] = {}
    unread = ""
    for name, value in section(obj, "attributes", where).items():
        found = _attribute(value, f"{where}.attributes[{name}]")
        if found is None:
            unread = name
        else:
            qualified[name] = found
    amounts: dict[str, Amount] = {}
    for name, value in section(obj, "capacity", where).items():
        at = f"{where}.capacity[{name}]"
        amounts[name] = Amount(_amount(section({"": value}, "", at).get("value"), f"{at}.value"))
    consumes = []
    for at_, one in enumerate(items(obj, "consumesCounters", where)):
        inside = f"{where}.consumesCounters[{at_}]"
        consumes.append((text(one, "counterSet", inside), _counters(one, inside)))
    return Device(
        name=text(obj, "name", where),
        attributes=_by_domain(qualified, driver),
        qualified=qualified,
        unread=unread,
        capacity=_by_domain(amounts, driver),
        taints=tuple(items(obj, "taints", where)),
        consumes=tuple(consumes),
        where=_where(obj, where),
        binds=flag(obj, "bindsToNode", where),
        shared=flag(obj, "allowMultipleAllocations", where),
        conditions=bool(strings(obj, "bindingConditions", where)),
    )


T = TypeVar("T")


def _by_domain(found: dict[str, T], driver: str) -> dict[str, dict[str, T]]:
    by_domain: dict[str, dict[str, T]] = {}
    for name, value in found.items():
        domain, slash, own = name.partition("/")
        by_domain.setdefault(domain if slash else driver, {})[own if slash else name] = value
    return by_domain


def _attribute(value: object, where: str) -> Attribute | None:
    """Return the value of an attribute, None if it is of a type that is not known."""
    one = section({"": value}, "", where)
    if one.get("int") is not None:
        return number(one, "int", where)
    if one.get("bool") is not None:
        return flag(one, "bool", where)
    if one.get("string") is not None:
        return text(one, "string", where)
    if one.get("version") is None:
        return None
    try:
        return Version(text(one, "version", where))
    except ValueError:
        return None


def _where(obj: Obj, where: str) -> Where:
    raw = section(obj, "nodeSelector", where) if obj.get("nodeSelector") is not None else None
    terms = None if raw is None else read_terms(raw, f"{where}.nodeSelector")
    return Where(text(obj, "nodeName", where), flag(obj, "allNodes", where), terms, raw)


def read_terms(selector: Obj, where: str) -> tuple[NodeTerm, ...]:
    """Return the terms of a node selector; `PodMisfit` names the field."""
    listed = items(selector, "nodeSelectorTerms", where)
    for at, term in enumerate(listed):
        for part in ("matchExpressions", "matchFields"):
            for one in items(term, part, f"{where}.nodeSelectorTerms[{at}]"):
                strings(one, "values", f"{where}.nodeSelectorTerms[{at}].{part}")
    return node_terms(listed, where)


def _counters(obj: Obj, where: str) -> dict[str, int]:
    found = {}
    for name, value in section(obj, "counters", where).items():
        at = f"{where}.counters[{name}]"
        found[name] = _amount(section({"": value}, "", at).get("value"), f"{at}.value")
    return found


def _amount(value: object, where: str) -> int:
    try:
        return nanos(value)  # type: ignore[arg-type]
    except ValueError as error:
        raise PodMisfit(where, str(error)) from error
