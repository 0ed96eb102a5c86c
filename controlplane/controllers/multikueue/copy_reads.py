"""Reads by its name the copy that a Workload's `clusterName` names and that no watch shows (docs/decisions/0017).

In: the Workloads of an index, the answers of API servers. Out: what is to be read, and the event of each answer. What
is found is not ours: it is recorded like a copy that cannot be read, and read again after a while."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.named_copies import ORIGIN_FIELD, found_on, named, unseen_on
from controlplane.controllers.multikueue.observations import CloneAbsent, ObservationRefused
from controlplane.controllers.multikueue.observe import refused_stream, workload_stream
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.fields import BadValue, refusal
from controlplane.kube.kinds import WORKLOADS, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL
from controlplane.log.event import Body, Event, NewEvent, body_of
from controlplane.runtime.controller import OpenRead, ReadAnswer

_FIRST, _LONGEST = timedelta(seconds=30), timedelta(hours=1)
"""How long the first answer is believed that is not that the copy is not there; then twice as long each time: nobody
watches what was found, and each answer is in the log."""


class CopyReads:
    """The reads of copies for the Workloads of an index. When each was made is not from the log: a process that starts
    makes them at once."""

    def __init__(self, index: WorkloadIndex) -> None:
        self._index = index
        self._again: dict[str, datetime] = {}
        self._pauses: dict[str, timedelta] = {}

    def open_reads(self, stream: str, now: datetime) -> Sequence[OpenRead]:
        """Return the read that a Workload waits for now."""
        state = self._index.workloads.get(stream)
        if state is None or not (named(state) or (self._index.unread and not state.attempt)):
            return ()
        context = self._index.context(state)
        if cluster := unseen_on(state, context):
            return (_read(state, cluster),)
        cluster = found_on(state, context)
        return (_read(state, cluster),) if cluster and now >= self._again.get(stream, now) else ()

    def is_wanted(self, read: OpenRead) -> bool:
        """Whether it still is not known what is there."""
        state = self._index.workloads.get(workload_stream(read.namespace, read.name))
        if state is None or state.attempt:
            return False
        context = self._index.context(state)
        return read.cluster in (unseen_on(state, context), found_on(state, context))

    def answered(self, read: OpenRead, answer: ReadAnswer, now: datetime) -> NewEvent:
        """Return the event of an answer."""
        stream = workload_stream(read.namespace, read.name)
        pause = min(2 * self._pauses.get(stream, _FIRST / 2), _LONGEST)
        self._pauses[stream], self._again[stream] = pause, now + pause
        event, bodies = _answer(read, answer, self._index.policy.origin)
        return NewEvent(stream=read.stream, event=event, cluster=read.cluster, observed_at=now, bodies=bodies)

    def asked_again(
        self, stream: str, state: WorkloadState, context: WorkloadContext, now: datetime
    ) -> datetime | None:
        """Return when to look again at a Workload in the place of whose copy something was found, None for not by
        itself."""
        if not self._again or not found_on(state, context):
            self._again.pop(stream, None)
            self._pauses.pop(stream, None)
            return None
        again = self._again.get(stream, now)
        return again if again > now else None  # else it is being read


def _read(state: WorkloadState, cluster: str) -> OpenRead:
    stream = refused_stream(cluster, WORKLOADS, state.namespace, state.name)
    return OpenRead(stream, cluster, WORKLOADS.api_version, WORKLOADS.kind, state.namespace, state.name)


def _answer(read: OpenRead, answer: ReadAnswer, origin: str) -> tuple[Event, tuple[Body, ...]]:
    failure = answer.failure
    if failure is not None and answer.absent:
        return CloneAbsent(namespace=read.namespace, name=read.name, message=failure.message), ()
    if answer.object is not None:
        found = answer.object
        labels = meta(found).get("labels")
        theirs = labels.get(ORIGIN_LABEL) if isinstance(labels, dict) else None
        said = f'"{theirs}"' if theirs else "not there"
        text = f'it is {said}, and multikueue.origin is "{origin}": whoever made it may run its job'
    else:
        found = {"metadata": {"namespace": read.namespace, "name": read.name}}
        text = f"{failure.code} {failure.message}" if failure is not None else f"no {read.api_version} is served"
    body = body_of(found)
    fields = refusal(WORKLOADS, found, BadValue(ORIGIN_FIELD, text))
    return ObservationRefused(**fields, object=body.ref), (body,)
