"""What Kubernetes Events say of quota: which flavors were considered, and why a Workload waits, whichever write says
it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.scene import NS, Scene
from tests.support.rows import each


def told(scene: Scene, name: str, reason: str) -> list[str]:
    return [
        str(one["note"] if "note" in one else one["message"])
        for one in scene.told
        if one["reason"] == reason and (one.get("regarding") or one["involvedObject"])["name"] == name
    ]


def flavored(*amounts: str, **spec: Any) -> Json:
    flavors = [
        {"name": f"f{number}", "resources": [{"name": "cpu", "nominalQuota": amount}]}
        for number, amount in enumerate(amounts, 1)
    ]
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}], "namespaceSelector": {}, **spec}


_BEYOND = (
    "f1(NoFit;insufficient quota for cpu in flavor f1, previously considered podsets requests (0) + current podset"
    " request (3) > maximum capacity (2))"
)
_TAINTED = "f1(NoFit;untolerated taint {spot 5 NoSchedule <nil>} in flavor f1)"
_LABELLED = "f1(NoFit;flavor f1 doesn't match node affinity)"


@each(
    ("amounts", "flavor", "cpu", "others"),
    [
        (("5",), {}, "3", ""),
        (("2", "5"), {}, "3", f"; Flavors considered: main: {_BEYOND}"),
        (
            ("5", "5"),
            {"nodeTaints": [{"key": "spot", "value": "5", "effect": "NoSchedule"}]},
            "3",
            f"; Flavors considered: main: {_TAINTED}",
        ),
        (("5", "5"), {"nodeLabels": {"pool": "a"}}, "3", f"; Flavors considered: main: {_LABELLED}"),
    ],
)
def test_a_reservation_says_which_flavors_were_considered_besides(
    amounts: tuple[str, ...], flavor: Json, cpu: str, others: str
) -> None:
    scene = Scene()
    scene.put(kinds.RESOURCE_FLAVORS, "f1", spec=flavor)
    scene.put(kinds.RESOURCE_FLAVORS, "f2", spec={"nodeLabels": {"pool": "b"}})
    scene.queue("q", **flavored(*amounts))
    job = scene.workload("a", "q", cpu)
    if "nodeLabels" in flavor:
        pods = job["spec"]["podSets"]
        pods[0]["template"]["spec"]["nodeSelector"] = {"pool": "b"}
        scene.put(kinds.WORKLOADS, "a", NS, spec={**job["spec"], "podSets": pods})
    scene.settle()
    (said,) = told(scene, "a", "QuotaReserved")
    assert said == f"Quota reserved in ClusterQueue q, wait time since queued was 0s{others}"
    (reserved,) = scene.said(events.QuotaReservationDecided, "a")
    assert reserved.considered == others.removeprefix("; Flavors considered: ")


def test_a_reservation_says_what_is_borrowed_and_where_preemption_had_no_candidates() -> None:
    scene = Scene()
    for name in ("f1", "f2"):
        scene.put(kinds.RESOURCE_FLAVORS, name, spec={})
    scene.queue("lender", **flavored("4", "0"), cohortName="co")
    scene.queue("q", **flavored("2", "3"), cohortName="co", preemption={"withinClusterQueue": "LowerPriority"})
    scene.workload("a", "q", "3")
    scene.settle()
    assert told(scene, "a", "QuotaReserved")[0].endswith("; Flavors considered: main: f1(Fit;borrow=1)")
    scene.workload("c", "lender", "3")
    scene.settle()
    scene.workload("b", "q", "2")
    scene.settle()
    assert told(scene, "b", "QuotaReserved")[0].endswith(
        "; Flavors considered: main: f1(preemptionMode=NoCandidates;borrow=1;insufficient unused quota for cpu in "
        "flavor f1, 2 more needed)"
    )


def test_why_a_workload_waits_is_told_also_if_the_write_of_it_met_a_newer_version() -> None:
    """The condition is said by a later write then."""
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()
    scene.workload("a", "q", "7")
    scene.decide()
    refused = [WriteRefusal(409, "Conflict", "it has changed")]
    scene.refuses = lambda request: refused.pop() if refused and request.ref.name == "a" else None
    scene.settle()
    scene.put(kinds.WORKLOADS, "a", NS, metadata={"labels": {"changed": "yes"}})
    scene.settle()
    assert scene.condition("a", "QuotaReserved")["reason"] == "ExceedsMaxQuota"
    assert told(scene, "a", "ExceedsMaxQuota") == [scene.condition("a", "QuotaReserved")["message"]]


def test_why_a_workload_waits_is_told_though_two_writes_of_it_met_newer_versions() -> None:
    """PodsReady is written at the same time: the one that came second was not tried again, and the condition kept what
    it had."""
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()
    scene.workload("a", "q", "7")
    scene.decide()
    refused: list[WriteRefusal] = []
    scene.refuses = lambda request: refused.pop() if refused and request.ref.name == "a" else None
    for count in (1, 2):
        refused.append(WriteRefusal(409, "Conflict", "it has changed"))
        scene.settle()
        assert not refused
        scene.put(kinds.WORKLOADS, "a", NS, metadata={"labels": {"changed": str(count)}})
    scene.settle()
    assert scene.condition("a", "QuotaReserved")["reason"] == "ExceedsMaxQuota"


def test_why_a_workload_waits_is_told_again_of_one_that_is_made_anew_under_its_name() -> None:
    """Whoever deletes the Workload of a job gets another one of the same name, and nothing else changes."""
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "7")
    scene.settle()
    before = scene.condition("a", "QuotaReserved")
    scene.delete(kinds.WORKLOADS, "a", NS)
    scene.settle()
    scene.workload("a", "q", "7")
    scene.settle()
    assert scene.condition("a", "QuotaReserved")["message"] == before["message"]
    assert len(told(scene, "a", "ExceedsMaxQuota")) == 2


def test_who_waits_for_the_pods_of_others_says_so_in_its_condition_alone() -> None:
    """Kueue tells no Event of it: all heads of all queues are told so at each admission."""
    scene = Scene(pods_ready=WaitForPodsReady(timeout=timedelta(minutes=5)), block_admission=True)
    scene.queue("q")
    for name in ("a", "b"):
        scene.workload(name, "q")
        scene.settle()
    assert scene.condition("b", "QuotaReserved")["reason"] == "WaitingForPodsReady"
    assert not told(scene, "b", "WaitingForPodsReady")


def test_what_a_cycle_says_beside_a_condition_is_told_though_its_write_was_overtaken() -> None:
    """The condition says already why it waits, before it is tried."""
    scene = Scene()
    scene.queue("q", "4", namespaceSelector={"matchLabels": {"team": "another"}})
    scene.workload("w", "q")
    stream = f"admission/workload/{NS}/w"
    for new in scene.controller.decide(stream, scene.now).events:  # before the cycle
        scene.record(new)
    scene.carry_out()
    scene.decide()
    assert scene.said(events.WorkloadInadmissible, "w")
    assert scene.condition("w", "QuotaReserved")["reason"] == "Misconfigured"
    scene.set_condition("w", "PodsReady", "False", "WaitForStart")
    scene.settle()
    assert scene.status("w")["resourceRequests"] == [{"name": "main", "resources": {"cpu": "1"}}]
    assert told(scene, "w", "Misconfigured") == ["workload namespace doesn't match ClusterQueue selector"]
