"""What admission knows that a Workload's wait for quota depends on, out of as few events as say it.

In: a reader, the engine's settings, a Workload's name. Out: an `AdmissionIndex`, of the very fold by which the service
decides. Of queues, flavors and checks the newest observation is read, in the order in which they came, before
everything else; of Workloads those that have quota, and those that wait in the same Cohort tree, each from what was
seen of it before it was decided about last. What ended, and what was decided before, is not read: the log may be
long. What is gone is so by its UID: a list shows another object of a name before it says that the one before is
gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import LiteralString

from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.quota.admission.events import AdmissionWorkloadObserved
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.devices.model import COUNT
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding
from controlplane.runtime.collector import without_collector

_PIECE = 2000  # events that are asked for at once

_OBJECTS: LiteralString = """
SELECT n.position FROM audit.streams s
CROSS JOIN LATERAL (
    SELECT e.position FROM audit.events e WHERE e.log = s.log AND e.stream = s.stream ORDER BY e.version LIMIT 1
) f
CROSS JOIN LATERAL (
    SELECT e.position, e.data ->> 'uid' AS uid FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s
      AND e.type IN ('AdmissionClusterQueueObserved', 'AdmissionCohortObserved', 'AdmissionLocalQueueObserved',
                     'AdmissionFlavorObserved', 'AdmissionCheckSeen', 'AdmissionNamespaceObserved',
                     'AdmissionLimitRangeObserved', 'AdmissionRuntimeClassObserved', 'AdmissionTopologyObserved')
    ORDER BY e.version DESC LIMIT 1
) n
WHERE s.log = %(log)s AND s.stream >= 'admission/' AND s.stream < 'admission0'
  AND NOT (s.stream >= 'admission/workload/' AND s.stream < 'admission/workload0')
  AND NOT (s.stream >= 'admission/node/' AND s.stream < 'admission/node0')
  AND NOT (s.stream >= 'admission/placed/' AND s.stream < 'admission/placed0')
  AND NOT (s.stream >= 'admission/resourceslice/' AND s.stream < 'admission/resourceslice0')
  AND NOT EXISTS (
      SELECT FROM audit.events e
      WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s AND e.position > n.position
        AND e.type IN ('AdmissionClusterQueueGone', 'AdmissionCohortGone', 'AdmissionLocalQueueGone', 'AdmissionFlavorGone',
                       'AdmissionCheckUnseen', 'AdmissionNamespaceGone', 'AdmissionLimitRangeGone', 'AdmissionRuntimeClassGone',
                       'AdmissionTopologyGone') AND e.data ->> 'uid' = n.uid)
ORDER BY f.position"""
# Of each Node, and of each pod on one, what was seen last. Where no flavor names a topology there are none.
_NODES: LiteralString = """
SELECT position FROM (
    SELECT DISTINCT ON (e.data ->> 'uid') e.position, e.type FROM audit.events e
    WHERE e.log = %(log)s AND e.stream >= 'admission/node/' AND e.stream < 'admission/node0' AND e.position <= %(until)s
      AND e.type IN ('AdmissionNodeObserved', 'AdmissionNodeGone', 'AdmissionPodObserved', 'AdmissionPodGone')
    ORDER BY e.data ->> 'uid', e.position DESC
) n
WHERE n.type IN ('AdmissionNodeObserved', 'AdmissionPodObserved')
ORDER BY n.position"""
# Of each object that devices are counted by what was seen last. Where nobody asks for devices there are none.
_DEVICES: LiteralString = """
SELECT n.position FROM audit.streams s
CROSS JOIN LATERAL (
    SELECT e.position, e.data ->> 'uid' AS uid FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s
      AND e.type IN ('AdmissionClaimTemplateObserved', 'AdmissionDeviceClassObserved', 'AdmissionResourceSliceObserved')
    ORDER BY e.version DESC LIMIT 1
) n
WHERE s.log = %(log)s
  AND ((s.stream >= 'admission/claimtemplate/' AND s.stream < 'admission/claimtemplate0')
    OR (s.stream >= 'admission/deviceclass/' AND s.stream < 'admission/deviceclass0')
    OR (s.stream >= 'admission/resourceslice/' AND s.stream < 'admission/resourceslice0'))
  AND NOT EXISTS (
      SELECT FROM audit.events e
      WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s AND e.position > n.position
        AND e.type IN ('AdmissionClaimTemplateGone', 'AdmissionDeviceClassGone', 'AdmissionResourceSliceGone')
        AND e.data ->> 'uid' = n.uid)
ORDER BY n.position"""
_SAMPLES: LiteralString = """
SELECT e.position FROM audit.streams s
JOIN audit.events e ON e.log = s.log AND e.stream = s.stream
WHERE s.log = %(log)s AND s.stream >= 'admission/localqueue/' AND s.stream < 'admission/localqueue0'
  AND e.type = 'LocalQueueUsageSampled' AND e.position <= %(until)s"""

# Who had quota and gave it back at its end says so last, mostly; what else ended is told by the newest that was seen of
# it. OFFSET 0: else the whole log is read, to be joined.
_WORKLOADS: LiteralString = """
SELECT p.position FROM audit.streams s
CROSS JOIN LATERAL (
    SELECT e.type, e.reason FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s ORDER BY e.version DESC LIMIT 1
) l
CROSS JOIN LATERAL (
    SELECT e.position, e.data FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s AND e.type = 'AdmissionWorkloadObserved'
    ORDER BY e.version DESC LIMIT 1
) w
LEFT JOIN LATERAL (
    SELECT e.position FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s
      AND e.type IN ('WorkloadInadmissible', 'QuotaReservationDecided')
    ORDER BY e.version DESC LIMIT 1
) d ON true
LEFT JOIN LATERAL (
    SELECT e.position FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.position < d.position AND e.type = 'AdmissionWorkloadObserved'
    ORDER BY e.version DESC LIMIT 1
) o ON w.position > d.position
CROSS JOIN LATERAL (
    SELECT e.position FROM audit.events e
    WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s
      AND e.position >= coalesce(o.position, w.position)
    OFFSET 0
) p
WHERE s.log = %(log)s AND s.stream >= 'admission/workload/' AND s.stream < 'admission/workload0'
  AND NOT (l.type = 'QuotaPosted' AND l.reason IN ('WorkloadFinished', 'WorkloadDeleted'))
  AND NOT EXISTS (
      SELECT FROM audit.events e
      WHERE e.log = s.log AND e.stream = s.stream AND e.position <= %(until)s AND e.position > w.position
        AND e.type = 'AdmissionWorkloadGone' AND e.data ->> 'uid' = w.data ->> 'uid')
  AND NOT w.data @? '$.status.conditions[*] ? (@.type == "Finished" && @.status == "True")'
  AND ((w.data ->> 'namespace') || '/' || coalesce(w.data ->> 'queue', '') = ANY(%(queues)s)
       OR w.data @? '$.status.conditions[*] ? (@.type == "QuotaReserved" && @.status == "True")')"""


def load(reader: LogReader, settings: EngineSettings, namespace: str, name: str) -> AdmissionIndex | None:
    """Return what admission knows that a Workload's quota depends on; None if admission never saw it."""
    newest = Filter(streams=[f"admission/workload/{namespace}/{name}"], types=[AdmissionWorkloadObserved.__name__])
    seen = next(iter(reader.events(newest, limit=1, newest=True)), None)
    if seen is None or not isinstance(seen.event, AdmissionWorkloadObserved):
        return None
    objects = _objects(reader)
    index = _folded(settings, objects)
    local = index.engine.queues.local.get(f"{namespace}/{seen.event.queue}")
    queues = _of_the_tree(index, local.cluster_queue if local is not None else "")
    return _whole(reader, settings, objects, index, queues or [f"{namespace}/{seen.event.queue}"])


def load_queue(reader: LogReader, settings: EngineSettings, name: str) -> AdmissionIndex | None:
    """Return what admission knows that the quota of a ClusterQueue depends on; None if admission knows none of that
    name."""
    objects = _objects(reader)
    index = _folded(settings, objects)
    if name not in index.engine.snapshot.queues:
        return None
    return _whole(reader, settings, objects, index, _of_the_tree(index, name))


def _until(reader: LogReader) -> int:
    return reader.head() if reader.until is None else reader.until


def _objects(reader: LogReader) -> list[Recorded]:
    return _read(reader, [row["position"] for row in reader.rows(_OBJECTS, until=_until(reader))])


def _whole(
    reader: LogReader, settings: EngineSettings, objects: list[Recorded], index: AdmissionIndex, queues: Sequence[str]
) -> AdmissionIndex:
    """Return the fold of objects, of who has quota, and of who waits in some LocalQueues."""
    until = _until(reader)
    if index.needs:
        objects = [*objects, *_read(reader, [row["position"] for row in reader.rows(_NODES, until=until)])]
    if settings.devices.mode == COUNT:
        objects = [*objects, *_read(reader, [row["position"] for row in reader.rows(_DEVICES, until=until)])]
    positions = [row["position"] for row in reader.rows(_WORKLOADS, until=until, queues=list(queues))]
    if settings.admission_fair_sharing is not None:
        positions += [row["position"] for row in reader.rows(_SAMPLES, until=until)]
    with without_collector():
        return _folded(settings, [*objects, *_read(reader, sorted(positions))])


def _read(reader: LogReader, positions: Sequence[int]) -> list[Recorded]:
    """Return the events at some positions, in the order of these."""
    pieces = (positions[first : first + _PIECE] for first in range(0, len(positions), _PIECE))
    found = {one.position: one for piece in pieces for one in reader.events(Filter(positions=piece))}
    return [found[position] for position in positions]


def _folded(settings: EngineSettings, events: Iterable[Recorded]) -> AdmissionIndex:
    index = AdmissionIndex(settings)
    folding = Folding(index.fold)
    for recorded in events:
        folding(recorded)
    return index


def _of_the_tree(index: AdmissionIndex, name: str) -> list[str]:
    """Return the LocalQueues, NAMESPACE/NAME, that lead to the same Cohort tree as a ClusterQueue; none if it is not
    there."""
    node = index.engine.snapshot.queues.get(name)
    if node is None:
        return []
    names = {queue.name for queue in node.root().subtree_queues()}
    return [key for key, queue in index.engine.queues.local.items() if queue.cluster_queue in names]
