"""What a pod in flight gives back wakes those that were refused for it."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.framework.plugin import CycleState, PermitAnswer, PermitPlugin
from controlplane.controllers.scheduling.framework.status import Code, Status
from controlplane.controllers.scheduling.queue.queue import QueuePlace
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.kube.kinds import NAMESPACES, Json
from tests.scheduling.bench import PROFILE, Bench, ready


def show(bench: Bench, kind: str, name: str, spec: Json, namespace: str = "") -> None:
    bench._store(kind, {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}, "spec": spec})


def with_devices(*claims: str, devices: int = 1) -> Bench:
    """A node with some devices, and claims that ask for one each."""
    bench = ready("n")
    show(bench, "deviceclasses", "gpu", {})
    there = [{"name": f"d{number}"} for number in range(devices)]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    show(bench, "resourceslices", "of-n", {"driver": "d", "nodeName": "n", "pool": pool, "devices": there})
    for name in claims:
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        show(bench, "resourceclaims", name, {"devices": {"requests": [request]}}, "default")
    return bench


def asking(name: str) -> Json:
    return {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}


def test_devices_that_are_given_back_wake_who_waits_for_one() -> None:
    bench = with_devices("a", "b")
    uids = [bench.pod(name, **asking(name)) for name in ("a", "b")]
    while bench.turn():
        pass
    while bench.outbox:
        bench.commit(bench.outbox[0])
    assert bench.recorded(events.SchedulingFailed)[-1].plugins == ["DynamicResources"]
    waiting = bench.loop.queue.entry(uids[1])
    assert waiting is not None
    assert waiting.place is QueuePlace.UNSCHEDULABLE
    (write,) = [write for write in bench.writes() if write.action == "PreBindDecided"]
    bench.carry_out(write, 403)
    bench.decide()
    assert bench.view.claims == {}
    assert waiting.place is not QueuePlace.UNSCHEDULABLE


def test_a_pod_whose_claim_is_not_there_is_outside_and_comes_in_with_it() -> None:
    """No cycle can help it, and no autoscaler is to add a node for it: it is not `Unschedulable`."""
    bench = ready("n")
    uid = bench.pod("p", **asking("late"))
    bench.settle(2)
    entry = bench.loop.queue.entry(uid)
    assert entry is not None
    assert entry.place is QueuePlace.GATED
    said = bench.condition("p")
    assert (said["reason"], said["message"]) == ("SchedulingGated", 'could not find ResourceClaim "default/late"')
    show(bench, "resourceclaims", "another", {"devices": {}}, "default")
    assert entry.place is QueuePlace.GATED
    show(bench, "resourceclaims", "late", {"devices": {}}, "default")
    assert entry.place is QueuePlace.ACTIVE


def test_what_went_while_the_cluster_was_out_of_view_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until everything is listed again, nobody is told what the log says of the pods that are missing."""
    bench = with_devices("a")
    uid = bench.pod("a", **asking("a"))
    bench.turn()
    bench.commit(bench.outbox[0])
    assert bench.view.cluster.devices.reserved.keys() == {uid}
    with monkeypatch.context() as away:
        away.setattr(bench.loop, "sync", lambda stream, now: None)
        bench.delete("pods", "a")
    bench.loop.begin(bench.now)
    assert bench.view.cluster.devices.reserved == {}
    assert bench.loop._holds == bench.loop._identities == bench.loop._streams == {}
    assert len(bench.loop.queue) == 0


def test_an_eviction_of_a_pod_that_went_first_ends() -> None:
    """It went between the cycle that chose it and the log that took the choice: no watch tells of it any more."""
    for answer in (404, 409):  # 409: another pod has its name, and the UID is not that one's
        bench = ready("n", cpu="1")
        bench.pod("low")
        bench.settle(2)
        bench.pod("high", priority=10)
        bench.turn()
        bench.delete("pods", "low")
        while bench.outbox:
            bench.commit(bench.outbox[0])
        bench.decide()
        (write,) = [write for write in bench.writes() if write.action == "VictimMarkDecided"]
        bench.carry_out(write, answer)
        bench.settle(2)
        assert bench.evictions.states == {}
        assert bench.on("high") == "n"


def test_a_new_process_takes_up_first_what_was_decided() -> None:
    """Else it would find for a pod that waits the device that is being written into another one's claim."""
    bench = with_devices("a", "b", devices=2)
    bench.loop.frameworks[PROFILE].points["permit"] = [WaitsForOne()]
    waiting = bench.pod("a", **asking("a"))
    decided = bench.pod("b", priority=10, **asking("b"))
    while bench.turn():
        pass
    while bench.outbox:
        bench.commit(bench.outbox[0])
    before = devices_of(bench)
    assert before == {decided: "d0", waiting: "d1"}
    bench.start()
    assert devices_of(bench) == before


def devices_of(bench: Bench) -> dict[str, str]:
    """Which device is reserved for each pod."""
    reserved = bench.view.cluster.devices.reserved
    return {pod: one["devices"]["results"][0]["device"] for pod, given in reserved.items() for one in given.values()}


class WaitsForOne(PermitPlugin):
    name = "WaitsForOne"

    def permit(self, state: CycleState, pod: Pod, node: str) -> PermitAnswer:
        return PermitAnswer(Status(Code.WAIT), 60.0) if pod.name == "a" else PermitAnswer()


def test_devices_stay_reserved_while_nobody_knows_whether_they_were_given() -> None:
    """A server error may come after the write was made."""
    bench = with_devices("a", "b")
    bench.pod("a", **asking("a"))
    bench.turn()
    bench.commit(bench.outbox[0])
    before = devices_of(bench)
    (write,) = bench.writes()
    bench.carry_out(write, 500)
    bench.decide()
    assert devices_of(bench) == before
    bench.pass_time(2)
    (again,) = bench.writes()
    assert again.action == "PreBindDecided"
    assert bench.recorded(events.PreBindDecided)[-1].reason == "BindAgain"
    bench.carry_out(again, 422)
    bench.decide()
    assert devices_of(bench) == {}


def test_an_object_of_a_kind_that_cannot_be_read_is_not_said_to_be_missing() -> None:
    bench = ready("n")
    bench.view.cluster.off = {
        "persistentvolumeclaims": "403 no",
        "resourceclaims.resource.k8s.io": "403 no",
        "namespaces": "403 no",
    }
    selector = {"matchLabels": {"app": "a"}}
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": selector, "labelSelector": selector}
    bench.pod("volume", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    bench.pod("device", **asking("c"))
    bench.pod("apart", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    bench.pod("plain")
    bench.settle(3)
    needs = {"volume": "persistentvolumeclaims", "device": "resourceclaims.resource.k8s.io", "apart": "namespaces"}
    for name, kind in needs.items():
        assert bench.on(name) == ""
        assert f"the pod needs {kind}, which cannot be read: 403 no" in bench.condition(name)["message"]
    assert bench.on("plain") == "n"


def away(selector: Json, priority: int = 0, **more: Any) -> Json:
    """A pod that runs on node `n` and keeps others away, of the namespaces with some labels."""
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": selector, **more}
    spec = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"affinity": spec, "nodeName": "n", "priority": priority}


@pytest.mark.parametrize(
    ("selector", "more", "bound"),
    [
        ({"matchLabels": {"team": "a"}}, {"labelSelector": {}}, ""),
        ({"matchLabels": {"team": "a"}}, {"labelSelector": {"matchLabels": {"app": "other"}}}, "n"),
        ({}, {"labelSelector": {"matchLabels": {"app": "other"}}}, "n"),
    ],
)
def test_who_may_keep_a_pod_away_does_so_while_namespaces_cannot_be_read(
    selector: Json, more: Json, bound: str
) -> None:
    """Whether the anti-affinity of a pod that runs means a namespace is unknown: it counts, and nobody is evicted."""
    bench = ready("n")
    bench.view.cluster.off = {"namespaces": "403 no"}
    bench.pod("there", **away(selector, **more))
    bench.pod("comes", priority=10)
    bench.settle(3)
    assert bench.on("comes") == bound
    if not bound:
        said = bench.condition("comes")["message"]
        assert "existing pods anti-affinity rules for namespaces that cannot be read: 403 no" in said
        assert bench.recorded(events.VictimChosen) == []
        bench.view.cluster.off = {}
        shown = {"metadata": {"name": "default", "labels": {"team": "b"}}}
        bench.loop.changed(NAMESPACES, shown, bench.now, gone=False)
        bench.settle(3)
        assert bench.on("comes") == "n"


def test_another_node_is_free_of_that() -> None:
    bench = ready("n", "m")
    bench.view.cluster.off = {"namespaces": "403 no"}
    bench.pod("there", **away({"matchLabels": {"team": "a"}}, labelSelector={}))
    bench.pod("comes")
    bench.settle(3)
    assert bench.on("comes") == "m"
