"""Since when in the log source pods, their candidates, their gangs and what is around them are as they are.

In: states before and after an event. Out: positions (`controlplane.runtime.facets`). The names are `pod` for the pod
and its attempt, a candidate's own name for it, `CLUSTER` for a target, `gang` for the group, `members` for any of its
pods and their candidates, `members/CLUSTER` for any of their candidates there."""

from __future__ import annotations

from controlplane.controllers.candidates.objects import CANDIDATES
from controlplane.controllers.candidates.readiness import said_of
from controlplane.controllers.candidates.source.candidate import Candidate
from controlplane.controllers.candidates.source.events import CandidateWriteFailed
from controlplane.controllers.candidates.source.gang_state import SourceGangState, group_stream
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateReserved,
    DelegateMissing,
    DelegateStatus,
)
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.connectivity.events import FLEET_STREAM, MANAGEMENT
from controlplane.controllers.connectivity.facets import ConnectionFacets
from controlplane.kube.kinds import POD_GROUPS
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.log.event import Recorded
from controlplane.runtime.facets import Facets, changes

POD: Facets[SourceState] = {
    "present": lambda state: state.pod.uid if state.pod else None,
    "deleting": lambda state: (state.pod.deleting or None) if state.pod else None,
    "over": lambda state: (state.pod.phase in ENDED_PHASES or None) if state.pod else None,
    "gated": lambda state: state.pod.gated if state.pod else None,
    "problem": lambda state: (state.pod.problem, state.pod.problem_message) if state.pod else None,
    "template": lambda state: state.pod.template if state.pod else None,
    "gates": lambda state: said_of(state.pod.gates, state.pod.conditions) if state.pod else None,
    "options": lambda state: state.pod.options if state.pod else None,
    "hints": lambda state: state.pod.hints if state.pod else None,
    "told": lambda state: [c.message for c in state.pod.conditions if c.type == "PodScheduled"] if state.pod else None,
    "epoch": lambda state: (state.uid, state.epoch, state.electing),
    "permit": lambda state: state.permit.number if state.permit else None,
    "revoking": lambda state: state.permit.revoking or None if state.permit else None,
    "delegate": lambda state: state.delegate or None,
    "failed": lambda state: (state.shown.failed or None) if state.shown else None,
    "refused": lambda state: state.refused,
    "writes": lambda state: bool(state.effects),
    "scale_up": lambda state: state.scale_up,
    "node": lambda state: (state.pod.node or None) if state.pod else None,
    "tolerates": lambda state: (state.pod.tolerates or None) if state.pod else None,
    "unready": lambda state: (state.pod.unready or None) if state.pod else None,
}
CANDIDATE: Facets[Candidate] = {
    "there": lambda known: known.seen.uid if known.seen else None,
    "answer": lambda known: (type(known.seen), known.seen.reservation, known.seen.message) if known.seen else None,
    "ready": lambda known: known.seen.reservation if isinstance(known.seen, CandidateReserved) else None,
    "tried": lambda known: known.seen.tried if known.seen else None,
    "acknowledged": lambda known: known.seen.acknowledged if known.seen else None,
    "permit": lambda known: known.seen.permit if known.seen else None,
    "template": lambda known: known.seen.template if known.seen else None,
    "gates": lambda known: known.seen.gates if known.seen else None,
    "scale_up": lambda known: known.seen.scale_up if known.seen else None,
    "refusal": lambda known: (known.seen.why, known.seen.message) if isinstance(known.seen, CandidateBound) else None,
    "withdrawn": lambda known: known.seen.withdrawn if known.seen else None,
    "bound": lambda known: known.seen.uid if isinstance(known.seen, CandidateBound) else None,
    "missing": lambda known: isinstance(known.seen, DelegateMissing) or None,
    "status": lambda known: known.seen.sequence if isinstance(known.seen, DelegateStatus) else None,
    "pod": lambda known: known.seen.pod if isinstance(known.seen, CandidateBound) else None,
    "runs": lambda known: (known.may_run and not known.excused) or None,
}
GANG: Facets[SourceGangState] = {
    "seen": lambda group: (group.seen.uid, group.least, group.seen.problem) if group.seen else None,
    "placed": lambda group: group.placed.number if group.placed else None,
    "withdrawing": lambda group: (group.placed.withdrawing or None) if group.placed else None,
    "dissolved": lambda group: (group.placed.dissolved or None) if group.placed else None,
    "formed": lambda group: (group.placed.formed or None) if group.placed else None,
    "rests": lambda group: group.rests_until,
    "waits": lambda group: group.waits.message if group.waits else None,
}


class SourceFacets:
    """The positions of the source side. `around` has those that are of no pod, such as `targets/NS`: since when a
    namespace has its targets.
    """

    def __init__(self) -> None:
        self.connections = ConnectionFacets()
        self.around: dict[str, int] = {}
        self._pods: dict[str, dict[str, int]] = {}
        self._groups: dict[str, dict[str, int]] = {}

    def pod(self, before: SourceState | None, after: SourceState, recorded: Recorded) -> set[str]:
        """Take note of a source pod as it was before an event of its stream and is after it; return the groups that it
        names, or did.
        """
        at, own = recorded.position, self._pods.setdefault(recorded.stream, {})
        changed = changes("pod", POD, before, after, at)
        # A pod that joins a group is new to it as it is.
        joined = changes("pod", POD, None, after, at) if _group(before) != _group(after) else {}
        shared = {f"members.{name.removeprefix('pod.')}": at for name in changed | joined}
        was, now = before.candidates if before is not None else {}, after.candidates
        for name in was.keys() | now.keys():
            one, other = was.get(name), now.get(name)
            if one is not other:
                _candidate(name, one, other, at, changed, shared)
        event = recorded.event
        if isinstance(event, CandidateWriteFailed) and not event.target.startswith(f"{MANAGEMENT}/"):
            changed[f"{event.target.partition('/')[0]}.failed"] = at
            shared["members.refusal"] = at
        own |= changed
        groups = {_group(before), _group(after)} - {""}
        for group in groups:
            self._groups.setdefault(group, {}).update(shared)
        return groups

    def group(self, before: SourceGangState | None, after: SourceGangState, recorded: Recorded) -> None:
        """Take note of a group as it was before an event of its stream and is after it."""
        positions = self._groups.setdefault(recorded.stream, {})
        positions |= changes("gang", GANG, before, after, recorded.position)

    def forget(self, stream: str) -> None:
        """Drop the positions of a pod, or of a group, of which nothing is left."""
        self._pods.pop(stream, None)
        self._groups.pop(stream, None)

    def of(self, pod: str, group: str, namespace: str, clusters: set[str]) -> dict[str, int]:
        """Return the positions for a decision on a pod, in a group or not ("" for none), or on a group; `clusters` are
        those it may concern.
        """
        found = {
            **self._groups.get(group, {}),
            **self._pods.get(pod, {}),
            "targets": self.around.get(f"targets/{namespace}", 0),
            "namespace": self.around.get(f"namespace/{namespace}", 0),
            "outage": self.around.get(FLEET_STREAM, 0),
            "unseen": self.connections.of(MANAGEMENT, [POD_GROUPS.name])[f"{MANAGEMENT}.view"],
        }
        for cluster in clusters:
            found[f"{cluster}.node"] = self.around.get(f"node/{cluster}", 0)
            found |= self.connections.of(cluster, [CANDIDATES.name, f"{CANDIDATES.name}/{namespace}"])
        return found


def _group(state: SourceState | None) -> str:
    pod = state.pod if state is not None else None
    return group_stream(pod.namespace, pod.group) if pod is not None and pod.group else ""


def _candidate(
    name: str,
    before: Candidate | None,
    after: Candidate | None,
    at: int,
    changed: dict[str, int],
    shared: dict[str, int],
) -> None:
    """Note what changed of a candidate: in `changed` for its pod, in `shared` for the group of its pod."""
    known = after or before
    if known is None:
        return
    moved = changes(name, CANDIDATE, before, after, at)
    changed |= moved
    seen = after.seen if after is not None else None
    if seen is None:
        changed["left"] = at
    if f"{name}.runs" in moved and (after is None or not CANDIDATE["runs"](after)):
        changed["pod.stopped"] = shared["members.stopped"] = at
    for facet in (entry.removeprefix(f"{name}.") for entry in moved):
        # A place that is lost is none that anything was waiting for.
        if facet != "ready" or isinstance(seen, CandidateReserved):
            shared |= {f"members.{facet}": at, f"members/{known.cluster}.{facet}": at}
