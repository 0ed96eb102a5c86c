"""What LimitRanges and RuntimeClasses make of what a Workload asks for, as Kueue's manager counts it."""

from __future__ import annotations

import pytest

from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from tests.quota.admission.scene import NS, Scene
from tests.support.rows import each


def limit_range(scene: Scene, name: str = "limits", type_: str = "Container", **said: Json) -> None:
    scene.put(kinds.LIMIT_RANGES, name, NS, spec={"limits": [{"type": type_, **said}]})


def workload(scene: Scene, resources: Json | None = None, count: int = 1, **spec: object) -> None:
    """A Workload `a` in the queue `q`, whose one container has these resources."""
    containers = [{"name": "c", **({"resources": resources} if resources else {})}]
    template = {"spec": {"containers": containers, **spec}}
    scene.workload("a", "q", podSets=[{"name": "main", "count": count, "template": template}])


def used(scene: Scene) -> object:
    """What the Workload has of `q`; None while it waits."""
    found = scene.status("a").get("admission")
    return found["podSetAssignments"][0]["resourceUsage"]["cpu"] if found else None


def waits(scene: Scene) -> tuple[str, str]:
    found = scene.condition("a", "QuotaReserved")
    return found.get("reason", ""), found.get("message", "")


@each(
    ("resources", "said", "cpu"),
    [
        (None, {"defaultRequest": {"cpu": "3"}}, "3"),
        (None, {"defaultRequest": {"cpu": "3"}, "default": {"cpu": "4"}}, "3"),
        (None, {"default": {"cpu": "4"}}, "4"),
        ({"limits": {"cpu": "2"}}, {"default": {"cpu": "4"}}, "2"),
        ({"limits": {"cpu": "5"}}, {"defaultRequest": {"cpu": "3"}}, "3"),
        ({"requests": {"cpu": "1"}}, {"defaultRequest": {"cpu": "3"}}, "1"),
    ],
)
def test_defaults_of_containers_count(resources: Json | None, said: Json, cpu: str) -> None:
    scene = Scene()
    scene.queue("q", "10")
    limit_range(scene, **said)
    workload(scene, resources)
    scene.settle()
    assert used(scene) == cpu


def test_the_overhead_of_a_runtime_class_counts_for_each_pod_that_names_it() -> None:
    scene = Scene()
    scene.queue("q", "10")
    scene.put(kinds.RUNTIME_CLASSES, "kata", handler="kata", overhead={"podFixed": {"cpu": "500m"}})
    workload(scene, {"requests": {"cpu": "1"}}, count=2, runtimeClassName="kata")
    scene.settle()
    assert used(scene) == "3"


def test_an_overhead_that_the_pods_say_themselves_is_not_added_twice() -> None:
    scene = Scene()
    scene.queue("q", "10")
    scene.put(kinds.RUNTIME_CLASSES, "kata", overhead={"podFixed": {"cpu": "500m"}})
    workload(scene, {"requests": {"cpu": "1"}}, runtimeClassName="kata", overhead={"cpu": "250m"})
    scene.settle()
    assert used(scene) == "1250m"


_PATH = "spec.podSets[0].template.spec"
_CONTAINER = f'{_PATH}.containers[0]: Invalid value: ["cpu"]: requests must not be'
_POD = f'{_PATH}: Invalid value: ["cpu"]: requests must not be'


@pytest.mark.parametrize(
    ("type_", "said", "message"),
    [
        ("Container", {"max": {"cpu": "1"}}, f"{_CONTAINER} above the limitRange max"),
        ("Container", {"min": {"cpu": "3"}}, f"{_CONTAINER} below the limitRange min"),
        ("Pod", {"max": {"cpu": "1500m"}}, f"{_POD} above the limitRange max"),
        ("Pod", {"min": {"cpu": "2500m"}}, f"{_POD} below the limitRange min"),
    ],
)  # fmt: skip
def test_what_is_outside_of_the_limits_waits_until_they_change(type_: str, said: Json, message: str) -> None:
    scene = Scene()
    scene.queue("q", "10")
    limit_range(scene, type_=type_, **said)
    workload(scene, {"requests": {"cpu": "2"}})
    scene.settle()
    assert waits(scene) == ("Misconfigured", f"resources didn't satisfy LimitRange constraints: {message}")
    limit_range(scene, type_=type_, max={"cpu": "2"}, min={"cpu": "2"})
    scene.settle()
    assert used(scene) == "2"


def test_a_default_that_exceeds_what_is_free_waits_until_the_limit_range_is_gone() -> None:
    scene = Scene()
    scene.queue("q", "2")
    limit_range(scene, defaultRequest={"cpu": "3"})
    workload(scene)
    scene.settle()
    assert used(scene) is None
    scene.delete(kinds.LIMIT_RANGES, "limits", NS)
    scene.settle()
    assert scene.is_true("a", "QuotaReserved")


def test_an_overhead_that_becomes_smaller_lets_a_waiting_workload_in() -> None:
    scene = Scene()
    scene.queue("q", "2")
    scene.put(kinds.RUNTIME_CLASSES, "kata", overhead={"podFixed": {"cpu": "2"}})
    workload(scene, {"requests": {"cpu": "1"}}, runtimeClassName="kata")
    scene.settle()
    assert used(scene) is None
    scene.put(kinds.RUNTIME_CLASSES, "kata", overhead={"podFixed": {"cpu": "1"}})
    scene.settle()
    assert used(scene) == "2"


def test_who_has_quota_keeps_what_was_counted() -> None:
    scene = Scene()
    scene.queue("q", "10")
    workload(scene, {"limits": {"cpu": "2"}})
    scene.settle()
    limit_range(scene, defaultRequest={"cpu": "5"})
    scene.settle()
    assert used(scene) == "2"
    assert scene.is_true("a", "Admitted")


def test_several_limit_ranges_are_taken_together() -> None:
    scene = Scene()
    scene.queue("q", "10")
    limit_range(scene, "a-first", defaultRequest={"cpu": "1"}, max={"cpu": "4"})
    limit_range(scene, "b-second", defaultRequest={"cpu": "2", "memory": "1Gi"}, max={"cpu": "3"})
    workload(scene, {"limits": {"cpu": "4"}})
    scene.settle()
    assert "above the limitRange max" in waits(scene)[1]
    limit_range(scene, "b-second", defaultRequest={"cpu": "2"})
    scene.settle()
    assert used(scene) == "1"


def test_limits_of_another_namespace_do_not_count() -> None:
    scene = Scene()
    scene.queue("q", "10")
    scene.put(kinds.LIMIT_RANGES, "limits", "other", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})
    workload(scene, {"requests": {"cpu": "2"}})
    scene.settle()
    assert used(scene) == "2"


def test_a_limit_range_that_cannot_be_read_is_refused_and_others_go_on() -> None:
    scene = Scene()
    scene.queue("q", "10")
    limit_range(scene, max={"cpu": "many"})
    workload(scene, {"requests": {"cpu": "2"}})
    scene.settle()
    assert used(scene) == "2"
    (refused,) = [one.event for one in scene.log if "refused/limitranges" in one.stream]
    assert "many" in refused.error


def test_a_replay_ends_in_the_same_state() -> None:
    scene = Scene()
    scene.queue("q", "2")
    limit_range(scene, defaultRequest={"cpu": "3"}, max={"cpu": "4"})
    scene.put(kinds.RUNTIME_CLASSES, "kata", overhead={"podFixed": {"cpu": "1"}})
    workload(scene, runtimeClassName="kata")
    scene.settle()
    limit_range(scene, defaultRequest={"cpu": "1"})
    scene.settle()
    assert used(scene) == "2"
    replayed = scene.replayed()
    has, again = scene.controller.index.engine.snapshot.workloads, replayed.index.engine.snapshot.workloads
    assert {key: info.usage for key, info in has.items()} == {key: info.usage for key, info in again.items()}
