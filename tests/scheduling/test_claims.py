"""A claim that waits for its first consumer is bound before its pod is: what is written, what is waited for, and what
if it fails.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling.events import (
    BindingDecided,
    NodeReserved,
    PendingPodGone,
    PreBindDecided,
    ReservationDropped,
)
from controlplane.controllers.scheduling.framework.plugin import CycleState, PluginWrites, PreBindPlugin
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.storage import SELECTED_NODE
from controlplane.kube.kinds import PODS, ObjectRef, Request
from tests.scheduling.bench import CLAIMS, PROFILE, VOLUMES, ready
from tests.scheduling.volumes import stage
from tests.support.rows import each


def test_a_volume_that_is_there_is_reserved_for_the_claim_and_the_pod_waits_for_it() -> None:
    bench = stage()
    bench.volume("v", "b")
    bench.claim("data", "local")
    bench.using("p", "data")
    bench.go()
    assert bench.reference("v") == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": "uid-data",
    }
    assert bench.of(VOLUMES, "v")["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert bench.on("p") == ""
    assert bench.view.claims
    bench.bind_claim("data", "v")
    bench.go()
    assert bench.on("p") == "b"
    order = [type(recorded.event) for recorded in bench.log]
    assert order.index(NodeReserved) < order.index(PreBindDecided) < order.index(BindingDecided)


def test_a_volume_is_asked_for_on_the_node_and_the_pod_waits_for_it() -> None:
    bench = stage()
    bench.claim("data", "made")
    bench.using("p", "data", nodeSelector={"kubernetes.io/hostname": "b"})
    bench.go()
    assert bench.selected("data") == "b"
    assert bench.on("p") == ""
    bench.volume("pvc-1", "b", storageClassName="made")
    bench.bind_claim("data", "pvc-1")
    bench.go()
    assert bench.on("p") == "b"


def test_the_smallest_that_fits_is_taken() -> None:
    bench = stage()
    for name, size in (("large", "10Gi"), ("small", "512Mi"), ("right", "2Gi")):
        bench.volume(name, "a", size)
    bench.claim("data", "local", "1Gi")
    bench.using("p", "data")
    bench.go()
    assert {name: bool(bench.reference(name)) for name in ("large", "small", "right")} == {
        "large": False,
        "small": False,
        "right": True,
    }


def test_two_pods_in_flight_do_not_take_one_volume() -> None:
    bench = stage()
    bench.volume("v", "a")
    for number in ("1", "2"):
        bench.claim(f"data{number}", "local")
        bench.using(f"p{number}", f"data{number}")
    while bench.turn():
        pass
    (first,) = (name for name in ("p1", "p2") if bench.objects["pods", name]["metadata"]["uid"] in bench.view.claims)
    bench.go()
    second = "p2" if first == "p1" else "p1"
    assert "node(s) didn't find available persistent volumes to bind" in bench.condition(second)["message"]
    bench.volume("w", "b")
    bench.pass_time(2)
    bench.go()
    assert {bench.reference(name)["name"] for name in ("v", "w")} == {"data1", "data2"}


def test_two_pods_with_one_claim_wait_for_the_same_volume() -> None:
    bench = stage()
    bench.claim("data", "made")
    bench.using("p", "data", nodeSelector={"kubernetes.io/hostname": "b"})
    bench.using("q", "data")
    bench.go()
    assert set(bench.view.claims.values()) == {"b"}
    bench.volume("pvc-1", "b", storageClassName="made")
    bench.bind_claim("data", "pvc-1")
    bench.go()
    assert (bench.on("p"), bench.on("q")) == ("b", "b")
    assert len([write for write in bench.recorded(PreBindDecided) if write.calls]) == 1


def test_what_is_bound_already_is_not_waited_for() -> None:
    bench = stage()
    bench.volume("v", "a", claimRef={"namespace": "default", "name": "data", "uid": "uid-data"})
    bench.claim("data", "local")
    bench.bind_claim("data", "v")
    bench.using("p", "data")
    bench.go()
    assert bench.on("p") == "a"
    assert not bench.recorded(PreBindDecided)


def test_a_volume_that_was_reserved_by_hand_is_the_only_one() -> None:
    bench = stage()
    bench.volume("free", "a")
    bench.volume("mine", "b", "5Gi", claimRef={"namespace": "default", "name": "data"})
    bench.claim("data", "local")
    bench.using("p", "data")
    bench.go()
    assert bench.reference("mine")["uid"] == "uid-data"
    assert "annotations" not in bench.of(VOLUMES, "mine")["metadata"]  # it was not the controllers that bound it
    assert bench.reference("free") == {}


def test_a_provisioner_that_gives_up_sends_the_pod_back() -> None:
    bench = stage()
    bench.claim("data", "made")
    bench.using("p", "data")
    bench.go()
    node = bench.selected("data")
    assert node
    bench.change(CLAIMS, "data", {"metadata": {"annotations": {SELECTED_NODE: None}}})
    bench.turn()
    bench.commit_all()
    (dropped,) = bench.recorded(ReservationDropped)
    assert (dropped.reason, dropped.message) == ("PreBindFailed", 'provisioning failed for PVC "data"')
    assert bench.view.claims == {}
    bench.go()
    assert bench.condition("p")["reason"] == "SchedulerError"
    bench.pass_time(30)
    bench.go()
    assert bench.selected("data")  # tried again


@pytest.mark.parametrize("restarts", [False, True])
def test_who_waits_too_long_gives_the_node_back(restarts: bool) -> None:
    bench = stage()
    bench.claim("data", "made")
    bench.using("p", "data")
    bench.go()
    bench.pass_time(590)
    if restarts:
        bench.start()
    bench.go()
    assert bench.view.claims
    bench.pass_time(11)
    bench.commit_all()
    (dropped,) = bench.recorded(ReservationDropped)
    assert dropped.reason == "PreBindTimeout"
    assert not bench.recorded(BindingDecided)
    assert bench.condition("p") == {} or bench.condition("p")["reason"] == "SchedulerError"


@each("kind", ["local", "made"])
@each("at", range(6))
def test_a_process_that_ends_at_any_moment_is_followed_by_one_that_goes_on(kind: str, at: int) -> None:
    bench = stage()
    bench.volume("v", "a")
    bench.volume("w", "b")
    bench.claim("data", kind)
    bench.using("p", "data")
    moments = [
        bench.turn,
        bench.commit_all,
        lambda: [bench.carry_out(write, 0) for write in bench.writes()],
        bench.decide,
        lambda: bench.bind_claim("data", "v" if bench.reference("v") else "w") if kind == "local" else None,
        bench.turn,
    ]
    for moment in moments[:at]:
        moment()
    bench.start()
    bench.go()
    named = [name for name in ("v", "w") if bench.reference(name)]
    assert len(named) == (kind == "local")
    volume = named[0] if named else "pvc-1"
    if not named:
        bench.volume(volume, bench.selected("data"), storageClassName="made")
    bench.bind_claim("data", volume)
    bench.go()
    node = bench.of(VOLUMES, volume)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    assert bench.on("p") == node["values"][0]
    assert len(bench.bound[bench.objects["pods", "p"]["metadata"]["uid"]]) == 1


def test_a_new_process_does_not_give_away_what_the_one_before_has_decided_to_write() -> None:
    bench = stage()
    bench.volume("v", "a", "2Gi")
    bench.claim("data", "local")
    bench.using("p", "data")
    bench.turn()
    bench.commit_all()  # decided, and not written yet
    bench.volume("smaller", "a")
    bench.claim("more", "local")
    bench.using("q", "more")
    bench.start()
    bench.go()
    assert bench.reference("v")["name"] == "data"
    assert bench.reference("smaller")["name"] == "more"


def test_a_volume_that_somebody_else_took_meanwhile() -> None:
    bench = stage()
    bench.volume("v", "a")
    bench.volume("w", "b")
    bench.claim("data", "local")
    bench.using("p", "data")
    bench.turn()
    bench.commit_all()
    (write,) = bench.writes()
    request = bench.placements.request(write, {}, bench.now)
    assert request is not None
    taken, other = request.ref.name, "w" if request.ref.name == "v" else "v"
    bench.change(VOLUMES, taken, {"spec": {"claimRef": {"namespace": "x", "name": "y", "uid": "z"}}})
    bench.carry_out(write)
    bench.decide()
    assert bench.recorded(ReservationDropped)[0].reason == "PreBindFailed"
    bench.pass_time(11)
    bench.go()
    assert bench.reference(other)["name"] == "data"
    assert bench.reference(taken)["name"] == "y"


def test_a_volume_that_is_made_where_the_node_cannot_reach_it() -> None:
    bench = stage()
    bench.claim("data", "made")
    bench.using("p", "data", nodeSelector={"kubernetes.io/hostname": "a"})
    bench.go()
    bench.volume("pvc-1", "b", storageClassName="made")
    bench.bind_claim("data", "pvc-1")
    bench.turn()
    bench.commit_all()
    (dropped,) = bench.recorded(ReservationDropped)
    assert dropped.message == 'pv "pvc-1" node affinity doesn\'t match node "a"'
    bench.go()
    assert "node(s) didn't match PersistentVolume's node affinity" in str(bench.recorded(ReservationDropped)) or (
        bench.on("p") == ""
    )


def test_a_node_that_goes_while_its_volume_is_made() -> None:
    bench = stage()
    bench.claim("data", "made")
    bench.using("p", "data", nodeSelector={"kubernetes.io/hostname": "a"})
    bench.go()
    assert bench.view.claims
    bench.delete("nodes", "a")
    bench.commit_all()
    assert bench.recorded(ReservationDropped)[0].reason == "NodeGone"
    assert bench.view.claims == {}


class AnnotatesItself(PreBindPlugin):
    name = "AnnotatesItself"

    def pre_bind(self, state: CycleState, pod: Pod, node: str) -> PluginWrites:
        body = {"metadata": {"annotations": {"example.com/node": node}}}
        return PluginWrites(requests=(Request("patch", ObjectRef(PODS, pod.namespace, pod.name), body),))


def test_a_pod_that_is_written_to_before_its_binding_is_still_seen() -> None:
    bench = stage()
    bench.loop.frameworks[PROFILE].points["preBind"] = [AnnotatesItself()]
    bench.pod("p")
    bench.turn()
    bench.commit_all()
    assert bench.recorded(PreBindDecided)
    assert not bench.recorded(PendingPodGone)
    bench.delete("pods", "p")
    assert bench.recorded(PendingPodGone)
    assert bench.view.claims == {}
    assert bench.writes() == []


def test_a_node_that_goes_is_given_back_though_the_log_refuses_it_first() -> None:
    bench = stage()
    bench.claim("data", "made")
    uid = bench.using("p", "data")
    bench.go()
    node = bench.view.claims[uid]
    bench.delete("nodes", node)
    (proposal,) = bench.outbox
    bench.change("pods", "p", {"spec": {"priority": 3}})  # its stream moves on before the log gets there
    assert not bench.commit(proposal)
    bench.commit_all()
    assert bench.recorded(ReservationDropped)[0].reason == "NodeGone"


def test_a_node_that_went_while_nobody_looked_is_given_back() -> None:
    bench = stage()
    bench.claim("data", "made")
    uid = bench.using("p", "data")
    bench.go()
    del bench.objects["nodes", bench.view.claims[uid]]
    bench.start()
    bench.take()
    bench.commit_all()
    assert bench.recorded(ReservationDropped)[0].reason == "NodeGone"


def test_a_change_of_one_claim_asks_about_its_pod_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands that wait for their volumes each change would be asked about for all of them."""
    bench = ready("n", cpu="9")
    bench._store(
        "storageclasses",
        {"metadata": {"name": "made"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"},
    )
    for name in ("a", "b", "c"):
        metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
        bench._store(CLAIMS, {"metadata": metadata, "spec": {"storageClassName": "made"}})
        bench.pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])
    bench.once()
    bench.turn()
    asked: list[str] = []
    prepared = bench.loop._try.prepared

    def counted(framework: Any, state: Any, pod: Any, node: str) -> Any:
        asked.append(pod.name)
        return prepared(framework, state, pod, node)

    monkeypatch.setattr(bench.loop._try, "prepared", counted)
    shown = bench.objects[CLAIMS, "b"]
    bench._store(CLAIMS, {**shown, "metadata": shown["metadata"] | {"labels": {"x": "y"}}})
    bench.turn()
    assert asked == ["b"]
    bench.pass_time(1)
    bench.turn()
    assert sorted(asked[1:]) == ["a", "b", "c"]
