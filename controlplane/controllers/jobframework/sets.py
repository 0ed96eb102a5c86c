"""Keeps the sets whose pods wait as groups, and decides about them: that each group has its Workload, and that pods
join groups.

In: what was seen of sets and of their pods. Out: decisions added to a pass, which streams are concerned. Pure. Sources:
kubernetes-sigs/kueue pkg/controller/jobs/statefulset/statefulset_reconciler.go (`reconcileWorkload`),
statefulset_pod_reconciler.go (`setDefault`), pkg/controller/jobs/leaderworkerset/leaderworkerset_reconciler.go
(`reconcileWorkloads`, `setDefault`), ff69552e.

What a set was scaled down by loses its Workload once its pods are let go; a StatefulSet of no pods keeps it, on
hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controlplane.controllers.jobframework import events, matching, pod_writes, writes
from controlplane.controllers.jobframework.context import JobContext
from controlplane.controllers.jobframework.names import job_stream, name_of_workload
from controlplane.controllers.jobframework.observe_pods import FAST, POD_GROUPS, SERVING, TOTAL
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.set_events import (
    PodJoinDecided,
    QueuedSetGone,
    QueuedSetObserved,
    SetHoldDecided,
    SetWorkloadCreationDecided,
)
from controlplane.controllers.jobframework.writes import JobPass
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.leaderworkerset import LeaderWorkerSet
from controlplane.job_kinds.pod import GROUP, GROUP_INDEX_IN, MANAGED, ROLE_HASH
from controlplane.job_kinds.statefulset import StatefulSet
from controlplane.kube.kinds import Kind
from controlplane.kube.kueue_names import ON_HOLD, PREBUILT, PRIORITY_CLASS, QUEUE_LABEL
from controlplane.log.event import Recorded
from controlplane.values import Value

SET_KINDS = {(one.kind.api_version, one.kind.kind): one.kind.name for one in (StatefulSet(), LeaderWorkerSet())}
"""The names of the kinds of sets, as owner references name them."""


class SetPlace(Value):
    """A group of a set: the name of its Workload, and which of how many it is. It is `wanted` while the set is to have
    it. `older`: the name that its Workload had before Kueue named it by the set's UID too, "" for a set that has
    several."""

    owner: QueuedSetObserved
    name: str
    index: int | None = None
    wanted: bool = True
    older: str = ""


class Sets:
    """The sets that were seen, by stream; and of the streams of groups, whose they are."""

    def __init__(self, kinds: Mapping[Kind, JobKind]) -> None:
        self.kinds = {kind.name: one for kind, one in kinds.items() if one.grouped}
        self.seen: dict[str, QueuedSetObserved] = {}
        self.at: dict[str, int] = {}
        self._groups: dict[str, tuple[str, int]] = {}
        self._known: dict[str, dict[str, None]] = {}

    def is_set(self, stream: str) -> bool:
        """Whether a stream is that of a set."""
        return stream.split("/")[2] in self.kinds

    def holds(self, stream: str) -> bool:
        """Whether a stream is that of a set, or of a group of one, that was seen."""
        return stream in self.seen or stream in self._groups

    def labels_for(self, namespace: str, owner: events.QueuedOwner) -> dict[str, str]:
        """Return the queue and the priority class of a set that controls a pod, as labels; none if it was not seen."""
        there = (self.seen.get(job_stream(kind, namespace, owner.name)) for kind in self.kinds)
        found = next((one for one in there if one is not None and one.uid == owner.uid), None)
        told = {} if found is None else {QUEUE_LABEL: found.queue, PRIORITY_CLASS: found.priority_class}
        return {name: value for name, value in told.items() if value}

    def fold(self, recorded: Recorded) -> Iterable[str]:
        """Take one more event of a set; return the streams of the groups that it has or had."""
        stream, event = recorded.stream, recorded.event
        if isinstance(event, QueuedSetObserved):
            return self._observed(stream, event, recorded.position)
        if stream in self._groups and isinstance(event, events.JobWorkloadObserved | events.JobWorkloadGone):
            return list(self._known[self._groups[stream][0]])
        if isinstance(event, QueuedSetGone) and stream in self.seen and self.seen[stream].uid == event.uid:
            return self._forget(stream)
        return ()

    def _observed(self, stream: str, event: QueuedSetObserved, position: int) -> list[str]:
        known = self.seen.get(stream)
        before = self._forget(stream) if known is not None and known.uid != event.uid else []
        if event.problem and known is not None and known.uid == event.uid:
            event = _as_known(event, known)
        self.seen[stream], self.at[stream] = event, position
        groups = self._known.setdefault(stream, {})
        for index in range(event.groups):
            for name in filter(None, (self._name(event, index), older_name(event, self.kinds[event.kind]))):
                group = job_stream(POD_GROUPS, event.namespace, name)
                self._groups[group] = stream, index
                groups[group] = None
        return [*before, *groups]

    def _forget(self, stream: str) -> list[str]:
        del self.seen[stream], self.at[stream]
        groups = list(self._known.pop(stream, {}))
        for group in groups:
            self._groups.pop(group, None)
        return groups

    def _name(self, owner: QueuedSetObserved, index: int) -> str:
        adapter = self.kinds[owner.kind]
        return name_of_workload(adapter.kind, f"{owner.name}-{index}" if adapter.composed else owner.name, owner.uid)

    def place(self, stream: str) -> SetPlace | None:
        """Return whose the group of a stream is, None if it is no set's that is there."""
        found = self._groups.get(stream)
        if found is None:
            return None
        owner, index = self.seen[found[0]], found[1]
        adapter, name = self.kinds[owner.kind], stream.rpartition("/")[2]
        number = index if adapter.composed else None
        older = older_name(owner, adapter)
        return SetPlace(owner=owner, name=name, index=number, wanted=index < owner.groups, older=older)

    def position(self, stream: str) -> int:
        """Return where in the log the set was seen last whose a group is, or that the stream is of."""
        return self.at.get(self._groups[stream][0] if stream in self._groups else stream, 0)


def _as_known(unread: QueuedSetObserved, known: QueuedSetObserved) -> QueuedSetObserved:
    """Return a set whose pods cannot be read any more with what was known of them: its groups run on."""
    kept = {name: getattr(known, name) for name in ("groups", "pods", "pod_priority_class", "size", "led")}
    return msgspec.structs.replace(unread, **kept)


def older_name(owner: QueuedSetObserved, adapter: JobKind) -> str:
    """Return the name that Kueue gave the Workload of a StatefulSet before it named it by the UID too; "" for other
    sets."""
    return "" if adapter.composed else name_of_workload(adapter.kind, owner.name, "")


def older_workload(context: JobContext, owner: QueuedSetObserved, name: str) -> events.JobWorkloadObserved | None:
    """Return the Workload of a set under its older name, if it has one, or may have one that is nobody's
    (`findWorkload`)."""
    found = context.workload(owner.namespace, name) if name else None
    if found is None or found.owner is not None:
        return None
    return found if not found.references or _is_of(found, owner) else None


def _is_of(workload: events.JobWorkloadObserved, owner: QueuedSetObserved) -> bool:
    return any(one.get("uid") == owner.uid for one in workload.references)


def kept_up(step: JobPass, place: SetPlace) -> bool:
    """Have a group of a set have the Workload that it is to have; return whether a write is on the way."""
    owner = place.owner
    workload = next((one for one in step.workloads() if one.name == place.name), None)
    if owner.deleting:
        return False
    if workload is None:
        return place.wanted and _made(step, place)
    if not _is_of(workload, owner):
        return _adopted(step, place, workload)
    if not place.wanted:
        return matching.removed(step, [workload], JobReason.SET_SCALED_DOWN)
    if workload.deleting and step.state.job is None:
        return not writes.release(step, workload, JobReason.WORKLOAD_DELETED)
    if workload.deleting or workload.is_true("Finished"):
        return False
    return _follows(step, place, workload)


def _adopted(step: JobPass, place: SetPlace, workload: events.JobWorkloadObserved) -> bool:
    """Make a set the owner of the Workload that has its older name and that nobody owns; any other one is another's."""
    owner = place.owner
    if place.name != place.older or workload.references or workload.owner is not None or not owner.size:
        return False
    api_version, kind = next(key for key, name in SET_KINDS.items() if name == owner.kind)
    reference = {"apiVersion": api_version, "kind": kind, "name": owner.name, "uid": owner.uid}
    update = events.JobWorkloadUpdateDecided(
        **writes.head(workload), what="references", references=[reference], reason=JobReason.BOUND
    )
    return step.write(update)


def _follows(step: JobPass, place: SetPlace, workload: events.JobWorkloadObserved) -> bool:
    owner, has_quota = place.owner, workload.is_true("QuotaReserved")
    empty = not owner.size
    if empty and has_quota and workload.active:
        return step.write(SetHoldDecided(**writes.head(workload), hold=True, reason=JobReason.SET_SCALED_DOWN))
    if not empty and _is_on_hold(workload):
        return step.write(SetHoldDecided(**writes.head(workload), hold=False, reason=JobReason.SET_SCALED_UP))
    if not empty and not has_quota and workload.queue != owner.queue:
        update = events.JobWorkloadUpdateDecided(
            **writes.head(workload), what="queue", queue=owner.queue, reason=JobReason.QUEUE_CHANGED
        )
        return step.write(update)
    if _labelled(step, place):
        return True
    named = owner.priority_class if place.index is not None else workload.priority_class.name
    return not matching.kept_up(step, _as_job(owner, named), workload)


def _is_on_hold(workload: events.JobWorkloadObserved) -> bool:
    reserved = workload.condition("QuotaReserved")
    return reserved is not None and (reserved.status, reserved.reason) == ("False", ON_HOLD)


def _labelled(step: JobPass, place: SetPlace) -> bool:
    """Have the pods of a StatefulSet name the queue that it names; return whether any did not."""
    found = [one for one in step.state.pods.values() if one.queue != place.owner.queue and not one.deleting]
    if place.index is not None or not place.owner.size:
        return False
    labels = {QUEUE_LABEL: place.owner.queue}
    for pod in found:
        head = pod_writes.head(pod)
        step.write(PodJoinDecided(**head, group=place.name, labels=labels, reason=JobReason.QUEUE_CHANGED))
    return bool(found)


def _made(step: JobPass, place: SetPlace) -> bool:
    """Make the Workload of a group; return whether that is on the way."""
    owner = place.owner
    if owner.copied or (not owner.size and not owner.problem) or _is_made(step.context, place):
        return False
    if owner.problem:
        _told(step, owner, JobReason.NOT_COMPOSED, "ErrWorkloadCompose", owner.problem)
        return False
    priority = step.priority(_as_job(owner, owner.priority_class), told_of=owner.name)
    if priority is None or step.makes_later():
        return False
    return step.write(
        SetWorkloadCreationDecided(
            name=place.name,
            kind=owner.kind,
            set_name=owner.name,
            set_uid=owner.uid,
            index=place.index,
            body=owner.body,
            queue=owner.queue,
            priority=priority.value,
            priority_class=priority.class_name,
            pods=dict(owner.pods),
            label_keys=list(step.context.policy.label_keys) if place.index is not None else [],
            annotation_keys=list(step.context.policy.annotation_keys) if place.index is not None else [],
            reason=JobReason.NO_WORKLOAD,
        )
    )


def _is_made(context: JobContext, place: SetPlace) -> bool:
    """Whether there is a Workload of the name of a group, or one of its older name."""
    if place.name == place.older or older_workload(context, place.owner, place.older) is not None:
        return True
    return bool(context.named_workload(place.owner.namespace, place.name))


def _told(step: JobPass, owner: QueuedSetObserved, reason: JobReason, event_reason: str, note: str) -> None:
    step.notice(_as_job(owner, owner.priority_class), "Warning", reason, event_reason, note, object_=owner.name)


def _as_job(owner: QueuedSetObserved, named: str) -> events.QueuedJobObserved:
    """Return a set as a job is seen, as far as priorities and gates go."""
    return events.QueuedJobObserved(
        namespace=owner.namespace,
        name=owner.name,
        uid=owner.uid,
        resource_version=owner.resource_version,
        kind=owner.kind,
        priority_class=named,
        pod_priority_class=owner.pod_priority_class,
        gated_by=owner.gated_by,
    )


def joined(step: JobPass, owner: QueuedSetObserved, adapter: JobKind) -> None:
    """Have the pods of a set that have joined no group yet join theirs."""
    for pod in step.state.pods.values():
        if pod.deleting or pod.is_over or not pod.set_index or owner.deleting:
            continue
        if adapter.composed:
            name = name_of_workload(adapter.kind, f"{owner.name}-{pod.set_index}", owner.uid)
            more = {ROLE_HASH: ("worker" if pod.led else "leader") if owner.led else "main"}
            labels = {}
        elif pod.set_index != owner.uid:
            continue  # it is of a set of the same name that was there before
        else:
            older = older_workload(step.context, owner, older_name(owner, adapter))
            name = older.name if older is not None else name_of_workload(adapter.kind, owner.name, owner.uid)
            more = {FAST: "true", SERVING: "true", GROUP_INDEX_IN: adapter.index_label, ROLE_HASH: "main"}
            labels = {PRIORITY_CLASS: owner.priority_class} if owner.priority_class else {}
        step.write(
            PodJoinDecided(
                **pod_writes.head(pod),
                group=name,
                labels={**labels, MANAGED: "true", QUEUE_LABEL: owner.queue},
                annotations={**more, GROUP: name, PREBUILT: name, TOTAL: str(owner.size)},
                reason=JobReason.POD_OF_SET,
            )
        )
