"""From what people type, NAMESPACE/NAME, to the streams that are meant.

In: the name of a Workload or of a job. Out: the Workload's stream with those of its job, or the names that come
nearest."""

from __future__ import annotations

import difflib

import msgspec

from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.log.event import Recorded

_NEAREST = 3
_COMPARED = 5000  # names; comparing is slow


class Found(msgspec.Struct, frozen=True):
    """One Workload and its job, as streams. `workload` is "" if the job has none; `others` are older Workloads of the
    same job.
    """

    workload: str
    jobs: list[str]
    others: list[str] = []

    @property
    def streams(self) -> list[str]:
        """All streams of the Workload and its job."""
        return [*filter(None, [self.workload]), *self.jobs]


def find(reader: LogReader, namespace: str, name: str) -> Found | None:
    """Return the Workload of this name, or the newest one of the job of this name; None if there is neither."""
    streams = reader.streams("workload", "job", namespace=namespace, name=name)
    workloads = [stream for stream in streams if stream.startswith("workload/")]
    jobs = [stream for stream in streams if stream.startswith("job/")]
    if not workloads:
        workloads = reader.workloads_of(namespace, name)
        return Found(workloads[0] if workloads else "", jobs, workloads[1:]) if workloads or jobs else None
    newest = list(reader.events(Filter(streams=workloads, types=["WorkloadObserved"]), limit=1, newest=True))
    owner = newest[0].event.owner if newest and isinstance(newest[0].event, WorkloadObserved) else None
    return Found(workloads[0], reader.streams("job", namespace=namespace, name=owner.name) if owner else [])


def events_of(reader: LogReader, found: Found) -> list[Recorded]:
    """Return the events of a Workload and of the job that owns it: not those of another job that had its name before or
    after.
    """
    events = list(reader.events(Filter(streams=found.streams)))
    owners = [recorded.event.owner for recorded in events if isinstance(recorded.event, WorkloadObserved)]
    uid = owners[-1].uid if owners and owners[-1] is not None else ""
    if not uid:
        return events
    return [e for e in events if e.stream == found.workload or getattr(e.event, "uid", uid) == uid]


def nearest(reader: LogReader, namespace: str, name: str) -> list[str]:
    """Return the names, as NAMESPACE/NAME, that somebody may have meant; the most likely first."""
    here = {_last(stream) for stream in reader.streams("workload", "job", namespace=namespace)}
    close = difflib.get_close_matches(name, sorted(here)[:_COMPARED], n=_NEAREST, cutoff=0.5)
    elsewhere = [stream.split("/")[-2] for stream in reader.streams("workload", "job", name=name)]
    found = [f"{namespace}/{near}" for near in close] + [f"{other}/{name}" for other in sorted(set(elsewhere))]
    return found[:_NEAREST]


def _last(stream: str) -> str:
    return stream.rpartition("/")[2]
