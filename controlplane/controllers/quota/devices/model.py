"""What is asked of devices, what is known of them, and as which resources they count.

In: settings, pod sets, objects of resource.k8s.io/v1. Out: values that the counting rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from controlplane.kube.devices.objects import DeviceClass, DeviceRequest, ResourceSlice
from controlplane.kube.kinds import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Json, Kind

T = TypeVar("T")
COUNT, REJECT, IGNORE = "Count", "Reject", "Ignore"
DEVICE_KINDS = (RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_SLICES)
"""The kinds that the counting rests on."""


@dataclass(frozen=True, slots=True)
class CounterSource:
    """A counter whose amount counts as `resource`: that of the devices of a driver that the expression `selector`
    takes."""

    resource: str
    driver: str
    counter: str
    selector: str


@dataclass(frozen=True, slots=True)
class DeviceMapping:
    """A resource of quota, the DeviceClasses whose devices count as it, and the counters by which they do; each counts
    as one without any."""

    resource: str
    classes: tuple[str, ...]
    counters: tuple[CounterSource, ...] = ()


@dataclass(frozen=True)
class DeviceRules:
    """Whether claims are counted, rejected or ignored, and as what devices count; `resources` and `counters` by
    DeviceClass."""

    mode: str = COUNT
    resources: Mapping[str, str] = field(default_factory=dict)
    counters: Mapping[str, tuple[CounterSource, ...]] = field(default_factory=dict)

    @cached_property
    def in_bytes(self) -> frozenset[str]:
        """The resources that are counted by counters: they are spelled as bytes, as Kueue does."""
        return frozenset(source.resource for several in self.counters.values() for source in several)

    @classmethod
    def of(cls, mappings: Sequence[DeviceMapping], mode: str = COUNT) -> DeviceRules:
        """Return the rules of some mappings. The first one of a class names what its devices count as; each may have a
        counter."""
        resources: dict[str, str] = {}
        counters: dict[str, tuple[CounterSource, ...]] = {}
        for mapping in mappings:
            for name in mapping.classes:
                resources.setdefault(name, mapping.resource)
                if mapping.counters:
                    counters[name] = counters.get(name, ()) + mapping.counters
        return cls(mode, resources, counters)


NO_MAPPINGS = DeviceRules()


@dataclass(frozen=True, slots=True)
class ClaimAsked:
    """An entry of a pod's `spec.resourceClaims`: the template that its claim is made of, or the claim; None for what it
    does not name."""

    template: str | None = None
    claim: str | None = None


@dataclass(frozen=True, slots=True)
class DevicesAsked:
    """A pod set: its claims in their order, and its containers, their requests with all defaults."""

    name: str
    claims: tuple[ClaimAsked, ...] = ()
    init_containers: Sequence[Json] = ()
    containers: Sequence[Json] = ()


@dataclass(slots=True)
class KnownDevices:
    """What is known of a cluster: what each ResourceClaimTemplate asks for, by namespace and name; DeviceClasses and
    ResourceSlices by name. `unseen`: why the objects of a kind cannot be seen, by the kind's name. `memo`: what was
    found out of all of this; whoever changes any of it clears that."""

    templates: dict[tuple[str, str], tuple[DeviceRequest, ...]] = field(default_factory=dict)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    memo: dict[object, Any] = field(default_factory=dict)

    def found(self, key: object, find: Callable[[], T]) -> T:
        """Return what is found out once as long as nothing changes."""
        if key not in self.memo:
            self.memo[key] = find()
        found: T = self.memo[key]
        return found

    def slices_of(self, driver: str | None = None) -> list[ResourceSlice]:
        """Return the slices of a driver, or all, by their names."""
        return [one for _, one in sorted(self.slices.items()) if driver in (None, one.driver)]

    def why_not(self, kind: Kind, name: str) -> str:
        """Return why there is no object of a kind and name, as Kueue says it."""
        said = self.unseen.get(kind.name)
        return said or f'{kind.kind}.{kind.group} "{name}" not found'


@dataclass(frozen=True, slots=True)
class CountedDevices:
    """What one pod of a pod set counts for beside what it asks for (`adds`, in billionths), and which resources do not
    count that it asks for (`replaces`)."""

    adds: Mapping[str, int] = field(default_factory=dict)
    replaces: frozenset[str] = frozenset()
