"""The fleet as the log says it is: folded with the very folds of the service, from no more of the log than the question
needs.

In: a reader and the policy of the settings. Out: `controlplane.controllers.multikueue.index.Index`. Clusters, queues,
checks and configs are few and read whole; of Workloads only those that are asked for, and of finished ones nothing
unless somebody wants to see them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.connectivity.eligibility import FIT
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding

_PIECE = 200  # streams that are asked for at once
_SURROUNDINGS = ("cluster", "clusterqueue", "admissioncheck", "multikueueconfig", "fleet", "service")


def fold(policy: MultiKueuePolicy, events: Iterable[Recorded]) -> WorkloadIndex:
    """Return the index of some events, which are in the log's order; as in the service, a stream that cannot be folded
    is left alone.
    """
    index = WorkloadIndex(policy)
    folding = Folding(index.fold)
    for recorded in events:
        folding(recorded)
    return index


def surroundings(reader: LogReader) -> list[str]:
    """Return the streams of what every Workload depends on: the clusters, their connections, the queues, checks and
    configs.
    """
    return reader.streams(*_SURROUNDINGS)


def judgements(jobs: Iterable[str]) -> list[str]:
    """Return the streams of the judgements on some jobs, which are named as theirs: `job/KIND/NS/NAME`."""
    return [f"{FIT}/{stream.partition('/')[2]}" for stream in jobs]


def load(
    reader: LogReader, policy: MultiKueuePolicy, namespace: str | None = None, *, finished: bool = False
) -> WorkloadIndex:
    """Return the fleet as it is now; of finished Workloads only those of which something is left, unless `finished`."""
    return folded(reader, policy, reader.live_workloads(namespace, finished=finished), namespace)


def folded(
    reader: LogReader, policy: MultiKueuePolicy, workloads: Sequence[str], namespace: str | None = None
) -> WorkloadIndex:
    """Return what is around all Workloads, and those of some streams with their jobs, up to where the reader reads."""
    around = list(reader.events(Filter(streams=surroundings(reader))))
    if not workloads:
        return fold(policy, around)
    stories = _stories(reader, workloads)
    owners = {_job_name(e.event) for e in stories if isinstance(e.event, WorkloadObserved)} - {""}
    jobs = _named(reader.streams("job", namespace=namespace), owners)
    jobs += judgements(jobs)
    events = heapq.merge(around, stories, reader.events(Filter(streams=jobs)), key=lambda recorded: recorded.position)
    return fold(policy, events)


def _stories(reader: LogReader, workloads: Sequence[str]) -> list[Recorded]:
    """Return the events of some streams in order, asked for in pieces: for thousands of streams at once PostgreSQL would
    read the whole log."""
    pieces = (workloads[first : first + _PIECE] for first in range(0, len(workloads), _PIECE))
    found = [recorded for piece in pieces for recorded in reader.events(Filter(streams=piece))]
    return sorted(found, key=lambda recorded: recorded.position)


def _job_name(seen: WorkloadObserved) -> str:
    return f"{seen.namespace}/{seen.owner.name}" if seen.owner else ""


def _named(streams: Sequence[str], names: set[str]) -> list[str]:
    return [stream for stream in streams if "/".join(stream.split("/")[-2:]) in names]
