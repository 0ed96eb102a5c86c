"""Keeps which Workloads and copies are there and could not be read: what they are is unknown, and they are not gone.

In: refusals, observations and ends of copies, in the log's order. Out: for a Workload, the clusters on which something
of it may be that nobody could read. Pure, and made anew by every replay. Of a copy that was read before it is known
what it was, and nothing is held up; one that was never read may be a job that runs, after the log was lost or put
back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.observations import (
    CloneAbsent,
    CloneGone,
    CloneObserved,
    ObjectGone,
    ObservationRefused,
    RemoteJobGone,
    RemoteJobObserved,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.remotes import Remote
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.job_kinds.base import MADE_FOR
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Recorded

MADE_FOR_FIELD = f"metadata.annotations[{MADE_FOR}]"
"""The field that is wrong with a copy that was made for another management cluster."""

Copy = tuple[str, str, str]
"""A copy wherever it is: its kind (`Kind.name`), its namespace, its name."""


class UnreadCopies:
    """The refusals that still hold, by copy and cluster. `_ended_by`: the streams whose events ended others."""

    def __init__(self) -> None:
        self._refusals: dict[Copy, dict[str, ObservationRefused]] = {}
        self._streams: dict[tuple[str, str], str] = {}
        self._ended_by: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._refusals)

    @property
    def ended_by(self) -> Collection[str]:
        """The Workloads' streams that refusals were ended by, which a fold without them would take to hold still."""
        return self._ended_by

    def stream_of(self, cluster: str, uid: str) -> str:
        """Return the stream of the refusal of an object that still holds, "" if none does."""
        return self._streams.get((cluster, uid), "")

    def seen(self, cluster: str, kind: str) -> Iterable[ObservationRefused]:
        """Yield the refusals of a kind on a cluster that still hold."""
        for (of, _, _), refusals in self._refusals.items():
            if of == kind and cluster in refusals:
                yield refusals[cluster]

    def fold(self, recorded: Recorded) -> Copy | None:
        """Take one more event; return the copy whose refusal began or ended."""
        event, cluster = recorded.event, recorded.cluster
        if type(event) is ObservationRefused:
            if cluster == MANAGEMENT and event.kind != WORKLOADS.name:
                return None
            copy = (event.kind, event.namespace, event.name)
            self._end(copy, cluster)
            self._refusals.setdefault(copy, {})[cluster] = event
            self._streams[cluster, event.uid] = recorded.stream
            return copy
        if (ended := self.ended(recorded)) is not None:
            self._end(ended, cluster)
            if recorded.stream.startswith("workload/"):
                self._ended_by.add(recorded.stream)
        return ended

    def ended(self, recorded: Recorded) -> Copy | None:
        """Return the copy whose refusal an event will end, None if it ends none."""
        if not self._refusals:
            return None
        match event := recorded.event:
            case CloneObserved() | CloneGone() | CloneAbsent() | WorkloadObserved() | WorkloadGone():
                copy = (WORKLOADS.name, event.namespace, event.name)
            case RemoteJobObserved() | RemoteJobGone():
                copy = (event.kind, event.namespace, event.name)
            case _:
                return None
        refusal = self._refusals.get(copy, {}).get(recorded.cluster)
        if refusal is None or (isinstance(event, ObjectGone) and event.uid != refusal.uid):
            return None
        return copy

    def _end(self, copy: Copy, cluster: str) -> None:
        refusals = self._refusals.get(copy, {})
        if (refusal := refusals.pop(cluster, None)) is not None:
            self._streams.pop((cluster, refusal.uid), None)
        if not refusals:
            self._refusals.pop(copy, None)

    def of(self, copies: Iterable[Copy], remotes: Mapping[str, Remote]) -> dict[str, ObservationRefused]:
        """Return the workers that have one of these copies in a form that nobody has read yet, and what was wrong with
        it.

        `remotes`: what is known of the Workload by cluster, as it could be read last."""
        if not self._refusals:
            return {}
        return {
            cluster: refusal
            for copy in copies
            for cluster, refusal in self._refusals.get(copy, {}).items()
            if cluster != MANAGEMENT and refusal.uid not in _uids(remotes.get(cluster))
        }

    def hides(self, namespace: str, name: str) -> bool:
        """Whether there is a Workload of this name on the management cluster that cannot be read."""
        return MANAGEMENT in self._refusals.get((WORKLOADS.name, namespace, name), {})


def made_for_others(state: WorkloadState) -> dict[str, ObservationRefused]:
    """Return the workers whose copy says that it was made for another management cluster, as one that cannot be read:
    its job may be ours, of a cluster that was built anew, or somebody else's that has the same name.

    Nothing is done about it, and the job is started nowhere else, until it is gone or says that it is ours."""
    return {
        cluster: ObservationRefused(
            kind=WORKLOADS.name,
            namespace=state.namespace,
            name=state.name,
            uid="",
            resource_version="",
            field=MADE_FOR_FIELD,
            error=f"{MADE_FOR_FIELD}: it was made for another management cluster, {remote.made_for}",
            object="",
        )
        for cluster, remote in state.remotes.items()
        if remote.made_for
    }


def _uids(remote: Remote | None) -> set[str]:
    if remote is None:
        return set()
    copies = (remote.clone, remote.job, *remote.members.values())
    return {copy.uid for copy in copies if copy is not None}
