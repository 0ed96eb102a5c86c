"""Lets pods run once their Workload is admitted to domains of a topology: each behind the gate of topologies until its domain is
known. Those of an elastic job are behind a gate of their own until a slice has room for them.

In: pods as they are shown, and their Workloads as the job framework has them. Out: events of pods, their states by Workload, and
which of them may run where. Pure. A write is open from its decision until its pod is seen to change, and while one of a
Workload's is, nothing more is decided for it: what pods count for is known then. Source: kubernetes-sigs/kueue
pkg/controller/tas/topology_ungater.go, ff69552e."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.jobframework import events, placing
from controlplane.controllers.jobframework.names import WORD
from controlplane.controllers.jobframework.pod_sets import WORKLOAD
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.topology_events import PodUngateDecided, TopologyPodGone, TopologyPodObserved
from controlplane.job_kinds.gated import gate_names
from controlplane.kube import fields
from controlplane.kube.fields import section
from controlplane.kube.kinds import PODS_OF_SLICES, PODS_OF_TOPOLOGIES, Json, Kind, meta
from controlplane.kube.slices import ELASTIC_GATE, SLICE_NAME
from controlplane.kube.topologies import (
    HOSTNAME,
    POD_INDEX_OFFSET,
    TOPOLOGY_GATE,
    is_placed_by_topology,
    levels_of,
)
from controlplane.kube.watches import POD_SET_LABEL
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from controlplane.runtime.decision_pass import DecisionPass, PassResult
from controlplane.runtime.writes import OpenWrites, WriteFailure, dropped, opened, refused, without

_PLACE = f"{WORD}/topology/"
_DIGITS = 18
_replace = msgspec.structs.replace


class TopologyPods(OpenWrites[PodUngateDecided, WriteFailure]):
    """The pods of a Workload by UID, and what is open about them. `vain`: at which version of a pod a write changed nothing."""

    version: int = 0
    position: int = 0
    pods: dict[str, TopologyPodObserved] = {}
    vain: dict[str, str] = {}


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


class TopologyUngating:
    """The pods of all Workloads, by stream."""

    def __init__(self) -> None:
        self.states: dict[str, TopologyPods] = {}
        self._stream_of: dict[str, str] = {}

    def holds(self, stream: str) -> bool:
        """Whether anything is known by the events of a stream."""
        return stream in self.states

    def seen(self, change: ObjectChange) -> tuple[str, Event] | None:
        """Return stream and event of a pod; None if it says nothing new. Of a gated pod every version is recorded: what lets it
        run holds for one version alone."""
        uid = change.uid
        before = self._stream_of.get(uid)
        known = self.states[before].pods.get(uid) if before in self.states else None
        if known is not None and known.kind != change.kind.name:
            return None  # it is looked for elsewhere
        event = None if change.gone else observed(change.whole(), change.kind)
        if event is None:
            return None if before is None else (before, _gone(change))
        if known is not None and not (placing.is_gated(event) or ELASTIC_GATE in event.gates):
            event_as_known = _replace(event, resource_version=known.resource_version)
            if event_as_known == known:
                return None
        return before or topology_stream(event.namespace, event.slice or event.workload), event

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a stream of pods."""
        stream, event = recorded.stream, recorded.event
        state = _replace(self.states.get(stream, TopologyPods()), version=recorded.version, position=recorded.position)
        match event:
            case TopologyPodObserved():
                self._stream_of[event.uid] = stream
                state = _seen(state, event)
            case TopologyPodGone():
                self._stream_of.pop(event.uid, None)
                state = _without(state, event)
            case PodUngateDecided():
                state = opened(state, event, recorded)
            case events.JobWriteFailed():
                state = refused(state, event)
            case events.JobWriteUnneeded():
                vain = {**state.vain, event.target: event.resource_version}
                state = dropped(_replace(state, vain=vain), event.target)
        if state.pods or state.effects:
            self.states[stream] = state
        else:
            self.states.pop(stream, None)


def _gone(change: ObjectChange) -> TopologyPodGone:
    metadata = meta(change.object)
    namespace, name = str(metadata.get("namespace") or ""), str(metadata["name"])
    return TopologyPodGone(namespace=namespace, name=name, uid=change.uid, kind=change.kind.name)


def _seen(state: TopologyPods, event: TopologyPodObserved) -> TopologyPods:
    known = state.pods.get(event.uid)
    state = _replace(state, pods={**state.pods, event.uid: event})
    if known is not None and known.resource_version == event.resource_version:
        return state  # shown once more to a process that begins: what is open is so still
    return _settled(state, event.name)


def _without(state: TopologyPods, event: TopologyPodGone) -> TopologyPods:
    if event.uid not in state.pods:
        return state
    return _settled(_replace(state, pods=without(state.pods, event.uid)), event.name)


def _settled(state: TopologyPods, name: str) -> TopologyPods:
    """Return the state without the open write to a pod that was seen to change, and without a conflict about it."""
    target = f"{PodUngateDecided.WHAT}/{name}"
    trouble = state.trouble.get(target)
    return _replace(
        state,
        effects=without(state.effects, target),
        vain=without(state.vain, target),
        trouble=without(state.trouble, target) if trouble and trouble.error == "Conflict" else state.trouble,
    )


class _Pass(DecisionPass[TopologyPods, Event, PodUngateDecided]):
    """One pass about the pods of a Workload."""


def is_placed(workload: events.JobWorkloadObserved | None) -> bool:
    """Whether a Workload is admitted, and to domains of a topology."""
    return workload is not None and workload.is_true("Admitted") and any(one.domains for one in workload.assignments)


def decide(state: TopologyPods, workload: events.JobWorkloadObserved | None, now: datetime) -> PassResult[Event]:
    """Return which pods of a Workload may run, and where; nothing while it is not known of one of them where it runs."""
    step = _Pass(state, now)
    if state.effects or workload is None or not has_gated_pods(workload) or workload.deleting:
        return step.plan
    if any(one.error == "Conflict" for one in state.trouble.values()):
        return (
            step.plan
        )  # a pod has changed, perhaps by our own write whose answer was lost: its next version will tell
    roomy = list(_within_quota(state, workload))
    for one in roomy or _may_run(state, workload):
        if state.vain.get(one.target) != one.resource_version:
            step.write(one)
    return step.plan


def has_gated_pods(workload: events.JobWorkloadObserved) -> bool:
    """Whether a Workload is admitted, and its pods are let run one by one: each in its domain, or as far as a slice has room."""
    return is_placed(workload) or (workload.slice is not None and workload.is_true("Admitted"))


def _within_quota(state: TopologyPods, workload: events.JobWorkloadObserved) -> Iterator[PodUngateDecided]:
    """Yield which pods of an elastic job may run: as many of each pod set as its slice has, those that run among them, the first by
    name (kubernetes-sigs/kueue pkg/controller/elasticjobs/elastic_job_ungater.go, ff69552e)."""
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
