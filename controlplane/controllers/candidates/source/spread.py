"""Counts the pods of each workload by the target that they are in, and knows who of them waits for their spread.

In: source pods as they are folded, and permits that were just decided on. Out: counts, and streams. Pure. A workload
may have thousands of pods: what becomes of one is no news to those that ask for no spread, or have their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from controlplane.controllers.candidates.source.state import SourceState

_NOWHERE = "", ""


class WorkloadSpread:
    """See the module. `granted` has the targets of permits to bind that are not folded yet, by stream."""

    GIVEN = ("granted",)

    def __init__(self) -> None:
        self.granted: dict[str, str] = {}
        self._of: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._waiting: dict[str, dict[str, None]] = {}

    def __contains__(self, workload: str) -> bool:
        """Whether a workload has pods."""
        return workload in self._counts

    def note(self, stream: str, state: SourceState, max_skew: int) -> Iterable[str]:
        """Take a source pod as it now is; return the workloads whose pods are counted otherwise now, or that have none
        any more."""
        workload = state.pod.workload if state.pod is not None else ""
        before, after = self._of.pop(stream, _NOWHERE), (workload, placed_in(state) if workload else "")
        if workload:
            self._of[stream] = after
        self._wait(stream, before[0], after, max_skew)
        if before == after:
            return ()
        self._count(after, 1)
        self._count(before, -1)
        both = before[0], after[0]
        return {of for of in both if of and (before[1] or after[1] or of not in self)}

    def _count(self, one: tuple[str, str], by: int) -> None:
        workload, place = one
        if not workload:
            return
        # Under "" are those that are nowhere: a workload is known while it has pods.
        counts = self._counts.setdefault(workload, Counter())
        counts[place] += by
        if not counts[place]:
            del counts[place]
        if not counts:
            del self._counts[workload]

    def _wait(self, stream: str, before: str, after: tuple[str, str], max_skew: int) -> None:
        workload, place = after
        if before in self._waiting:
            self._waiting[before].pop(stream, None)
            if not self._waiting[before]:
                del self._waiting[before]
        if workload and not place and max_skew > 0:
            self._waiting.setdefault(workload, {})[stream] = None

    def waiting(self, workload: str) -> Iterable[str]:
        """Return the streams of a workload's pods that are nowhere and ask to be spread."""
        return sorted(self._waiting.get(workload, ()))

    def counts(self, stream: str, workload: str) -> Mapping[str, int]:
        """Return where the workload's other pods are, permits that were just decided on included."""
        found = Counter({place: count for place, count in self._counts.get(workload, {}).items() if place})
        own = self._of.get(stream, _NOWHERE)
        if own[0] == workload and own[1]:
            found[own[1]] -= 1
        for other, cluster in self.granted.items():
            if other != stream and self._of.get(other) == (workload, ""):
                found[cluster] += 1
        return found


def placed_in(state: SourceState) -> str:
    """Return the target that a source pod is bound in, or permitted to be; "" if it is nowhere."""
    chosen = state.chosen
    if chosen is not None:
        return chosen.cluster
    permit = state.permit
    return permit.cluster if permit is not None and permit.kind == "Bind" else ""
