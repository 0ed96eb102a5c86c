"""Nothing is bound without a permit that is current, and no permit is sent that is not in the log (S2, S3 and S4 of
docs/explanation/candidates.md).

In: Candidates and Pods as the targets' API servers commit them, and the permits of the source's log. Out: a violation.
A permit names a reservation: it is held against the one that the target's own log holds when the Pod gets its node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.candidates.objects import CANDIDATE_LABEL, CANDIDATES, permission
from controlplane.controllers.candidates.source.events import Elected, PermitGranted
from controlplane.controllers.candidates.target.events import BindStarted
from controlplane.controllers.candidates.target.state import TargetState
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.candidates.environment import CAMPUS, NAMESPACE, CandidateEnvironment, on_node
from controlplane.kube.kinds import PODS
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit, Record

BOUND = "nothing is bound without a permit"
SENT = "a permit is in the log before it is sent"
SAME = "the same permit is sent again"
BACK = "what is permitted or withdrawn does not go back"
ONCE = "one candidate of an epoch"
LAST = "a Candidate stays until its Pod is gone"


class _PermitFacts(NamedTuple):
    """What a permit says."""

    kind: str
    reservation: int
    until: str


class Permits:
    """The permits that were granted, by candidate and number. `targets` are the folds of the targets' logs."""

    def __init__(
        self, trace: Trace, environment: CandidateEnvironment, targets: Mapping[str, SchedulerControllers]
    ) -> None:
        self._trace, self._environment, self._targets = trace, environment, targets
        self._granted: dict[tuple[str, int], _PermitFacts] = {}
        self._ever: dict[tuple[str, int], set[_PermitFacts]] = {}
        self._streams: dict[str, str] = {}
        self._epochs: dict[tuple[str, str, int], str] = {}
        self._lost: dict[tuple[str, str], TargetState] = {}

    def source_went_back(self) -> None:
        """Hear that the source's log does not know of its last permits any more: their numbers may be given again."""
        self._granted.clear()

    def target_went_back(self, target: str) -> None:
        """Hear that a target's log is about to go back: a binding that it had may be on its way."""
        for state in self._targets[target].targets.candidates.values():
            if state.binding is not None:
                self._lost[target, state.binding.uid] = state

    def before_fold(self, recorded: Recorded) -> None:
        """Look at an event of the source's log."""
        event = recorded.event
        if isinstance(event, Elected) and event.epoch == 1:
            # A pod of which nothing was known, perhaps one that is back with its UID: permits are counted from one.
            self._granted = {
                key: said for key, said in self._granted.items() if self._streams[key[0]] != recorded.stream
            }
        if not isinstance(event, PermitGranted):
            return
        self._streams[event.candidate] = recorded.stream
        key, said = (
            (event.candidate, event.number),
            _PermitFacts(event.kind, event.reservation, event.until.isoformat()),
        )
        before = self._granted.setdefault(key, said)
        self._ever.setdefault(key, set()).add(said)
        if before != said:
            self._trace.violate(SAME, f"permit {event.number} for {event.candidate} was {before}, and is {said}")

    def on_commit(self, target: str, commit: Commit) -> None:
        """Look at a Candidate or a Pod of a target."""
        record, before = commit.record, commit.previous
        if record.kind == CANDIDATES:
            self._candidate(target, commit, record, before)
        elif record.kind == PODS and CANDIDATE_LABEL in record.labels and commit.type != "DELETED":
            was = on_node(before.obj) if before is not None else ""
            if on_node(record.obj) and not was:
                self._bound(target, record)

    def _candidate(self, target: str, commit: Commit, record: Record, before: Record | None) -> None:
        source = record.obj["spec"]["source"]
        if source["cluster"] != CAMPUS:
            return
        if commit.type == "DELETED":
            self._removed(target, record)
            return
        other = self._epochs.setdefault((target, source["uid"], source["epoch"]), record.name)
        if other != record.name:
            self._trace.violate(ONCE, f"{target} has {other} and {record.name} of epoch {source['epoch']}")
        permit = permission(record.obj)
        if permit is not None:
            said = _PermitFacts(permit.kind, permit.reservation, permit.until.isoformat())
            if said not in self._ever.get((record.name, permit.number), ()):
                self._trace.violate(SENT, f"permit {permit.number} of {record.name} on {target}: {said}")
        if before is not None and (_numbers(record) < _numbers(before) or _withdrawn(record) < _withdrawn(before)):
            self._trace.violate(BACK, f"{record.name} on {target}")

    def _removed(self, target: str, record: Record) -> None:
        for pod in self._environment.places[target].store.records(PODS):
            if pod.labels.get(CANDIDATE_LABEL) == record.name and on_node(pod.obj):
                self._trace.violate(LAST, f"{record.name} is gone from {target}, and its Pod runs")

    def _bound(self, target: str, record: Record) -> None:
        what = f"{record.name} on {target}"
        state = self._targets[target].targets.candidates.get(f"candidate/{NAMESPACE}/{record.name}")
        if state is None or state.binding is None:
            state = self._lost.get((target, record.uid))
        binding = state.binding if state is not None else None
        if state is None or binding is None:
            self._trace.violate(BOUND, f"{what}: its log knows of no binding")
            return
        if binding.node != on_node(record.obj) or binding.uid != record.uid:
            wrong = f"the log binds {binding.uid} to {binding.node}"
        else:
            wrong = _without_permit(state, binding)
        if wrong:
            self._trace.violate(BOUND, f"{what}: {wrong}")


def _without_permit(state: TargetState, binding: BindStarted) -> str:
    """Return why a binding is not what its Candidate's permit allows; "" if it is."""
    permit, held = state.seen.permit if state.seen is not None else None, state.held
    if permit is None:
        return "its Candidate carries no permit"
    if permit.number != binding.number or permit.kind != "Bind":
        return f"it is bound by permit {binding.number}, and carries permit {permit.number} to {permit.kind}"
    if held is None or held.number != permit.reservation or held.node != binding.node:
        return f"the permit is for reservation {permit.reservation}, and {held and held.number} is held"
    if state.withdrawn >= binding.number:
        return f"the withdrawal of permit {binding.number} was acknowledged"
    return "the binding was to outlive its lease" if binding.before > permit.until else ""


def _numbers(record: Record) -> int:
    return int((record.obj["spec"].get("permit") or {}).get("number", 0))


def _withdrawn(record: Record) -> int:
    acknowledged = (record.obj.get("status") or {}).get("acknowledged") or 0
    return int(record.obj["spec"].get("withdrawn") or 0) * 1000 + int(acknowledged)
