"""Follows the pods that topology assignments have placed: on which node each is, or waits to be.

In: pods as they are shown; their events in the log's order. Out: an event where something changes on which the health
of a node rests, and the pods of each Workload. Pods that wait behind the gate of topologies are left out, since they
have no node yet. The job framework keeps gates and ranks of the same pods, and no node (docs/decisions/0055). Pure.
Source: kubernetes-sigs/kueue pkg/controller/tas/node_controller.go, ff69552e."""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.controllers.quota.admission.observe import ADMISSION
from controlplane.controllers.quota.admission.topology_events import (
    AdmissionPlacedPodGone,
    AdmissionPlacedPodObserved,
    PodFailureDecided,
)
from controlplane.job_kinds.gated import gate_names
from controlplane.kube import fields
from controlplane.kube.fields import items, section, text
from controlplane.kube.kinds import PODS, Json, ObjectRef, Request, meta
from controlplane.kube.requests import event_about, timestamp
from controlplane.kube.topologies import TOPOLOGY_GATE, WORKLOAD, is_placed_by_topology
from controlplane.kube.well_known import HOSTNAME
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.pod_streams import PodsState, PodStreams

PLACED = f"{ADMISSION}/placed/"
"""Where the streams of these pods are, each named by the Workload."""
_replace = msgspec.structs.replace
_SAID = "Pod terminated by Kueue NodeController due to node taint"


def pods_stream(key: str) -> str:
    """Return the stream of the pods of a Workload, by its namespace and name."""
    return f"{PLACED}{key}"


def observed(obj: Json) -> AdmissionPlacedPodObserved | None:
    """Return what is recorded of a pod; None if no topology has placed it yet, it belongs to no Workload, or has
    ended."""
    notes, spec, status = section(meta(obj), "annotations", "metadata"), section(obj, "spec"), section(obj, "status")
    workload, phase = notes.get(WORKLOAD), status.get("phase")
    if not is_placed_by_topology(notes) or not workload or phase in ("Succeeded", "Failed"):
        return None
    if TOPOLOGY_GATE in gate_names(spec):
        return None
    found = AdmissionPlacedPodObserved(
        **fields.identity(obj),
        workload=str(workload),
        node=text(spec, "nodeName", "spec"),
        host=text(section(spec, "nodeSelector", "spec"), HOSTNAME, "spec.nodeSelector"),
        pending=phase == "Pending",
    )
    return _replace(found, conditions=items(status, "conditions", "status")) if found.is_unbound else found


class PlacedPodsState(PodsState[PodFailureDecided, AdmissionPlacedPodObserved]):
    """The pods of a Workload, and what is open about them."""


class PlacedPods(PodStreams[PlacedPodsState]):
    """The pods of all Workloads, by stream. Of one that is bound to no node every version is recorded."""

    OBSERVED, GONE, WRITE, STATE = (
        AdmissionPlacedPodObserved,
        AdmissionPlacedPodGone,
        PodFailureDecided,
        PlacedPodsState,
    )

    def observed(self, change: ObjectChange) -> AdmissionPlacedPodObserved | None:
        """Return what is recorded of a pod."""
        return observed(change.whole())

    def gone(self, change: ObjectChange, known: AdmissionPlacedPodObserved) -> AdmissionPlacedPodGone:
        """Return that a pod is gone, or has ended."""
        return AdmissionPlacedPodGone(namespace=known.namespace, name=known.name, uid=known.uid)

    def stream(self, event: AdmissionPlacedPodObserved) -> str:
        """Return the stream of a pod."""
        return pods_stream(f"{event.namespace}/{event.workload}")

    def is_written(self, event: AdmissionPlacedPodObserved) -> bool:
        """Whether a pod may be let fail."""
        return event.is_unbound


def failing(place: ObjectRef, decision: PodFailureDecided, now: datetime) -> Request:
    """Return the request with which a pod fails, in the version that was seen: bound meanwhile, it runs."""
    condition = {
        "type": "TerminatedByKueue",
        "status": "True",
        "reason": "UnschedulableOnAssignedNode",
        "message": _SAID,
        "lastTransitionTime": timestamp(now),
    }
    status = {"phase": "Failed", "conditions": [*decision.conditions, condition]}
    version = decision.resource_version
    return Request("patch", place, {"status": status}, "status", uid=decision.uid, resource_version=version)


def failed(place: ObjectRef, decision: PodFailureDecided, suffix: str, identity: str, now: datetime) -> Request:
    """Return the Kubernetes Event that tells of it."""
    said = "PodTerminatedByKueue"
    return event_about(place, decision.uid, "Normal", said, _SAID, suffix, identity, now, action="PodTerminated")


def place_of(stream: str, decision: PodFailureDecided) -> ObjectRef:
    """Return where the pod of a decision is."""
    return ObjectRef(PODS, stream.removeprefix(PLACED).partition("/")[0], decision.name)
