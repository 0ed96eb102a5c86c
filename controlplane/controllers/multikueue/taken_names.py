"""Remembers on which clusters the name of a job is taken when its Workload goes: who makes the Workload anew, as the
owner of a group of pods does, gives the job that name again.

In: the states of Workloads that are not kept any more. Out: what a Workload of the same name begins with, for as long
as the refusal counts. Pure, and made anew by every replay."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.multikueue.events import ClusterRefused
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.log.event import Recorded


class TakenNames:
    """The refusals of Workloads that are gone, by stream and cluster."""

    def __init__(self) -> None:
        self._refused: dict[str, Mapping[str, ClusterRefused]] = {}
        self._ends: list[tuple[datetime, str]] = []  # when each may be forgotten, the next one first: a heap

    @property
    def streams(self) -> Collection[str]:
        """The Workloads that are remembered."""
        return self._refused.keys()

    def initial(self, recorded: Recorded) -> WorkloadState:
        """Return the state of a Workload before its first event."""
        refused = self._refused.pop(recorded.stream, {})
        still = {cluster: said for cluster, said in refused.items() if said.until > recorded.recorded_at}
        return msgspec.structs.replace(WorkloadState.initial(recorded.stream), refused=still)

    def gone(self, recorded: Recorded, state: WorkloadState) -> None:
        """Take the last state of a Workload; whatever does not count any more is forgotten."""
        if not state.refused:
            return
        self._refused[recorded.stream] = state.refused
        heapq.heappush(self._ends, (_last(state.refused), recorded.stream))
        while self._ends and self._ends[0][0] <= recorded.recorded_at:
            _, stream = heapq.heappop(self._ends)
            if stream in self._refused and _last(self._refused[stream]) <= recorded.recorded_at:
                del self._refused[stream]


def _last(refused: Mapping[str, ClusterRefused]) -> datetime:
    """Return when the last of a Workload's refusals ends."""
    return max(said.until for said in refused.values())
