"""What each event of admission says, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.quota.admission import device_events, events, topology_events
from controlplane.controllers.quota.engine.amounts import spelled
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, refused_write, told

WRITES: Mapping[str, str] = {
    "QuotaReservationDecided": "the reservation",
    "WorkloadInadmissible": "the condition QuotaReserved",
    "WorkloadPreemptionDecided": "the preemption",
    "WorkloadStatusDecided": "the Workload's status",
    "WorkloadSpecDecided": "the Workload's spec",
    "WorkloadDeletionDecided": "the deletion",
    "QueueStatusDecided": "the queue's status",
    "FinalizersDecided": "the finalizers",
    "TopologyAssignmentDecided": "the topology assignment",
    "PodFailureDecided": "the failure of the pod",
    "SecondPassNoticeDecided": "an Event",
}


def amounts(found: events.Amounts) -> str:
    """Return amounts by flavor, as in `default: cpu 2, memory 4Gi`."""
    by_flavor = (f"{flavor}: {_of_resources(of)}" for flavor, of in sorted(found.items()))
    return "; ".join(by_flavor) or "nothing"


def _of_resources(used: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {_signed(name, amount)}" for name, amount in sorted(used.items())) or "nothing"


def _signed(resource: str, amount: int) -> str:
    return f"-{spelled(resource, -amount)}" if amount < 0 else spelled(resource, amount)


def _reserved(event: events.QuotaReservationDecided) -> str:
    borrowed = f" ({amounts(event.borrowed)} borrowed)" if event.borrowed else ""
    then = "quota is to be reserved and the Workload admitted" if event.admitted else "quota is to be reserved"
    place = f", in the place of slice {event.replaces}" if event.replaces else ""
    others = f"; of flavors were considered {event.considered}" if event.considered else ""
    return f"{then} in {event.cluster_queue}: {amounts(event.amounts)}{borrowed}{place}{others}"


def _waits(event: events.WorkloadInadmissible) -> str:
    victims = f"; preempted for it: {', '.join(event.victims)}" if event.victims else ""
    return f"Workload has to wait in {event.cluster_queue} ({event.why}): {event.message}{victims}"


def _spec(event: events.WorkloadSpecDecided) -> str:
    if event.changes.get("active") is False:
        return "Workload is to be deactivated"
    return f"Workload's priority is to be {event.changes.get('priority')}"


def _changed(event: events.WorkloadStatusDecided) -> str:
    if event.evicted:
        return f"Workload is to be evicted ({event.evicted}): {event.message}"
    if list(event.changes) == ["unhealthyNodes"]:
        names = ", ".join(str(one.get("name")) for one in event.changes["unhealthyNodes"] or ())
        return (
            f"Workload is to say that {names} is to be replaced"
            if names
            else "Workload is to say that no node has failed"
        )
    said = ", ".join(f"{one.type} {one.status} ({one.reason})" for one in event.conditions)
    return f"Workload's status is to say: {said or ', '.join(sorted(event.changes)) or 'less'}"


def _sampled(event: events.LocalQueueUsageSampled) -> str:
    consumed = ", ".join(f"{name} {amount}" for name, amount in sorted(event.consumed.items())) or "nothing"
    settled = f"; with the entry of {', '.join(event.settled)}" if event.settled else ""
    return f"LocalQueue used {consumed} in the past{settled}"


def _node(event: topology_events.AdmissionNodeObserved) -> str:
    state = "ready" if event.ready else "not ready"
    return f"Node {event.name} is {state}{', cordoned' if event.unschedulable else ''}"


def _takes(event: topology_events.AdmissionPodObserved) -> str:
    asked = ", ".join(f"{name} {spelled(name, amount)}" for name, amount in sorted(event.requests.items()))
    return f"pod {event.namespace}/{event.name} takes {asked or 'a place'} of {event.node}"


def _placed_pod(event: topology_events.AdmissionPlacedPodObserved) -> str:
    if not event.node:
        return f"pod {event.namespace}/{event.name} waits for {event.host or 'a node'}"
    return f"pod {event.namespace}/{event.name} {'is leaving' if event.deleting else 'runs on'} {event.node}"


def _placed(event: topology_events.TopologyAssignmentDecided) -> str:
    then = " and admitted" if event.admitted else ""
    return f"Workload is to be placed in domains of its topology{then}, in {event.cluster_queue}"


def _slice(event: device_events.AdmissionResourceSliceObserved) -> str:
    count = len(event.spec.get("devices") or ())
    return f"ResourceSlice {event.name} has {count} device{'' if count == 1 else 's'} of {event.spec.get('driver')}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        events.AdmissionWorkloadObserved: "Workload is in LocalQueue {e.queue}",
        events.AdmissionWorkloadGone: "Workload is gone",
        events.AdmissionClusterQueueObserved: "ClusterQueue {e.name} is there",
        events.AdmissionClusterQueueGone: "ClusterQueue {e.name} is gone",
        events.AdmissionCohortObserved: "Cohort {e.name} is there",
        events.AdmissionCohortGone: "Cohort {e.name} is gone",
        events.AdmissionLocalQueueObserved: "LocalQueue {e.namespace}/{e.name} is there",
        events.AdmissionLocalQueueGone: "LocalQueue {e.namespace}/{e.name} is gone",
        events.WorkerUsageObserved: lambda e: f"LocalQueue {e.namespace}/{e.name} uses {_of_resources(e.used)}",
        events.WorkerUsageGone: "LocalQueue {e.namespace}/{e.name} is gone",
        events.AdmissionFlavorObserved: "ResourceFlavor {e.name} is there",
        events.AdmissionFlavorGone: "ResourceFlavor {e.name} is gone",
        events.AdmissionCheckSeen: lambda e: f"AdmissionCheck {e.name} is {'' if e.active else 'not '}active",
        events.AdmissionCheckUnseen: "AdmissionCheck {e.name} is gone",
        events.AdmissionNamespaceObserved: "namespace {e.name} is there",
        events.AdmissionNamespaceGone: "namespace {e.name} is gone",
        events.AdmissionPriorityClassObserved: "WorkloadPriorityClass {e.name} is {e.value}",
        events.AdmissionPriorityClassGone: "WorkloadPriorityClass {e.name} is gone",
        events.AdmissionLimitRangeObserved: "LimitRange {e.namespace}/{e.name} is there",
        events.AdmissionLimitRangeGone: "LimitRange {e.namespace}/{e.name} is gone",
        events.AdmissionRuntimeClassObserved: "RuntimeClass {e.name} is there",
        events.AdmissionRuntimeClassGone: "RuntimeClass {e.name} is gone",
        topology_events.AdmissionTopologyObserved: "Topology {e.name} is there",
        topology_events.AdmissionTopologyGone: "Topology {e.name} is gone",
        device_events.AdmissionClaimTemplateObserved: "ResourceClaimTemplate {e.namespace}/{e.name} is there",
        device_events.AdmissionClaimTemplateGone: "ResourceClaimTemplate {e.namespace}/{e.name} is gone",
        device_events.AdmissionDeviceClassObserved: "DeviceClass {e.name} is there",
        device_events.AdmissionDeviceClassGone: "DeviceClass {e.name} is gone",
        device_events.AdmissionResourceSliceObserved: _slice,
        device_events.AdmissionResourceSliceGone: "ResourceSlice {e.name} is gone",
        device_events.DevicesRecounted: "who waits and asks for devices is to be counted anew",
        topology_events.AdmissionNodeObserved: _node,
        topology_events.AdmissionNodeGone: "Node {e.name} is gone",
        topology_events.AdmissionPodObserved: _takes,
        topology_events.AdmissionPodGone: "pod {e.namespace}/{e.name} takes nothing of a node any more",
        topology_events.AdmissionPlacedPodObserved: _placed_pod,
        topology_events.AdmissionPlacedPodGone: "pod {e.namespace}/{e.name} runs on no node any more",
        topology_events.PodFailureDecided: "pod {e.name} is to fail, since it waits for {e.node}",
        topology_events.SecondPassNoticeDecided: "the user is told: {e.message}",
        topology_events.NodeRoomFreed: lambda e: f"who waits for {', '.join(e.flavors)} may be tried again",
        topology_events.TopologyAssignmentDecided: _placed,
        topology_events.TopologyAssignmentFailed: "Workload cannot be placed yet: {e.message}",
        events.AdmissionInputRefused: "{e.kind} {e.name} cannot be read: {e.error}",
        events.QuotaReservationDecided: _reserved,
        events.WorkloadInadmissible: _waits,
        events.WorkloadPreemptionDecided: "Workload is to be preempted for {e.preemptor} ({e.why})",
        events.WorkloadStatusDecided: _changed,
        events.WorkloadSpecDecided: _spec,
        events.WorkloadDeletionDecided: "Workload is to be deleted",
        events.ReservationRetried: "its reservation is tried again",
        events.QueueStatusDecided: lambda e: f"status is to change: {', '.join(sorted(e.changes))}",
        events.LocalQueueUsageSampled: _sampled,
        events.FinalizersDecided: lambda e: f"finalizers are to be {', '.join(e.finalizers) or 'none'}",
        events.QuotaPosted: lambda e: f"quota of {e.cluster_queue} changes by {amounts(e.amounts)}",
        events.AdmissionWriteFailed: lambda e: refused_write(e, WRITES),
        events.AdmissionWriteUnneeded: lambda e: f"{WRITES.get(e.action, e.action)} is so already",
    }
)
