"""Remembers on which clusters the name of a job is taken when its Workload goes: who makes the Workload anew, as the
owner of a group of pods does, gives the job that name again.

In: the states of Workloads that are not kept any more. Out: what a Workload of the same name begins with, for as long
as the refusal counts. Pure, and made anew by every replay."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from controlplane.controllers.multikueue.events import ClusterRefused
from controlplane.controllers.multikueue.state import WorkloadState
from controlplane.log.event import Recorded


class TakenNames:
    """The refusals of Workloads that are gone, by stream and cluster."""

    def __init__(self) -> None:
        self._refused: dict[str, Mapping[str, ClusterRefused]] = {}

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
        for stream, refused in list(self._refused.items()):
            if all(said.until <= recorded.recorded_at for said in refused.values()):
                del self._refused[stream]
