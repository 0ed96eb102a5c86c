"""Keeps where in the log everything around a Workload came to be as it is: its job, its queue, its check's clusters,
the connections.

In: the events of the other streams, after the index has folded them. Out: positions, as
`controlplane.controllers.multikueue.causes` names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.controllers.connectivity.eligibility import FIT, ClustersJudged
from controlplane.controllers.connectivity.events import FLEET_STREAM, PolicyInForce, ServiceStarted, cluster_stream
from controlplane.controllers.connectivity.facets import ConnectionFacets
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.facets import CONNECTION, JOB
from controlplane.controllers.multikueue.observations import JobObserved
from controlplane.log.event import Recorded
from controlplane.runtime.facets import FacetPositions, moved

Around = Sequence[FacetPositions]
"""The positions outside a Workload's stream: those of its job, of what leads to clusters, of connections. They share no
name."""

_ONCE = ("admissioncheck", "multikueueconfig", "clusterqueue")


class ContextFacets:
    """The positions of what is not on a Workload's own stream; `in_force` is the last record of the settings that
    decisions rest on.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[JobObserved, FacetPositions]] = {}
        self._connections = ConnectionFacets(CONNECTION)
        self._streams: dict[str, int] = {}
        self.in_force: PolicyInForce | None = None

    def fold(self, recorded: Recorded, connections: Mapping[str, Connection], jobs: Mapping[str, JobObserved]) -> None:
        """Take one more event; the connections and jobs are as they are after it."""
        stream, at = recorded.stream, recorded.position
        kind, _, name = stream.partition("/")
        if kind == "workload":
            return
        if kind == "job":
            self._fold_job(stream, jobs.get(stream), at)
        elif kind == "cluster":
            self._streams[stream] = at
            self._connections.fold(connections, [name], at)
        elif isinstance(recorded.event, PolicyInForce):
            self.in_force = recorded.event
        elif isinstance(recorded.event, ServiceStarted):
            self._connections.fold(connections, connections, at)
        elif (kind == FIT and isinstance(recorded.event, ClustersJudged)) or kind in _ONCE or stream == FLEET_STREAM:
            self._streams[stream] = at

    def _fold_job(self, stream: str, after: JobObserved | None, at: int) -> None:
        before, positions = self._jobs.get(stream, (None, {}))
        if after is None:
            self._jobs.pop(stream, None)
            self._streams.pop(_fit_of(stream), None)
        else:
            self._jobs[stream] = (after, moved(positions, "job", JOB, before, after, at))

    def of(self, job: str, queue: str, check: str, config: str, clusters: tuple[str, ...]) -> Around:
        """Return the positions around a Workload: `job` is the stream of its job, the others are names, "" for none."""
        views = (self._connections.positions.get(f"{cluster_stream(cluster)}.kinds", 0) for cluster in clusters)
        own = {
            "queue": self._streams.get(f"clusterqueue/{queue}", 0),
            "route": max(
                self._streams.get(f"admissioncheck/{check}", 0), self._streams.get(f"multikueueconfig/{config}", 0)
            ),
            "views": max(views, default=0),
            "fit": self._streams.get(_fit_of(job), 0) if job else 0,
            "outage": self._streams.get(FLEET_STREAM, 0),
        }
        positions = self._jobs[job][1] if job in self._jobs else {}
        return positions, own, self._connections.positions

    def newest(self, positions: Around, clusters: Iterable[str]) -> int:
        """Return the newest of the positions around a Workload (`of`), of connections only of those of some
        clusters."""
        job, own, _ = positions
        connections = (self._connections.newest_by_cluster.get(name, 0) for name in clusters)
        return max((*job.values(), *own.values(), *connections), default=0)

    def condition(self, stream: str, beside: Iterable[str]) -> int:
        """Return the newest event that a condition may rest on: of the object's stream, and of others."""
        return max(self._streams.get(one, 0) for one in (stream, *beside))

    def outage(self, of: Iterable[str]) -> int:
        """Return the newest event with which one of some clusters was lost, or was connected again."""
        return max((self._connections.positions.get(f"{cluster_stream(one)}.lost", 0) for one in of), default=0)


def _fit_of(job: str) -> str:
    """Return the stream of the judgements on a job, given by its stream."""
    return f"{FIT}/{job.partition('/')[2]}"
