"""How long pods wait behind their gates once their Workload is admitted, as Kueue measures it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controlplane.controllers.jobframework.events import PodSetInfo
from controlplane.controllers.jobframework.pod_events import PodStartDecided, QueuedPodGone, QueuedPodObserved
from controlplane.controllers.jobframework.reasons import JobReason
from controlplane.controllers.jobframework.topology_events import PodUngateDecided, TopologyPodObserved
from controlplane.log.event import Event, Recorded
from tests.quota.admission.scene import NS, Scene
from tests.telemetry.test_quota_measure import Meter

KUEUE, TOPOLOGY, ELASTIC = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology", "kueue.x-k8s.io/elastic-job"
POD: dict[str, Any] = {"namespace": NS, "name": "pod", "uid": "pod-uid", "resource_version": "1"}
TARGET: dict[str, Any] = {"name": "pod", "uid": "pod-uid", "resource_version": "1", "workload": "a"}
START = PodStartDecided(
    **TARGET, body="", cluster_queue="q", pod_set=PodSetInfo(name="main", count=1), reason=JobReason.WORKLOAD_ADMITTED
)


def ungate(reason: JobReason) -> PodUngateDecided:
    return PodUngateDecided(**TARGET, pod_set="main", reason=reason)


def admitted(**workload: Any) -> tuple[Scene, Meter]:
    scene = Scene()
    scene.queue("q", "5")
    meter = Meter(scene)
    scene.workload("a", "q", "2", **workload)
    meter.settle()
    return scene, meter


def tell(scene: Scene, meter: Meter, *events: Event) -> None:
    for event in events:
        stream = "jobframework/job/pods/ns/pod"
        told = Recorded(position=len(scene.log) + 1, stream=stream, version=1, event=event, recorded_at=scene.now)
        meter.measure.folded([told], True)


def seconds(meter: Meter, gate: str, *, group: str = "false") -> float | None:
    return meter.read("pod_scheduling_gate_removal_seconds_sum", name=gate, cluster_queue="q", is_group=group)


def test_a_gate_counts_when_the_pod_is_seen_without_it() -> None:
    scene, meter = admitted()
    scene.now += timedelta(seconds=3)
    tell(scene, meter, QueuedPodObserved(**POD, kind="pods", gated=True), START)
    assert seconds(meter, KUEUE) is None, "it was decided, and not seen yet"
    tell(scene, meter, QueuedPodObserved(**POD, kind="pods", gated=False))
    assert seconds(meter, KUEUE) == 3
    tell(scene, meter, QueuedPodObserved(**POD, kind="pods", gated=False))
    assert meter.count("pod_scheduling_gate_removal_seconds_count") == 1


def test_gates_of_topologies_and_of_elastic_jobs_have_their_names() -> None:
    scene, meter = admitted()
    scene.now += timedelta(seconds=2)
    tell(scene, meter, ungate(JobReason.DOMAIN_ASSIGNED), TopologyPodObserved(**POD, gates=[ELASTIC]))
    scene.now += timedelta(seconds=2)
    tell(scene, meter, ungate(JobReason.SLICE_ADMITTED), TopologyPodObserved(**POD))
    assert (seconds(meter, TOPOLOGY), seconds(meter, ELASTIC)) == (2, 4)


def test_the_pods_of_a_group_are_told_apart() -> None:
    scene, meter = admitted(annotations={"kueue.x-k8s.io/is-group-workload": "true"})
    tell(scene, meter, START, QueuedPodObserved(**POD, kind="pods"))
    assert seconds(meter, KUEUE, group="true") == 0


def test_a_pod_that_goes_is_not_counted() -> None:
    scene, meter = admitted()
    tell(scene, meter, START, QueuedPodGone(namespace=NS, name="pod", uid="pod-uid", kind="pods"))
    tell(scene, meter, QueuedPodObserved(**POD, kind="pods"))
    assert meter.count("pod_scheduling_gate_removal_seconds_count") == 0


def test_what_was_counted_of_a_queue_goes_with_it() -> None:
    scene, meter = admitted()
    tell(scene, meter, START, QueuedPodObserved(**POD, kind="pods"))
    meter.metrics.quota.forget_local_queue(NS, KUEUE)
    assert seconds(meter, KUEUE) == 0
    meter.metrics.quota.forget_cluster_queue("q")
    assert seconds(meter, KUEUE) is None
