"""Remembers jobs on workers that run under the name of a Workload of which the log knows nothing else: after the log
went back, say, and the management cluster has not that Workload any more either. Whose job that is tells its own name
alone.

In: the states of Workloads as they are kept. Out: for a job, the streams on which such copies of it are. It matters to
elastic jobs, whose Workloads have another name each time: any other job's next Workload has the name of the one before.
Pure, and made anew by every replay."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import NamedTuple

from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.observe import job_stream
from controlplane.controllers.multikueue.workload_state import WorkloadState


class StrayCopy(NamedTuple):
    """A copy in view that an elastic job waits for. `stream` is where it was recorded; `goes` is when it is removed,
    None if nobody but its cluster's people removes it."""

    cluster: str
    stream: str
    goes: datetime | None


def waited_for(context: WorkloadContext) -> Iterator[StrayCopy]:
    """Yield the copies in view with the name of a Workload's job of which nothing else is known."""
    interval = context.policy.gc_interval
    for other in context.strays:
        goes = other.orphan_since + interval if interval is not None and other.orphan_since is not None else None
        for cluster, remote in sorted(other.remotes.items()):
            if remote.job is not None and context.in_view(cluster):
                stays = remote.unmarked
                yield StrayCopy(cluster, f"workload/{other.namespace}/{other.name}", None if stays else goes)


class StrayCopies:
    """The streams of such copies, by the stream of the job whose name they have."""

    def __init__(self) -> None:
        self._streams: dict[str, set[str]] = {}
        self._jobs: dict[str, frozenset[str]] = {}

    def of(self, job: str) -> Collection[str]:
        """Return the streams that have a copy of a job, given by its stream."""
        return self._streams.get(job, ())

    def jobs_of(self, stream: str) -> Collection[str]:
        """Return the streams of the jobs that have a copy on a Workload's stream, as of the last time it was kept."""
        return self._jobs.get(stream, _NONE)

    def keep(self, stream: str, state: WorkloadState | None) -> frozenset[str]:
        """Take a Workload as it is now, None if it is over; return the jobs that have a copy on its stream more, or
        less, than before."""
        before, after = self._jobs.get(stream, _NONE), _jobs(state)
        if before is after:
            return _NONE
        for job in before - after:
            left = self._streams[job] - {stream}
            if left:
                self._streams[job] = left
            else:
                del self._streams[job]
        for job in after - before:
            self._streams.setdefault(job, set()).add(stream)
        if after:
            self._jobs[stream] = after
        else:
            self._jobs.pop(stream, None)
        return before ^ after


_NONE: frozenset[str] = frozenset()


def _jobs(state: WorkloadState | None) -> frozenset[str]:
    if state is None or state.owner is not None:
        return _NONE
    copies = [remote.job for remote in state.remotes.values() if remote.job is not None]
    return frozenset(job_stream(one.kind, one.namespace, one.name) for one in copies)
