"""From what people type, NAMESPACE/NAME, to the streams that are meant.

In: the name of a Workload or of a job. Out: the Workload's stream with those of its job, and where `quota.mode` is
`builtin` those of admission and of the job framework; or the names that come nearest."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import LiteralString

import msgspec

from controlplane.audit.quota_story import OF_JOB, OF_WORKLOAD, about
from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.jobframework.events import JobWorkloadCreationDecided, JobWorkloadObserved
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.quota.admission.observe import ADMISSION
from controlplane.log.event import Recorded

_NEAREST = 3
_COMPARED = 5000  # names; comparing is slow
_KINDS = ("workload", "job", "admission", "jobframework")

# The jobs of a namespace of which the job framework made or saw a Workload, by its name.
_KEEPS: LiteralString = """
SELECT s.stream FROM audit.streams s
WHERE s.log = %(log)s AND s.kind = 'jobframework' AND s.stream LIKE 'jobframework/job/%%' AND s.namespace = %(namespace)s
  AND EXISTS (
      SELECT FROM audit.events e
      WHERE e.log = s.log AND e.stream = s.stream AND e.type IN ('JobWorkloadObserved', 'JobWorkloadCreationDecided')
        AND e.data ->> 'name' = %(name)s AND (%(until)s::bigint IS NULL OR e.position <= %(until)s))
ORDER BY s.stream"""

# Those Workloads of a namespace that were never seen, and of which a copy runs under the name of a job.
_STRAYS: LiteralString = """
SELECT s.stream FROM audit.streams s
CROSS JOIN LATERAL (
    SELECT e.type FROM audit.events e WHERE e.log = s.log AND e.stream = s.stream ORDER BY e.version LIMIT 1
) f
WHERE s.log = %(log)s AND s.kind = 'workload' AND s.namespace = %(namespace)s
  AND strpos(s.name, left(%(job)s, 200)) > 0 AND f.type <> 'WorkloadObserved'
  AND EXISTS (SELECT FROM audit.events e WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'RemoteJobObserved'
              AND e.data ->> 'name' = %(job)s AND (%(until)s::bigint IS NULL OR e.position <= %(until)s))
  AND NOT EXISTS (SELECT FROM audit.events e WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'WorkloadObserved'
                  AND (%(until)s::bigint IS NULL OR e.position <= %(until)s))
ORDER BY s.stream"""


class Found(msgspec.Struct, frozen=True):
    """One Workload and its job, as streams. `workload` is MultiKueue's, "" if there is none; `others` are older
    Workloads of the same job; `quota` are the streams of admission and of the job framework, none where Kueue does
    their work.
    """

    workload: str
    jobs: list[str]
    others: list[str] = []
    quota: list[str] = []

    @property
    def streams(self) -> list[str]:
        """All streams of the Workload and its job."""
        return [*filter(None, [self.workload]), *self.jobs, *self.quota]

    @property
    def key(self) -> str:
        """The Workload's namespace and name, NAMESPACE/NAME, by whichever controller has it; "" of a job without
        one."""
        return self.stream.removeprefix(f"{ADMISSION}/").partition("/")[2]

    @property
    def stream(self) -> str:
        """The Workload's stream: MultiKueue's where there is one, else admission's; "" of a job without a Workload."""
        return self.workload or next((one for one in self.quota if one.startswith(OF_WORKLOAD)), "")

    @property
    def job_names(self) -> list[str]:
        """The jobs, as KIND/NAMESPACE/NAME."""
        kept = [one.removeprefix(OF_JOB) for one in self.quota if one.startswith(OF_JOB)]
        return list(dict.fromkeys([*(one.partition("/")[2] for one in self.jobs), *kept]))


def find(reader: LogReader, namespace: str, name: str) -> Found | None:
    """Return the Workload of this name, or the newest one of the job of this name; None if there is neither."""
    streams = reader.streams(*_KINDS, namespace=namespace, name=name)
    workloads = [stream for stream in streams if stream.startswith("workload/")]
    jobs = [stream for stream in streams if stream.startswith("job/")]
    kept = [stream for stream in streams if stream.startswith(OF_JOB)]
    if workloads:
        return _with_quota(reader, _of_workload(reader, namespace, workloads[0]))
    if admitted := [stream for stream in streams if stream.startswith(OF_WORKLOAD)]:
        return Found("", [], quota=[*admitted, *_keeping(reader, namespace, name)])
    workloads = reader.workloads_of(namespace, name)
    if workloads:
        return _with_quota(reader, Found(workloads[0], jobs, workloads[1:]))
    return Found("", jobs, quota=[*_made(reader, namespace, kept), *kept]) if jobs or kept else None


def _of_workload(reader: LogReader, namespace: str, workload: str) -> Found:
    newest = list(reader.events(Filter(streams=[workload], types=["WorkloadObserved"]), limit=1, newest=True))
    owner = newest[0].event.owner if newest and isinstance(newest[0].event, WorkloadObserved) else None
    return Found(workload, reader.streams("job", namespace=namespace, name=owner.name) if owner else [])


def _with_quota(reader: LogReader, found: Found) -> Found:
    """Return the streams with those that admission and the job framework have of a Workload."""
    namespace, _, name = found.key.partition("/")
    admitted = [one for one in [f"{OF_WORKLOAD}{found.key}"] if _is_there(reader, one)]
    kept = [one for one in [f"{OF_JOB}{job}" for job in found.job_names] if _is_there(reader, one)]
    if admitted and not kept:
        kept = _keeping(reader, namespace, name)
    return msgspec.structs.replace(found, quota=[*admitted, *kept])


def _keeping(reader: LogReader, namespace: str, name: str) -> list[str]:
    """Return the job framework's streams of the jobs that had a Workload of this name."""
    return [row["stream"] for row in reader.rows(_KEEPS, namespace=namespace, name=name, until=reader.until)]


def _made(reader: LogReader, namespace: str, kept: list[str]) -> list[str]:
    """Return admission's stream of the newest Workload of a job, by the job framework's streams of the job."""
    types = [JobWorkloadObserved.__name__, JobWorkloadCreationDecided.__name__]
    newest = list(reader.events(Filter(streams=kept, types=types), limit=1, newest=True)) if kept else []
    streams = [f"{OF_WORKLOAD}{namespace}/{getattr(one.event, 'name', '')}" for one in newest]
    return [stream for stream in streams if _is_there(reader, stream)]


def _is_there(reader: LogReader, stream: str) -> bool:
    return any(True for _ in reader.events(Filter(streams=[stream]), limit=1))


def events_of(reader: LogReader, found: Found) -> list[Recorded]:
    """Return the events of a Workload and of the job that owns it: not those of another job that had its name before or
    after, nor of another Workload of the job.
    """
    events = about(reader.events(Filter(streams=found.streams)), found.key.partition("/")[2])
    owners = [recorded.event.owner for recorded in events if isinstance(recorded.event, WorkloadObserved)]
    uid = owners[-1].uid if owners and owners[-1] is not None else ""
    if not uid:
        return events
    return [e for e in events if e.stream not in found.jobs or getattr(e.event, "uid", uid) == uid]


def nearest(reader: LogReader, namespace: str, name: str) -> list[str]:
    """Return the names, as NAMESPACE/NAME, that somebody may have meant; the most likely first."""
    here = {_last(stream) for stream in _named(reader.streams(*_KINDS, namespace=namespace))}
    close = difflib.get_close_matches(name, sorted(here)[:_COMPARED], n=_NEAREST, cutoff=0.5)
    elsewhere = [stream.split("/")[-2] for stream in _named(reader.streams(*_KINDS, name=name))]
    found = [f"{namespace}/{near}" for near in close] + [f"{other}/{name}" for other in sorted(set(elsewhere))]
    return found[:_NEAREST]


def _named(streams: list[str]) -> list[str]:
    """Return those streams that are a Workload's or a job's."""
    return [stream for stream in streams if stream.startswith(("workload/", "job/", OF_WORKLOAD, OF_JOB))]


def _last(stream: str) -> str:
    return stream.rpartition("/")[2]


def strays_of(reader: LogReader, events: Sequence[Recorded]) -> list[str]:
    """Return the streams of copies with the name of an elastic job of which nothing else is known, by the events of a
    Workload of it; none for any other. A Workload has the beginning of its job's name in its own, so the events of
    others are not looked at."""
    seen = next((e.event for e in reversed(events) if isinstance(e.event, WorkloadObserved)), None)
    if seen is None or seen.owner is None or not seen.sliced or seen.is_true("Finished"):
        return []
    rows = reader.rows(_STRAYS, namespace=seen.namespace, job=seen.owner.name, until=reader.until)
    return [row["stream"] for row in rows]
