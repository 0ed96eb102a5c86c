"""Counts the devices of a Workload: those of its claims, of its extended resources, and by counters.

In: its pod sets, what is known of the cluster, the rules. Out: for each pod set what one pod counts for beside what it
asks for, or `DeviceRefusal`, in the order in which Kueue looks (kubernetes-sigs/kueue
pkg/controller/core/workload_controller.go `handleDRA`, ff69552e). The same Workload with the same objects comes to the
same, whenever it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from controlplane.controllers.quota.devices.claims import devices_by_class, shortages
from controlplane.controllers.quota.devices.counters import counter_charges
from controlplane.controllers.quota.devices.extended import extended_charges
from controlplane.controllers.quota.devices.model import (
    IGNORE,
    REJECT,
    CountedDevices,
    DeviceRules,
    DevicesAsked,
    KnownDevices,
)
from controlplane.controllers.quota.devices.refusal import DeviceRefusal, internal, not_found
from controlplane.controllers.quota.engine.amounts import in_order
from controlplane.kube.devices.objects import DeviceRequest
from controlplane.kube.kinds import RESOURCE_CLAIM_TEMPLATES
from controlplane.kube.quantities import NANO

NOT_ENABLED = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
NO_CLAIMS = "KueueDRAIntegration feature does not support use of resource claims"


def counted_devices(
    namespace: str, asked: Sequence[DevicesAsked], known: KnownDevices, rules: DeviceRules
) -> dict[str, CountedDevices]:
    """Return what counts for each pod set of a Workload, by its name; those without devices are left out."""
    if not _are_counted(asked, rules):
        return {}
    of_claims = [_of_claims(namespace, one, at, known, rules) for at, one in enumerate(asked)]
    extended = _of_extended(asked, known, rules)
    of_counters = [_of_counters(namespace, one, at, known, rules) for at, one in enumerate(asked)]
    found = {}
    for one, *parts, more in zip(asked, of_claims, of_counters, extended, strict=True):
        adds = dict(more.adds)
        for part in parts:
            for resource, amount in part.items():
                adds[resource] = adds.get(resource, 0) + amount
        if adds or more.replaces:
            found[one.name] = CountedDevices(adds, more.replaces)
    return found


def _are_counted(asked: Sequence[DevicesAsked], rules: DeviceRules) -> bool:
    """Return whether devices are counted at all; `DeviceRefusal` where claims are not looked at."""
    claims = [claim for one in asked for claim in one.claims]
    by_name = any(claim.claim is not None for claim in claims)
    if rules.mode == REJECT and (by_name or any(claim.template is not None for claim in claims)):
        raise DeviceRefusal.of_all(NOT_ENABLED)
    if rules.mode in (REJECT, IGNORE):
        return False
    if by_name:
        raise DeviceRefusal.of_all(NO_CLAIMS)
    return True


def _of_claims(namespace: str, asked: DevicesAsked, at: int, known: KnownDevices, rules: DeviceRules) -> dict[str, int]:
    """Return what the devices of a pod set's claims count as, in billionths, without those that count by counters."""
    found: dict[str, int] = {}
    for where, name, requests in _templates(namespace, asked, at, known, f" in podset {asked.name}"):
        try:
            counts = devices_by_class(requests)
        except DeviceRefusal as refusal:
            raise DeviceRefusal(one.of(where, name) for one in refusal.problems) from refusal
        if errors := known.found(
            (name, namespace, where, "selected"), partial(shortages, requests, known, rules, where)
        ):
            raise DeviceRefusal(one.of("", name) for one in errors)
        for device_class, count in in_order(counts).items():
            resource = rules.resources.get(device_class)
            if resource is None:
                why = f"DeviceClass {device_class} is not mapped in DRA configuration for podset {asked.name}"
                raise DeviceRefusal([not_found(f"{where}.resourceClaimTemplateName", why)])
            if not rules.counters.get(device_class):
                found[resource] = found.get(resource, 0) + count * NANO
    return found


def _of_counters(
    namespace: str, asked: DevicesAsked, at: int, known: KnownDevices, rules: DeviceRules
) -> dict[str, int]:
    found: dict[str, int] = {}
    for where, name, requests in _templates(namespace, asked, at, known, ""):
        charges = known.found(
            (name, namespace, where, "counted"), partial(_charges_or_refusal, requests, known, rules, where)
        )
        if isinstance(charges, DeviceRefusal):
            raise DeviceRefusal(charges.problems)
        for resource, amount in charges.items():
            found[resource] = found.get(resource, 0) + amount * NANO
    return found


def _charges_or_refusal(
    requests: Sequence[DeviceRequest], known: KnownDevices, rules: DeviceRules, where: str
) -> dict[str, int] | DeviceRefusal:
    try:
        return counter_charges(requests, known, rules, where)
    except DeviceRefusal as refusal:
        return refusal


def _of_extended(asked: Sequence[DevicesAsked], known: KnownDevices, rules: DeviceRules) -> list[CountedDevices]:
    found, errors = [], []
    for at, one in enumerate(asked):
        counted, wrong = extended_charges(one, known, rules, f"spec.podSets[{at}].template.spec")
        found.append(counted)
        errors += wrong
    if errors:
        raise DeviceRefusal(errors)
    return found


def _templates(
    namespace: str, asked: DevicesAsked, at: int, known: KnownDevices, place: str
) -> Iterator[tuple[str, str, tuple[DeviceRequest, ...]]]:
    """Yield the path, the template's name and the requests of each claim of a pod set that is made of a template."""
    for number, claim in enumerate(asked.claims):
        if claim.template is None:
            continue
        where = f"spec.podSets[{at}].template.spec.resourceClaims[{number}]"
        requests = known.templates.get((namespace, claim.template))
        if requests is None:
            why = known.why_not(RESOURCE_CLAIM_TEMPLATES, claim.template)
            said = f"failed to get claim spec for ResourceClaimTemplate {claim.template}{place}: {why}"
            raise DeviceRefusal([internal(where, said)])
        yield where, claim.template, requests
