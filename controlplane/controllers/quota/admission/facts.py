"""Makes of observations the values that the engine decides on.

In: events as they were recorded. Out: `engine.model` values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.engine import model, parse_queues, parse_workloads
from controlplane.controllers.quota.engine.amounts import Usage, in_order
from controlplane.kube.kinds import Json


def workload(seen: events.AdmissionWorkloadObserved, *, waits: bool = False) -> model.Workload:
    """Return a Workload; `waits`: it is not to be tried, whatever it says."""
    obj: Json = {
        "metadata": {
            "namespace": seen.namespace,
            "name": seen.name,
            "uid": seen.uid,
            "generation": seen.generation,
            "creationTimestamp": seen.created or None,
            "labels": {parse_workloads.JOB_UID_LABEL: seen.job_uid},
            "annotations": {parse_workloads.GATED_BY: seen.gated_by},
        },
        "spec": {"queueName": seen.queue, "priority": seen.priority, "active": seen.active},
        "status": seen.status,
    }
    found = replace(parse_workloads.workload(obj), pod_sets=tuple(map(_pod_set, seen.pod_sets)))
    return replace(found, requeue_at=math.inf) if waits else found


def admission(seen: Json) -> model.QuotaAdmission:
    """Return an admission, as an API server has it or is to have it."""
    found = parse_workloads.admission({"admission": seen})
    assert found is not None, "an admission names a ClusterQueue"
    return found


def _pod_set(facts: events.PodSetFacts) -> model.PodSet:
    spec: Json = {
        "nodeSelector": facts.node_selector,
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": facts.node_terms}}
        },
        "tolerations": facts.tolerations,
    }
    return model.PodSet(
        name=facts.name,
        count=facts.count,
        min_count=facts.min_count,
        requests=in_order(facts.requests),
        nodes=parse_workloads.node_constraints(spec),
        shape=facts.shape,
        topology=facts.topology,
        excess=tuple(facts.excess),
    )


def cluster_queue(seen: events.AdmissionClusterQueueObserved) -> model.ClusterQueue:
    """Return a ClusterQueue; one that is being deleted admits nothing, like one that is stopped."""
    found = parse_queues.cluster_queue(_object(seen))
    return replace(found, stop_policy="Hold") if seen.deleting else found


def cohort(seen: events.AdmissionCohortObserved) -> model.Cohort:
    """Return a Cohort."""
    return parse_queues.cohort(_object(seen))


def local_queue(seen: events.AdmissionLocalQueueObserved) -> model.LocalQueue:
    """Return a LocalQueue."""
    return parse_queues.local_queue(_object(seen))


def flavor(seen: events.AdmissionFlavorObserved) -> model.ResourceFlavor:
    """Return a ResourceFlavor."""
    return parse_queues.resource_flavor(_object(seen))


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
