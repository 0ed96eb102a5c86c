"""What the metrics hear of pods that are let run: how long after its Workload's admission a pod lost a scheduling gate.

In: what is decided about pods and seen of them, in order; the Workloads as they are. Out: one observation for each gate. What counts is
that the pod was seen without it, by the time at which that was recorded (kubernetes-sigs/kueue pkg/util/pod/pod.go,
RecordPodSchedulingGateRemovalSeconds, ff69552e)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from controlplane.controllers.jobframework.pod_events import PodStartDecided, QueuedPodGone, QueuedPodObserved
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.topology_events import PodUngateDecided, TopologyPodGone, TopologyPodObserved
from controlplane.controllers.quota.admission import workload_status as ws
from controlplane.controllers.quota.admission.events import AdmissionWorkloadObserved
from controlplane.controllers.quota.admission.workload_status import as_read, moment
from controlplane.job_kinds.gated import KUEUE_GATE
from controlplane.kube.slices import ELASTIC_GATE
from controlplane.kube.topologies import TOPOLOGY_GATE
from controlplane.log.event import Recorded
from controlplane.quota_metrics import ROLE, QuotaMetrics

Seen = Callable[[str], AdmissionWorkloadObserved | None]


class _LosesGate(NamedTuple):
    gate: str
    workload: str


class GateMeasure:
    """See the module. `seen` tells a Workload by its namespace and name. Pods are known here from a decision until they follow it."""

    def __init__(self, metrics: QuotaMetrics, seen: Seen) -> None:
        self._metrics, self._seen = metrics, seen
        self._open: dict[str, _LosesGate] = {}

    def folded(self, recorded: Recorded) -> None:
        """Count what one more event brought about."""
        event: Any = recorded.event
        match event:
            case PodStartDecided():
                self._open[event.uid] = _LosesGate(KUEUE_GATE, event.workload)
            case PodUngateDecided():
                gate = ELASTIC_GATE if event.reason == JobReason.SLICE_ADMITTED else TOPOLOGY_GATE
                self._open[event.uid] = _LosesGate(gate, event.workload)
            case QueuedPodObserved() if not event.gated:
                self._lost(recorded, event, KUEUE_GATE)
            case TopologyPodObserved():
                for gate in {ELASTIC_GATE, TOPOLOGY_GATE}.difference(event.gates):
                    self._lost(recorded, event, gate)
            case QueuedPodGone() | TopologyPodGone():
                self._open.pop(event.uid, None)

    def _lost(self, recorded: Recorded, pod: QueuedPodObserved | TopologyPodObserved, gate: str) -> None:
        loses = self._open.get(pod.uid)
        if loses is None or loses.gate != gate:
            return
        del self._open[pod.uid]
        workload = self._seen(f"{pod.namespace}/{loses.workload}")
        if workload is None:
            return
        status = as_read(workload.status)
        since = moment((status.condition(ws.ADMITTED) or {}).get("lastTransitionTime"))
        queue = str((status.status.get("admission") or {}).get("clusterQueue", ""))
        if status.is_true(ws.ADMITTED) and since is not None:
            of_group = str(gate != ELASTIC_GATE and workload.of_group).lower()
            waited = max(0.0, (recorded.recorded_at - since).total_seconds())
            self._metrics.gate_removed.labels(gate, queue, of_group, ROLE).observe(waited)
