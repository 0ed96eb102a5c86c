"""Who comes first where the past usage of LocalQueues counts, as with Kueue's `admissionFairSharing`."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.requests import timestamp
from controlplane.runtime.controller import WriteRefusal
from tests.quota.admission.scene import NS, START, Scene

SHARING = AdmissionFairSharing(half_life=300, sampling_interval=300)
BY_USAGE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def scene_of(
    *queues: str,
    sharing: AdmissionFairSharing | None = SHARING,
    cpu: str = "4",
    status: Json | None = None,
    **spec: Any,
) -> Scene:
    """Have a ClusterQueue `q`, and LocalQueues that lead to it."""
    scene = Scene(past_usage=sharing)
    scene.queue("q", cpu, **{**BY_USAGE, **spec})
    for name in queues:
        local(scene, name, **({"status": status} if status is not None else {}))
    scene.settle()
    scene.pass_time(2)
    return scene


def local(scene: Scene, name: str, weight: object = None, **fields: Any) -> None:
    sharing = {} if weight is None else {"fairSharing": {"weight": weight}}
    scene.put(kinds.LOCAL_QUEUES, name, NS, spec={"clusterQueue": "q", **sharing}, **fields)


def told(scene: Scene, queue: str) -> Json:
    found: Json = scene.objects[kinds.LOCAL_QUEUES, NS, queue]["status"].get("fairSharing", {})
    return found


def consumed(scene: Scene, queue: str) -> Json:
    return dict(told(scene, queue)["admissionFairSharingStatus"]["consumedResources"])


def samples(scene: Scene, queue: str) -> list[Any]:
    stream = f"admission/localqueue/{NS}/{queue}"
    return [
        one.event for one in scene.log if one.stream == stream and isinstance(one.event, events.LocalQueueUsageSampled)
    ]


def usage(scene: Scene, queue: str) -> float:
    return scene.controller.index.engine.usage_of(f"{NS}/{queue}")


def writes(scene: Scene, queue: str) -> int:
    return sum(one.ref.kind == kinds.LOCAL_QUEUES and one.ref.name == queue for one in scene.written)


def in_turn(scene: Scene) -> list[str]:
    """Return in which order quota was reserved."""
    return [one.stream.rpartition("/")[2] for one in scene.log if isinstance(one.event, events.QuotaReservationDecided)]


# What counts.


def test_who_used_less_comes_first_though_others_wait_for_longer() -> None:
    scene = scene_of("a", "b")
    scene.workload("hog", "a", "4")
    scene.settle()
    scene.pass_time(300)
    scene.workload("a1", "a", "4")
    scene.pass_time(5)
    scene.workload("b1", "b", "4")
    scene.pass_time(5)
    scene.finish("hog")
    scene.settle()
    assert in_turn(scene) == ["hog", "b1"]


@pytest.mark.parametrize(
    ("sharing", "mode"),
    [(None, BY_USAGE), (SHARING, {}), (SHARING, {"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}})],
)
def test_where_past_usage_does_not_count_who_waits_longer_comes_first(
    sharing: AdmissionFairSharing | None, mode: Json
) -> None:
    scene = Scene(past_usage=sharing)
    scene.queue("q", "4", **mode)
    local(scene, "a")
    local(scene, "b")
    scene.workload("hog", "a", "4")
    scene.settle()
    scene.pass_time(300)
    scene.workload("a1", "a", "4")
    scene.pass_time(5)
    scene.workload("b1", "b", "4")
    scene.pass_time(5)
    scene.finish("hog")
    scene.settle()
    assert in_turn(scene) == ["hog", "a1"]


def test_an_admitted_workload_counts_at_once() -> None:
    """Before any sample: the first of each LocalQueue, and then in turn."""
    scene = scene_of("a", "b", cpu="4")
    for name in ("a1", "a2", "a3"):
        scene.workload(name, "a", "1")
        scene.now += timedelta(seconds=1)
    for name in ("b1", "b2", "b3"):
        scene.workload(name, "b", "1")
        scene.now += timedelta(seconds=1)
    scene.settle()
    assert in_turn(scene) == ["a1", "b1", "a2", "b2"]
    assert [one.event.penalty for one in scene.log if isinstance(one.event, events.QuotaReservationDecided)] == [
        {"cpu": "500m"}
    ] * 4


@pytest.mark.parametrize(("weight", "first"), [("2", "a1"), ("500m", "b1"), ("0", "b1"), (None, "b1")])
def test_a_weight_divides_what_was_used(weight: str | None, first: str) -> None:
    scene = scene_of("b")
    local(scene, "a", weight)
    for name, cpu in (("a", "4"), ("b", "3")):
        scene.workload(f"{name}0", name, cpu)
        scene.settle()
        scene.finish(f"{name}0")
        scene.settle()
    scene.workload("hog", "q", "4")
    scene.settle()
    scene.workload("b1", "b", "4")
    scene.workload("a1", "a", "4")
    scene.pass_time(5)
    scene.finish("hog")
    scene.settle()
    assert in_turn(scene)[-1] == first


def test_resources_weigh_what_the_settings_say() -> None:
    scene = scene_of("a", sharing=AdmissionFairSharing(300, 300, {"cpu": 10.0}))
    scene.workload("w", "a", "4")
    scene.settle()
    assert 20 < usage(scene, "a") < 20.2


# The samples.


def test_usage_is_sampled_and_told_at_each_interval_and_at_no_other_time() -> None:
    scene = scene_of("a")
    scene.workload("w", "a", "4")
    scene.settle()
    assert [(one.reason, one.consumed, one.settled) for one in samples(scene, "a")] == [
        ("UsageTakenOver", {}, []),
        ("EntryPenaltySettled", {"cpu": "2018441283n"}, [f"{NS}/w"]),
    ]
    scene.pass_time(2)
    before = writes(scene, "a")
    for _ in range(29):
        scene.pass_time(10)
    assert writes(scene, "a") == before
    scene.pass_time(10)
    assert writes(scene, "a") == before + 1
    assert samples(scene, "a")[-1].reason == "UsageSampled"
    assert samples(scene, "a")[-1].used == {"cpu": "4"}
    assert 2.99 < usage(scene, "a") < 3.02
    status = told(scene, "a")
    assert status["weightedShare"] == 0
    assert status["admissionFairSharingStatus"] == {
        "consumedResources": samples(scene, "a")[-1].consumed,
        "lastUpdate": timestamp(samples(scene, "a")[-1].sampled_at),
    }


def test_a_sample_changes_who_is_tried_next() -> None:
    """In StrictFIFO the head of the queue keeps others waiting: the one that waits is tried once its LocalQueue used
    less."""
    scene = scene_of(queueingStrategy="StrictFIFO")
    local(scene, "b", status=status_of("2"))
    local(scene, "a")
    scene.workload("runs", "a", "3")
    scene.settle()
    scene.workload("a1", "a", "2")
    scene.workload("b1", "b", "1")
    scene.settle()
    scene.pass_time(290)
    assert not scene.is_true("b1", "QuotaReserved")
    scene.pass_time(10)
    assert usage(scene, "b") < usage(scene, "a")
    assert scene.is_true("b1", "QuotaReserved")


def test_what_was_used_fades_once_nothing_is() -> None:
    scene = scene_of("a")
    scene.workload("w", "a", "4")
    scene.settle()
    scene.pass_time(300)
    scene.finish("w")
    scene.settle()
    seen = [usage(scene, "a")]
    for _ in range(4):
        scene.pass_time(300)
        seen.append(usage(scene, "a"))
    for before, after in itertools.pairwise(seen):
        assert after == pytest.approx(before / 2, rel=1e-6)


def test_a_local_queue_that_is_idle_is_not_sampled() -> None:
    scene = scene_of("a")
    before = len(scene.log)
    for _ in range(10):
        scene.pass_time(300)
    assert len(scene.log) == before
    scene.pass_time(299)
    scene.workload("w", "a", "4")
    scene.settle()
    assert usage(scene, "a") < 4, "the time before it came counts for one interval at most"


def test_an_idle_local_queue_is_sampled_when_a_hundredth_has_faded() -> None:
    """With the usual half-life of a week that is every 2.4 hours and not every five minutes."""
    scene = scene_of("a", sharing=AdmissionFairSharing(half_life=604_800, sampling_interval=300))
    scene.workload("w", "a", "4")
    scene.settle()
    scene.pass_time(3_000)
    scene.finish("w")
    scene.settle()
    scene.pass_time(600)
    before, was, lines = len(samples(scene, "a")), usage(scene, "a"), len(scene.log)
    for _ in range(288):
        scene.pass_time(300)
    assert len(samples(scene, "a")) - before == 9
    assert len(scene.log) - lines <= 3 * 9
    assert usage(scene, "a") == pytest.approx(was * 0.5 ** (1 / 7), rel=0.01)
    scene.pass_time(299)
    scene.workload("v", "a", "4")
    scene.settle()
    faded = was * 0.5 ** (86_699 / 604_800)
    counts = 4 * (1 - 0.5 ** (600 / 604_800))
    assert faded < usage(scene, "a") <= faded + counts, "what begins counts for one interval, and by its penalty"


def test_a_stopped_local_queue_is_not_sampled() -> None:
    scene = scene_of("a")
    scene.workload("w", "a", "4")
    scene.settle()
    scene.put(kinds.LOCAL_QUEUES, "a", NS, spec={"clusterQueue": "q", "stopPolicy": "Hold"})
    scene.settle()
    before = len(samples(scene, "a"))
    scene.pass_time(900)
    assert len(samples(scene, "a")) == before


def test_it_is_sampled_though_its_status_cannot_be_written() -> None:
    scene = scene_of("a")
    scene.refuses = lambda request: (
        WriteRefusal(403, "Forbidden", "not allowed") if request.ref.kind == kinds.LOCAL_QUEUES else None
    )
    scene.workload("w", "a", "4")
    scene.pass_time(1)
    for _ in range(4):
        scene.pass_time(300)
    assert usage(scene, "a") > 3.5


# Penalties that are not settled.


def checked(scene: Scene) -> None:
    """Have an admission check in the way of being admitted."""
    scene.put(kinds.ADMISSION_CHECKS, "check", spec={"controllerName": "somebody"}, status={
        "conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": timestamp(START)}]
    })  # fmt: skip
    scene.settle()


def waiting_for_its_check() -> Scene:
    scene = Scene(past_usage=SHARING)
    checked(scene)
    scene.queue("q", "4", **BY_USAGE, admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})
    local(scene, "a")
    local(scene, "b")
    scene.settle()
    scene.workload("w", "a", "4")
    scene.settle()
    assert scene.is_true("w", "QuotaReserved")
    assert not scene.is_true("w", "Admitted")
    assert usage(scene, "a") == 2
    return scene


def test_who_waits_for_its_checks_counts_and_is_settled_once_it_is_admitted() -> None:
    scene = waiting_for_its_check()
    assert [one.settled for one in samples(scene, "a")] == [[]]
    states = [{"name": "check", "state": "Ready", "message": "", "lastTransitionTime": timestamp(scene.now)}]
    scene.put(kinds.WORKLOADS, "w", NS, status={**scene.status("w"), "admissionChecks": states})
    scene.settle()
    assert scene.is_true("w", "Admitted")
    assert samples(scene, "a")[-1].settled == [f"{NS}/w"]
    scene.settle()
    assert usage(scene, "a") == 2, "settled once, and not again"


def test_where_past_usage_counts_no_more_nobody_is_settled() -> None:
    scene = waiting_for_its_check()
    spec = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["spec"]
    scene.put(kinds.CLUSTER_QUEUES, "q", spec={key: one for key, one in spec.items() if key != "admissionScope"})
    states = [{"name": "check", "state": "Ready", "message": "", "lastTransitionTime": timestamp(scene.now)}]
    scene.put(kinds.WORKLOADS, "w", NS, status={**scene.status("w"), "admissionChecks": states})
    scene.settle()
    assert scene.is_true("w", "Admitted")
    assert [one.settled for one in samples(scene, "a")] == [[]]
    scene.finish("w")
    assert usage(scene, "a") == 0


def test_who_is_evicted_before_it_was_admitted_counts_until_it_is_over() -> None:
    scene = waiting_for_its_check()
    scene.set_condition("w", "QuotaReserved", "False", "Pending", admission=None)
    assert usage(scene, "a") == 2
    scene.settle()
    assert usage(scene, "a") == 2, "quota was reserved again, and it counts once"
    scene.finish("w")
    scene.settle()
    assert usage(scene, "a") == 0


@pytest.mark.parametrize("how", ["deleted", "moved", "deactivated", "finished"])
def test_who_can_never_be_settled_does_not_count_on(how: str) -> None:
    scene = waiting_for_its_check()
    if how == "deleted":
        scene.drop((kinds.WORKLOADS, NS, "w"))
    elif how == "finished":
        scene.finish("w")
    else:
        scene.set_condition("w", "QuotaReserved", "False", "Pending", admission=None)
        change = {"queueName": "b"} if how == "moved" else {"active": False}
        scene.put(kinds.WORKLOADS, "w", NS, spec={**scene.of("w")["spec"], **change})
    assert usage(scene, "a") == 0


def test_a_reservation_that_was_refused_does_not_count() -> None:
    scene = scene_of("a")
    scene.refuses = lambda request: (
        WriteRefusal(403, "Forbidden", "not allowed") if request.ref.kind == kinds.WORKLOADS else None
    )
    scene.workload("w", "a", "4")
    scene.decide()
    assert usage(scene, "a") > 0
    scene.carry_out()
    assert usage(scene, "a") == 0


def test_a_reservation_that_was_overtaken_does_not_count() -> None:
    scene = scene_of("a")
    scene.workload("w", "a", "4")
    scene.decide()
    assert usage(scene, "a") > 0
    scene.put(kinds.WORKLOADS, "w", NS, metadata={"labels": {"other": "one"}})
    assert usage(scene, "a") == 0
    scene.settle()
    assert scene.is_true("w", "Admitted")
    assert 1.9 < usage(scene, "a") < 2.1


# What a status tells.


def status_of(cpu: str) -> Json:
    said = {"consumedResources": {"cpu": cpu}, "lastUpdate": timestamp(START)}
    return {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": said}}
