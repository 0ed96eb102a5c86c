"""One pass over one gang: what each target has for it, and a permission for several of its members at once.

What the decisions about a gang (`gang_decide`) and about a lack of capacity (`gang_capacity`) have in common.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import lost_log
from controlplane.controllers.candidates.source.decision_pass import PodContext, PodPass
from controlplane.controllers.candidates.source.events import CandidateDecision, PermitGranted, PermitKind
from controlplane.controllers.candidates.source.gang_counts import GangCounts, stage_of
from controlplane.controllers.candidates.source.gang_events import GangPermitted
from controlplane.controllers.candidates.source.gang_spared import Outlook
from controlplane.controllers.candidates.source.gang_state import SourceGangState
from controlplane.controllers.candidates.source.observations import CandidateUnschedulable
from controlplane.controllers.candidates.source.permits import predecessor_runs
from controlplane.controllers.candidates.source.policy import Target
from controlplane.controllers.candidates.source.state import SourceState

_FIRST_REST, _LAST_REST = timedelta(seconds=1), timedelta(minutes=1)


class GangPlan(msgspec.Struct):
    """What was decided: the group's own decisions first, then those on members' streams. `wake`: when to look again.
    `outlook`: what was found where nothing was decided and the gang is permitted nowhere."""

    own: list[CandidateDecision] = []
    theirs: list[tuple[str, CandidateDecision]] = []
    wake: datetime | None = None
    outlook: Outlook | None = None


class TargetPlaces(NamedTuple):
    """What one target has for a gang: members that hold a place, that may still get one, that found none, and how many
    are missing.
    """

    ready: list[str]
    hopes: list[str]
    without: list[str]
    need: int

    @property
    def whole(self) -> bool:
        """Whether a quorum holds places."""
        return len(self.ready) >= self.need


class GangPass:
    """One pass over one gang. `passes` has what each member could do by itself; of the `lingering` ones an earlier
    attempt may still run somewhere; `busy` are all who cannot be permitted now, whatever they are offered."""

    def __init__(
        self, group: SourceGangState, members: Mapping[str, SourceState], context: PodContext, now: datetime
    ) -> None:
        self.group, self.members, self.context, self.now = group, members, context, now
        self.counts = GangCounts(members.values())
        self.plan = GangPlan()
        self.passes = {name: PodPass(state, context, now) for name, state in sorted(members.items())}
        self.offers = {name: {o.cluster: o for o in one.offers()} for name, one in self.passes.items()}
        self.lingering = {
            name for name, one in self.passes.items() if predecessor_runs(one) or lost_log.held(one) is not None
        }
        self.busy = {n for n, s in members.items() if not s.electing} | {*self.permitted()} | self.lingering
        for one in self.passes.values():
            self.wake_at(one.plan.wake)

    def say(self, decision: CandidateDecision) -> None:
        """Add a decision about the group."""
        self.plan.own.append(decision)

    def wake_at(self, when: datetime | None) -> None:
        """Look again at `when` at the latest, if that is still to come."""
        if when is not None and when > self.now and (self.plan.wake is None or when < self.plan.wake):
            self.plan.wake = when

    @property
    def number(self) -> int:
        """The number of the next permission."""
        return self.group.numbers + 1

    def bound(self, cluster: str) -> list[str]:
        """Return the members that have a place in a target for good: on a node there, or done there."""
        return [name for name in self.members if self.where(name) == cluster]

    def where(self, name: str) -> str:
        """Return the target that a member is bound in, or ended well in; "" if it is in none."""
        state = self.members[name]
        chosen = state.chosen if stage_of(state) in ("Assigned", "Succeeded") else None
        return chosen.cluster if chosen is not None else ""

    def runs(self, name: str) -> bool:
        """Whether a member is bound and has not ended."""
        return stage_of(self.members[name]) == "Assigned"

    def permitted(self) -> list[str]:
        """Return the members that have a permit to bind."""
        return [name for name, s in self.members.items() if s.permit is not None and s.permit.kind == "Bind"]


def pause(pass_: GangPass, tries: int) -> timedelta:
    """Return how long a gang rests: longer each time, and not as long as another that began with it."""
    group = pass_.group
    uid = group.seen.uid if group.seen is not None else group.name
    digest = hashlib.sha256(f"{uid}/{group.numbers}/{group.tries}/{tries}".encode()).digest()
    share = 0.5 + digest[0] / 512
    pause: timedelta = _FIRST_REST * float(2 ** min(max(tries - 1, 0), 30))
    return min(pause, _LAST_REST) * share


def targets_for(pass_: GangPass) -> dict[str, Target]:
    """Return the targets that every member may go to."""
    asked = pass_.counts.asks
    return {t.name: t for t in pass_.context.targets if asked is None or t.name in asked}


def place_in(pass_: GangPass, cluster: str) -> TargetPlaces:
    """Return what a target has for the gang."""
    ready: list[str] = []
    hopes: list[str] = []
    without: list[str] = []
    done = 0
    for name, one in pass_.passes.items():
        stage = stage_of(one.state)
        done += stage == "Succeeded" and pass_.where(name) == cluster
        if stage != "Pending":
            continue
        known = one.current().get(cluster)
        seen = known[1].seen if known is not None else None
        if name in pass_.busy:
            hopes.append(name)
        elif cluster in pass_.offers[name]:
            ready.append(name)
        elif isinstance(seen, CandidateUnschedulable) or one.declined(cluster):
            without.append(name)
        else:
            hopes.append(name)
            pass_.wake_at(one.answer_due(cluster))
    return TargetPlaces(ready, hopes, without, max(pass_.group.least - done, 1))


def permit_in(
    pass_: GangPass,
    cluster: str,
    kind: PermitKind,
    reason: CandidateReason,
    names: list[str],
    among: dict[str, int],
    need: int = 1,
) -> None:
    """Permit members in a target, all in one append; none of them if `need` of them cannot be."""
    until, permits = pass_.now + pass_.context.policy.holds(kind), []
    for name in names:
        one = pass_.passes[name]
        candidate, known = one.current()[cluster]
        seen = known.seen
        assert seen is not None
        decision = PermitGranted(
            cluster=cluster,
            candidate=candidate,
            epoch=one.state.epoch,
            number=one.state.next_permit,
            kind=kind,
            reservation=seen.reservation,
            until=until,
            among=among,
            resource_version=seen.resource_version,
            reason=reason,
        )
        if not one.write(decision):
            pass_.wake_at(one.plan.wake)
            continue
        permits.append((name, decision))
    if len(permits) < need:
        return  # a candidate rests after its API server's no: the whole gang waits for it
    asked = pass_.group.asked.get(cluster, 0) + 1
    pass_.say(
        GangPermitted(
            cluster=cluster,
            number=pass_.number,
            kind=kind,
            least=pass_.group.least,
            members=[pass_.members[name].name for name, _ in permits],
            among=among,
            until=until + pause(pass_, asked) if kind == "Preempt" else None,
            reason=reason,
        )
    )
    pass_.plan.theirs += permits
    pass_.wake_at(until)
