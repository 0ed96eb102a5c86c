"""What is known of the past usage of local queues: after a restart, in the answer of `why`, taken over from Kueue's
manager, under names that come again, and by other settings."""

from __future__ import annotations

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
from controlplane.settings import SettingsError, resolve
from controlplane.settings.plain import plain
from tests.quota.admission.scene import NS, Scene
from tests.quota.admission.test_admission_fair_sharing import (
    consumed,
    local,
    samples,
    scene_of,
    status_of,
    usage,
    writes,
)
from tests.support import folded
from tests.support.rows import each

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
        f"The weighted past usage of its LocalQueue is {usage(scene, 'a'):.4g}; Workloads of LocalQueues that used "
        "less come first."
    )
    other = Scene()
    other.queue("q", "1")
    other.workload("w", "q", "2")
    other.settle()
    wait = explain(other.controller.index.engine, f"{NS}/w", 0)
    assert wait is not None
    assert not [one for one in sentences(plain_wait(wait)) if "past usage" in one]


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
        "quota:\n  admissionFairSharing:\n    enable: 'yes'\n    usageHalfLifeTime: 168h\n    usageSamplingInterval: "
        "2m\n"
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


@each(
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
