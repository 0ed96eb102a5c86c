"""Makes of an object that the management cluster showed the event that admission rests on.

In: a change. Out: stream and event; None for what concerns no admission. An object that does not fit its API becomes
`AdmissionInputRefused`: what was known of it counts on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import device_objects, events, topology_events, worker_usage
from controlplane.controllers.quota.admission.state import WorkloadState
from controlplane.controllers.quota.engine import parse_queues, parse_workloads
from controlplane.controllers.quota.topology.parse import parse_topology
from controlplane.kube import fields, kinds, limit_ranges
from controlplane.kube.conditions import conditions_of, is_true
from controlplane.kube.fields import UNFIT, BadValue, items, number, section, strings, text
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.kueue_names import GATED_BY, JOB_UID_LABEL, PRIORITY_BOOST
from controlplane.kube.pod_requests import amounts
from controlplane.kube.slices import replacement_for
from controlplane.kube.workload_owners import is_of_group
from controlplane.log.event import Body, Event, body_of
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.observations import ObjectVanished

ADMISSION = "admission"
_WORDS: dict[Kind, str] = {
    kinds.WORKLOADS: "workload",
    kinds.CLUSTER_QUEUES: "clusterqueue",
    kinds.COHORTS: "cohort",
    kinds.LOCAL_QUEUES: "localqueue",
    kinds.RESOURCE_FLAVORS: "flavor",
    kinds.ADMISSION_CHECKS: "check",
    kinds.NAMESPACES: "namespace",
    kinds.WORKLOAD_PRIORITY_CLASSES: "priorityclass",
    kinds.LIMIT_RANGES: "limitrange",
    kinds.RUNTIME_CLASSES: "runtimeclass",
    kinds.TOPOLOGIES: "topology",
}
KINDS = tuple(kind for kind in _WORDS if kind != kinds.TOPOLOGIES)
"""What is watched on the management cluster in any case."""

SEEN: dict[type[Event], Kind] = {
    events.AdmissionWorkloadObserved: kinds.WORKLOADS,
    events.AdmissionClusterQueueObserved: kinds.CLUSTER_QUEUES,
    events.AdmissionCohortObserved: kinds.COHORTS,
    events.AdmissionLocalQueueObserved: kinds.LOCAL_QUEUES,
    events.WorkerUsageObserved: kinds.LOCAL_QUEUES,
    events.AdmissionFlavorObserved: kinds.RESOURCE_FLAVORS,
    events.AdmissionCheckSeen: kinds.ADMISSION_CHECKS,
    events.AdmissionNamespaceObserved: kinds.NAMESPACES,
    events.AdmissionPriorityClassObserved: kinds.WORKLOAD_PRIORITY_CLASSES,
    events.AdmissionLimitRangeObserved: kinds.LIMIT_RANGES,
    events.AdmissionRuntimeClassObserved: kinds.RUNTIME_CLASSES,
    topology_events.AdmissionTopologyObserved: kinds.TOPOLOGIES,
    topology_events.AdmissionNodeObserved: kinds.NODES,
    topology_events.AdmissionPodObserved: kinds.PODS_OF_TOPOLOGIES,
    topology_events.AdmissionPlacedPodObserved: kinds.PODS_OF_TOPOLOGIES,
    **device_objects.SEEN,
}
GONE: dict[type[ObjectVanished], Kind] = {
    events.AdmissionWorkloadGone: kinds.WORKLOADS,
    events.AdmissionClusterQueueGone: kinds.CLUSTER_QUEUES,
    events.AdmissionCohortGone: kinds.COHORTS,
    events.WorkerUsageGone: kinds.LOCAL_QUEUES,
    events.AdmissionLocalQueueGone: kinds.LOCAL_QUEUES,
    events.AdmissionFlavorGone: kinds.RESOURCE_FLAVORS,
    events.AdmissionCheckUnseen: kinds.ADMISSION_CHECKS,
    events.AdmissionNamespaceGone: kinds.NAMESPACES,
    events.AdmissionPriorityClassGone: kinds.WORKLOAD_PRIORITY_CLASSES,
    events.AdmissionLimitRangeGone: kinds.LIMIT_RANGES,
    events.AdmissionRuntimeClassGone: kinds.RUNTIME_CLASSES,
    topology_events.AdmissionTopologyGone: kinds.TOPOLOGIES,
    topology_events.AdmissionNodeGone: kinds.NODES,
    topology_events.AdmissionPodGone: kinds.PODS_OF_TOPOLOGIES,
    topology_events.AdmissionPlacedPodGone: kinds.PODS_OF_TOPOLOGIES,
    **device_objects.GONE,
}
_GONE = {kind: event for event, kind in GONE.items() if event is not events.WorkerUsageGone}
_QUEUES = (kinds.CLUSTER_QUEUES, kinds.COHORTS, kinds.LOCAL_QUEUES)

_READS: dict[Kind, Callable[[Json], object]] = {
    kinds.CLUSTER_QUEUES: parse_queues.new_cluster_queue,
    kinds.COHORTS: parse_queues.cohort,
    kinds.LOCAL_QUEUES: parse_queues.local_queue,
    kinds.RESOURCE_FLAVORS: parse_queues.resource_flavor,
    kinds.ADMISSION_CHECKS: parse_queues.admission_check,
    kinds.LIMIT_RANGES: lambda obj: limit_ranges.defaults([section(obj, "spec")], {}),
    kinds.RUNTIME_CLASSES: lambda obj: amounts(_overhead(obj), "overhead.podFixed"),
    kinds.TOPOLOGIES: parse_topology,
}
_EVENTS: dict[Kind, type[events.AdmissionObjectObserved]] = {
    kinds.CLUSTER_QUEUES: events.AdmissionClusterQueueObserved,
    kinds.COHORTS: events.AdmissionCohortObserved,
    kinds.LOCAL_QUEUES: events.AdmissionLocalQueueObserved,
    kinds.RESOURCE_FLAVORS: events.AdmissionFlavorObserved,
    kinds.ADMISSION_CHECKS: events.AdmissionCheckSeen,
    kinds.LIMIT_RANGES: events.AdmissionLimitRangeObserved,
    kinds.RUNTIME_CLASSES: events.AdmissionRuntimeClassObserved,
    kinds.TOPOLOGIES: topology_events.AdmissionTopologyObserved,
}


def stream_of(kind: Kind, namespace: str, name: str) -> str:
    """Return the stream of an object."""
    place = f"{namespace}/{name}" if kind.namespaced else name
    return f"{ADMISSION}/{_WORDS[kind]}/{place}"


def workload_stream(key: str) -> str:
    """Return the stream of a Workload, by its namespace and name."""
    return f"{ADMISSION}/workload/{key}"


def replaced_streams(*states: WorkloadState) -> list[str]:
    """Return the streams of the slices whose places a Workload is to take, as it was and as it is."""
    found = (one.observed.replaces for one in states if one.observed is not None)
    return [workload_stream(key) for key in found if key]


def seen(change: ObjectChange, *, workers: bool = False) -> tuple[str, Event, tuple[Body, ...]] | None:
    """Return stream, event and bodies of something seen; `workers`: what LocalQueues use there counts."""
    home = change.cluster == MANAGEMENT
    if change.kind not in _WORDS or not (home or workers):
        return None
    metadata = meta(change.object)
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    stream = stream_of(change.kind, namespace, name)
    try:
        if not home:
            found = worker_usage.seen(change)
            return (*found, ()) if found is not None else None
        if change.gone:
            gone = _GONE[change.kind]
            return stream, gone(namespace=namespace, name=name, uid=change.uid), ()
        return stream, observation(change.kind, change.whole()), ()
    except UNFIT as error:
        return refused(change, error)


def refused(change: ObjectChange, error: Exception) -> tuple[str, Event, tuple[Body, ...]]:
    """Return stream, event and body of an object that does not fit its API."""
    body, metadata = body_of(change.object), meta(change.object)
    event = events.AdmissionInputRefused(**fields.refusal(change.kind, change.object, error), object=body.ref)
    place = [str(metadata.get(one) or "") for one in ("namespace", "name")]
    return refusals_of(change.kind, place[0], place[1], change.cluster), event, (body,)


def refusals_of(kind: Kind, namespace: str, name: str, cluster: str = MANAGEMENT) -> str:
    """Return the stream of an object's refusals."""
    where = kind.name if cluster == MANAGEMENT else f"{cluster}/{kind.name}"
    return "/".join(filter(None, [ADMISSION, "refused", where, namespace, name]))


def observation(kind: Kind, obj: Json) -> Event:
    """Return the observation of an object of the management cluster; `Misfit` names the field that does not fit."""
    if kind == kinds.WORKLOADS:
        return workload(obj)
    if kind == kinds.NAMESPACES:
        labels = section(meta(obj), "labels", "metadata")
        return events.AdmissionNamespaceObserved(
            **fields.identity(obj), labels={str(key): str(value) for key, value in labels.items()}
        )
    if kind == kinds.WORKLOAD_PRIORITY_CLASSES:
        return events.AdmissionPriorityClassObserved(
            **fields.identity(obj), value=parse_queues.priority_class(obj).value
        )
    _READS[kind](obj)  # what cannot be read is refused here, and not when it is folded
    metadata = meta(obj)
    found: dict[str, Any] = {
        **fields.identity(obj),
        "generation": number(metadata, "generation", "metadata"),
        "finalizers": strings(metadata, "finalizers", "metadata"),
        "spec": section(obj, "spec"),
    }
    if kind == kinds.RUNTIME_CLASSES:
        found["spec"] = {"overhead": overhead} if (overhead := _overhead(obj)) else {}
    if kind in _QUEUES:
        found["status"] = _status(obj)
    if kind == kinds.ADMISSION_CHECKS:
        found["active"] = is_true(obj, "Active")
    return _EVENTS[kind](**found)


def _overhead(obj: Json) -> Json:
    """Return what each pod of a RuntimeClass needs beside its containers."""
    return section(section(obj, "overhead"), "podFixed", "overhead")


def workload(obj: Json) -> events.AdmissionWorkloadObserved:
    """Return the observation of a Workload; `Misfit` names the field that does not fit."""
    status = _status(obj)
    parse_workloads.workload(obj)
    metadata, spec = meta(obj), section(obj, "spec")
    annotations, labels = section(metadata, "annotations", "metadata"), section(metadata, "labels", "metadata")
    owners = items(metadata, "ownerReferences", "metadata")
    most = spec.get("maximumExecutionTimeSeconds")
    return events.AdmissionWorkloadObserved(
        **fields.identity(obj),
        generation=number(metadata, "generation", "metadata"),
        created=text(metadata, "creationTimestamp", "metadata"),
        owned=bool(owners),
        owners=[_owner(one, f"metadata.ownerReferences[{at}]") for at, one in enumerate(owners)],
        of_group=is_of_group(metadata),
        finalizers=strings(metadata, "finalizers", "metadata"),
        job_uid=text(labels, JOB_UID_LABEL, "metadata.labels"),
        gated_by=text(annotations, GATED_BY, "metadata.annotations"),
        queue=text(spec, "queueName", "spec"),
        priority=number(spec, "priority", "spec"),
        priority_class=_priority_class(spec),
        priority_boost=_priority_boost(annotations),
        preemption_gates=_names(items(spec, "preemptionGates", "spec"), "spec.preemptionGates"),
        active=spec.get("active") is not False,
        maximum_execution_seconds=None if most is None else number(spec, "maximumExecutionTimeSeconds", "spec"),
        pod_sets=[_pod_set(one, f"spec.podSets[{at}]") for at, one in enumerate(items(spec, "podSets", "spec"))],
        replaces=replacement_for(obj),
        status=status,
    )


def _status(obj: Json) -> Json:
    """Return a status whose conditions can be read, each of them once: of two nobody knows which one counts. So can
    what it says of shares."""
    found = section(obj, "status")
    section(section(found, "fairSharing", "status"), "admissionFairSharingStatus", "status.fairSharing")
    types = [one.type for one in conditions_of(found)]
    if twice := [one for one in types if types.count(one) > 1]:
        raise BadValue("status.conditions", f"{twice[0]} is there twice")
    return found


def _owner(obj: Json, where: str) -> events.Owner:
    found = {name: text(obj, name, where) for name in ("apiVersion", "kind", "name", "uid")}
    return events.Owner(api_version=found.pop("apiVersion"), **found)


def _priority_class(spec: Json) -> str:
    found = section(spec, "priorityClassRef", "spec")
    kind = kinds.WORKLOAD_PRIORITY_CLASSES
    is_workloads = (found.get("group"), found.get("kind")) == (kind.group, kind.kind)
    return text(found, "name", "spec.priorityClassRef") if is_workloads else ""


def _names(found: Sequence[Json], where: str) -> list[str]:
    return [text(one, "name", f"{where}[{at}]") for at, one in enumerate(found)]


def _priority_boost(annotations: Json) -> int:
    """Return what is added to the priority, 0 if it is no number of 32 bits, as with Kueue (`PriorityBoost` in
    kubernetes-sigs/kueue pkg/util/priority/priority.go, ff69552e)."""
    said = str(annotations.get(PRIORITY_BOOST, ""))
    found = int(said) if re.fullmatch(r"[+-]?[0-9]{1,10}", said, re.ASCII) else 0
    return found if -(2**31) <= found < 2**31 else 0


def _pod_set(obj: Json, where: str) -> events.PodSetFacts:
    found = parse_workloads.pod_set(obj, where)
    spec: Json = obj["template"]["spec"] if "template" in obj else {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return events.PodSetFacts(
        name=found.name,
        count=found.count,
        min_count=found.min_count,
        requests=found.requests,
        node_selector={str(key): str(value) for key, value in (spec.get("nodeSelector") or {}).items()},
        node_terms=list(required.get("nodeSelectorTerms") or ()),
        tolerations=list(spec.get("tolerations") or ()),
        shape=hashlib.sha256(found.shape.encode()).hexdigest()[:16],
        topology=found.asks_for_topology,
        topology_request=section(obj, "topologyRequest", where),
        excess=list(found.excess),
        resources=_asked(spec),
        claims=_claims(spec, f"{where}.template.spec"),
        preferred_node_terms=list(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
    )


def _claims(spec: Json, where: str) -> list[Json]:
    found = items(spec, "resourceClaims", where)
    for at, one in enumerate(found):
        for name in ("resourceClaimTemplateName", "resourceClaimName"):
            text(one, name, f"{where}.resourceClaims[{at}]")
    return found


def _asked(spec: Json) -> Json:
    """Return what of a pod's spec its requests are made of."""
    found: Json = {
        kind: [{name: one[name] for name in ("resources", "restartPolicy") if one.get(name)} for one in spec[kind]]
        for kind in ("initContainers", "containers")
        if spec.get(kind)
    }
    return found | {name: spec[name] for name in ("overhead", "runtimeClassName", "resources") if spec.get(name)}
