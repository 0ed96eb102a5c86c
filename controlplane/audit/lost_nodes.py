"""Whether the node of a pod is gone, as far as any log of the database knows.

In: a reader of the log that has the pod, the node, and since when the pod is on it. Out: a `LostNode`, or None. A scheduler records
no nodes; the logs of coscheduling and of topologies do. Another log counts if it is of the same cluster, by the UID of its
kube-system namespace."""

from __future__ import annotations

from datetime import datetime

from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.coscheduling.observations import NodeGone
from controlplane.controllers.quota.admission.topology_events import AdmissionNodeGone
from controlplane.runtime.stories import LostNode

_LOGS = 20  # logs of one database in which a node is looked for


def lost_node(reader: LogReader, node: str, since: datetime) -> LostNode | None:
    """Return since when a node is gone that a pod was on; None if no log saw it go after that, or it came back."""
    streams = [f"node/{node}", f"admission/node/{node}"]
    names = [name for name in reader.logs(*streams)[:_LOGS] if name == reader.log or _incarnation(reader)]
    for name in sorted(names, key=lambda name: name != reader.log):
        other = reader if name == reader.log else _beside(reader, name)
        if other is None:
            continue
        newest = next(iter(other.events(Filter(streams=streams), limit=1, newest=True)), None)
        if newest is None or newest.recorded_at < since:
            continue
        if not isinstance(newest.event, NodeGone | AdmissionNodeGone):
            return None
        return LostNode(node=node, since=newest.recorded_at, log=name, position=newest.position)
    return None


def _beside(reader: LogReader, name: str) -> LogReader | None:
    """Return a reader of another log, at the same time, if that is of the same cluster."""
    other = LogReader(reader.connection, name)
    if reader.at is not None:
        other.read_at(reader.at)
    return other if _incarnation(other) == _incarnation(reader) else None


def _incarnation(reader: LogReader) -> str:
    wanted = Filter(streams=[cluster_stream(MANAGEMENT)], types=[ClusterConnected.__name__])
    newest = next(iter(reader.events(wanted, limit=1, newest=True)), None)
    return newest.event.incarnation if newest is not None and isinstance(newest.event, ClusterConnected) else ""
