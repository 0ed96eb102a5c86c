"""Whose usage orders Workloads, and of what: tenants over all their LocalQueues and clusters, by dominant shares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.audit.quota_wait import plain, sentences
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import cluster_stream
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.engine.explain import explain
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import ObjectChange
from tests.quota.admission.scene import NS, Scene
from tests.quota.admission.test_admission_fair_sharing import BY_USAGE, in_turn, samples, usage
from tests.support import folded

HOUR = AdmissionFairSharing(half_life=300, sampling_interval=300)
WORKERS = replace(HOUR, workers=True)
EAST, WEST = "east", "west"


def fleet(sharing: AdmissionFairSharing, *, cpu: str = "4", memory: str = "100") -> Scene:
    """Have two ClusterQueues with cpu and memory, and LocalQueues `a`, `b` that lead to the first, and `c` to the
    other."""
    scene = Scene(past_usage=sharing)
    resources = [{"name": name, "nominalQuota": amount} for name, amount in (("cpu", cpu), ("memory", memory))]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": resources}]}
    for name, queues in (("q", "ab"), ("other", "c")):
        scene.put(kinds.CLUSTER_QUEUES, name, spec={"resourceGroups": [group], "namespaceSelector": {}, **BY_USAGE})
        for queue in queues:
            scene.put(kinds.LOCAL_QUEUES, queue, NS, spec={"clusterQueue": name})
    scene.settle()
    scene.pass_time(2)
    return scene


def submit(scene: Scene, name: str, queue: str, cpu: str = "0", memory: str = "0", namespace: str = NS) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}"}
    spec = {"queueName": queue, "priority": 0, "podSets": pod_sets}
    scene.put(kinds.WORKLOADS, name, namespace, spec=spec, metadata={"ownerReferences": [owner]})


def shown(scene: Scene, cluster: str, queue: str, gone: bool = False, uid: str = "w", **used: str) -> bool:
    """Show a worker's LocalQueue with what is used there by resource; return whether it was recorded."""
    resources = [{"name": name, "total": amount} for name, amount in used.items()]
    obj: Json = {
        "metadata": {"namespace": NS, "name": queue, "uid": uid, "resourceVersion": str(next(scene.rv))},
        "spec": {"clusterQueue": "theirs"},
        "status": {"flavorsUsage": [{"name": "theirs", "resources": resources}]},
    }
    version = obj["metadata"]["resourceVersion"]
    new = scene.controller.observe(ObjectChange(cluster, cluster, kinds.LOCAL_QUEUES, obj, version, gone), scene.now)
    if new is not None:
        scene.record(new)
    return new is not None


def said(scene: Scene, cluster: str, event: Any) -> None:
    scene.record(NewEvent(stream=cluster_stream(cluster), event=event, cluster=cluster))


def survives_a_restart(scene: Scene) -> None:
    """Another process that starts from what is kept, or from the log, knows the same."""
    restarted = folded.copied(scene.controller, AdmissionController(scene.settings, "test"))
    assert folded.difference(scene.controller, restarted) == {}
    for other in (restarted, scene.replayed()):
        for queue in "abc":
            key = f"{NS}/{queue}"
            assert other.index.engine.usage_of(key) == usage(scene, queue)
            assert other.elsewhere.of(key) == scene.controller.elsewhere.of(key)


# By dominant shares.


@pytest.mark.parametrize(
    ("dominant", "weights", "first"),
    [(False, {}, "cpu"), (True, {}, "memory"), (True, {"cpu": 0.1}, "cpu"), (True, {"cpu": 0.0}, "cpu")],
)
def test_the_largest_share_of_a_resource_counts_and_not_the_sum(
    dominant: bool, weights: dict[str, float], first: str
) -> None:
    """Of 8 cpu there are, 3 are a larger share than 20 of 200 memory, and a smaller number."""
    scene = fleet(replace(HOUR, dominant=dominant, weights=weights))
    submit(scene, "cpu0", "a", cpu="3")
    submit(scene, "memory0", "b", memory="20")
    scene.settle()
    scene.finish("cpu0")
    scene.finish("memory0")
    submit(scene, "hog", "c", cpu="4")
    scene.settle()
    scene.put(
        kinds.CLUSTER_QUEUES, "q", spec={**scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["spec"], "stopPolicy": "Hold"}
    )
    scene.settle()
    submit(scene, "cpu", "a", cpu="4", memory="100")
    submit(scene, "memory", "b", cpu="4", memory="100")
    scene.put(
        kinds.CLUSTER_QUEUES, "q", spec={**scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["spec"], "stopPolicy": "None"}
    )
    scene.settle()
    assert in_turn(scene)[-1] == first


def test_a_share_is_of_all_quota_there_is_now() -> None:
    scene = fleet(replace(HOUR, dominant=True))
    submit(scene, "w", "a", cpu="4")
    scene.settle()
    before = usage(scene, "a")
    assert before == pytest.approx(2.0184 / 8, rel=1e-3)
    spec = scene.objects[kinds.CLUSTER_QUEUES, "", "other"]["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "12"
    scene.put(kinds.CLUSTER_QUEUES, "other", spec=spec)
    assert usage(scene, "a") == pytest.approx(before / 2)
    scene.put(kinds.COHORTS, "all", spec={"resourceGroups": [{**spec["resourceGroups"][0]}]})
    assert usage(scene, "a") == pytest.approx(before * 8 / 28)
    scene.delete(kinds.COHORTS, "all")
    scene.delete(kinds.CLUSTER_QUEUES, "other")
    scene.settle()
    assert usage(scene, "a") == pytest.approx(before * 2)
    survives_a_restart(scene)


def test_a_resource_of_which_there_is_nothing_does_not_count() -> None:
    scene = fleet(replace(HOUR, dominant=True), memory="0")
    submit(scene, "w", "a", cpu="1")
    scene.settle()
    spec = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "0"
    scene.put(kinds.CLUSTER_QUEUES, "q", spec=spec)
    spec = scene.objects[kinds.CLUSTER_QUEUES, "", "other"]["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "0"
    scene.put(kinds.CLUSTER_QUEUES, "other", spec=spec)
    assert usage(scene, "a") == 0.0


def test_why_says_of_what_it_is_the_share() -> None:
    scene = fleet(replace(HOUR, dominant=True))
    submit(scene, "runs", "a", cpu="4")
    scene.settle()
    submit(scene, "waits", "a", cpu="1")
    scene.settle()
    wait = explain(scene.controller.index.engine, f"{NS}/waits", scene.now.timestamp())
    assert wait is not None
    assert (
        "What it used in the past is 0.2523 of all cpu there is; Workloads of those that used less come first."
        in list(sentences(plain(wait)))
    )


# Over the LocalQueues of a tenant.


@pytest.mark.parametrize(("by_namespace", "first"), [(False, "mine"), (True, "theirs")])
def test_what_a_namespace_used_through_any_queue_counts(by_namespace: bool, first: str) -> None:
    """Through `c`, which leads to another ClusterQueue, the namespace has used much; through `a` nothing."""
    scene = fleet(replace(HOUR, by_namespace=by_namespace))
    scene.put(kinds.NAMESPACES, "others")
    scene.put(kinds.LOCAL_QUEUES, "d", "others", spec={"clusterQueue": "q"})
    scene.settle()
    submit(scene, "much", "c", cpu="4")
    submit(scene, "little", "d", cpu="1", namespace="others")
    scene.settle()
    submit(scene, "hog", "b", cpu="3")
    scene.settle()
    submit(scene, "mine", "a", cpu="3")
    submit(scene, "theirs", "d", cpu="3", namespace="others")
    scene.settle()
    scene.finish("hog")
    scene.settle()
    assert in_turn(scene)[-1] == first
    survives_a_restart(scene)


# Over all clusters.


def test_what_is_used_on_a_worker_counts_but_for_what_was_dispatched_there() -> None:
    scene = fleet(WORKERS)
    submit(scene, "here", "a", cpu="1")
    submit(scene, "there", "a", cpu="2")
    scene.settle()
    scene.set_condition("there", "Admitted", clusterName=EAST)
    assert shown(scene, EAST, "a", cpu="5", memory="7")
    assert shown(scene, WEST, "a", cpu="1500m")
    assert shown(scene, WEST, "nobody-here", cpu="9")
    scene.settle()
    for _ in range(31):
        scene.pass_time(10)
    # 3 that have quota here, of which 2 are dispatched to east: 3 of the 5 there are others', and 1.5 on west.
    assert samples(scene, "a")[-1].used == {"cpu": "7500m", "memory": "7"}
    assert samples(scene, "a")[-1].consumed.keys() == {"cpu", "memory"}


def test_a_worker_that_says_less_than_was_dispatched_there_takes_nothing_away() -> None:
    scene = fleet(WORKERS)
    submit(scene, "there", "a", cpu="2")
    scene.settle()
    scene.set_condition("there", "Admitted", clusterName=EAST)
    shown(scene, EAST, "a")
    for _ in range(31):
        scene.pass_time(10)
    assert samples(scene, "a")[-1].used == {"cpu": "2"}


def test_a_queue_that_is_used_on_a_worker_alone_is_sampled() -> None:
    scene = fleet(WORKERS)
    before = len(samples(scene, "a"))
    shown(scene, EAST, "a", cpu="4")
    for _ in range(93):
        scene.pass_time(10)
    assert len(samples(scene, "a")) == before + 3
    submit(scene, "hog", "b", cpu="4")
    scene.settle()
    submit(scene, "a1", "a", cpu="4")
    submit(scene, "b1", "b", cpu="4")
    scene.settle()
    scene.finish("hog")
    scene.settle()
    assert in_turn(scene) == ["hog", "b1"]


def test_unless_it_is_asked_for_nothing_of_workers_is_recorded() -> None:
    scene = fleet(HOUR)
    assert not shown(scene, EAST, "a", cpu="5")


def test_what_says_the_same_is_recorded_once() -> None:
    scene = fleet(WORKERS)
    assert shown(scene, EAST, "a", cpu="5")
    assert not shown(scene, EAST, "a", cpu="5000m")
    assert shown(scene, EAST, "a", cpu="4")


def used_at(scene: Scene) -> dict[str, dict[str, int]]:
    return dict(scene.controller.elsewhere.of(f"{NS}/a"))


def test_a_cluster_out_of_reach_keeps_what_it_said_and_one_that_is_gone_for_good_has_nothing() -> None:
    scene = fleet(WORKERS)
    shown(scene, EAST, "a", cpu="5")
    shown(scene, WEST, "a", cpu="1")
    said(scene, EAST, connectivity.ClusterLost(reason="Timeout", message="no answer"))
    assert used_at(scene) == {EAST: {"cpu": 5000}, WEST: {"cpu": 1000}}
    said(scene, EAST, connectivity.ClusterForgotten(by="me"))
    said(scene, WEST, connectivity.ClusterDisconnected(reason="Reconfigured"))
    assert used_at(scene) == {WEST: {"cpu": 1000}}
    said(scene, WEST, connectivity.ClusterDisconnected(reason="Removed"))
    assert used_at(scene) == {}
    said(scene, EAST, connectivity.ClusterConnected(kinds=[], incarnation="two"))
    assert used_at(scene) == {EAST: {"cpu": 5000}}
    survives_a_restart(scene)


def test_an_old_queues_end_does_not_take_what_a_new_one_of_its_name_says() -> None:
    scene = fleet(WORKERS)
    shown(scene, EAST, "a", cpu="5", uid="old")
    shown(scene, EAST, "a", cpu="2", uid="new")
    shown(scene, EAST, "a", gone=True, uid="old")
    assert used_at(scene) == {EAST: {"cpu": 2000}}
    shown(scene, EAST, "a", gone=True, uid="new")
    assert used_at(scene) == {}


def test_what_cannot_be_read_is_refused_and_what_was_known_counts_on() -> None:
    scene = fleet(WORKERS)
    shown(scene, EAST, "a", cpu="5")
    shown(scene, EAST, "a", cpu="many")
    refused = [one for one in scene.log if isinstance(one.event, events.AdmissionInputRefused)]
    assert [one.stream for one in refused] == [f"admission/refused/{EAST}/localqueues.kueue.x-k8s.io/{NS}/a"]
    assert "many" in refused[0].event.error
    assert used_at(scene) == {EAST: {"cpu": 5000}}


def test_other_kinds_of_a_worker_are_no_concern() -> None:
    scene = fleet(WORKERS)
    controller: AdmissionController = scene.controller
    obj: Json = {"metadata": {"name": "x", "uid": "x", "resourceVersion": "1"}, "spec": {}}
    assert controller.observe(ObjectChange(EAST, EAST, kinds.CLUSTER_QUEUES, obj, "1", False), scene.now) is None


def test_nothing_is_kept_of_local_queues_that_are_gone_from_all_workers() -> None:
    scene = fleet(WORKERS)
    before = {path: len(one) for path, one in folded.everything(scene.controller.elsewhere)}
    for number in range(3):
        for cluster in (EAST, WEST):
            shown(scene, cluster, f"run-{number}", cpu="1")
        for cluster in (EAST, WEST):
            shown(scene, cluster, f"run-{number}", gone=True)
    assert {path: len(one) for path, one in folded.everything(scene.controller.elsewhere)} == before
