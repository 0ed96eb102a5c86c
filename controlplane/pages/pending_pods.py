"""The pods that a scheduler found no node for, by its log: folded as the scheduler folds them.

In: events in the log's order; of a log without pods none is read. Out: each pod that waits, with the last failure and
its event; that of a candidate waits as long as the candidate has no node. Pure, but for the reading."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.candidates.target.state import STREAM as CANDIDATE
from controlplane.controllers.candidates.target.state import TargetState, candidate_stream, target_fold
from controlplane.controllers.scheduling.events import PendingPodGone, SchedulingFailed
from controlplane.controllers.scheduling.state import PodState, pod_fold
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding

_KIND = "pod"


class PendingPods:
    """The pods of a log that have not settled."""

    def __init__(self) -> None:
        self._states: dict[str, PodState] = {}
        self._failed: dict[str, Recorded] = {}
        self._nodes: dict[str, list[str]] = {}
        self._candidates: dict[str, TargetState] = {}
        self._folding = Folding(self._fold)

    def take(self, recorded: Recorded) -> None:
        """Take the next event; a stream with one that cannot be folded is left alone, as the scheduler leaves it."""
        self._folding(recorded)

    def _fold(self, recorded: Recorded) -> None:
        stream = recorded.stream
        if stream.startswith(f"{CANDIDATE}/"):
            self._take_candidate(recorded)
        if not stream.startswith(f"{_KIND}/"):
            return
        state = pod_fold(self._states.get(stream) or PodState.initial(stream), recorded)
        if isinstance(recorded.event, SchedulingFailed):
            self._failed[stream] = self._sharing(recorded, recorded.event)
        if state.settled and (state.pod is not None or isinstance(recorded.event, PendingPodGone)):
            self._states.pop(stream, None)
            self._failed.pop(stream, None)
        else:
            self._states[stream] = state

    def _take_candidate(self, recorded: Recorded) -> None:
        state = target_fold(self._candidates.get(recorded.stream) or TargetState.initial(recorded.stream), recorded)
        if state.settled:
            self._candidates.pop(recorded.stream, None)
        else:
            self._candidates[recorded.stream] = state

    def _waits(self, state: PodState) -> bool:
        """Whether no node was found for a pod, and none is held."""
        pod = state.pod
        if pod is None or not pod.candidate:
            return state.waits_for_node
        candidate = self._candidates.get(candidate_stream(state.namespace, state.name))
        held = candidate is None or candidate.told is None or candidate.node
        return not (held or pod.deleting or pod.over or pod.node)

    def _sharing(self, recorded: Recorded, event: SchedulingFailed) -> Recorded:
        """Return an event that keeps the names of nodes in common with the one before: pods that are alike are refused
        by the same nodes.
        """
        if event.nodes != self._nodes:
            self._nodes = event.nodes
        return replace(recorded, event=replace(event, nodes=self._nodes))

    def failed(self) -> Iterator[tuple[PodState, Recorded]]:
        """Yield the pods that wait for a node after one was looked for, each with the event that says why there is
        none."""
        for stream, recorded in self._failed.items():
            state = self._states.get(stream)
            if state is not None and state.told is not None and self._waits(state):
                yield state, recorded


def read(reader: LogReader) -> PendingPods:
    """Return the pods of a log as they were at the end of what is read."""
    found = PendingPods()
    if reader.rows("SELECT 1 FROM audit.streams WHERE log = %(log)s AND stream > 'pod/' AND stream < 'pod0' LIMIT 1"):
        for recorded in reader.events(Filter()):
            found.take(recorded)
    return found
