"""Counts the devices that a Workload asks for among its requests.

In: a Workload as the engine has it, and as it was seen; what is known of devices. Out: the same with what its devices
count as, or with why they cannot be counted. What a pod takes of a node stays what it asks for."""

from __future__ import annotations

from dataclasses import replace

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.devices.count import counted_devices
from controlplane.controllers.quota.devices.extended import asks_for_extended
from controlplane.controllers.quota.devices.model import (
    ClaimAsked,
    CountedDevices,
    DeviceRules,
    DevicesAsked,
    KnownDevices,
)
from controlplane.controllers.quota.devices.refusal import DeviceRefusal
from controlplane.controllers.quota.engine import model
from controlplane.controllers.quota.engine.amounts import add, in_order, requested
from controlplane.kube.limit_ranges import PodDefaults, given


def with_devices(
    found: model.Workload,
    seen: events.AdmissionWorkloadObserved,
    said: PodDefaults,
    known: KnownDevices,
    rules: DeviceRules,
) -> model.Workload:
    """Return a Workload with what its devices count as; one that has quota keeps that, whatever its devices count as
    now."""
    if not any(one.claims or (known.classes and asks_for_extended(one.requests)) for one in seen.pod_sets):
        return found
    asked = [_asked(one, said) for one in seen.pod_sets]
    try:
        counted = counted_devices(seen.namespace, asked, known, rules)
    except DeviceRefusal as refusal:
        return found if found.reserved_at is not None else replace(found, refusal=str(refusal))
    pod_sets = tuple(_counted(one, counted.get(one.name)) for one in found.pod_sets)
    return replace(found, pod_sets=pod_sets)


def _asked(facts: events.PodSetFacts, said: PodDefaults) -> DevicesAsked:
    spec = given(facts.resources, said)
    claims = (ClaimAsked(one.get("resourceClaimTemplateName"), one.get("resourceClaimName")) for one in facts.claims)
    return DevicesAsked(facts.name, tuple(claims), spec.get("initContainers") or (), spec.get("containers") or ())


def _counted(pod_set: model.PodSet, devices: CountedDevices | None) -> model.PodSet:
    if devices is None:
        return pod_set
    requests = {name: amount for name, amount in pod_set.requests.items() if name not in devices.replaces}
    for name, amount in devices.adds.items():
        requests[name] = add(requests.get(name, 0), requested(name, amount))
    return replace(pod_set, requests=in_order(requests), on_node=pod_set.pod_on_node)
