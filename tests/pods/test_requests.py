"""What a pod asks for, case by case (specs/scheduler.md section 2)."""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import Json
from controlplane.kube.pod_requests import ADMITTED, effective, scheduled
from controlplane.kube.quantities import to_milli
from tests.support.rows import each


def container(restart: str = "", name: str = "c", **requests: str) -> Json:
    made: Json = {"name": name, "resources": {"requests": requests}}
    return made | ({"restartPolicy": restart} if restart else {})


@each(
    ("spec", "cpu"),
    [
        ({"containers": [container(cpu="1"), container(cpu="500m")]}, 1500),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]}, 3000),
        ({"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="2")]}, 3000),
        (
            {"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="2"), container(cpu="4")]},
            6000,
        ),
        (  # a sidecar that starts later is not there yet
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="4"), container("Always", cpu="2")]},
            4000,
        ),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "5"}}}, 5000),
        ({"containers": [container(cpu="9")], "resources": {"requests": {"cpu": "5"}}, "overhead": {"cpu": "1"}}, 6000),
    ],
)
def test_what_a_pod_asks_for(spec: Json, cpu: int) -> None:
    assert to_milli(effective(spec, ADMITTED)["cpu"]) == cpu
    assert scheduled(spec)[0]["cpu"] == cpu


def test_limits_stand_in_only_after_admission() -> None:
    limited = {"containers": [{"resources": {"limits": {"cpu": "2"}}}]}
    assert to_milli(effective(limited, ADMITTED)["cpu"]) == 2000
    assert effective(limited) == {}
    both = {"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}
    assert to_milli(effective(both, ADMITTED)["cpu"]) == 1000


def test_a_pod_may_ask_for_nothing() -> None:
    assert effective({"containers": [{"name": "c"}]}) == {}
    assert effective({}) == {}


def test_the_sum_is_rounded_once() -> None:
    spec = {"containers": [container(memory="500m"), container(memory="500m")]}
    assert scheduled(spec)[0] == {"memory": 1}


@each(
    ("spec", "cpu", "memory"),
    [
        ({"containers": [container()]}, 100, 200 * 2**20),
        ({"containers": [container(), container(cpu="1")]}, 1100, 400 * 2**20),
        ({"containers": [container(cpu="0", memory="0")]}, 0, 0),
        ({"containers": [container(cpu="1")], "initContainers": [container(), container()]}, 1000, 200 * 2**20),
        ({"containers": [container()], "initContainers": [container("Always")]}, 200, 400 * 2**20),
        ({"containers": [container()], "resources": {"requests": {"cpu": "2"}}}, 2000, 200 * 2**20),
        ({"containers": [container(memory="1"), container()], "resources": {"requests": {"cpu": "2"}}}, 2000, 1),
        ({"containers": [container()], "overhead": {"cpu": "10m"}}, 110, 200 * 2**20),
        ({}, 0, 0),
    ],
)
def test_what_a_container_without_requests_counts_as(spec: Json, cpu: int, memory: int) -> None:
    assert scheduled(spec)[1:] == (cpu, memory)


def test_only_cpu_memory_and_hugepages_are_asked_for_as_a_whole() -> None:
    spec = {"containers": [container()], "resources": {"requests": {"example.com/gpu": "1", "hugepages-2Mi": "4Mi"}}}
    assert scheduled(spec)[0] == {"hugepages-2Mi": 4 * 2**20}


def status(name: str, cpu: str, allocated: str, *conditions: Json) -> Json:
    resources = {"requests": {"cpu": cpu}}
    one = {"name": name, "resources": resources, "allocatedResources": {"cpu": allocated}}
    return {"containerStatuses": [one], "conditions": list(conditions)}


def test_a_running_pod_counts_as_the_most_of_asked_allocated_and_used() -> None:
    spec = {"containers": [container(name="a", cpu="1"), container(name="b", cpu="1")]}
    assert scheduled(spec, status("a", "3", "2"))[0]["cpu"] == 4000
    assert scheduled(spec, status("a", "500m", "700m"))[0]["cpu"] == 2000


def test_a_resize_that_is_refused_does_not_count() -> None:
    infeasible = {"type": "PodResizePending", "reason": "Infeasible"}
    spec = {"containers": [container(name="a", cpu="8")]}
    assert scheduled(spec, status("a", "1", "2", infeasible))[0]["cpu"] == 2000


def test_what_is_no_quantity_is_named() -> None:
    with pytest.raises(ValueError, match=r"containers\[c\]\.resources\.requests\[cpu\]: not a quantity: 'lots'"):
        effective({"containers": [container(cpu="lots")]})


@pytest.mark.parametrize(
    ("actual", "allocated", "condition", "cpu", "memory"),
    [
        ({"cpu": "3"}, None, "", 3000, 2**30),
        ({"cpu": "500m"}, {"cpu": "2500m"}, "", 2500, 2**30),
        ({"cpu": "500m"}, None, "", 1000, 2**30),
        ({"cpu": "500m", "memory": "1Mi"}, {"cpu": "700m"}, "Infeasible", 700, 2**20),
        ({"cpu": "500m"}, None, "Infeasible", 500, 0),  # what nobody reported is not there
    ],
)
def test_a_resize_of_the_whole_pod(actual: Json, allocated: Json | None, condition: str, cpu: int, memory: int) -> None:
    spec = {"containers": [container(cpu="9")], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    conditions = [{"type": "PodResizePending", "reason": condition}] if condition else []
    status = {"resources": {"requests": actual}, "allocatedResources": allocated, "conditions": conditions}
    assert scheduled(spec, status) == ({"cpu": cpu, "memory": memory}, cpu, memory)
