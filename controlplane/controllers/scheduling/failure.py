"""Handles a cycle that found no node: why, which pods go for this one, and where it is queued.

In: a `CycleResult`. Out: events to be appended, and pods moved in the queue. What kube-scheduler does in
`handleSchedulingFailure` (kubernetes/kubernetes pkg/scheduler/schedule_one.go, v1.36)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import NamedTuple

from controlplane.controllers.scheduling.binding.protocol import BindingProtocol, ProposedAppend
from controlplane.controllers.scheduling.cycle import CycleResult
from controlplane.controllers.scheduling.events import SchedulingFailed
from controlplane.controllers.scheduling.outcome import failure_of, victims_of
from controlplane.controllers.scheduling.queue.nominations import Nominations
from controlplane.controllers.scheduling.queue.queue import Queue
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.snapshot.objects import Pod


class Failure(NamedTuple):
    """Why there is no node, and what is to be appended about it."""

    event: SchedulingFailed
    answer: ProposedAppend

    @property
    def is_error(self) -> bool:
        """Whether a fault was the reason, and no plugin refused the pod."""
        return self.event.reason is SchedulingReason.SCHEDULER_ERROR


class FailureHandler:
    """See the module. `claims` are the pods with a reservation, `leaving` says whether a pod (UID) is being evicted
    already, `drop` proposes to give a reservation back.
    """

    def __init__(
        self,
        queue: Queue,
        nominations: Nominations,
        claims: Collection[str],
        leaving: Callable[[str], bool],
        drop: Callable[[str, SchedulingReason, str], bool],
    ) -> None:
        self._queue, self._nominations, self._claims = queue, nominations, claims
        self._leaving, self._drop = leaving, drop

    def handle(
        self, protocol: BindingProtocol, stream: str, pod: Pod, found: CycleResult, scheduler: str, now: datetime
    ) -> Failure:
        """Queue the pod again, and return what is to be said of it."""
        identity, allowed = pod.identity, protocol.may_preempt(stream, now)
        promise = self._nominations.of(identity) if allowed else ""
        event = failure_of(found, promise, self._queue.entry(identity), preempt=allowed)
        preemption = found.post_filtered
        nominate = preemption.nominate if preemption is not None else None
        answer = protocol.not_found(
            stream,
            event,
            now,
            preemptable=preemption is not None and bool(preemption.candidates),
            making_room=allowed and bool(promise if nominate is None else nominate),
        )
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

    def _queue_again(self, identity: str, failure: Failure, seconds: float) -> None:
        if failure.is_error:
            self._queue.failed(identity, seconds)
        else:
            self._queue.refused(identity, frozenset(failure.event.plugins), seconds)

    def _evicted(self, pod: Pod, victims: Collection[Pod]) -> list[Pod]:
        """Return the victims that are bound, to be evicted; those that are only reserved give it back."""
        chosen = []
        for victim in victims:
            reserved = victim.identity in self._claims
            if reserved and self._drop(victim.identity, SchedulingReason.PREEMPTED, f"preempted by pod {pod.key}"):
                continue
            if not victim.terminating and not self._leaving(victim.uid):
                chosen.append(victim)
        return chosen
