"""Handles a cycle that found no node: why, which pods go for this one, and where it is queued.

In: a `CycleResult`. Out: events to be appended, and pods moved in the queue. What kube-scheduler does in
`handleSchedulingFailure` (kubernetes/kubernetes pkg/scheduler/schedule_one.go, v1.36)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from controlplane.controllers.scheduling.binding.protocol import BindingProtocol, ProposedAppend
from controlplane.controllers.scheduling.cycle import CycleResult
from controlplane.controllers.scheduling.events import SchedulingFailed
from controlplane.controllers.scheduling.outcome import failure_of, refusing_nodes, victims_of
from controlplane.controllers.scheduling.queue.nominations import Nominations
from controlplane.controllers.scheduling.queue.queue import Queue
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.view import ClusterView
from controlplane.log.event import NewEvent


class Failure(NamedTuple):
    """Why there is no node, and what is to be appended about it."""

    event: SchedulingFailed
    answer: ProposedAppend

    @property
    def is_error(self) -> bool:
        """Whether a fault was the reason, and no plugin refused the pod."""
        return self.event.reason is SchedulingReason.SCHEDULER_ERROR


class FailureHandler:
    """See the module. `view` has the pods with a reservation and the nodes' names, `leaving` says whether a pod (UID)
    is being evicted already, `drop` proposes to give a reservation back.
    """

    def __init__(
        self,
        queue: Queue,
        nominations: Nominations,
        view: ClusterView,
        leaving: Callable[[str], bool],
        drop: Callable[[str, SchedulingReason, str], bool],
    ) -> None:
        self._queue, self._nominations, self._view = queue, nominations, view
        self._leaving, self._drop = leaving, drop

    def handle(
        self, protocol: BindingProtocol, stream: str, pod: Pod, found: CycleResult, scheduler: str, now: datetime
    ) -> Failure:
        """Queue the pod again, and return what is to be said of it."""
        identity, allowed = pod.identity, protocol.may_preempt(stream, now)
        nominated = self._nominations.of(identity) if allowed else ""
        event = failure_of(found, nominated, self._queue.entry(identity), preempt=allowed)
        preemption = found.post_filtered
        nominate = preemption.nominate if preemption is not None else ""
        told = protocol.not_found(
            stream,
            event,
            now,
            preemptable=preemption is not None and bool(preemption.candidates),
            making_room=allowed and bool(nominated if nominate is None else nominate),
        )
        answer = ProposedAppend(self._naming(told.events, event, found), told.expected, told.kept)
        failure = Failure(event, answer)
        self._queue_again(identity, failure, now.timestamp())
        if nominate is None or (nominate and not allowed):
            return failure
        for other in self._nominations.nominate(pod, nominate):
            self._queue.activate(other, now.timestamp())
        if preemption is None or not nominate:
            return failure
        chosen = self._evicted(pod, preemption.candidates[nominate].pods)
        going = victims_of(chosen, pod, nominate, scheduler, protocol.since(stream))
        return Failure(event, ProposedAppend([*answer.events, *going], answer.expected))

    def _naming(self, told: Sequence[NewEvent], event: SchedulingFailed, found: CycleResult) -> list[NewEvent]:
        """Return what is to be said with the nodes that refused; they are looked up only for a refusal that is news."""
        return [
            replace(new, event=replace(event, nodes=refusing_nodes(found, self._view.snapshot)))
            if new.event is event
            else new
            for new in told
        ]

    def _queue_again(self, identity: str, failure: Failure, seconds: float) -> None:
        if failure.is_error:
            self._queue.failed(identity, seconds)
        else:
            self._queue.refused(identity, frozenset(failure.event.plugins), seconds)

    def _evicted(self, pod: Pod, victims: Collection[Pod]) -> list[Pod]:
        """Return the victims that are bound, to be evicted; those that are only reserved give it back."""
        chosen = []
        for victim in victims:
            reserved = victim.identity in self._view.claims
            if reserved and self._drop(victim.identity, SchedulingReason.PREEMPTED, f"preempted by pod {pod.key}"):
                continue
            if not victim.terminating and not self._leaving(victim.uid):
                chosen.append(victim)
        return chosen
