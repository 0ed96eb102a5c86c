"""Pods of a job that is admitted to domains of a topology wait for theirs, and run where their rank, or what is left of
a domain, says; as with Kueue's topology ungater."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controlplane.controllers.jobframework import events, placing, ungating
from controlplane.controllers.jobframework.topology_events import (
    PodUngateDecided,
    TopologyPodGone,
    TopologyPodObserved,
)
from controlplane.job_kinds.kubeflow import MPIJob
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import JOBS, PODS, Json, Request, meta
from controlplane.kube.topologies import TOPOLOGY_GATE, domains_of
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import OpenWrite, WriteRefusal
from controlplane.simulation.apiserver.errors import ApiRefusal
from tests.jobframework.scene import NS, Scene, job, pod_template
from tests.jobframework.single import GATE, get, pod, runs
from tests.support.rows import each

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
INDEX = "batch.kubernetes.io/job-completion-index"


def assignment(*domains: tuple[str, int], levels: tuple[str, ...] = (HOST,)) -> Json:
    """An assignment of nodes, as Kueue writes it."""
    roots, counts = [name for name, _ in domains], [count for _, count in domains]
    values = {"individual": {"prefix": "node-", "roots": [one.removeprefix("node-") for one in roots]}}
    one = {"domainCount": len(domains), "valuesPerLevel": [values], "podCounts": {"individual": counts}}
    return {"levels": list(levels), "slices": [one]}


def gated(name: str, workload: str = "w", *, node: str = "", index: int | None = None, **notes: str) -> Json:
    """A pod as the Job controller makes it of a template that was admitted."""
    labels = {"kueue.x-k8s.io/podset": "main", **({} if index is None else {INDEX: str(index)})}
    annotations = {"kueue.x-k8s.io/workload": workload, "kueue.x-k8s.io/podset-required-topology": RACK, **notes}
    spec: Json = {**pod_template()["spec"], "schedulingGates": [{"name": TOPOLOGY_GATE}]}
    if node:
        spec = {**pod_template()["spec"], "nodeSelector": {HOST: node}}
    return {"metadata": {"namespace": NS, "name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def admitted(*domains: tuple[str, int], count: int = 4, **more: Any) -> Scene:
    scene = Scene()
    scene.flavor()
    template = pod_template()
    template["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}}
    scene.create(job(parallelism=count, completions=count, template=template, **more))
    scene.settle()
    scene.admit(domains={"main": assignment(*domains)})
    scene.settle()
    for one in scene.store.list(PODS)[0]:
        scene.store.delete(PODS, NS, meta(one)["name"], grace=0)
    scene.settle()
    return scene


def make(scene: Scene, *pods: Json) -> None:
    name = meta(scene.workload())["name"]
    for one in pods:
        meta(one)["annotations"]["kueue.x-k8s.io/workload"] = name
        scene.create(one, PODS)


def node_of(scene: Scene, name: str) -> str:
    found = get(scene, name)["spec"]
    return "" if found.get("schedulingGates") else str(found["nodeSelector"][HOST])


def where(scene: Scene) -> dict[str, str]:
    return {meta(one)["name"]: node_of(scene, meta(one)["name"]) for one in scene.store.list(PODS)[0]}


# --- the scene ---


def test_the_template_of_a_job_is_gated_once_it_is_admitted_to_domains() -> None:
    scene = admitted(("node-a", 2), ("node-b", 2))
    template = scene.job()["spec"]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": TOPOLOGY_GATE}]
    notes = template["metadata"]["annotations"]
    assert notes["kueue.x-k8s.io/workload"] == meta(scene.workload())["name"]
    assert template["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"


def test_pods_with_an_index_run_where_their_rank_says() -> None:
    scene = admitted(("node-a", 1), ("node-b", 2), ("node-c", 1))
    make(scene, *(gated(f"p-{index}", index=index) for index in (3, 1, 0)))
    scene.settle()
    assert where(scene) == {"p-0": "node-a", "p-1": "node-b", "p-3": "node-c"}
    make(scene, gated("p-2", index=2))
    scene.settle()
    assert node_of(scene, "p-2") == "node-b"
    assert {one.name: one.rank for one in scene.decided(PodUngateDecided)} == {"p-0": 0, "p-1": 1, "p-2": 2, "p-3": 3}


def test_pods_without_one_fill_the_domains_and_no_more() -> None:
    scene = admitted(("node-a", 1), ("node-b", 2), count=3)
    make(scene, *(gated(f"p-{number}") for number in range(5)))
    scene.settle()
    assert Counter(where(scene).values()) == {"node-a": 1, "node-b": 2, "": 2}


def test_one_that_ended_makes_room_for_another() -> None:
    scene = admitted(("node-a", 1), count=1)
    make(scene, gated("p-0"), gated("p-1"))
    scene.settle()
    assert where(scene) == {"p-0": "node-a", "p-1": ""}
    runs(scene, "p-0", "Failed")
    scene.settle()
    assert node_of(scene, "p-1") == "node-a"
    assert "p-0" in [one.name for one in scene.decided(TopologyPodGone)]


def test_nothing_runs_before_it_is_admitted_nor_after_it_is_evicted() -> None:
    scene = admitted(("node-a", 4))
    scene.say(scene.workload(), Admitted=(False, "NoReservation", "no"))
    make(scene, gated("p-0"))
    scene.look()
    assert [one for one in scene.decide() if isinstance(one, PodUngateDecided)] == []


def test_a_pod_that_is_no_job_keeps_other_gates() -> None:
    scene = admitted(("node-a", 4))
    one = gated("p-0")
    one["spec"]["schedulingGates"].insert(0, {"name": "example.com/other"})
    make(scene, one)
    scene.settle()
    found = get(scene, "p-0")["spec"]
    assert found["schedulingGates"] == [{"name": "example.com/other"}]
    assert found["nodeSelector"] == {HOST: "node-a"}


def test_a_pod_with_a_queue_is_gated_by_the_webhook_and_let_run_in_its_domain() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(pod(annotations={"kueue.x-k8s.io/podset-preferred-topology": RACK}), PODS)
    assert [one["name"] for one in get(scene)["spec"]["schedulingGates"]] == [GATE, TOPOLOGY_GATE]
    scene.settle()
    scene.admit(domains={"main": assignment(("node-a", 1))})
    scene.settle()
    assert node_of(scene, "a") == "node-a"


def test_a_pod_with_a_queue_that_no_topology_places_runs_anywhere() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(pod(), PODS)
    scene.settle()
    scene.admit()
    scene.settle()
    assert get(scene)["spec"].get("schedulingGates") is None
    assert scene.decided(PodUngateDecided) == []


def test_of_nodes_that_are_unhealthy_none_is_used() -> None:
    scene = admitted(("node-a", 1), ("node-b", 1), count=2)
    scene.status(scene.workload(), unhealthyNodes=[{"name": "node-a"}])
    make(scene, gated("p-0", index=0), gated("p-1", index=1))
    scene.settle()
    assert where(scene) == {"p-0": "", "p-1": "node-b"}


@pytest.mark.parametrize("lost", [False, True])
def test_a_process_that_ends_after_each_step_lets_each_pod_run_once(lost: bool) -> None:
    scene = admitted(("node-a", 1), ("node-b", 2), count=3)
    make(scene, *(gated(f"p-{number}") for number in range(4)))
    scene.settle_through_crashes(lost=lost)
    assert Counter(where(scene).values()) == {"node-a": 1, "node-b": 2, "": 1}
    assert len(scene.decided(PodUngateDecided)) == 3


def test_while_it_is_not_known_where_one_runs_no_other_takes_its_place() -> None:
    scene = admitted(("node-a", 1), ("node-b", 1), count=2)
    make(scene, gated("p-1"), gated("p-2"))
    scene.decide()
    for write in scene.open_writes():
        request = scene.controller.request(write, {}, scene.clock.now())
        assert request is not None
        scene.send(request)  # its answer is lost, and the watch is slow: it is sent again
        with pytest.raises(ApiRefusal):
            scene.send(request)
        scene.record(scene.controller.failed(write, WriteRefusal(409, "Conflict", "it has changed"), scene.clock.now()))
    scene.look = lambda: None  # type: ignore[method-assign]
    one = {**gated("p-0")}
    event = TopologyPodObserved(
        namespace=NS,
        name="p-0",
        uid="new",
        resource_version="9999",
        workload=meta(scene.workload())["name"],
        pod_set="main",
        gates=[TOPOLOGY_GATE],
    )
    stream = ungating.topology_stream(NS, event.workload)
    scene.record(NewEvent(stream=stream, event=event, cluster="management"))
    assert scene.decide() == []
    assert one["spec"]["schedulingGates"]
    del scene.look
    make(scene, gated("p-0"))
    scene.settle()
    assert Counter(where(scene).values()) == {"node-a": 1, "node-b": 1, "": 1}


def test_a_pod_that_has_changed_meanwhile_is_not_touched() -> None:
    scene = admitted(("node-a", 1), count=1)
    make(scene, gated("p-0"))

    def change(write: OpenWrite, request: Request) -> None:
        if write.target == "Pod/p-0" and not meta(get(scene, "p-0"))["labels"].get("changed"):
            scene.store.patch(PODS, NS, "p-0", {"metadata": {"labels": {"changed": "yes"}}})

    scene.before_write = change
    scene.settle()
    assert node_of(scene, "p-0") == "node-a"
    assert len(scene.decided(PodUngateDecided)) == 2


def test_what_runs_is_recorded_no_more_than_once() -> None:
    scene = admitted(("node-a", 1), count=1)
    make(scene, gated("p-0"))
    scene.settle()
    before = len(scene.decided(TopologyPodObserved))
    runs(scene, "p-0", "Pending")
    scene.settle()
    runs(scene, "p-0", "Running")
    scene.settle()
    assert len(scene.decided(TopologyPodObserved)) == before
    scene.store.delete(JOBS, NS, "a")
    scene.store.delete(PODS, NS, "p-0", grace=0)
    scene.settle()
    assert scene.controller.index.topologies.states == {}
    assert scene.controller.is_over(ungating.topology_stream(NS, scene.decided(PodUngateDecided)[0].workload))


# --- the tables ---


def seen(name: str, *, node: str = "", **numbers: str) -> TopologyPodObserved:
    return TopologyPodObserved(
        name=name,
        uid=name,
        resource_version="1",
        gates=[] if node else [TOPOLOGY_GATE],
        node_selector={HOST: node} if node else {},
        numbers={key.replace("_", "-"): value for key, value in numbers.items()},
    )


def placed(
    pods: list[TopologyPodObserved],
    domains: list[tuple[str, int]],
    count: int,
    ranks: placing.Ranks | None = None,
    **request: Any,
) -> dict[str, str]:
    one = events.PodSetAdmission(name="main", count=count, topology=True, domains=assignment(*domains))
    found = placing.placed(one, request, pods, ranks or placing.Ranks(0, count))
    return {place.pod.name: place.domain[0] for place in found}


AB = [("node-a", 1), ("node-b", 1)]


@each(
    ("pods", "expected"),
    [
        pytest.param([seen("x", i="1")], {"x": "node-b"}, id="the second place"),
        pytest.param([seen("x", i="2")], {"x": "node-a"}, id="beyond the pod set: as it comes"),
        pytest.param([seen("x", i="-1")], {"x": "node-a"}, id="no number: as it comes"),
        pytest.param([seen("x")], {"x": "node-a"}, id="no label: as it comes"),
        pytest.param([seen("x", i="1"), seen("y", i="1")], {"x": "node-a", "y": "node-b"}, id="two of one rank"),
        pytest.param([seen("x", i="0"), seen("y", i="1", node="node-b")], {"x": "node-a"}, id="beside one that runs"),
        pytest.param([seen("x", i="1"), seen("y", i="0", node="node-b")], {"x": "node-a"}, id="one runs elsewhere"),
    ],
)
def test_ranks(pods: list[TopologyPodObserved], expected: dict[str, str]) -> None:
    assert placed(pods, AB, 2, podIndexLabel="i") == expected


def test_ranks_of_jobs_within_a_pod_set() -> None:
    request = {"podIndexLabel": "i", "subGroupIndexLabel": "j", "subGroupCount": 2}
    domains = [("node-a", 2), ("node-b", 2)]
    pods = [seen("x", i="1", j="0"), seen("y", i="0", j="1")]
    assert placed(pods, domains, 4, **request) == {"x": "node-a", "y": "node-b"}
    assert placed([seen("x", i="2", j="0")], domains, 4, **request) == {"x": "node-a"}, "no index of its job"
    assert placed(pods, domains, 4, **{**request, "subGroupCount": 0}) == {"x": "node-a", "y": "node-a"}


def test_ranks_begin_where_the_pod_says() -> None:
    pods = [TopologyPodObserved(**{**_fields(seen("x", i="2")), "offset": "1"})]
    assert placed(pods, AB, 2, podIndexLabel="i") == {"x": "node-b"}
    with pytest.raises(placing.OffsetUnfit):
        placed([TopologyPodObserved(**{**_fields(seen("x")), "offset": "one"})], AB, 2)


def _fields(pod: TopologyPodObserved) -> dict[str, Any]:
    return {name: getattr(pod, name) for name in pod.__struct_fields__}


def test_a_leader_comes_before_its_workers() -> None:
    def pod_set(name: str, count: int) -> tuple[events.PodSetFacts, events.PodSetAdmission]:
        request = {"podSetGroupName": "g"}
        facts = events.PodSetFacts(name=name, count=count, containers="", topology_request=request)
        return facts, events.PodSetAdmission(name=name, count=count)

    (workers, given), (leader, led) = pod_set("workers", 3), pod_set("leader", 1)
    workload = events.JobWorkloadObserved(
        name="w", uid="w", resource_version="1", pod_sets=[workers, leader], assignments=[given, led]
    )
    assert placing.ranks_of(workload) == {"leader": placing.Ranks(0, 1), "workers": placing.Ranks(1, 4)}


def test_assignments_are_read_as_the_api_has_them() -> None:
    level = {"universal": "rack-1"}, {"individual": {"prefix": "n", "suffix": "z", "roots": ["1", "2"]}}
    one = {"domainCount": 2, "valuesPerLevel": list(level), "podCounts": {"universal": 3}}
    assert domains_of({"levels": [RACK, HOST], "slices": [one]}) == [(("rack-1", "n1z"), 3), (("rack-1", "n2z"), 3)]
    for broken in ({"podCounts": {"individual": [1]}}, {"podCounts": {"individual": ["1", "2"]}}, {"domainCount": 1}):
        with pytest.raises(Misfit):
            domains_of({"slices": [{**one, **broken}]})


def test_a_number_of_domains_alone_takes_no_memory() -> None:
    """An API server has no bound for it where all domains are alike."""
    one = {"domainCount": 2**31 - 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 1}}
    with pytest.raises(Misfit, match=r"slices\[0\].domainCount: 2147483647 is more than 100000"):
        domains_of({"levels": [HOST], "slices": [one]})


def test_the_workers_of_an_mpijob_begin_with_rank_1_where_the_launcher_is_one_of_them() -> None:
    def made(**spec: Any) -> Json:
        replicas = {name: {"replicas": 1, "template": {"spec": {}}} for name in ("Launcher", "Worker")}
        return MPIJob().submitted(
            {"metadata": {}, "spec": {"mpiReplicaSpecs": {**replicas, **spec.pop("more", {})}, **spec}}
        )

    def offset(job: Json) -> Any:
        return meta(job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]).get("annotations")

    grouped = {"Launcher": {"template": {"metadata": {"annotations": {"kueue.x-k8s.io/podset-group-name": "g"}}}}}
    assert offset(made(runLauncherAsWorker=True)) == {"kueue.x-k8s.io/pod-index-offset": "1"}
    assert offset(made()) is None
    assert offset(made(runLauncherAsWorker=True, more=grouped)) is None
    assert made()["spec"]["runPolicy"]["suspend"] is True


@pytest.mark.parametrize(
    ("labels", "notes", "expected"),
    [
        pytest.param({"rank": "3"}, {"kueue.x-k8s.io/pod-group-pod-index-label": "rank"}, "3", id="its own label"),
        pytest.param({}, {"kueue.x-k8s.io/pod-group-pod-index-label": "rank"}, "", id="a label that it has not"),
        pytest.param({"rank": "3"}, {}, None, id="it says no label"),
    ],
)
def test_a_pod_of_a_group_tells_its_rank_by_the_label_that_it_names(
    labels: Json, notes: Json, expected: str | None
) -> None:
    found = meta(pod(labels=labels, annotations=notes))["labels"]
    assert found.get("kueue.x-k8s.io/pod-group-pod-index") == expected
