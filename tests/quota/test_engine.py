"""The parts of the quota engine, one by one: amounts, reading, flavors, partial admission, queues, past usage."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pytest

from controlplane.controllers.quota.engine import parse_queues, parse_workloads
from controlplane.controllers.quota.engine.amounts import UNLIMITED, add, in_order, quota, spelled, sub
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit
from controlplane.controllers.quota.engine.flavor_match import mismatch
from controlplane.controllers.quota.engine.info import Info
from controlplane.controllers.quota.engine.model import FlavorFungibility, NodeConstraints, PodSet, ResourceFlavor
from controlplane.controllers.quota.engine.modes import Granular, Possibility, is_preferred, tries_next
from controlplane.controllers.quota.engine.partial_admission import most_pods
from controlplane.controllers.quota.engine.pending import PendingQueue
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing, UsageHistory, decayed
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import Json
from controlplane.kube.tolerations import Taint, Toleration
from tests.quota.engine_objects import cluster_queue, fleet, group, info, pod, workload
from tests.support.rows import each


@each(
    ("resource", "quantity", "amount"),
    [
        ("cpu", "1500m", 1500),
        ("cpu", "2", 2000),
        ("cpu", "1u", 1),
        ("memory", "1Gi", 2**30),
        ("memory", "1500m", 2),
        ("cpu", "10E", UNLIMITED),
        ("cpu", "9223372036854774", 9223372036854774000),
        ("cpu", "9223372036854776", UNLIMITED),
        ("memory", "9223372036854775807", UNLIMITED),
        ("memory", "9223372036854775806", UNLIMITED - 1),
    ],
)
def test_quota_is_read_as_kueue_reads_it(resource: str, quantity: str, amount: int) -> None:
    assert quota(resource, quantity) == amount


def test_what_is_unlimited_stays_so() -> None:
    assert add(UNLIMITED, -5) == sub(UNLIMITED, 5) == add(UNLIMITED - 1, 7) == UNLIMITED
    assert sub(UNLIMITED, UNLIMITED) == 0
    assert sub(5, UNLIMITED) == -(2**63)


@each(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 2**30, "1Gi"),
        ("memory", 10**9, "1G"),
        ("memory", 1000, "1k"),
        ("memory", 3 * 2**20 + 1, "3145729"),
        ("nvidia.com/gpu", 8, "8"),
        ("nvidia.com/gpu", 2048, "2048"),
        ("cpu", UNLIMITED, "<unlimited>"),
    ],
)
def test_amounts_are_spelled_as_kueue_spells_them(resource: str, amount: int, text: str) -> None:
    assert spelled(resource, amount) == text


def test_resources_are_in_the_order_of_their_hashes() -> None:
    assert list(in_order({"pods": 1, "cpu": 1, "nvidia.com/gpu": 1, "memory": 1})) == [
        "memory",
        "nvidia.com/gpu",
        "pods",
        "cpu",
    ]


@each(
    ("spec", "field"),
    [
        ({"cohortName": 3}, "spec.cohortName"),
        ({"resourceGroups": "x"}, "spec.resourceGroups"),
        (
            {"resourceGroups": group(nominalQuota="many")},
            "spec.resourceGroups[0].flavors[f].resources[cpu].nominalQuota",
        ),
        ({"resourceGroups": group(lendingLimit="-")}, "spec.resourceGroups[0].flavors[f].resources[cpu].lendingLimit"),
        ({"fairSharing": {"weight": "heavy"}}, "spec.fairSharing.weight"),
        ({"preemption": []}, "spec.preemption"),
        ({"namespaceSelector": {"matchLabels": "all"}}, "spec.namespaceSelector.matchLabels"),
    ],
)
def test_a_cluster_queue_that_does_not_fit_is_refused_by_its_field(spec: Json, field: str) -> None:
    with pytest.raises(Misfit) as refused:
        parse_queues.cluster_queue(cluster_queue(**spec))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        (pod(limits={"cpu": "2"}), {"cpu": 2000}),
        (pod(limits={"cpu": "2"}, requests={"cpu": "1"}), {"cpu": 1000}),
        (pod(requests={"cpu": "1"}) | {"overhead": {"cpu": "250m"}}, {"cpu": 1250}),
        (
            pod(requests={"cpu": "1"}) | {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]},
            {"cpu": 3000},
        ),
        (pod(requests={"cpu": "0"}), {"cpu": 0}),
    ],
)
def test_requests_have_overhead_and_limits_where_there_is_no_request(spec: Json, requests: dict[str, int]) -> None:
    assert parse_workloads.pod_set({"name": "main", "count": 1, "template": {"spec": spec}}, "x").requests == requests


def test_a_workload_that_does_not_fit_is_refused_by_its_field() -> None:
    with pytest.raises(Misfit) as refused:
        parse_workloads.workload(workload(cpu="much"))
    assert refused.value.field == "spec.podSets[0].template.spec"
    with pytest.raises(Misfit) as refused:
        parse_workloads.workload(workload(status={"requeueState": {"requeueAt": "soon"}}))
    assert "soon" in str(refused.value)


def test_a_priority_class_has_its_value() -> None:
    assert parse_queues.priority_class({"metadata": {"name": "high"}, "value": 7}).value == 7


@pytest.mark.parametrize(
    ("tolerations", "labels", "selector", "told"),
    [
        ((), {}, (), "untolerated taint {spot 5 NoSchedule <nil>} in flavor f"),
        ((Toleration("spot", "Exists"),), {}, (("zone", "a"),), ""),
        ((Toleration("spot", "Lt", "6"),), {}, (), ""),
        ((Toleration("spot", "Gt", "6"),), {}, (), "untolerated taint {spot 5 NoSchedule <nil>} in flavor f"),
        ((Toleration("spot", "Exists"),), {"zone": "b"}, (("zone", "a"),), "flavor f doesn't match node affinity"),
    ],
)
def test_a_flavor_is_for_pods_that_may_run_on_its_nodes(
    tolerations: tuple[Toleration, ...], labels: dict[str, str], selector: tuple[tuple[str, str], ...], told: str
) -> None:
    wanted = PodSet("main", 1, 1, {}, NodeConstraints(selector, (), tolerations))
    flavor = ResourceFlavor("f", labels, (Taint("spot", "5", "NoSchedule"),))
    assert mismatch(wanted, flavor) == told


@pytest.mark.parametrize(
    ("preference", "first", "second", "preferred"),
    [
        ("BorrowingOverPreemption", (Possibility.FIT, 2), (Possibility.RECLAIM, 0), True),
        ("PreemptionOverBorrowing", (Possibility.FIT, 2), (Possibility.RECLAIM, 0), False),
        ("PreemptionOverBorrowing", (Possibility.PREEMPT, 0), (Possibility.RECLAIM, 0), False),
        ("PreemptionOverBorrowing", (Possibility.NO_CANDIDATES, 0), (Possibility.FIT, 3), False),
        ("BorrowingOverPreemption", (Possibility.NO_FIT, 0), (Possibility.NO_CANDIDATES, 3), False),
    ],
)
def test_which_flavor_is_preferred(
    preference: str, first: tuple[Possibility, int], second: tuple[Possibility, int], preferred: bool
) -> None:
    fungibility = FlavorFungibility(preference=preference)
    assert is_preferred(Granular(*first), Granular(*second), fungibility) is preferred


def test_when_the_next_flavor_is_tried() -> None:
    stops, goes_on = (
        FlavorFungibility("MayStopSearch", "MayStopSearch"),
        FlavorFungibility("TryNextFlavor", "TryNextFlavor"),
    )
    borrows, preempts = Granular(Possibility.FIT, 1), Granular(Possibility.PREEMPT, 0)
    assert [tries_next(one, stops) for one in (borrows, preempts)] == [False, False]
    assert [tries_next(one, goes_on) for one in (borrows, preempts)] == [True, True]
    assert tries_next(Granular(Possibility.NO_CANDIDATES, 0), stops)


def test_as_many_pods_as_fit_are_admitted() -> None:
    sets = (PodSet("a", 10, 2, {}), PodSet("b", 4, 4, {}))
    tried: list[list[int]] = []

    def fits(counts: list[int]) -> list[int] | None:
        tried.append(list(counts))
        return counts if counts[0] <= 7 else None

    assert most_pods(sets, fits) == [7, 4]
    assert len(tried) <= 4
    assert most_pods(sets, lambda counts: None) is None
    assert most_pods((PodSet("a", 3, 3, {}),), lambda counts: counts) is None


def test_workloads_of_one_shape_are_set_aside_together() -> None:
    queue = PendingQueue("q")
    for one in (info("a", at=1), info("b", at=2), info("c", priority=-1, at=3)):
        queue.put(one, 10)
    head = queue.head()
    assert head is not None
    queue.requeue(head, "NoFit", 10, queue.wakes)
    assert list(queue.active) == ["ns/c"]
    queue.put(info("d", at=4), 10)
    queue.put(info("e", at=0, requeue_at=20), 10)
    queue.put(Info(replace(info("f").workload, namespace="other"), "q"), 10)
    assert sorted(queue.inadmissible) == ["ns/a", "ns/b", "ns/d", "ns/e", "other/f"]
    assert queue.wake(10, lambda namespace: namespace != "other", 1) == 3
    assert sorted(queue.inadmissible) == ["ns/e", "other/f"]
    assert (queue.head() or head).key == "ns/a"
    assert queue.wake(20, lambda namespace: True, 2) == 2
    assert (queue.head() or head).key == "ns/e", "it has waited for longest"


def test_a_strict_queue_waits_for_its_head() -> None:
    queue = PendingQueue("q", "StrictFIFO")
    for one in (info("a", at=1), info("b", at=2)):
        queue.put(one, 10)
    queue.requeue(queue.active["ns/a"], "NoFit", 10, queue.wakes)
    assert (queue.head() or info("x")).key == "ns/a"
    queue.requeue(queue.active["ns/a"], "NamespaceMismatch", 10, queue.wakes)
    assert (queue.head() or info("x")).key == "ns/b"


def test_who_waits_for_its_victims_is_tried_first() -> None:
    queue = PendingQueue("q")
    for one in (info("a", at=1), info("b", at=2)):
        queue.put(one, 10)
    queue.requeue(queue.active["ns/b"], "PendingPreemption", 10, queue.wakes)
    assert (queue.head() or info("x")).key == "ns/b"
    queue.drop("ns/b")
    assert (queue.head() or info("x")).key == "ns/a"


def test_who_was_woken_while_it_was_tried_is_tried_again() -> None:
    queue = PendingQueue("q")
    queue.put(info("a"), 10)
    wakes = queue.wakes
    queue.wake(10, lambda workload: True, wakes + 1)
    queue.requeue(queue.active["ns/a"], "NoFit", 10, wakes)
    assert "ns/a" in queue.active


def test_who_has_to_wait_is_tried_when_its_moment_has_come() -> None:
    state = fleet()
    state.put_workload(
        parse_workloads.workload(workload(status={"requeueState": {"requeueAt": "2026-01-01T00:01:00Z"}})), 0
    )
    start = parse_workloads._moment("2026-01-01T00:00:00Z")
    assert decide(state, start) == []
    assert state.due(start) == 0
    assert state.due(start + 60) == 1
    assert isinstance(decide(state, start + 60)[0], Admit)


def test_past_usage_fades_by_half_in_a_half_life() -> None:
    assert decayed({"cpu": Decimal(8)}, {}, 60, 60) == {"cpu": Decimal(4)}
    assert decayed({"cpu": Decimal(8)}, {"cpu": Decimal(4)}, 60, 60) == {"cpu": Decimal(6)}


def test_an_admitted_workload_counts_before_its_usage_is_sampled() -> None:
    history = UsageHistory(AdmissionFairSharing(300, 300, {"cpu": 2.0}))
    asked = {"cpu": Decimal(4), "memory": Decimal(1)}
    history.enter("ns/a", "ns/w", history.penalty(asked), 0)
    assert history.usage("ns/a", 1.0) == 4.5
    assert history.usage("ns/a", 0.5) == 9.0
    assert history.usage("ns/a", 0.0) == math.inf
    settled = history.sampled("ns/a", {"cpu": Decimal(4)}, 0, ["ns/w"])
    history.record("ns/a", settled, 0, ["ns/w"])
    assert history.usage("ns/a", 1.0) == 4.5
    assert history.entered("ns/a") == ()
    history.record("ns/a", history.sampled("ns/a", {}, 300), 300)
    assert history.usage("ns/a", 1.0) == 2.25
    history.forget("ns/a")
    assert history.usage("ns/a", 1.0) == 0.0
