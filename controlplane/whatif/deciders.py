"""Folds a recorded log into the controllers that dispatch Workloads, and asks them what they would decide.

In: events in the log's order, and the settings to decide by. Out: answers, none of which is kept: what the log has is
folded, whatever was answered. The controllers are those of the service (`host`), their fold and decide functions the
very ones with which it dispatches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.connectivity.events import MassOutageBegan, MassOutageEnded, PolicyInForce
from controlplane.controllers.manifests import SERVICE
from controlplane.controllers.multikueue import hosting as multikueue
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import ClusterRefused, WorkloadDecision
from controlplane.controllers.quota import hosting as quota
from controlplane.controllers.quota.events import QuotaDecision
from controlplane.job_kinds import adapters_for, named
from controlplane.log.event import Event, Recorded
from controlplane.log.folding import Folding
from controlplane.runtime.controller import Decided
from controlplane.runtime.hosting import Registration
from controlplane.settings.model import Settings
from controlplane.settings.recorded import with_recorded_quota

DECISIONS = (WorkloadDecision, QuotaDecision, MassOutageBegan, MassOutageEnded)
"""The decisions that are asked for again: those about Workloads, clusters, and the quota of ClusterQueues."""


_OTHERS = tuple(one.decision for one in SERVICE if one.decision is not None)


class DecisionSettings(msgspec.Struct, frozen=True):
    """What the controllers decide by: settings, and the policy that takes the place of what these say of Workloads."""

    settings: Settings
    policy: MultiKueuePolicy


def chosen(settings: Settings) -> DecisionSettings:
    """Return what a service with these settings decides by."""
    return DecisionSettings(settings, multikueue.policy_of(settings))


def then(settings: Settings, said: PolicyInForce) -> DecisionSettings:
    """Return what the service decided by that said so; what the log does not say (quota automation aside) is as in the
    settings of the reader. Unlike a reader's policy it has the kinds of job that were dispatched, no others."""
    kinds = adapters_for([name for name in map(named, said.kinds) if name])
    policy = msgspec.structs.replace(
        multikueue.reading_policy(settings, said),
        adapters=kinds,
        awaited=None,
        dispatches="multikueue" in said.controllers or not said.controllers,
    )
    chosen_ = msgspec.structs.replace(
        settings.multikueue,
        quota_automation="yes" if said.quota_automation else "no",
        controller_name=said.controller_name,
        worker_lost_timeout=timedelta(seconds=said.worker_lost_timeout_seconds),
    )
    known = msgspec.structs.replace(settings, multikueue=chosen_)
    gates = said.orchestrated_preemption
    return DecisionSettings(with_recorded_quota(known, said.quota, orchestrated_preemption=gates), policy)


class Deciders:
    """The controllers with what they have folded of one log."""

    def __init__(self, by: DecisionSettings) -> None:
        hosted = [*multikueue.host(by.settings, by.policy), *quota.host(by.settings)]
        self._registrations = [one.registration for one in hosted]
        self._folding = Folding(self._give)
        self.policy = by.policy
        self.left_alone = self._folding.left_alone

    def fold(self, recorded: Recorded) -> None:
        """Take one more event; a stream of which one cannot be folded is left alone, as in the service."""
        self._folding(recorded)

    def _give(self, recorded: Recorded) -> None:
        word = recorded.stream.partition("/")[0]
        for one in self._registrations:
            if word in one.owns or word in one.hears:
                one.controller.fold(recorded)

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call, in order, those without an owner left out."""
        return [
            stream
            for one in self._registrations
            for stream in one.controller.take_dirty()
            if self._owner(stream) is one and stream not in self.left_alone
        ]

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what the owner of a stream decides on what is folded, and on nothing else."""
        owner = self._owner(stream)
        if owner is None or stream in self.left_alone:
            return Decided()
        if isinstance(owner.controller, MultiKueueController):
            return owner.controller.decided_afresh(stream, now)
        return owner.controller.decide(stream, now)

    def decide_as_leader(self, stream: str, now: datetime) -> Decided:
        """Return what the owner of a stream decides if what it answered about others a moment ago counts, as it did for
        the leader, which had not read yet whether that was recorded."""
        owner = self._owner(stream)
        if owner is None or stream in self.left_alone:
            return Decided()
        return owner.controller.decide(stream, now)

    def anticipate(self, events: Sequence[Recorded], now: datetime) -> Decided:
        """Return what the owner of a stream decides on its next events before anything is folded, as it does when they
        are committed."""
        owner = self._owner(events[0].stream)
        if owner is None or owner.anticipating is None or events[0].stream in self.left_alone:
            return Decided()
        return owner.anticipating.anticipate(events, now) or Decided()

    def _owner(self, stream: str) -> Registration | None:
        word = stream.partition("/")[0]
        return next((one for one in self._registrations if word in one.owns), None)

    def said_at(self, event: Event) -> datetime | None:
        """Return the time at which a decision was taken, where it tells; None where it does not."""
        return event.until - self.policy.refusal_pause if isinstance(event, ClusterRefused) else None


def is_decision(recorded: Recorded) -> bool:
    """Whether an event is a decision that is asked for again."""
    return isinstance(recorded.event, DECISIONS)


def is_of_another(recorded: Recorded) -> bool:
    """Whether an event is a decision of a controller that does not dispatch Workloads."""
    return isinstance(recorded.event, _OTHERS) and not is_decision(recorded)
