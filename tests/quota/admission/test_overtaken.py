"""What happens between a decision of a cycle and its record."""

from __future__ import annotations

from controlplane.kube import kinds
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.scene import NS, Scene


def test_a_change_between_a_decision_and_its_record_keeps_nobody_behind_it_waiting() -> None:
    """The head was tried in vain once more, its try was noted as said, and who came after it was not tried before the
    next change."""
    scene = Scene()
    scene.queue("q", "4")
    for name in ("one", "two"):
        scene.workload(name, "q", cpu="2")
    scene.settle()
    scene.workload("large", "q", cpu="8")
    scene.settle()
    scene.workload("fits", "q", cpu="4")
    scene.settle()
    assert not scene.is_true("fits", "QuotaReserved")
    scene.finish("one")
    scene.decide_together(meanwhile=lambda: scene.finish("two"))
    scene.settle()
    assert scene.is_true("fits", "QuotaReserved")


def test_what_was_to_be_written_to_one_is_not_written_to_another_of_its_name() -> None:
    scene = Scene()
    scene.put(kinds.WORKLOAD_PRIORITY_CLASSES, "class", value=0)
    scene.queue("q", "1")
    scene.workload("first", "q")
    named = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "class"}
    scene.workload("w", "q", "2", priorityClassRef=named)
    scene.settle()
    scene.put(kinds.WORKLOAD_PRIORITY_CLASSES, "class", value=7)
    obj = scene.of("w")
    spec = {name: value for name, value in obj["spec"].items() if name != "priorityClassRef"}
    metadata = {**obj["metadata"], "uid": "another", "generation": 1}
    # Its end was not seen: a list shows another one in its place.
    scene.store((kinds.WORKLOADS, NS, "w"), {"metadata": metadata, "spec": spec})
    scene.settle()
    spec = scene.of("w")["spec"]
    assert spec["priority"] == 0


def test_why_one_waited_is_not_told_of_another_of_its_name() -> None:
    scene = Scene()
    scene.queue("q", "1")
    scene.workload("w", "q", "2")
    scene.refuses = lambda request: WriteRefusal(500, "InternalError", "no") if request.subresource else None
    scene.decide()
    scene.carry_out()
    assert scene.controller.index.workload(f"{NS}/w").unsaid is not None
    scene.refuses = lambda request: None
    scene.queue("q", "1", stopPolicy="Hold")
    obj = scene.of("w")
    spec = {**obj["spec"], "active": False}
    scene.store((kinds.WORKLOADS, NS, "w"), {"metadata": {**obj["metadata"], "uid": "another"}, "spec": spec})
    assert scene.controller.index.workload(f"{NS}/w").unsaid is None


def test_what_was_refused_of_one_queue_is_written_to_another_of_its_name_at_once() -> None:
    scene = Scene()
    scene.refuses = lambda request: WriteRefusal(403, "Forbidden", "no")
    scene.queue("q", "1")
    scene.settle()
    scene.refuses = lambda request: None
    place = (kinds.CLUSTER_QUEUES, "", "q")
    obj = scene.objects[place]
    scene.store(place, {"metadata": {**obj["metadata"], "uid": "another"}, "spec": obj["spec"]})
    scene.settle()
    assert scene.active(*place[:1], "q")[0] == "True"
