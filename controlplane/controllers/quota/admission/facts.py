"""Makes of observations the values that the engine decides on.

In: events as they were recorded. Out: `engine.model` values."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.controllers.quota.admission import device_facts, events, topology_events
from controlplane.controllers.quota.devices.model import KnownDevices
from controlplane.controllers.quota.engine import model, parse_queues, parse_workloads
from controlplane.controllers.quota.engine.amounts import Usage, in_order
from controlplane.controllers.quota.engine.resource_rules import ResourceRules
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.topology.model import Topology, TopologyRequest
from controlplane.controllers.quota.topology.parse import parse_topology, topology_request
from controlplane.kube.kinds import Json
from controlplane.kube.kueue_names import GATED_BY, JOB_UID_LABEL
from controlplane.kube.limit_ranges import NO_DEFAULTS, PodDefaults, defaults
from controlplane.kube.slices import REPLACEMENT_FOR
from controlplane.kube.workload_owners import GROUP_WORKLOAD

DEFAULTS = EngineSettings()
NO_DEVICES = KnownDevices()


def workload(
    seen: events.AdmissionWorkloadObserved,
    said: PodDefaults = NO_DEFAULTS,
    *,
    waits: bool = False,
    by: EngineSettings = DEFAULTS,
    known: KnownDevices = NO_DEVICES,
) -> model.Workload:
    """Return a Workload, its pods with what their namespace and RuntimeClasses give them, and what the devices count as
    that they ask for, as far as those are `known`; `waits`: it is not to be tried, whatever it says. One that an
    admission check has rejected is not tried either: again and again in vain, it would keep all behind it in a
    StrictFIFO queue from quota."""
    obj: Json = {
        "metadata": {
            "namespace": seen.namespace,
            "name": seen.name,
            "uid": seen.uid,
            "generation": seen.generation,
            "creationTimestamp": seen.created or None,
            "labels": {JOB_UID_LABEL: seen.job_uid},
            "annotations": {
                GATED_BY: seen.gated_by,
                REPLACEMENT_FOR: seen.replaces,
                GROUP_WORKLOAD: str(seen.of_group).lower(),
            },
            "ownerReferences": [{"apiVersion": one.api_version, "kind": one.kind} for one in seen.owners],
        },
        "spec": {"queueName": seen.queue, "priority": priority_of(seen, by), "active": seen.active}
        | {"preemptionGates": [{"name": name} for name in seen.preemption_gates]},
        "status": seen.status,
    }
    found = replace(
        parse_workloads.workload(obj, by.requeuing_timestamp, by.readmission_order),
        pod_sets=tuple(_counted(_pod_set(one, said, at), by.resources) for at, one in enumerate(seen.pod_sets)),
    )
    found = device_facts.with_devices(found, seen, said, known, by.devices)
    return replace(found, requeue_at=math.inf) if waits or _rejected(seen) else found


def priority_of(seen: events.AdmissionWorkloadObserved, by: EngineSettings) -> int:
    """Return the priority that counts of a Workload."""
    return seen.priority + (seen.priority_boost if by.priority_boost else 0)


def _counted(pod_set: model.PodSet, rules: ResourceRules) -> model.PodSet:
    return replace(pod_set, requests=rules.counted(pod_set.requests), on_node=pod_set.requests) if rules else pod_set


def _rejected(seen: events.AdmissionWorkloadObserved) -> bool:
    checks: list[Json] = seen.status.get("admissionChecks") or []
    return any(check.get("state") == "Rejected" for check in checks)


def admission(seen: Json) -> model.QuotaAdmission:
    """Return an admission, as an API server has it or is to have it."""
    found = parse_workloads.admission({"admission": seen})
    assert found is not None, "an admission names a ClusterQueue"
    return found


def pod_defaults(ranges: Sequence[Json], classes: Mapping[str, Json]) -> PodDefaults:
    """Return what pods get, by the specs of their namespace's LimitRanges in their order, and those of
    RuntimeClasses."""
    return defaults(ranges, {name: spec["overhead"] for name, spec in classes.items() if spec.get("overhead")})


def _pod_set(facts: events.PodSetFacts, said: PodDefaults, at: int) -> model.PodSet:
    spec: Json = {"nodeSelector": facts.node_selector, "tolerations": facts.tolerations}
    affinity: Json = {"preferredDuringSchedulingIgnoredDuringExecution": facts.preferred_node_terms}
    if facts.node_terms:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": facts.node_terms}
    spec["affinity"] = {"nodeAffinity": affinity}
    found = model.PodSet(
        name=facts.name,
        count=facts.count,
        min_count=facts.min_count,
        requests=in_order(facts.requests),
        nodes=parse_workloads.node_constraints(spec),
        shape=facts.shape,
        topology=_topology_request(facts, at),
        excess=tuple(facts.excess),
    )
    if not facts.resources or not said.concern(facts.resources):
        return found
    counted = parse_workloads.counted(facts.resources, said, f"spec.podSets[{at}].template.spec")
    return replace(
        found,
        requests=counted.requests,
        excess=counted.excess,
        outside=counted.outside,
        shape=f"{facts.shape}{hashlib.sha256(counted.asks.encode()).hexdigest()[:16]}",
    )


def _topology_request(facts: events.PodSetFacts, at: int) -> TopologyRequest | None:
    """Return what a pod set asks of topology; events of earlier versions say only whether it asks."""
    if facts.topology and not facts.topology_request:
        return TopologyRequest()
    return topology_request(facts.topology_request, f"spec.podSets[{at}].topologyRequest")


def cluster_queue(seen: events.AdmissionClusterQueueObserved) -> model.ClusterQueue:
    """Return a ClusterQueue; one that is being deleted admits nothing, like one that is stopped."""
    found = parse_queues.cluster_queue(_object(seen))
    return replace(found, stop_policy=model.DELETING) if seen.deleting else found


def cohort(seen: events.AdmissionCohortObserved) -> model.Cohort:
    """Return a Cohort."""
    return parse_queues.cohort(_object(seen))


def local_queue(seen: events.AdmissionLocalQueueObserved) -> model.LocalQueue:
    """Return a LocalQueue."""
    return parse_queues.local_queue(_object(seen))


def flavor(seen: events.AdmissionFlavorObserved) -> model.ResourceFlavor:
    """Return a ResourceFlavor."""
    return parse_queues.resource_flavor(_object(seen))


def topology(seen: topology_events.AdmissionTopologyObserved) -> Topology:
    """Return a Topology."""
    return parse_topology(_object(seen))


def check(seen: events.AdmissionCheckSeen) -> model.AdmissionCheck:
    """Return an AdmissionCheck."""
    return replace(parse_queues.admission_check(_object(seen)), active=seen.active)


def _object(seen: events.AdmissionObjectObserved) -> Json:
    return {"metadata": {"namespace": seen.namespace, "name": seen.name}, "spec": seen.spec}


def by_flavor(usage: Usage) -> events.Amounts:
    """Return amounts by flavor and resource, without those that are 0."""
    found: events.Amounts = {}
    for (flavor_name, resource), amount in sorted(usage.items()):
        if amount:
            found.setdefault(flavor_name, {})[resource] = amount
    return found


def by_place(amounts: events.Amounts) -> Usage:
    """Return amounts as the engine has them."""
    return {(name, resource): amount for name, of in amounts.items() for resource, amount in of.items()}


def difference(after: Usage, before: Usage) -> Usage:
    """Return what came, negative for what went."""
    places = {**before, **after}
    return {place: after.get(place, 0) - before.get(place, 0) for place in places}


def beyond(usage: Mapping[tuple[str, str], int], quotas: model.Quotas, most: Usage) -> Usage:
    """Return which of some amounts exceed the nominal quota, given what is used in all."""
    found: Usage = {}
    for place, amount in most.items():
        quota = quotas.get(place)
        over = usage.get(place, 0) - (quota.nominal if quota is not None else 0)
        if (borrowed := max(0, min(amount, over))) > 0:
            found[place] = borrowed
    return found
