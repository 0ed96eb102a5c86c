"""Defines what is recorded of devices: templates of claims, classes and slices, as far as quota rests on them."""

from __future__ import annotations

from controlplane.controllers.quota.admission.events import AdmissionDecision, AdmissionObjectObserved
from controlplane.log.event import Event
from controlplane.runtime.observations import ObjectVanished


class AdmissionClaimTemplateObserved(AdmissionObjectObserved):
    """A ResourceClaimTemplate; of its spec what its claims ask for."""


class AdmissionClaimTemplateGone(ObjectVanished):
    """The ResourceClaimTemplate was deleted."""


class AdmissionDeviceClassObserved(AdmissionObjectObserved):
    """A DeviceClass; of its spec the selectors and the extended resource. `created`: when it was made, as its API has
    it."""

    created: str = ""


class AdmissionDeviceClassGone(ObjectVanished):
    """The DeviceClass was deleted."""


class AdmissionResourceSliceObserved(AdmissionObjectObserved):
    """A ResourceSlice; of its spec driver and pool, and of each device what selectors and counters are asked of."""


class AdmissionResourceSliceGone(ObjectVanished):
    """The ResourceSlice was deleted."""


class DevicesRecounted(AdmissionDecision):
    """ResourceSlices have changed: who waits and asks for devices is counted anew, for all that changed meanwhile."""


EVENTS: tuple[type[Event], ...] = (
    AdmissionClaimTemplateObserved,
    AdmissionClaimTemplateGone,
    AdmissionDeviceClassObserved,
    AdmissionDeviceClassGone,
    AdmissionResourceSliceObserved,
    AdmissionResourceSliceGone,
    DevicesRecounted,
)
