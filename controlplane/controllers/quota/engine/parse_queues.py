"""Reads the objects that give quota: ClusterQueues, Cohorts, LocalQueues, ResourceFlavors, AdmissionChecks, priority
classes.

In: objects as an API server shows them. Out: the values of `model`. An object that does not fit its API raises
`Misfit`, which names the field."""

from __future__ import annotations

from decimal import Decimal

from controlplane.controllers.quota.engine import model
from controlplane.controllers.quota.engine.amounts import FlavorResource, quota
from controlplane.controllers.quota.engine.usage_history import from_quantities
from controlplane.kube.conditions import is_true
from controlplane.kube.fields import BadValue, Misfit, items, number, section, strings, text
from controlplane.kube.kinds import Json, meta
from controlplane.kube.quantities import NANO, nanos
from controlplane.kube.selectors import InvalidSelector, label_selector
from controlplane.kube.tolerations import taints, tolerations

SPEC = "spec"


def cluster_queue(obj: Json) -> model.ClusterQueue:
    """Return a ClusterQueue; `Misfit` names the field that does not fit."""
    spec = section(obj, SPEC)
    try:
        selector = label_selector(spec.get("namespaceSelector"), "spec.namespaceSelector")
    except InvalidSelector as problem:
        raise BadValue(problem.field, problem.problem) from problem
    groups = _groups(spec)
    return model.ClusterQueue(
        name=text(meta(obj), "name", "metadata"),
        cohort=text(spec, "cohortName", SPEC),
        groups=groups,
        quotas=_quotas(spec),
        queueing_strategy=text(spec, "queueingStrategy", SPEC) or model.BEST_EFFORT_FIFO,
        stop_policy=text(spec, "stopPolicy", SPEC) or model.NO_STOP,
        namespace_selector=selector,
        fungibility=_fungibility(section(spec, "flavorFungibility", SPEC)),
        preemption=_preemption(section(spec, "preemption", SPEC)),
        fair_weight=_weight(spec),
        admission_checks=_checks(spec, groups),
        admission_mode=text(section(spec, "admissionScope", SPEC), "admissionMode", "spec.admissionScope"),
    )


def new_cluster_queue(obj: Json) -> model.ClusterQueue:
    """Return a ClusterQueue that was just seen; `Misfit` also where two resource groups have a flavor or a resource in
    common.

    Kueue's webhook refuses that (kubernetes-sigs/kueue pkg/webhooks/clusterqueue_webhook.go, `validateResourceGroups`),
    and the API server refuses a status with a flavor twice.
    """
    found = cluster_queue(obj)
    resources: set[str] = set()
    flavors: set[str] = set()
    for at, group in enumerate(items(section(obj, SPEC), "resourceGroups", SPEC)):
        where = f"spec.resourceGroups[{at}]"
        for place, name in enumerate(strings(group, "coveredResources", where)):
            if name in resources:
                why = f"resource {name} is covered before: cover each resource once, in one group"
                raise BadValue(f"{where}.coveredResources[{place}]", why)
            resources.add(name)
        for place, flavor in enumerate(items(group, "flavors", where)):
            name = text(flavor, "name", f"{where}.flavors")
            if name in flavors:
                why = f"flavor {name} is named before: name each flavor once, in one group"
                raise BadValue(f"{where}.flavors[{place}].name", why)
            flavors.add(name)
    return found


def cohort(obj: Json) -> model.Cohort:
    """Return a Cohort; `Misfit` names the field that does not fit."""
    spec = section(obj, SPEC)
    return model.Cohort(
        name=text(meta(obj), "name", "metadata"),
        parent=text(spec, "parentName", SPEC),
        quotas=_quotas(spec),
        fair_weight=_weight(spec),
    )


def local_queue(obj: Json) -> model.LocalQueue:
    """Return a LocalQueue; `Misfit` names the field that does not fit."""
    spec, metadata = section(obj, SPEC), meta(obj)
    consumed_resources(section(obj, "status"))
    return model.LocalQueue(
        namespace=text(metadata, "namespace", "metadata"),
        name=text(metadata, "name", "metadata"),
        cluster_queue=text(spec, "clusterQueue", SPEC),
        stop_policy=text(spec, "stopPolicy", SPEC) or model.NO_STOP,
        fair_weight=_weight(spec),
    )


def consumed_resources(status: Json) -> dict[str, Decimal]:
    """Return what a LocalQueue's status tells that it used in the past, by resource in units; `Misfit` names the field
    that does not fit."""
    where = "status.fairSharing"
    told = section(section(status, "fairSharing", "status"), "admissionFairSharingStatus", where)
    field = f"{where}.admissionFairSharingStatus.consumedResources"
    try:
        return from_quantities(section(told, "consumedResources", f"{where}.admissionFairSharingStatus"))
    except ValueError as problem:
        if isinstance(problem, Misfit):
            raise
        raise BadValue(field, f"{problem}. Remove the field, and its past usage is counted anew") from problem


def resource_flavor(obj: Json) -> model.ResourceFlavor:
    """Return a ResourceFlavor; `Misfit` names the field that does not fit."""
    spec = section(obj, SPEC)
    return model.ResourceFlavor(
        name=text(meta(obj), "name", "metadata"),
        labels={str(key): str(value) for key, value in section(spec, "nodeLabels", SPEC).items()},
        taints=taints(items(spec, "nodeTaints", SPEC)),
        tolerations=tolerations(items(spec, "tolerations", SPEC)),
        topology=text(spec, "topologyName", SPEC),
    )


def admission_check(obj: Json) -> model.AdmissionCheck:
    """Return an AdmissionCheck."""
    controller = text(section(obj, SPEC), "controllerName", SPEC)
    return model.AdmissionCheck(text(meta(obj), "name", "metadata"), is_true(obj, "Active"), controller)


def priority_class(obj: Json) -> model.WorkloadPriorityClass:
    """Return a WorkloadPriorityClass, whose value is at its top level."""
    return model.WorkloadPriorityClass(text(meta(obj), "name", "metadata"), number(obj, "value", "object"))


def _groups(spec: Json) -> tuple[model.ResourceGroup, ...]:
    found = []
    for at, group in enumerate(items(spec, "resourceGroups", SPEC)):
        where = f"spec.resourceGroups[{at}]"
        names = tuple(text(flavor, "name", f"{where}.flavors") for flavor in items(group, "flavors", where))
        found.append(model.ResourceGroup(frozenset(strings(group, "coveredResources", where)), names))
    return tuple(found)


def _quotas(spec: Json) -> model.Quotas:
    found: dict[FlavorResource, model.ResourceQuota] = {}
    for at, group in enumerate(items(spec, "resourceGroups", SPEC)):
        where = f"spec.resourceGroups[{at}]"
        for flavor in items(group, "flavors", where):
            name = text(flavor, "name", f"{where}.flavors")
            for resource in items(flavor, "resources", f"{where}.flavors[{name}]"):
                inside = f"{where}.flavors[{name}].resources"
                found[name, text(resource, "name", inside)] = _quota(resource, inside)
    return found


def _quota(resource: Json, where: str) -> model.ResourceQuota:
    name = text(resource, "name", where)

    def amount(field: str) -> int | None:
        try:
            return None if resource.get(field) is None else quota(name, resource[field])
        except ValueError as problem:
            raise BadValue(f"{where}[{name}].{field}", str(problem)) from problem

    return model.ResourceQuota(amount("nominalQuota") or 0, amount("borrowingLimit"), amount("lendingLimit"))


def _fungibility(found: Json) -> model.FlavorFungibility:
    where, usual = "spec.flavorFungibility", model.FlavorFungibility()
    return model.FlavorFungibility(
        text(found, "whenCanBorrow", where) or usual.when_can_borrow,
        text(found, "whenCanPreempt", where) or usual.when_can_preempt,
        text(found, "preference", where) or usual.preference,
    )


def _preemption(found: Json) -> model.Preemption:
    where = "spec.preemption"
    borrow, inside = section(found, "borrowWithinCohort", where), f"{where}.borrowWithinCohort"
    threshold = borrow.get("maxPriorityThreshold")
    return model.Preemption(
        text(found, "withinClusterQueue", where) or model.NEVER,
        text(found, "reclaimWithinCohort", where) or model.NEVER,
        text(borrow, "policy", inside) or model.NEVER,
        None if threshold is None else number(borrow, "maxPriorityThreshold", inside),
    )


def _weight(spec: Json) -> float:
    weight = section(spec, "fairSharing", SPEC).get("weight")
    try:
        found = 1.0 if weight is None else nanos(weight) / NANO
    except ValueError as problem:
        raise BadValue("spec.fairSharing.weight", f"{problem}. Write a number such as 1, 0.5 or 500m") from problem
    if found < 0:
        why = f"{weight} is negative. Write 0 to come after all others, 1 for the usual weight, or more"
        raise BadValue("spec.fairSharing.weight", why)
    return found


def _checks(spec: Json, groups: tuple[model.ResourceGroup, ...]) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the checks with their flavors; a check that names none is for all flavors of the ClusterQueue."""
    every = frozenset(flavor for group in groups for flavor in group.flavors)
    where = "spec.admissionChecksStrategy"
    found: dict[str, frozenset[str]] = {}
    for rule in items(section(spec, "admissionChecksStrategy", SPEC), "admissionChecks", where):
        named = strings(rule, "onFlavors", f"{where}.admissionChecks")
        found[text(rule, "name", f"{where}.admissionChecks")] = frozenset(named) or every
    return tuple(sorted(found.items()))
