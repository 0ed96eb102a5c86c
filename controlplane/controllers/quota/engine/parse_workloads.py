"""Reads Workloads: what their pods ask for, where they may run, and what their status says of quota.

In: a Workload as an API server shows it. Out: `model.Workload`, its requests with overhead, and with limits where there
is no request, as Kueue counts them. What does not fit the API raises `Misfit`, which names the field."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from controlplane.controllers.quota.engine import model
from controlplane.controllers.quota.engine.amounts import Requests, in_order, requested
from controlplane.controllers.quota.engine.model import LONGEST_RUN
from controlplane.controllers.quota.topology.parse import (
    pod_set_updates,
    topology_assignment,
    topology_request,
    unhealthy_nodes,
)
from controlplane.kube import limit_ranges
from controlplane.kube.conditions import REMOTE_LOST, condition, is_true
from controlplane.kube.fields import BadValue, items, number, section, text
from controlplane.kube.kinds import Json, meta
from controlplane.kube.kueue_names import GATED_BY, JOB_UID_LABEL, ON_HOLD
from controlplane.kube.limit_ranges import NO_DEFAULTS, PodDefaults
from controlplane.kube.pod_requests import ADMITTED, amounts, effective
from controlplane.kube.selectors import node_term, node_terms, preferred_terms
from controlplane.kube.slices import replacement_for
from controlplane.kube.tolerations import tolerations
from controlplane.kube.workload_owners import is_of_single_pod

EVICTED = "Evicted"
BY_PODS_READY_TIMEOUT, BY_ADMISSION_CHECK = "PodsReadyTimeout", "AdmissionCheck"

CLOSED = "Closed"
_SHAPED = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "resourceClaims",
)


def workload(obj: Json, requeuing_timestamp: str = "Eviction", readmission_order: str = LONGEST_RUN) -> model.Workload:
    """Return a Workload; `Misfit` names the field that does not fit.

    `requeuing_timestamp`: whether one that was evicted because its pods were not ready in time queues from its eviction
    on (`Eviction`), or from its creation on (`Creation`). `readmission_order` as in `EngineSettings`.
    """
    spec, status, metadata = section(obj, "spec"), section(obj, "status"), meta(obj)
    reserved = condition(obj, "QuotaReserved")
    is_reserved = reserved is not None and reserved["status"] == "True"
    listed = items(spec, "podSets", "spec")
    labels = section(metadata, "labels", "metadata")
    lost = readmission_order == LONGEST_RUN and _is_lost(obj)
    checks = [check.get("state") for check in items(status, "admissionChecks", "status")]
    return model.Workload(
        namespace=text(metadata, "namespace", "metadata"),
        name=text(metadata, "name", "metadata"),
        uid=text(metadata, "uid", "metadata"),
        queue=text(spec, "queueName", "spec"),
        priority=number(spec, "priority", "spec"),
        pod_sets=tuple(pod_set(found, f"spec.podSets[{at}]") for at, found in enumerate(listed)),
        queued_at=_queued_at(obj, requeuing_timestamp),
        generation=number(metadata, "generation", "metadata"),
        job_uid=text(labels, JOB_UID_LABEL, "metadata.labels"),
        admission=admission(status),
        reserved_at=_moment(reserved.get("lastTransitionTime")) if is_reserved and reserved else None,
        evicted=is_true(obj, EVICTED),
        pods_ready=is_true(obj, "PodsReady"),
        lost_after=float(number(status, "accumulatedPastExecutionTimeSeconds", "status")) if lost else 0.0,
        active=spec.get("active") is not False,
        finished=is_true(obj, "Finished"),
        held=_held(obj, reserved),
        failed_checks=any(state in ("Retry", "Rejected") for state in checks),
        requeue_at=_requeue_at(obj, status, lost=lost),
        eviction=json.dumps([condition(obj, EVICTED), condition(obj, "Requeued")], sort_keys=True),
        reclaimable={
            text(found, "name", "status.reclaimablePods"): number(found, "count", "status.reclaimablePods")
            for found in items(status, "reclaimablePods", "status")
        },
        admitted=is_true(obj, "Admitted"),
        checks_ready=bool(checks) and all(state == "Ready" for state in checks),
        updates=pod_set_updates(status),
        unhealthy_nodes=unhealthy_nodes(status),
        replaces=replacement_for(obj),
        of_pod=is_of_single_pod(metadata),
        preemption_gated=_preemption_gated(spec, status),
    )


def _preemption_gated(spec: Json, status: Json) -> bool:
    """Return whether a gate keeps it from preempting: one of which the status says nothing does
    (`HasClosedPreemptionGate` in kubernetes-sigs/kueue pkg/workload/workload.go, ff69552e)."""
    where = "status.preemptionGates"
    said = {
        text(one, "name", where): text(one, "position", where) for one in items(status, "preemptionGates", "status")
    }
    names = (text(one, "name", "spec.preemptionGates") for one in items(spec, "preemptionGates", "spec"))
    return any(said.get(name, CLOSED) == CLOSED for name in names)


def pod_set(obj: Json, where: str) -> model.PodSet:
    """Return a pod set, its requests those of one pod."""
    spec = section(section(obj, "template", where), "spec", f"{where}.template")
    count = number(obj, "count", where) if "count" in obj else 1
    asked = counted(spec, NO_DEFAULTS, f"{where}.template.spec")
    return model.PodSet(
        name=text(obj, "name", where),
        count=count,
        min_count=number(obj, "minCount", where) if obj.get("minCount") is not None else count,
        requests=asked.requests,
        nodes=node_constraints(spec),
        shape=json.dumps([_shape(spec), obj.get("minCount"), obj.get("topologyRequest")], sort_keys=True),
        topology=topology_request(section(obj, "topologyRequest", where), f"{where}.topologyRequest"),
        excess=asked.excess,
    )


class Counted(NamedTuple):
    """What one pod asks for, and where its requests exceed its limits, or are outside of what LimitRanges allow. `asks`
    is equal for pods of which each container asks for the same."""

    requests: Requests
    excess: tuple[str, ...]
    outside: tuple[str, ...]
    asks: str


def counted(spec: Json, said: PodDefaults, where: str) -> Counted:
    """Return what one pod of a spec asks for, with the defaults of its namespace; `Misfit` names what is no quantity.
    `where` is the path of the spec."""
    given = limit_ranges.given(spec, said)
    try:
        asked = effective(given, ADMITTED)
        outside = limit_ranges.violations(given, said, where)
    except ValueError as problem:
        raise BadValue(where, str(problem)) from problem
    return Counted(
        requests=in_order({name: max(0, requested(name, amount)) for name, amount in asked.items()}),
        excess=_excess(given, where),
        outside=outside,
        asks=json.dumps(_asks(given), sort_keys=True),
    )


def node_constraints(spec: Json) -> model.NodeConstraints:
    """Return which nodes a pod of a pod spec may be on."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    listed = (required or {}).get("nodeSelectorTerms") or ()
    return model.NodeConstraints(
        selector=tuple((str(key), str(value)) for key, value in sorted((spec.get("nodeSelector") or {}).items())),
        terms=tuple(
            # A flavor has labels and no name: what a term asks of fields is not asked of it.
            node_term({"matchExpressions": term.get("matchExpressions") or ()}, f"nodeSelectorTerms[{at}]")
            for at, term in enumerate(listed)
        ),
        node_terms=None if required is None else node_terms(listed),
        preferred=preferred_terms(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
        tolerations=tolerations(spec.get("tolerations")),
    )


def _shape(spec: Json) -> Json:
    """Return what is equal for pod specs that are scheduled alike."""
    found: dict[str, Any] = {name: spec[name] for name in _SHAPED if spec.get(name)}
    return found | _asks(spec)


def _asks(spec: Json) -> Json:
    found: dict[str, Any] = {"overhead": amounts(spec.get("overhead"))}
    for kind in ("initContainers", "containers"):
        found[kind] = [[_requests(one), one.get("ports")] for one in spec.get(kind) or ()]
    if spec.get("resources"):
        found["resources"] = _requests(spec)
    return found


def _requests(container: Mapping[str, Any]) -> Requests:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _excess(spec: Json, where: str) -> tuple[str, ...]:
    """Return where requests exceed limits, as Kueue says it."""
    places: list[tuple[str, Mapping[str, Any]]] = []
    for kind in ("initContainers", "containers"):
        places += [(f"{where}.{kind}[{at}]", one) for at, one in enumerate(spec.get(kind) or ())]
    if spec.get("resources"):
        places.append((f"{where}.resources", spec))
    found = []
    for place, owner in places:
        limits = amounts((owner.get("resources") or {}).get("limits"))
        asked = _requests(owner)
        over = sorted(n for n in limits if requested(n, asked.get(n, 0)) > requested(n, limits[n]))
        if over:
            names = json.dumps(over, separators=(",", ":"))
            found.append(f"{place}: Invalid value: {names}: requests must not exceed its limits")
    return tuple(found)


def admission(status: Json) -> model.QuotaAdmission | None:
    """Return the admission of a status, None if it has none; `Misfit` names the field that does not fit."""
    found = section(status, "admission", "status")
    if not found:
        return None
    return model.QuotaAdmission(
        text(found, "clusterQueue", "status.admission"),
        tuple(_assignment(one) for one in items(found, "podSetAssignments", "status.admission")),
    )


def _assignment(found: Json) -> model.PodSetAssignment:
    where = "status.admission.podSetAssignments"
    given = section(found, "flavors", where)
    try:
        used = amounts(found.get("resourceUsage"), f"{where}.resourceUsage")
    except ValueError as problem:
        raise BadValue(where, str(problem)) from problem
    return model.PodSetAssignment(
        name=text(found, "name", where),
        flavors={name: text(given, name, f"{where}.flavors") for name in given},
        usage=in_order({name: requested(name, amount) for name, amount in used.items()}),
        count=number(found, "count", where) if found.get("count") is not None else -1,
        topology=topology_assignment(section(found, "topologyAssignment", where), f"{where}.topologyAssignment"),
        delayed=text(found, "delayedTopologyRequest", where),
    )


def _held(obj: Json, reserved: Json | None) -> bool:
    gate = section(meta(obj), "annotations", "metadata").get(GATED_BY)
    on_hold = reserved is not None and reserved["status"] == "False" and reserved.get("reason") == ON_HOLD
    return bool(gate) or on_hold or is_true(obj, "WaitingForReplacementPods")


def _queued_at(obj: Json, requeuing_timestamp: str) -> float:
    evicted = condition(obj, EVICTED)
    if evicted is not None and evicted["status"] == "True":
        reason = evicted.get("reason")
        if reason == BY_ADMISSION_CHECK or (reason == BY_PODS_READY_TIMEOUT and requeuing_timestamp == "Eviction"):
            return _moment(evicted.get("lastTransitionTime"))
    return _moment(meta(obj).get("creationTimestamp"))


def _is_lost(obj: Json) -> bool:
    """Whether a Workload was evicted since its cluster was lost. Its status says so, so that whoever reads it, now or
    as of a past moment, comes to the same."""
    evicted = condition(obj, EVICTED)
    if evicted is None or evicted["status"] != "True" or evicted.get("reason") != BY_ADMISSION_CHECK:
        return False
    return f"({REMOTE_LOST}" in str(evicted.get("message", ""))


def _requeue_at(obj: Json, status: Json, *, lost: bool) -> float:
    """Return before which moment one is not tried; `lost`: it comes back in the order of those whose cluster was
    lost."""
    requeued, at = condition(obj, "Requeued"), section(status, "requeueState", "status").get("requeueAt")
    if requeued is not None and requeued["status"] == "False":
        # Nothing is waited for but that the condition says so; meanwhile others would get the quota that it has given
        # back.
        at_once = lost and at is None and requeued.get("reason") == BY_ADMISSION_CHECK
        return 0.0 if at_once else math.inf
    return 0.0 if at is None else _moment(at)


def _moment(found: object) -> float:
    if found is None:
        return 0.0
    try:
        return datetime.fromisoformat(str(found)).timestamp()
    except ValueError as problem:
        raise BadValue("time", f"{found!r} is not a moment such as 2026-01-01T00:00:00Z") from problem
