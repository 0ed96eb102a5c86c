"""At most one delegate of a source pod runs, and nobody else may be permitted while one could (S1, S3, S5).

In: what the targets' API servers commit, and the events of the source's log, each with the state that the log gave
before it. Out: a violation. Pods of one name count as one: a successor waits for its predecessor. Under at-least-once a
delegate is excused once its target was given up in time: what it does from then on is what that policy means; under
never-twice nobody ever is. What a backup brings back on a target is excused too, since nobody decided it; but once the
source's log knows of it, nobody else is permitted beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.candidates.objects import CANDIDATE_LABEL, CANDIDATES
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.events import DelegateLost, EpochClosed, PermitGranted
from controlplane.controllers.candidates.source.observations import CandidateBound
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.candidates.environment import CAMPUS, NAMESPACE, CandidateEnvironment, on_node
from controlplane.kube.kinds import PODS
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit, Record

ONE = "one delegate runs"
PERMIT = "one candidate may run"
WAITED = "a lost target is waited for"
GONE = "a delegate that is called gone is gone"
_WITHOUT_KNOWING = (CandidateReason.PERMIT_WAS_OUTLIVED, CandidateReason.TARGET_LOST, CandidateReason.TARGET_FORGOTTEN)


class DelegateRunRules:
    """Which delegates run where. `placing` and `targets` are the folds of the logs."""

    def __init__(
        self,
        trace: Trace,
        environment: CandidateEnvironment,
        placing: SourceController,
        targets: Mapping[str, SchedulerControllers],
    ) -> None:
        self._trace, self._environment, self._placing, self._targets = trace, environment, placing, targets
        self._names: dict[str, str] = {}  # of campus' candidates: the source pod's name
        self._running: dict[str, dict[str, str]] = {}  # source pod → candidate → target
        self._excused: set[str] = set()
        self._revived: set[str] = set()  # run again since their target went back to a backup, by nobody's decision
        self._seen_again: set[str] = set()  # those of them of which the source's log knows

    def follow(self, placing: SourceController) -> None:
        """Look at another fold of the source's log: that went back."""
        self._placing = placing

    # --- what is committed -------------------------------------------------------------------------------------------

    def on_commit(self, target: str, commit: Commit) -> None:
        """Look at a Candidate or a Pod of a target."""
        record = commit.record
        if record.kind == CANDIDATES:
            source = record.obj["spec"]["source"]
            if source["cluster"] == CAMPUS:
                self._names[record.name] = source["name"]
        elif record.kind == PODS and CANDIDATE_LABEL in record.labels:
            name = self._names.get(record.name)
            if name is not None:
                self._pod(target, name, record.name, commit.type != "DELETED" and bool(on_node(record.obj)))

    def _pod(self, target: str, name: str, candidate: str, runs: bool) -> None:
        running = self._running.setdefault(name, {})
        if not runs:
            running.pop(candidate, None)
            self._revived.discard(candidate)
            self._seen_again.discard(candidate)
        elif candidate not in running:
            for other, where in running.items():
                if not {other, candidate} & (self._excused | self._revived):
                    self._trace.violate(ONE, f"{name} is bound on {target} while {other} runs on {where}")
            running[candidate] = target

    def began_anew(self, target: str, pods: Iterable[Record]) -> None:
        """Look at a target that began anew with these Pods: what else ran is stopped; what had stopped runs again,
        undecided.
        """
        there = {record.name for record in pods if on_node(record.obj)}
        for running in self._running.values():
            for candidate in [c for c, where in running.items() if where == target and c not in there]:
                del running[candidate]
        for candidate in sorted(there & self._names.keys()):
            running = self._running.setdefault(self._names[candidate], {})
            if candidate not in running:
                running[candidate] = target
                self._revived.add(candidate)
                self._seen_again.discard(candidate)

    @property
    def unanswered(self) -> set[str]:
        """The candidates that nobody answers for: their target was given up, or a backup has revived them."""
        return self._excused | self._revived

    # --- what is decided ---------------------------------------------------------------------------------------------

    def before_fold(self, recorded: Recorded) -> None:
        """Look at an event of the source's log."""
        match recorded.event:
            case PermitGranted(kind="Bind") as granted:
                self._granted(recorded, granted)
            case DelegateLost() as lost:
                self._lost(recorded, lost)
            case EpochClosed() as closed:
                self._closed(recorded, closed)
            case CandidateBound() as seen if seen.name in self._revived:
                self._seen_again.add(seen.name)

    def _granted(self, recorded: Recorded, granted: PermitGranted) -> None:
        state = self._placing.sources[recorded.stream]
        what = f"permit {granted.number} of {recorded.stream} for {granted.cluster}"
        if state.permit is not None and (state.permit.candidate, state.permit.number) != (
            granted.candidate,
            granted.number,
        ):
            self._trace.violate(PERMIT, f"{what}, while permit {state.permit.number} is open")
        if state.delegate:
            self._trace.violate(PERMIT, f"{what}, while {state.delegate} is the delegate")
        for other, where in self._could_run(state.name).items():
            if other == granted.candidate or other in self._excused | (self._revived - self._seen_again):
                continue
            if self._given_up(where, recorded.recorded_at):
                self._excused.add(other)
            else:
                self._trace.violate(PERMIT, f"{what}, while {other} may run on {where}")

    def _could_run(self, name: str) -> dict[str, str]:
        """Return the candidates of a source pod that run, or whose binding may be on its way: to a Pod that its cluster
        has.
        """
        found = dict(self._running.get(name, {}))
        for target, controllers in self._targets.items():
            there = {record.uid for record in self._environment.places[target].store.records(PODS)}
            for state in controllers.targets.candidates.values():
                ours = self._names.get(state.name) == name and state.namespace == NAMESPACE
                if ours and state.binding is not None and state.binding.uid in there:
                    found[state.name] = target
        return found

    def _given_up(self, target: str, now: datetime) -> bool:
        """Whether nothing was seen of a target's candidates for as long as at-least-once waits, or an operator has
        given it up.
        """
        policy, known = self._placing.policy, self._placing.connections.get(target)
        if self._forgotten(target):
            return True
        if policy.execution_policy == NEVER_TWICE or known is None:
            return False
        since = known.out_of_view_since(CANDIDATES.name)
        return not known.in_view(CANDIDATES.name) and since is not None and now >= since + policy.lost_after

    def _forgotten(self, target: str) -> bool:
        known = self._placing.connections.get(target)
        return known is not None and known.forgotten

    def _lost(self, recorded: Recorded, lost: DelegateLost) -> None:
        what = f"{lost.candidate} on {lost.cluster}"
        if lost.reason == CandidateReason.TARGET_LOST and not self._given_up(lost.cluster, recorded.recorded_at):
            self._trace.violate(WAITED, f"{what} is given up")
        if lost.reason == CandidateReason.TARGET_FORGOTTEN and not self._forgotten(lost.cluster):
            self._trace.violate(WAITED, f"{what} is given up, and nobody has said so")
        if lost.reason in _WITHOUT_KNOWING:
            self._excused.add(lost.candidate)
        elif lost.candidate not in self._revived and lost.candidate in self._running.get(
            self._names.get(lost.candidate, ""), {}
        ):
            self._trace.violate(GONE, f"{what} runs: {lost.message}")

    def _closed(self, recorded: Recorded, closed: EpochClosed) -> None:
        state = self._placing.sources[recorded.stream]
        if closed.reason not in _WITHOUT_KNOWING:
            return
        said = closed.reason == CandidateReason.TARGET_FORGOTTEN
        if said and (state.permit is None or not self._forgotten(state.permit.cluster)):
            self._trace.violate(WAITED, f"{recorded.stream} goes on without knowing, and nobody has said so")
        if self._placing.policy.execution_policy == NEVER_TWICE and not said:
            self._trace.violate(WAITED, f"{recorded.stream} goes on without knowing, and asks for never-twice")
        if state.permit is not None:
            self._excused.add(state.permit.candidate)
            if not said and recorded.recorded_at < state.permit.until + self._placing.policy.skew:
                self._trace.violate(WAITED, f"{recorded.stream} goes on before the lease of its permit is over")
