"""Workloads that are not to preempt before somebody opens their gates (`multikueue.orchestratedPreemption`)."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.quota.admission import events
from controlplane.kube import kinds
from tests.quota.admission.scene import NS, Scene

GATE = "kueue.x-k8s.io/multikueue"
WHY = "Workload requires preemption, but it's gated"


def gated(*, gates: bool = True, **queue: Any) -> Scene:
    """A queue that is nearly full, in which one waits that would have to preempt."""
    scene = Scene(preemption_gates=gates)
    scene.queue("q", "2", preemption={"withinClusterQueue": "LowerPriority"}, **queue)
    scene.workload("low", "q", "1500m")
    scene.settle()
    scene.workload("high", "q", "1", priority=5, preemptionGates=[{"name": GATE}])
    scene.settle()
    return scene


def positions(scene: Scene, name: str = "high") -> dict[str, str]:
    return {one["name"]: one["position"] for one in scene.status(name).get("preemptionGates") or ()}


def opened(scene: Scene, position: str = "Open") -> None:
    status = scene.status("high")
    gates = [{**one, "position": position} for one in status["preemptionGates"]]
    scene.put(kinds.WORKLOADS, "high", NS, status={**status, "preemptionGates": gates})
    scene.settle()


def test_one_whose_gate_is_closed_preempts_nobody_and_says_so() -> None:
    scene = gated()
    assert positions(scene) == {GATE: "Closed"}
    assert not scene.is_true("low", "Preempted")
    blocked, reserved = scene.condition("high", "BlockedOnPreemptionGates"), scene.condition("high", "QuotaReserved")
    assert (blocked["status"], blocked["reason"], blocked["message"]) == ("True", "PreemptionGated", WHY)
    assert (reserved["status"], reserved["reason"], reserved["message"]) == ("False", "WaitingForQuota", WHY)
    before = [one for one in scene.log if one.stream.startswith("admission/workload/")]
    scene.pass_time(60)
    after = [one for one in scene.log if one.stream.startswith("admission/workload/")]
    assert len(after) == len(before), "nothing more is said of it"


def test_others_are_not_kept_waiting_by_it() -> None:
    scene = gated()
    scene.workload("small", "q", "500m")
    scene.settle()
    assert scene.is_true("small", "Admitted")


def test_it_preempts_once_its_gate_is_opened() -> None:
    scene = gated()
    opened(scene)
    assert scene.is_true("low", "Preempted")
    scene.release("low")
    scene.settle()
    assert scene.is_true("high", "Admitted")
    assert scene.condition("high", "BlockedOnPreemptionGates")["status"] == "False"
    assert positions(scene) == {GATE: "Open"}


def test_it_is_admitted_without_its_gate_when_there_is_room() -> None:
    scene = gated()
    scene.finish("low")
    scene.settle()
    assert scene.is_true("high", "Admitted")
    assert positions(scene) == {GATE: "Closed"}


def test_the_gates_of_its_status_are_those_of_its_spec() -> None:
    scene = gated()
    spec = scene.of("high")["spec"]
    scene.put(kinds.WORKLOADS, "high", NS, spec={**spec, "preemptionGates": [{"name": "other"}]})
    scene.settle()
    assert positions(scene) == {"other": "Closed"}


def test_without_the_setting_the_gates_mean_nothing() -> None:
    scene = gated(gates=False)
    assert scene.is_true("low", "Preempted")
    assert positions(scene) == {}


def test_in_a_strict_queue_it_stays_the_first() -> None:
    scene = gated(queueingStrategy="StrictFIFO")
    scene.workload("small", "q", "500m")
    scene.settle()
    told = len(scene.said(events.WorkloadInadmissible, "high"))
    scene.pass_time(60)
    assert not scene.is_true("small", "Admitted"), "nobody comes before the first"
    assert len(scene.said(events.WorkloadInadmissible, "high")) == told, "nothing has changed since"
    opened(scene)
    assert scene.is_true("low", "Preempted")
