"""Keeps all of PodGroup ownership in memory, as the log says it: the controller of PodGroups, which reads owners too.

In: events in the log's order. Out: which streams to decide about, what was decided, what an open write looks like,
which owners have to be read. It only keeps folds; what to do is decided in `decide`, how it looks in `render`. However
many pods wait for an owner, it is read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.objects import Deduplicator
from controlplane.controllers.connectivity.versions import ResourceVersionTracker
from controlplane.controllers.podgroups import render
from controlplane.controllers.podgroups.causes import cause
from controlplane.controllers.podgroups.decide import (
    GroupPassResult,
    decide_group,
    decide_member,
    decide_rules,
)
from controlplane.controllers.podgroups.events import (
    EVENTS,
    RULES_STREAM,
    GroupStatusDecided,
    GroupWrite,
    GroupWriteFailed,
    GroupWriteUnneeded,
    MemberGone,
    MemberObserved,
    OwnerGone,
    OwnerObserved,
    OwnerRead,
    OwnerReadFailed,
    owner_stream,
)
from controlplane.controllers.podgroups.index import PodGroupIndex, PodGroupPolicy
from controlplane.controllers.podgroups.objects import PODS, OwnerMisfit, OwnerReference, identity, owner_facts
from controlplane.controllers.podgroups.observe import observe
from controlplane.controllers.podgroups.ownership import Outcome, OwnerAnswer, Read
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.controllers.podgroups.state import MemberState, PodGroupState, WriteSlot
from controlplane.controllers.podgroups.versions import KINDS, shown
from controlplane.kube.kinds import Request
from controlplane.kube.well_known import DEFAULT_SCHEDULER
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenRead, OpenWrite, ReadAnswer, WriteRefusal
from controlplane.runtime.writes import Effect, WriteFailure, WritingController

_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=1), timedelta(minutes=5)
_NO_SLOT = WriteSlot()


class PodGroupController(WritingController[GroupWrite]):
    """The states of pods, groups and owners, and the answers that the loop asks of them. `identity` names this process
    in Kubernetes Events.
    """

    types: Sequence[type[Event]] = (*connectivity.EVENTS, *EVENTS)
    FAILED, UNNEEDED = GroupWriteFailed, GroupWriteUnneeded

    GIVEN = ("policy", "identity", "_shown")

    def __init__(self, policy: PodGroupPolicy, identity: str) -> None:
        self.policy, self.identity = policy, identity
        self.index = PodGroupIndex(policy)
        self.newest = ResourceVersionTracker(shown)
        self._wanted: dict[str, Read] = {}
        self._repeats = Deduplicator()
        self._shown: set[str] = set()

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of something seen on our cluster; None if it concerns nobody."""
        if change.cluster != MANAGEMENT or self._is_others(change):
            return None
        found = observe(change)
        if found is None:
            return None
        stream, event = found
        if isinstance(event, MemberObserved):
            self._shown.add(stream)
        elif isinstance(event, MemberGone):
            # One that came and went between two passes is recorded and not folded yet.
            if stream not in self.index.members and stream not in self._shown:
                return None
            self._shown.discard(stream)
        if isinstance(event, OwnerObserved) and self._repeats.says_nothing_new(stream, event, listed=change.listed):
            return None  # an owner's status moves with every pod; nothing of it is written by us
        if isinstance(event, OwnerGone):
            self._repeats.forget(stream)
        return change.observed(stream, event, now)

    def _is_others(self, change: ObjectChange) -> bool:
        """Whether a pod is another scheduler's, by the cheapest look: every pod of the cluster is watched, for what it
        uses.
        """
        spec = change.object.get("spec") if change.kind == PODS and not change.gone else None
        name = (spec.get("schedulerName") or DEFAULT_SCHEDULER) if isinstance(spec, dict) else None
        return isinstance(name, str) and name not in self.policy.schedulers

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.newest.fold(recorded)
        self.index.fold(recorded)

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""
        return self.index.existing(KINDS[kind]) if cluster == MANAGEMENT and kind in KINDS else {}

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        return self.index.take_dirty()

    # --- what follows ------------------------------------------------------------------------------------------------

    def is_over(self, stream: str) -> bool:
        """Whether nothing is left of a stream, so that nothing can follow for it."""
        index = self.index
        if stream.startswith("member/"):
            return stream not in index.members
        return stream.startswith("podgroup/") and stream not in index.groups and not index.members_of(stream)

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for a stream."""
        plan, slot = self._plan(stream, now), self._slot(stream)
        self._wait(stream, plan.read)
        for decision in plan.decisions:
            if isinstance(decision, GroupStatusDecided) and decision.reason == PodGroupReason.ROOM_FOUND:
                self.index.admit(stream)
        events = [
            NewEvent(
                stream=stream,
                event=event,
                cluster=MANAGEMENT,
                caused_by=cause(self.index, stream, event) or slot.position,
            )
            for event in plan.decisions
        ]
        return Decided(events, slot.version, plan.wake)

    def _plan(self, stream: str, now: datetime) -> GroupPassResult:
        index = self.index
        if stream == RULES_STREAM:
            return decide_rules(index, index.rules, now) if index.ready else GroupPassResult()
        if stream.startswith("member/"):
            return decide_member(index, index.members.get(stream, MemberState()), now)
        if stream.startswith("podgroup/"):
            return decide_group(index, stream, index.groups.get(stream, PodGroupState()), now)
        return GroupPassResult()

    def _slot(self, stream: str) -> WriteSlot:
        if stream == RULES_STREAM:
            return self.index.rules.slot
        state = self.index.members.get(stream) or self.index.groups.get(stream)
        return state.slot if state is not None else self.index.left.get(stream, _NO_SLOT)

    # --- what has to be read -----------------------------------------------------------------------------------------

    def _wait(self, stream: str, read: Read | None) -> None:
        before = self._wanted.get(stream)
        if before is not None and before != read:
            self.index.waits_no_more(stream, owner_stream(before.namespace, before.owner))
            del self._wanted[stream]
        if read is None:
            return
        # Also for one that it waited for already: an answer that was folded meanwhile took all who wait.
        self._wanted[stream] = read
        self.index.waiters.setdefault(owner_stream(read.namespace, read.owner), set()).add(stream)

    def open_reads(self, stream: str, now: datetime) -> Sequence[OpenRead]:
        """Return the read that a pod waits for: one at a time, each told by the answer before."""
        read = self._wanted.get(stream)
        if read is None:
            return []
        owner = read.owner
        key = owner_stream(read.namespace, owner)
        return [OpenRead(key, MANAGEMENT, owner.api_version, owner.kind, read.namespace, owner.name)]

    def is_wanted(self, read: OpenRead) -> bool:
        """Whether a pod still waits for a read."""
        return bool(self.index.waiters.get(read.stream))

    def answered(self, read: OpenRead, answer: ReadAnswer, now: datetime) -> NewEvent:
        """Return the event of a read's end: what is known now, or when to try again."""
        uid = read.stream.rpartition("/")[2]
        owner = OwnerReference(api_version=read.api_version, kind=read.kind, name=read.name, uid=uid)
        return NewEvent(stream=read.stream, event=self._answer(read, owner, answer, now), cluster=read.cluster)

    def _answer(self, read: OpenRead, owner: OwnerReference, answer: ReadAnswer, now: datetime) -> Event:
        known: OwnerAnswer | None = None
        failure = answer.failure
        if answer.object is not None:
            known = _facts(answer.object, owner.uid)
        elif answer.not_served:
            known = OwnerAnswer(outcome="NotServed")
        elif failure is not None and failure.code in _OUTCOMES:
            known = OwnerAnswer(outcome=_OUTCOMES[failure.code], message=failure.message)
        if known is not None:
            return OwnerRead(namespace=read.namespace, owner=owner, answer=known)
        failure = failure or WriteRefusal(0, "NoAnswer", "the read ended without an answer")
        before = self.index.owners.get(read.stream)
        failures = before.failures + 1 if before is not None else 1
        return OwnerReadFailed(
            namespace=read.namespace,
            owner=owner,
            code=failure.code,
            error=failure.error,
            message=failure.message,
            failures=failures,
            retry_at=now + _pause(failures),
        )

    # --- what is open ------------------------------------------------------------------------------------------------

    def _effects(self, stream: str) -> Mapping[str, Effect[GroupWrite]]:
        effect = self._slot(stream).effect
        return {effect.decision.target: effect} if effect is not None else {}

    def _trouble(self, write: OpenWrite) -> WriteFailure | None:
        return self._slot(write.stream).trouble

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return nothing: these decisions hold all that their requests need."""
        return []

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out, or None if what it was decided on is gone."""
        decision = self._decision(write)
        if decision is None:
            return None
        group, member = self.index.groups.get(write.stream), self.index.members.get(write.stream)
        problem = member is not None and member.seen is not None and bool(member.seen.problem)
        seen = group.seen if group is not None else None
        return render.render(write.stream, decision, seen, problem, block=self.policy.block_owner_deletion, now=now)

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Return the Kubernetes Event that tells of something odd."""
        decision = self._decision(write)
        if decision is None:
            return None
        return render.announcement(write.stream, decision, decision.uid, write.position, self.identity, now)


_OUTCOMES: dict[int, Outcome] = {404: "NotFound", 410: "NotFound", 403: "Forbidden", 405: "NotServed"}


def _pause(failures: int) -> timedelta:
    pause: timedelta = min(_FIRST_RETRY * 2 ** min(failures - 1, 20), _LAST_RETRY)
    return pause


def _facts(obj: dict[str, object], uid: str) -> OwnerAnswer:
    """Return what an object that was read says of itself; one that does not fit its API cannot be followed."""
    try:
        if (found := identity(obj)[2]) != uid:
            return OwnerAnswer(outcome="Replaced", message=f"its UID is {found}")
        facts = owner_facts(obj)
    except OwnerMisfit as error:
        return OwnerAnswer(outcome="Misfit", message=str(error))
    return OwnerAnswer(outcome="Found", facts=facts)
