"""One pass over one source pod: what it may look at, and the decisions it collects.

The rules that all of them share: at most one write to an object is open, a target that said no rests until its time has
come, and a candidate that has to go goes whatever else was meant for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.controllers.candidates.objects import CANDIDATES, candidate_name
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.candidate import Candidate
from controlplane.controllers.candidates.source.events import (
    CandidateDecision,
    CandidateDropped,
    CandidateRequested,
    CandidateWrite,
    PermitRevoked,
)
from controlplane.controllers.candidates.source.gang_state import GangView
from controlplane.controllers.candidates.source.observations import (
    CandidateObservationRefused,
    CandidateRefused,
    CandidateReserved,
    CandidateUnschedulable,
)
from controlplane.controllers.candidates.source.policy import (
    AT_LEAST_ONCE,
    Offer,
    PlacementPolicy,
    SourcePolicy,
    Target,
    effective,
)
from controlplane.controllers.candidates.source.state import SourceState, dropping, may_be_of_another
from controlplane.controllers.connectivity.state import Connection
from controlplane.runtime.decision_pass import DecisionPass
from controlplane.runtime.writes import says_no
from controlplane.values import Value


class PodContext(Value):
    """The rest of the world, as one source pod sees it.

    `ready`: the source cluster's pods are in view. `targets`: the clusters that pods of this namespace may go to.
    `counts`: the workload's other pods by target. `mass_outage`: most clusters are away together; `outage_ended`: when
    they last were. `gang`: that of which it is a member. `obstacles`: what keeps ConfigMaps and Secrets from following
    it, in words. `nodes`: the virtual Nodes that there are, by target. `unread_pod`: what is wrong with the pod of this
    name that is there and was never read; `unread`: with Candidates that may be of the pods of a name, by that name and
    by target. `untried_until`: until when it is waited for what a target shows that nobody has looked at since the
    start."""

    policy: SourcePolicy
    ready: bool
    targets: Sequence[Target]
    connections: Mapping[str, Connection]
    counts: Mapping[str, int] = {}
    mass_outage: bool = False
    outage_ended: datetime | None = None
    gang: GangView | None = None
    obstacles: str = ""
    nodes: Mapping[str, str] = {}
    unread_pod: CandidateObservationRefused | None = None
    unread: Mapping[str, Mapping[str, CandidateObservationRefused]] = {}
    untried_until: datetime | None = None

    def in_view(self, cluster: str) -> bool:
        """Whether what we know of a target's candidates is current."""
        connection = self.connections.get(cluster)
        return connection is not None and connection.in_view(CANDIDATES.name)

    def unreadable(self, cluster: str) -> str:
        """Return why a target that answers does not show its candidates, "" if it does, or does not answer."""
        connection = self.connections.get(cluster)
        return connection.off.get(CANDIDATES.name, "") if connection is not None and connection.connected else ""

    def forgotten(self, cluster: str) -> bool:
        """Whether an operator said that a target will not come back with anything that runs."""
        connection = self.connections.get(cluster)
        return connection is not None and connection.forgotten

    @property
    def outlives(self) -> bool:
        """Whether we go on, in time, without knowing what an absent target did."""
        return self.policy.execution_policy == AT_LEAST_ONCE

    def lost_until(self, cluster: str) -> datetime | None:
        """Return when the grace of a delegate ends that cannot be seen; None: it does not end by itself, or not now.

        Its target is away, or answers and does not show its candidates. Our own absence and a mass outage do not count:
        after them the grace begins anew."""
        connection = self.connections.get(cluster)
        if connection is None or self.in_view(cluster) or not self.outlives or self.mass_outage:
            return None
        since = connection.out_of_view_since(CANDIDATES.name)
        if since is None:
            return None
        ours = (self.outage_ended, connection.untried_since)
        return max([since, *(at for at in ours if at is not None)]) + self.policy.lost_after


class PodPass(DecisionPass[SourceState, CandidateDecision, CandidateWrite]):
    """The decisions of one pass, under construction. `permit` is the open one, as far as this pass has come.

    Taking something back overrides whatever is open: both carry the same precondition, so only one of them can succeed.
    """

    def __init__(self, state: SourceState, context: PodContext, now: datetime) -> None:
        super().__init__(state, now)
        self.context = context
        self.permit = state.permit
        self.acked = False
        self.closed = not state.electing

    def _overrides(self, decision: CandidateWrite, opened: CandidateWrite) -> bool:
        """Whether a decision may take the place of an open one."""
        if isinstance(opened, CandidateDropped):
            return False
        if isinstance(decision, CandidateDropped):
            return True
        return isinstance(decision, PermitRevoked) and not isinstance(opened, PermitRevoked)

    def drop(self, name: str, reason: CandidateReason) -> None:
        """Delete a candidate that is known to be there, unless it may be of another cluster that has our name."""
        known = self.state.candidates[name]
        if may_be_of_another(self.state, known):
            return
        if known.seen is None or dropping(self.state, name) or not self.context.in_view(known.cluster):
            return
        self.write(
            CandidateDropped(
                cluster=known.cluster,
                candidate=name,
                uid=known.seen.uid,
                resource_version=known.seen.resource_version,
                reason=reason,
            )
        )

    def busy(self, cluster: str, name: str) -> bool:
        """Whether something is on its way to a candidate, or about to be: what else is written would be based on one
        version with it."""
        decided = any(getattr(one, "candidate", "") == name for one in self.plan.decisions)
        return decided or f"{cluster}/{name}" in self.state.effects

    @property
    def placement(self) -> PlacementPolicy:
        """How this pod's target is chosen."""
        options = self.state.pod.options if self.state.pod else None
        return effective(self.context.policy.placement, options) if options else self.context.policy.placement

    def targets(self) -> dict[str, Target]:
        """Return the targets of the epoch that are still allowed."""
        return {target.name: target for target in self.context.targets if target.name in self.state.targets}

    def unreadable(self) -> bool:
        """Whether every target answers and none of them shows its candidates."""
        targets = self.targets()
        return bool(targets) and all(self.context.unreadable(name) for name in targets)

    def current(self) -> dict[str, tuple[str, Candidate]]:
        """Return the candidates of the epoch under way, by target."""
        state = self.state
        return {
            known.cluster: (name, known)
            for name, known in state.candidates.items()
            if (known.uid, known.epoch) == (state.uid, state.epoch)
        }

    def name_for(self, cluster: str) -> str:
        """Return the name of the epoch's candidate in a target, whether it is there or not."""
        state = self.state
        return candidate_name(state.name, self.context.policy.cluster, state.uid, state.epoch, cluster)

    def answer_due(self, cluster: str) -> datetime | None:
        """Return until when an answer of a target is waited for, None if none is owed: it gave one, or was not asked.

        A reservation that has lapsed is no answer any more: nobody keeps it, and whoever should say so is silent.
        """
        known = self.current().get(cluster)
        if known is None:
            return None
        seen = known[1].seen
        since = seen.expires if isinstance(seen, CandidateReserved) else known[1].waits_since
        return None if since is None else since + self.context.policy.answer_timeout

    def silent(self, cluster: str) -> bool:
        """Whether a target gave no answer in time. That is a no until it says something: nobody is permitted or excused
        by it.
        """
        due = self.answer_due(cluster)
        return due is not None and self.now >= due

    def barred(self, cluster: str) -> str:
        """Return why a target's API server does not take the candidate, "" if it does or did not say yet."""
        known = self.current().get(cluster)
        if known is not None and known[1].seen is not None:
            return ""
        failure = self.state.trouble.get(f"{cluster}/{self.name_for(cluster)}")
        asked = failure is not None and failure.action == CandidateRequested.__name__
        return (failure.message or failure.error) if failure is not None and asked and says_no(failure) else ""

    def declined(self, cluster: str) -> bool:
        """Whether a target is none that takes the pod, for a reason that is not room: it refuses, cannot be asked, or
        is silent.
        """
        known = self.current().get(cluster)
        if known is not None and isinstance(known[1].seen, CandidateRefused):
            return True
        return bool(self.barred(cluster)) or self.silent(cluster)

    def offers(self) -> list[Offer]:
        """Return the candidates that could be permitted now."""
        found = []
        targets = self.targets()
        for cluster, (name, known) in sorted(self.current().items()):
            if cluster not in targets or not self.context.in_view(cluster) or dropping(self.state, name):
                continue
            if not isinstance(known.seen, CandidateReserved) or known.ready_since is None or self._lapsed(known.seen):
                continue
            found.append(
                Offer(
                    cluster=cluster,
                    score=known.seen.score,
                    since=known.ready_since,
                    tier=targets[cluster].tier,
                    failures=self.state.failures.get(cluster, 0),
                )
            )
        return found

    def pending(self) -> dict[str, Target]:
        """Return the targets in view that may still answer."""
        current = self.current()
        found = {}
        for name, target in self.targets().items():
            if not self.context.in_view(name) or self.declined(name):
                continue
            seen = current[name][1].seen if name in current else None
            lapsed = isinstance(seen, CandidateReserved) and self._lapsed(seen)
            if lapsed or not isinstance(seen, (CandidateReserved, CandidateUnschedulable)):
                found[name] = target
                self.wake_at(self.answer_due(name))
        return found

    def _lapsed(self, seen: CandidateReserved) -> bool:
        """Whether a reservation is over by any clock, and the target has not said so."""
        if seen.expires is None:
            return False
        over = seen.expires + self.context.policy.skew
        if self.now < over:
            self.wake_at(over)
        return self.now >= over
