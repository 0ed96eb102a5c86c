"""The fleet as the log says it is: folded with the very folds of the service, from no more of the log than the question
needs.

In: a reader and the policy of the settings. Out: `controlplane.controllers.multikueue.index.Index`. Clusters, queues,
checks and configs are few and read whole; of Workloads only those that are asked for, and of finished ones nothing
unless somebody wants to see them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.connectivity.eligibility import FIT
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.multikueue.observe import job_stream
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding

_PIECE = 200  # streams that are asked for at once
_SURROUNDINGS = ("cluster", "clusterqueue", "admissioncheck", "multikueueconfig", "fleet", "refused", "service")


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
    configs, and what could not be read.
    """
    return reader.streams(*_SURROUNDINGS)


def judgements(jobs: Iterable[str]) -> list[str]:
    """Return the streams of the judgements on some jobs, which are named as theirs: `job/KIND/NS/NAME`."""
    return [f"{FIT}/{stream.partition('/')[2]}" for stream in jobs]


def load(
    reader: LogReader, policy: MultiKueuePolicy, namespace: str | None = None, *, finished: bool = False
) -> WorkloadIndex:
    """Return the fleet as it is now; of finished Workloads only those of which something is left, unless `finished`."""
    return folded(reader, policy, reader.live_workloads(namespace, finished=finished))


def folded(
    reader: LogReader,
    policy: MultiKueuePolicy,
    workloads: Sequence[str],
    hear: Callable[[Recorded], None] | None = None,
) -> WorkloadIndex:
    """Return what is around all Workloads, and those of some streams with their jobs, up to where the reader reads.
    `hear` is told each event of those streams, in order.
    """
    around = list(reader.events(Filter(streams=surroundings(reader))))
    if not workloads:
        return fold(policy, around)
    stories = in_pieces(reader, workloads)
    if hear is not None:
        for recorded in stories:
            hear(recorded)
    jobs = sorted({stream for one in stories if (stream := _job_of(one, policy))})
    rest = in_pieces(reader, [*jobs, *judgements(jobs)])
    return fold(policy, heapq.merge(around, stories, rest, key=lambda recorded: recorded.position))


def in_pieces(reader: LogReader, streams: Sequence[str]) -> list[Recorded]:
    """Return the events of some streams in order, asked for in pieces: for thousands of streams at once PostgreSQL
    would read the whole log."""
    pieces = (streams[first : first + _PIECE] for first in range(0, len(streams), _PIECE))
    found = [recorded for piece in pieces for recorded in reader.events(Filter(streams=piece))]
    return sorted(found, key=lambda recorded: recorded.position)


def _job_of(recorded: Recorded, policy: MultiKueuePolicy) -> str:
    """Return the stream of the job that a Workload is seen to belong to, "" if there is none."""
    event = recorded.event
    if not isinstance(event, WorkloadObserved) or event.owner is None:
        return ""
    adapter = policy.adapters.get(event.owner.gvk)
    return job_stream(adapter.kind.name, event.namespace, event.owner.name) if adapter is not None else ""
