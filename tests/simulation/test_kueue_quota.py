"""The books of a ClusterQueue."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kube.kinds import JOBS, JOBSETS, Json
from controlplane.simulation.kueue.common import workload_name
from controlplane.simulation.kueue.quota import ClusterQueueState, WaitingWorkloads, shape_of, usage_of
from tests.simulation.kueue_cluster import clone


def queue(*flavors: tuple[str, str], **spec: Any) -> ClusterQueueState:
    state = ClusterQueueState("cq")
    offered = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for name, cpu in flavors]
    memory = [{"name": "ram", "resources": [{"name": "memory", "nominalQuota": "64Gi"}]}]
    groups = [
        {"coveredResources": ["cpu"], "flavors": offered},
        {"coveredResources": ["memory"], "flavors": memory},
    ]
    state.read({"resourceGroups": groups, **spec})
    return state


def test_the_next_flavor_is_taken_when_the_first_is_full() -> None:
    state = queue(("spot", "2"), ("on-demand", "4"))
    shape = shape_of(clone("a", cpu="2"))
    flavors = []
    for number in range(3):
        found = state.assign(shape)
        assert not isinstance(found, str)
        flavors.append(found[0]["flavors"]["cpu"])
        state.take(("default", str(number)), usage_of({"podSetAssignments": found}))
    assert flavors == ["spot", "on-demand", "on-demand"]
    text = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor spot, 2 more needed, "
        "insufficient unused quota for cpu in flavor on-demand, 2 more needed"
    )
    assert state.assign(shape) == text


def test_pod_sets_of_one_workload_add_up() -> None:
    state = queue(("only", "3"))
    body = clone("a", cpu="2")
    body["spec"]["podSets"].append({**body["spec"]["podSets"][0], "name": "second"})
    found = state.assign(shape_of(body))
    assert isinstance(found, str)
    assert found.startswith("couldn't assign flavors to pod set second: insufficient quota for cpu in flavor only, ")
    assert "previously considered podsets requests (2) + current podset request (2) > maximum capacity (3)" in found


def test_checks_may_be_for_some_flavors_only() -> None:
    checks = [{"name": "all"}, {"name": "spot-only", "onFlavors": ["spot"]}]
    state = queue(("spot", "2"), ("on-demand", "4"), admissionChecksStrategy={"admissionChecks": checks})
    assert state.checks_for(None) == ["all"]
    on_demand = {"podSetAssignments": [{"flavors": {"cpu": "on-demand"}}]}
    assert state.checks_for(on_demand) == ["all"]
    assert state.checks_for({"podSetAssignments": [{"flavors": {"cpu": "spot"}}]}) == ["all", "spot-only"]


def check(controller: str, *, active: bool = True) -> Json:
    conditions = [{"type": "Active", "status": str(active)}]
    return {"spec": {"controllerName": controller}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("names", "known", "flavors", "reason"),
    [
        ([], {}, ["f", "ram"], "Ready"),
        ([], {}, ["ram"], "FlavorNotFound"),
        (["a"], {}, ["f", "ram"], "AdmissionCheckNotFound"),
        (["a"], {"a": check("kueue.x-k8s.io/multikueue", active=False)}, ["f", "ram"], "AdmissionCheckInactive"),
        (["a"], {"a": check("kueue.x-k8s.io/multikueue")}, ["f", "ram"], "Ready"),
        (
            ["a", "b"],
            {"a": check("kueue.x-k8s.io/multikueue"), "b": check("kueue.x-k8s.io/multikueue")},
            ["f", "ram"],
            "MultipleMultiKueueAdmissionChecks",
        ),
        (
            ["a", "b"],
            {"a": check("kueue.x-k8s.io/multikueue"), "b": check("kueue.x-k8s.io/provisioning-request")},
            ["f", "ram"],
            "MultiKueueWithProvisioningRequest",
        ),
    ],
)
def test_when_a_cluster_queue_is_active(
    names: list[str], known: dict[str, Json], flavors: list[str], reason: str
) -> None:
    state = queue(("f", "1"), admissionChecksStrategy={"admissionChecks": [{"name": name} for name in names]})
    state.judge(flavors, known)
    assert state.reason == reason
    assert state.active is (reason == "Ready")


def test_a_multikueue_check_must_not_be_for_some_flavors_only() -> None:
    checks = [{"name": "a", "onFlavors": ["f"]}]
    state = queue(("f", "1"), ("g", "1"), admissionChecksStrategy={"admissionChecks": checks})
    state.judge(["f", "g", "ram"], {"a": check("kueue.x-k8s.io/multikueue")})
    assert state.reason == "MultiKueueAdmissionCheckAppliedPerFlavor"


def test_a_stopped_queue_is_inactive() -> None:
    state = queue(("f", "1"), stopPolicy="Hold")
    state.judge(["f", "ram"], {})
    assert (state.active, state.reason, state.message) == (False, "Stopped", "Can't admit new workloads: is stopped.")


@given(st.lists(st.tuples(st.sampled_from("tr"), st.integers(0, 5), st.integers(1, 4)), max_size=60))
def test_the_books_always_balance(steps: list[tuple[str, int, int]]) -> None:
    state = queue(("f", "6"))
    for step, number, cpu in steps:
        key = ("default", str(number))
        if step == "t":
            state.release(key)
            found = state.assign(shape_of(clone("x", cpu=str(cpu))))
            if not isinstance(found, str):
                state.take(key, usage_of({"podSetAssignments": found}))
        else:
            state.release(key)
        total = sum(usage.get(("f", "cpu"), 0) for usage in state.reserving.values())
        assert state.usage.get(("f", "cpu"), 0) == total <= 6000


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-2, 2), st.integers(1, 3), st.booleans()), max_size=60))
def test_the_first_in_line_is_always_the_best_that_waits(steps: list[tuple[int, int, int, bool]]) -> None:
    waiting = WaitingWorkloads()
    model: dict[tuple[str, str], tuple[tuple[int, str, int], Any]] = {}
    for sequence, (number, priority, cpu, stays) in enumerate(steps):
        key = ("default", str(number))
        if stays:
            entry = ((-priority, "t", sequence), shape_of(clone("x", cpu=str(cpu))))
            waiting.put(key, *entry)
            model[key] = entry
        else:
            waiting.discard(key)
            model.pop(key, None)
        best = waiting.best(())
        expected = min(model, key=lambda k: model[k][0], default=None)
        assert (best[0] if best else None) == expected
        assert len(waiting) == len(model)


def test_workload_names() -> None:
    assert workload_name(JOBS, "a", "uid") == "job-a-5a678"
    assert workload_name(JOBSETS, "a", "uid") != workload_name(JOBS, "a", "uid").replace("job-", "jobset-")
    assert len(workload_name(JOBS, "x" * 300, "uid")) == 253
    assert len(workload_name(JOBS, "x" * 300, "uid", short=True)) == 63
