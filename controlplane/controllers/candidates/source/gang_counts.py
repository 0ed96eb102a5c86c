"""Counts how the members of a gang stand: what its pods look at of it, and what is decided by numbers.

In: members as they are folded, one by one. Out: counts. There are few ways to stand, however many members there are, so
a question costs no look at all of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.candidates.source.candidate import Permit
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.kube.pod_groups import Stage


def stage_of(state: SourceState) -> Stage | None:
    """Return how far a member has come; None for one that is not there to be placed: on its way out, gated, or wrong in
    itself.
    """
    pod = state.pod
    if pod is None:
        return None
    over = state.shown is not None and state.shown.uid == pod.uid and state.shown.failed
    if pod.phase == "Failed" or over:
        return "Failed"
    if pod.phase == "Succeeded":
        return "Succeeded"
    if state.delegate:
        return None if pod.deleting else "Assigned"
    return None if pod.deleting or pod.gated or pod.problem else "Pending"


NO_NODE = (seen.CandidateUnschedulable, seen.CandidateRefused)


class MemberStanding(NamedTuple):
    """How a member stands. `place`: the target in which it is bound, or ended well; `binds`: that of an open permit to
    bind, `revoking`: which is taken back; `holds` are the targets that hold a node for it, `full` those that have none
    or refuse it, `yields` those of them in which pods of lower priority are in its way."""

    stage: Stage | None
    place: str
    binds: str
    revoking: bool
    preempts: bool
    asks: frozenset[str]
    holds: frozenset[str]
    full: frozenset[str]
    yields: frozenset[str]
    priority: int


def standing_of(state: SourceState) -> MemberStanding:
    """Return how a member stands."""
    stage, chosen = stage_of(state), state.chosen
    current = [one for one in state.candidates.values() if (one.uid, one.epoch) == (state.uid, state.epoch)]
    binds, revoking, preempts = _permitted(state.permit)
    return MemberStanding(
        stage=stage,
        place=chosen.cluster if chosen is not None and stage in ("Assigned", "Succeeded") else "",
        binds=binds,
        revoking=revoking,
        preempts=preempts,
        asks=frozenset(state.pod.options.targets if state.pod is not None else ()),
        holds=frozenset(one.cluster for one in current if isinstance(one.seen, seen.CandidateReserved)),
        full=frozenset(one.cluster for one in current if isinstance(one.seen, NO_NODE)),
        yields=frozenset(one.cluster for one in current if getattr(one.seen, "preemptable", False)),
        priority=state.pod.priority if state.pod is not None else 0,
    )


def _permitted(permit: Permit | None) -> tuple[str, bool, bool]:
    """Return where a member may be bound, whether that is taken back, and whether room may be made for it."""
    if permit is None:
        return "", False, False
    binds = permit.kind == "Bind"
    return permit.cluster if binds else "", permit.revoking, not binds


class GangCounts:
    """How many members stand how; few different ways at any time."""

    def __init__(self, members: Iterable[SourceState] = ()) -> None:
        self._many: Counter[MemberStanding] = Counter(map(standing_of, members))

    def change(self, before: MemberStanding | None, after: MemberStanding | None) -> None:
        """Take a member as it is now; None where it is none."""
        if after is not None:
            self._many[after] += 1
        if before is not None:
            self._many[before] -= 1
            if not self._many[before]:
                del self._many[before]

    @property
    def present(self) -> int:
        """How many are there to start or started."""
        return sum(many for one, many in self._many.items() if one.stage not in (None, "Failed"))

    @property
    def assigned(self) -> int:
        """How many are bound somewhere, or ended well."""
        return sum(many for one, many in self._many.items() if one.stage in ("Assigned", "Succeeded"))

    @property
    def priority(self) -> int:
        """The highest of the members' priorities, as admission resolved them; 0 if there is none."""
        return max((one.priority for one in self._many), default=0)

    @property
    def asks(self) -> frozenset[str] | None:
        """The targets that all members ask for; None if none of them asks for any."""
        found: frozenset[str] | None = None
        for one in self._many:
            if one.asks:
                found = one.asks if found is None else found & one.asks
        return found

    @property
    def holds(self) -> set[str]:
        """The targets in which members hold a node."""
        return {cluster for one in self._many for cluster in one.holds}

    @property
    def running(self) -> int:
        """How many are bound and have not ended."""
        return sum(many for one, many in self._many.items() if one.stage == "Assigned")

    @property
    def permitted(self) -> int:
        """How many have a permit, to bind or to make room."""
        return sum(many for one, many in self._many.items() if one.binds or one.preempts)

    def placed(self, cluster: str) -> int:
        """Return how many have a place in a target for good."""
        return sum(many for one, many in self._many.items() if one.place == cluster)

    def runs_in(self, cluster: str) -> bool:
        """Whether some are bound in a target and have not ended."""
        return any(one.stage == "Assigned" and one.place == cluster for one in self._many)

    def firm(self, cluster: str) -> int:
        """Return how many have a place in a target for good, or a permit for it that is not taken back."""
        binds = sum(n for one, n in self._many.items() if one.binds == cluster != one.place and not one.revoking)
        return self.placed(cluster) + binds

    def holding(self, cluster: str) -> int:
        """Return how many hold a node in a target."""
        return sum(many for one, many in self._many.items() if cluster in one.holds)

    def need(self, cluster: str, least: int) -> int:
        """Return how many places a target has to have for a quorum."""
        done = sum(many for one, many in self._many.items() if one.stage == "Succeeded" and one.place == cluster)
        return max(least - done, 1)

    def could_make_room(self, least: int) -> bool:
        """Whether some target might have a quorum if it made room."""
        clusters = {cluster for one in self._many for cluster in one.yields}
        return any(self._able(cluster) >= self.need(cluster, least) for cluster in clusters)

    def refusing(self, cluster: str) -> int:
        """Return how many have no node in a target, or are refused there."""
        return sum(many for one, many in self._many.items() if cluster in one.full)

    def _able(self, cluster: str) -> int:
        return sum(many for one, many in self._many.items() if cluster in one.holds or cluster in one.full)
