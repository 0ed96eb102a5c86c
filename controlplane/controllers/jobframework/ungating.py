"""Lets pods run once their Workload is admitted to domains of a topology: each behind the gate of topologies until its
domain is known. Those of an elastic job are behind a gate of their own until a slice has room for them.

In: pods as they are shown, and their Workloads as the job framework has them. Out: events of pods, their states by
Workload, and which of them may run where. Pure. A write is open from its decision until its pod is seen to change, and
while one of a Workload's is, nothing more is decided for it: what pods count for is known then. Source:
kubernetes-sigs/kueue pkg/controller/tas/topology_ungater.go, ff69552e."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.jobframework import events, placing
from controlplane.controllers.jobframework.names import WORD
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.topology_events import PodUngateDecided, TopologyPodGone, TopologyPodObserved
from controlplane.job_kinds.gated import gate_names
from controlplane.kube import fields
from controlplane.kube.fields import section
from controlplane.kube.kinds import PODS_OF_SLICES, PODS_OF_TOPOLOGIES, Json, Kind, meta
from controlplane.kube.kueue_names import POD_SET_LABEL
from controlplane.kube.slices import ELASTIC_GATE, SLICE_NAME
from controlplane.kube.topologies import POD_INDEX_OFFSET, TOPOLOGY_GATE, WORKLOAD, is_placed_by_topology, levels_of
from controlplane.kube.well_known import HOSTNAME
from controlplane.log.event import Event
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.decision_pass import DecisionPass, PassResult
from controlplane.runtime.pod_streams import PodsState, PodStreams, is_in_conflict

_PLACE = f"{WORD}/topology/"
_DIGITS = 18


class TopologyPods(PodsState[PodUngateDecided, TopologyPodObserved]):
    """The pods of a Workload, and what is open about them."""


def topology_stream(namespace: str, workload: str) -> str:
    """Return the stream of the pods of a Workload."""
    return f"{_PLACE}{namespace}/{workload}"


def observed(obj: Json, kind: Kind = PODS_OF_TOPOLOGIES) -> TopologyPodObserved | None:
    """Return what is recorded of a pod; None if it belongs to no Workload, or `kind` is not where those like it are
    looked for: those of elastic jobs in `PODS_OF_SLICES`, the others where a topology places them."""
    metadata = meta(obj)
    notes, labels, spec = section(metadata, "annotations"), section(metadata, "labels"), section(obj, "spec")
    workload, slice_ = notes.get(WORKLOAD), str(notes.get(SLICE_NAME) or "")
    looked_for = bool(slice_) if kind == PODS_OF_SLICES else is_placed_by_topology(notes) and not slice_
    if not looked_for or not workload:
        return None
    offset = notes.get(POD_INDEX_OFFSET)
    return TopologyPodObserved(
        **fields.identity(obj),
        kind=kind.name,
        workload=str(workload),
        pod_set=str(labels.get(POD_SET_LABEL) or ""),
        gates=gate_names(spec),
        node_selector={name: str(value) for name, value in section(spec, "nodeSelector", "spec").items()},
        numbers={name: value for name, value in labels.items() if _is_number(value)},
        offset=None if offset is None else str(offset),
        slice=slice_,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS


class TopologyUngating(PodStreams[TopologyPods]):
    """The pods of all Workloads, by stream. Of a gated pod every version is recorded."""

    OBSERVED, GONE, WRITE, STATE = TopologyPodObserved, TopologyPodGone, PodUngateDecided, TopologyPods

    def observed(self, change: ObjectChange) -> TopologyPodObserved | None:
        """Return what is recorded of a pod."""
        return observed(change.whole(), change.kind)

    def kind_of(self, event: TopologyPodObserved) -> str:
        """Return in which watch a pod was shown."""
        return event.kind

    def gone(self, change: ObjectChange, known: TopologyPodObserved) -> TopologyPodGone:
        """Return that a pod is gone."""
        return TopologyPodGone(namespace=known.namespace, name=known.name, uid=known.uid, kind=known.kind)

    def stream(self, event: TopologyPodObserved) -> str:
        """Return the stream of a pod."""
        return topology_stream(event.namespace, event.slice or event.workload)

    def is_written(self, event: TopologyPodObserved) -> bool:
        """Whether a pod may be let run."""
        return placing.is_gated(event) or ELASTIC_GATE in event.gates


class _Pass(DecisionPass[TopologyPods, Event, PodUngateDecided]):
    """One pass about the pods of a Workload."""


def is_placed(workload: events.JobWorkloadObserved | None) -> bool:
    """Whether a Workload is admitted, and to domains of a topology."""
    return workload is not None and workload.is_true("Admitted") and any(one.domains for one in workload.assignments)


def decide(state: TopologyPods, workload: events.JobWorkloadObserved | None, now: datetime) -> PassResult[Event]:
    """Return which pods of a Workload may run, and where; nothing while it is not known of one of them where it
    runs."""
    step = _Pass(state, now)
    if state.effects or workload is None or not has_gated_pods(workload) or workload.deleting:
        return step.plan
    if is_in_conflict(state):
        return step.plan
    roomy = list(_within_quota(state, workload))
    for one in roomy or _may_run(state, workload):
        if state.vain.get(one.target) != one.resource_version:
            step.write(one)
    return step.plan


def has_gated_pods(workload: events.JobWorkloadObserved) -> bool:
    """Whether a Workload is admitted, and its pods are let run one by one: each in its domain, or as far as a slice has
    room."""
    return is_placed(workload) or (workload.slice is not None and workload.is_true("Admitted"))


def _within_quota(state: TopologyPods, workload: events.JobWorkloadObserved) -> Iterator[PodUngateDecided]:
    """Yield which pods of an elastic job may run: as many of each pod set as its slice has, those that run among them,
    the first by name (kubernetes-sigs/kueue pkg/controller/elasticjobs/elastic_job_ungater.go, ff69552e)."""
    if workload.slice is None:
        return
    for pod_set in workload.pod_sets:
        pods = [one for one in state.pods.values() if one.slice and one.pod_set == pod_set.name]
        waits = sorted(
            (one for one in pods if ELASTIC_GATE in one.gates and not one.deleting), key=lambda one: one.name
        )
        room = pod_set.count - sum(ELASTIC_GATE not in one.gates for one in pods)
        for one in waits[: max(0, room)]:
            yield PodUngateDecided(
                name=one.name,
                uid=one.uid,
                resource_version=one.resource_version,
                workload=workload.name,
                pod_set=pod_set.name,
                gates=[name for name in one.gates if name != ELASTIC_GATE],
                reason=JobReason.SLICE_ADMITTED,
            )


def _may_run(state: TopologyPods, workload: events.JobWorkloadObserved) -> Iterator[PodUngateDecided]:
    requests = {one.name: one.topology_request for one in workload.pod_sets}
    ranks = placing.ranks_of(workload)
    for assignment in (one for one in workload.assignments if one.domains):
        pods = [one for one in state.pods.values() if one.pod_set == assignment.name]
        try:
            found = placing.placed(assignment, requests.get(assignment.name, {}), pods, ranks[assignment.name])
        except placing.OffsetUnfit:
            continue  # as with Kueue it waits, until somebody looks at its annotation
        levels = levels_of(assignment.domains)
        for one in found:
            selector = dict(zip(levels, one.domain, strict=True))
            if selector.get(HOSTNAME, "") not in workload.unhealthy_nodes:
                yield _decision(one, workload.name, assignment.name, selector)


def _decision(one: placing.PlacedPod, workload: str, pod_set: str, selector: dict[str, str]) -> PodUngateDecided:
    pod = one.pod
    target: dict[str, Any] = {"name": pod.name, "uid": pod.uid, "resource_version": pod.resource_version}
    return PodUngateDecided(
        **target,
        cluster=MANAGEMENT,
        workload=workload,
        pod_set=pod_set,
        node_selector=selector,
        gates=[name for name in pod.gates if name != TOPOLOGY_GATE],
        rank=one.rank,
        reason=JobReason.DOMAIN_ASSIGNED,
    )
