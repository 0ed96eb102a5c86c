"""Who comes first where the past usage of LocalQueues counts, as with Kueue's `admissionFairSharing`."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from controlplane.audit.quota_wait import plain as plain_wait
from controlplane.audit.quota_wait import sentences
from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.controller import AdmissionController
from controlplane.controllers.quota.admission.hosting import admission_fair_sharing
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.engine.explain import explain
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.kube.requests import timestamp
from controlplane.runtime.controller import WriteRefusal
from controlplane.settings import SettingsError, resolve
from controlplane.settings.load import plain
from tests.quota.admission.scene import NS, START, Scene
from tests.support import folded

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
    """In StrictFIFO the head of the queue keeps others waiting: the one that waits is tried once its LocalQueue used less."""
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


# From the log.


def busy() -> Scene:
    scene = scene_of("a", "b")
    for at, queue in enumerate("abab"):
        scene.workload(f"w{at}", queue, str(1 + at))
        scene.pass_time(130)
        scene.finish(f"w{at}")
        scene.pass_time(200)
    scene.workload("last", "a", "4")
    scene.pass_time(20)
    scene.workload("a1", "a", "1")
    scene.workload("b1", "b", "1")
    scene.pass_time(20)
    return scene


def test_a_replay_and_a_snapshot_know_the_same_past() -> None:
    scene = busy()
    history = scene.controller.index.engine.history.kept()
    assert any(one[0] for one in history.values())
    assert scene.replayed().index.engine.history.kept() == history
    restarted = folded.copied(scene.controller, AdmissionController(scene.settings, "test"))
    assert folded.difference(scene.controller, restarted) == {}
    assert restarted.index.engine.history.kept() == history


def test_a_restart_samples_what_it_would_have_sampled() -> None:
    scene, other = busy(), busy()
    scene.controller = scene.replayed()
    scene.controller.index.all_dirty()
    for one in (scene, other):
        one.pass_time(300)
    assert samples(scene, "a")[-1] == samples(other, "a")[-1]


def test_other_settings_leave_the_past_as_it_was_recorded() -> None:
    scene = busy()
    index = AdmissionIndex(EngineSettings(admission_fair_sharing=AdmissionFairSharing(7, 11)))
    for recorded in scene.log:
        index.fold(recorded)
    assert index.engine.history.kept() == scene.controller.index.engine.history.kept()


def test_why_tells_the_order_by_usage_now_and_then() -> None:
    scene = busy()
    index = AdmissionIndex(scene.settings)
    told_then = {}
    for recorded in scene.log:
        index.fold(recorded)
        for name in ("a1", "b1"):
            told_then[recorded.position, name] = explain(index.engine, f"{NS}/{name}", 0)
    now = {name: explain(scene.controller.index.engine, f"{NS}/{name}", 0) for name in ("a1", "b1")}
    assert (now["b1"].position, now["a1"].position) == (1, 2)  # type: ignore[union-attr]
    assert now["a1"].ahead == (f"{NS}/b1",)  # type: ignore[union-attr]
    assert {name: told_then[len(scene.log), name] for name in ("a1", "b1")} == now
    assert now["a1"].used > now["b1"].used > 0  # type: ignore[union-attr, operator]


def test_why_says_what_the_local_queue_used() -> None:
    scene = busy()
    wait = explain(scene.controller.index.engine, f"{NS}/a1", 0)
    assert wait is not None
    (told_used,) = [one for one in sentences(plain_wait(wait)) if "past usage" in one]
    assert told_used == (
        f"The weighted past usage of its LocalQueue is {usage(scene, 'a'):.4g}; Workloads of LocalQueues that used less come first."
    )
    other = Scene()
    other.queue("q", "1")
    other.workload("w", "q", "2")
    other.settle()
    wait = explain(other.controller.index.engine, f"{NS}/w", 0)
    assert wait is not None
    assert not [one for one in sentences(plain_wait(wait)) if "past usage" in one]


# What a status tells.


def status_of(cpu: str) -> Json:
    said = {"consumedResources": {"cpu": cpu}, "lastUpdate": timestamp(START)}
    return {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": said}}


def test_what_kueues_manager_counted_is_taken_over() -> None:
    scene = scene_of("a", status=status_of("8"))
    assert usage(scene, "a") == 8
    scene.pass_time(298)
    assert usage(scene, "a") == 4
    assert consumed(scene, "a") == {"cpu": "4"}


def test_who_used_nothing_is_told_so_for_each_resource_of_its_cluster_queue() -> None:
    scene = scene_of("a")
    assert consumed(scene, "a") == {"cpu": "0"}
    assert usage(scene, "a") == 0


def test_a_status_is_taken_over_once() -> None:
    scene = scene_of("a", status=status_of("8"))
    scene.put(
        kinds.LOCAL_QUEUES, "a", NS, status={**scene.objects[kinds.LOCAL_QUEUES, NS, "a"]["status"], **status_of("80")}
    )
    scene.settle()
    assert usage(scene, "a") == 8


def test_a_new_local_queue_of_the_same_name_used_nothing() -> None:
    scene = scene_of("a", status=status_of("8"))
    scene.drop((kinds.LOCAL_QUEUES, NS, "a"))
    local(scene, "a")
    scene.settle()
    assert usage(scene, "a") == 0


def test_another_local_queue_of_the_same_name_used_nothing_though_nobody_saw_the_first_one_go() -> None:
    scene = scene_of("a", status=status_of("8"))
    scene.put(kinds.LOCAL_QUEUES, "a", NS, status={}, metadata={"uid": "another"})
    scene.settle()
    assert usage(scene, "a") == 0


def test_a_log_that_is_begun_anew_writes_no_status_before_it_is_time() -> None:
    before = scene_of("a", status=status_of("8"))
    status = before.objects[kinds.LOCAL_QUEUES, NS, "a"]["status"]
    scene = scene_of(status={})
    scene.now = before.now
    local(scene, "a", status=status)
    scene.settle()
    assert samples(scene, "a")[-1].reason == "UsageTakenOver"
    scene.pass_time(297)
    assert writes(scene, "a") == 0
    scene.pass_time(300)
    assert writes(scene, "a") == 1


def test_where_past_usage_does_not_count_a_status_stays_as_it_is() -> None:
    scene = scene_of("a", sharing=None, status=status_of("8"))
    scene.workload("w", "a", "4")
    scene.settle()
    for _ in range(3):
        scene.pass_time(300)
    assert consumed(scene, "a") == {"cpu": "8"}
    assert samples(scene, "a") == []


def test_a_half_life_of_zero_counts_nothing_and_is_quiet() -> None:
    scene = scene_of("a", sharing=AdmissionFairSharing(0, 300), status=status_of("8"))
    scene.workload("w", "a", "4")
    scene.settle()
    scene.pass_time(300)
    assert consumed(scene, "a") == {}
    before = len(scene.log)
    for _ in range(4):
        scene.pass_time(300)
    assert len(scene.log) == before


# What is wrong.


@pytest.mark.parametrize(
    ("weight", "wrong", "to_do"),
    [
        ("heavy", "not a quantity: 'heavy'", "Write a number such as 1, 0.5 or 500m"),
        ("-1", "-1 is negative", "Write 0 to come after all others, 1 for the usual weight, or more"),
    ],
)
def test_a_bad_weight_is_refused_by_name_and_the_others_go_on(weight: str, wrong: str, to_do: str) -> None:
    scene = scene_of("a", "b")
    local(scene, "a", weight)
    (refused,) = (one.event for one in scene.log if isinstance(one.event, events.AdmissionInputRefused))
    assert (refused.kind, refused.namespace, refused.name) == ("localqueues.kueue.x-k8s.io", NS, "a")
    assert refused.error.startswith(f"spec.fairSharing.weight: {wrong}")
    assert refused.error.endswith(f". {to_do}")
    scene.workload("b1", "b")
    scene.workload("a1", "a")
    scene.settle()
    assert scene.is_true("b1", "Admitted")
    assert scene.is_true("a1", "Admitted"), "what was known of the LocalQueue counts on"


def test_consumed_resources_that_are_no_quantities_are_refused_by_name() -> None:
    scene = scene_of("b")
    local(scene, "a", status=status_of("much"))
    (refused,) = (one.event for one in scene.log if isinstance(one.event, events.AdmissionInputRefused))
    assert refused.error.startswith(
        "status.fairSharing.admissionFairSharingStatus.consumedResources: cpu: not a quantity: 'much'"
    )
    assert refused.error.endswith("Remove the field, and its past usage is counted anew")
    scene.workload("b1", "b")
    scene.settle()
    assert scene.is_true("b1", "Admitted")


# The settings.


def test_the_settings_say_how_past_usage_counts(tmp_path: Any) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(
        "quota:\n  admissionFairSharing:\n    enable: 'yes'\n    usageHalfLifeTime: 168h\n    usageSamplingInterval: 2m\n"
        "    resourceWeights:\n      cpu: 2\n      memory: 0\n"
    )
    found = admission_fair_sharing(resolve(file, {}).settings)
    assert found == AdmissionFairSharing(604_800, 120, {"cpu": 2.0, "memory": 0.0})
    variables = {"CONTROLPLANE_QUOTA_ADMISSION_FAIR_SHARING_RESOURCE_WEIGHTS": "cpu=2, nvidia.com/gpu=0.5"}
    weights = resolve(None, variables).settings.quota.admission_fair_sharing.resource_weights
    assert weights == (("cpu", 2.0), ("nvidia.com/gpu", 0.5))
    shown = plain(resolve(file, {}).settings)["quota"]["admissionFairSharing"]["resourceWeights"]
    assert shown == ["cpu=2", "memory=0"]
    assert resolve(
        None, {next(iter(variables)): ",".join(shown)}
    ).settings.quota.admission_fair_sharing.resource_weights == (
        ("cpu", 2.0),
        ("memory", 0.0),
    )


def test_without_them_it_does_not() -> None:
    assert admission_fair_sharing(resolve(None, {}, {}).settings) is None


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ("cpu=heavy", 'has for cpu "heavy", which is no weight: write a number of 0 or more, such as 0.5.'),
        ("cpu=-1", 'has for cpu "-1", which is no weight: write a number of 0 or more, such as 0.5.'),
        ("cpu=inf", 'has for cpu "inf", which is no weight: write a number of 0 or more, such as 0.5.'),
        ("cpu", 'has for cpu "", which is no weight: write a number of 0 or more, such as 0.5.'),
        ("a b=1", 'has "a b", which is no name of a resource: write one such as cpu or nvidia.com/gpu.'),
        ("cpu=1,cpu=2", "names cpu twice."),
    ],
)
def test_a_bad_weight_of_a_resource_is_refused_by_name(weights: str, why: str) -> None:
    variable = "CONTROLPLANE_QUOTA_ADMISSION_FAIR_SHARING_RESOURCE_WEIGHTS"
    with pytest.raises(SettingsError) as found:
        resolve(None, {variable: weights}, {})
    assert found.value.problems == (f"{variable}: quota.admissionFairSharing.resourceWeights {why}",)
