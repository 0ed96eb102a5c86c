"""Workload slices in the engine: a new slice needs what the old one has not, keeps its flavors, and counts with it as
one.

The first case is Kueue's own (kubernetes-sigs/kueue pkg/scheduler/scheduler_test.go, "workload-slice fits in single
clusterQueue", ff69552e); the others follow from pkg/scheduler/flavorassigner/flavorassigner.go."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.quota.engine import parse_workloads
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Decision, Inadmissible, Preempt
from controlplane.controllers.quota.engine.explain import explain
from controlplane.controllers.quota.engine.state import State
from controlplane.kube.slices import REPLACEMENT_FOR
from tests.quota.test_engine_properties import GENERATED, figures
from tests.quota.test_explain import NOW, queue, state_of

CPU = ("f", "cpu")


def sized(name: str, count: int, *, taken: str = "", of: str = "", flavor: str = "f", **spec: Any) -> dict[str, Any]:
    """Return a workload of so many pods with one cpu each; `of`: the slice that it replaces, `taken`: who has its
    quota."""
    pods = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    found: dict[str, Any] = {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "queueName": "lq", "priority": 0,
            "podSets": [{"name": "main", "count": count, "template": {"spec": pods}}],
            **spec,
        },
    }  # fmt: skip
    if of:
        found["metadata"]["annotations"] = {REPLACEMENT_FOR: of if "/" in of else f"ns/{of}"}
    if taken:
        given_to = {"name": "main", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": str(count)}, "count": count}
        reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        found["status"] = {
            "admission": {"clusterQueue": taken, "podSetAssignments": [given_to]},
            "conditions": [reserved],
        }
    return found


def once(state: State) -> dict[str, Decision]:
    found = decide(state, NOW)
    state.apply(found, NOW)
    return {one.workload: one for one in found}


def used(state: State, at: str = "q") -> int:
    return state.snapshot.queues[at].usage.get(CPU, 0)


def put(state: State, obj: dict[str, Any]) -> None:
    state.put_workload(parse_workloads.workload(obj), NOW)


def finish(state: State, name: str) -> None:
    info = state.snapshot.workloads[f"ns/{name}"]
    state.put_workload(replace(info.workload, finished=True), NOW)


def test_a_slice_fits_that_needs_no_more_than_is_free_beside_the_old_one() -> None:
    state = state_of(queue("q", "15"), sized("old", 10, taken="q"), sized("new", 15, of="old"))
    admitted = once(state)["ns/new"]
    assert isinstance(admitted, Admit)
    assert admitted.replaces == "ns/old"
    assert [(one.count, one.usage, one.flavors) for one in admitted.admission.pod_sets] == [
        (15, {"cpu": 15000}, {"cpu": "f"})
    ]
    assert used(state) == 15000  # of both together
    finish(state, "old")
    assert used(state) == 15000


def test_what_is_missing_is_what_the_old_slice_has_not() -> None:
    state = state_of(queue("q", "12"), sized("old", 10, taken="q"), sized("new", 15, of="old"))
    waits = once(state)["ns/new"]
    assert isinstance(waits, Inadmissible)
    assert waits.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 3 more needed"
    )
    assert used(state) == 10000
    wait = explain(state, "ns/new", NOW)
    assert wait is not None
    assert wait.replaces == "ns/old"
    ((option,),) = wait.groups
    (short,) = option.shortages
    assert (short.wanted, short.free, short.missing, short.never) == (5000, 2000, 3000, True)  # 15 of 12 never are
    assert option.would_end == ()


def test_a_slice_keeps_the_flavor_of_the_old_one() -> None:
    flavors = ({"metadata": {"name": "f"}}, {"metadata": {"name": "g"}})
    objects = queue("q", "10", "f", "g"), sized("old", 5, taken="q", flavor="g"), sized("new", 7, of="old")
    state = state_of(*objects, flavors=flavors)
    admitted = once(state)["ns/new"]
    assert isinstance(admitted, Admit)
    assert admitted.admission.pod_sets[0].flavors == {"cpu": "g"}

    state = state_of(*objects[:2], sized("new", 12, of="old"), flavors=flavors)
    waits = once(state)["ns/new"]
    assert isinstance(waits, Inadmissible)
    assert waits.message == (
        "couldn't assign flavors to pod set main: could not assign f flavor since the original workload is assigned: "
        "g, insufficient quota for cpu in flavor f, previously considered podsets requests (0) + current podset "
        "request (12) > maximum capacity (10), insufficient unused quota for cpu in flavor g, 2 more needed"
    )
    wait = explain(state, "ns/new", NOW)
    assert wait is not None
    assert [one.unusable for one in wait.groups[0]] == ["the slice whose place it takes has flavor g", ""]


@pytest.mark.parametrize("of", ["other/old", "ns/nobody", "old"])
def test_a_slice_of_nobody_here_needs_all_of_it(of: str) -> None:
    """Of another namespace, of one that is not there, and of one that has quota of another ClusterQueue."""
    old = sized("old", 10, taken="p") if of == "old" else sized("old", 10, taken="q")
    state = state_of(queue("q", "15"), queue("p", "15"), old, sized("new", 11, of=of))
    found = once(state)["ns/new"]
    if of == "old":
        assert isinstance(found, Admit)
        assert (used(state, "p"), used(state)) == (10000, 11000)
    else:
        assert isinstance(found, Inadmissible)
        assert "6 more needed" in found.message
    assert not isinstance(found, Admit) or not found.replaces


def test_an_old_slice_that_ends_meanwhile_takes_its_quota_along() -> None:
    state = state_of(queue("q", "12"), sized("old", 10, taken="q"), sized("new", 15, of="old"))
    assert isinstance(once(state)["ns/new"], Inadmissible)
    finish(state, "old")
    waits = once(state)["ns/new"]
    assert isinstance(waits, Inadmissible)
    assert (
        "previously considered podsets requests (0) + current podset request (15) > maximum capacity (12)"
        in waits.message
    )
    put(state, sized("new", 12, of="old"))
    assert isinstance(once(state)["ns/new"], Admit)
    assert used(state) == 12000


def test_a_new_slice_that_goes_leaves_the_old_one_its_quota() -> None:
    state = state_of(queue("q", "15"), sized("old", 10, taken="q"), sized("new", 15, of="old"))
    once(state)
    state.drop_workload("ns/new", NOW)
    assert used(state) == 10000


def test_an_old_slice_that_gets_quota_after_the_new_one_counts_for_all_that_it_has() -> None:
    """It was evicted, and is queued again: it is not about to end."""
    state = state_of(queue("q", 5))
    put(state, sized("new", 3, taken="q", of="old"))
    old = sized("old", 2, taken="q")
    put(state, old)
    assert used(state) == 3000, "within a second it is taken for the one that is replaced"
    old["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:01Z"
    put(state, old)
    assert used(state) == 5000


def test_only_one_slice_takes_the_place_of_another() -> None:
    state = state_of(queue("q", "30"), sized("old", 10, taken="q"), sized("a", 15, of="old"), sized("b", 16, of="old"))
    first = once(state)
    assert [one for one in first.values() if isinstance(one, Admit)] == [first["ns/a"]]
    second = once(state)["ns/b"]
    assert isinstance(second, Inadmissible)  # all of the 16: what the old one had is used
    assert "1 more needed" in second.message
    assert used(state) == 15000


def test_slices_are_replaced_one_by_one() -> None:
    state = state_of(queue("q", "30"), sized("a", 5, taken="q"), sized("b", 10, of="a"))
    once(state)
    put(state, sized("c", 20, of="b"))
    once(state)
    assert used(state) == 20000
    finish(state, "b")
    assert used(state) == 20000 + 5000  # whose slice has ended that was to end it: it counts until it has ended too
    finish(state, "a")
    assert used(state) == 20000


def test_a_slice_may_preempt_others_for_what_it_needs_more_but_never_the_old_one() -> None:
    objects = (
        queue("q", "12", withinClusterQueue="LowerPriority"),
        sized("low", 2, taken="q", priority=-1),
        sized("old", 10, taken="q", priority=-5),
        sized("new", 12, of="old"),
    )
    state = state_of(*objects)
    found = once(state)["ns/new"]
    assert isinstance(found, Preempt)
    assert [victim.workload for victim in found.victims] == ["ns/low"]
    state.drop_workload("ns/low", NOW)
    admitted = once(state)["ns/new"]
    assert isinstance(admitted, Admit)
    assert admitted.replaces == "ns/old"
    assert used(state) == 12000


def test_what_another_takes_in_the_cycle_is_not_there_for_a_slice() -> None:
    """What the old slice has is not free for its new one a second time."""
    state = state_of(
        queue("q", "0", cohort="c"),
        queue("p", "20", cohort="c"),
        sized("old", 10, taken="q"),
        sized("new", 20, of="old"),
        sized("other", 15, queueName="lq-p"),
    )
    first = once(state)
    second = once(state)
    admitted = {key for found in (first, second) for key, one in found.items() if isinstance(one, Admit)}
    assert len(admitted) <= 1
    total = used(state) + used(state, "p")
    assert total <= 20000


def test_who_wants_the_place_of_a_slice_that_is_replaced_finds_others() -> None:
    """A slice takes the place of one whom another ClusterQueue would reclaim its quota from."""
    state = state_of(
        queue("q", "5", cohort="c", withinClusterQueue="LowerPriority"),
        queue("p", "10", cohort="c", reclaimWithinCohort="Any"),
        sized("old", 10, taken="q"),
        sized("new", 12, of="old", priority=5),
        sized("other", 10, queueName="lq-p"),
    )
    for _ in range(4):
        for one in once(state).values():
            for victim in one.victims if isinstance(one, Preempt) else ():
                state.drop_workload(victim.workload, NOW)
        assert used(state) + used(state, "p") <= 15000
    keys = set(state.snapshot.workloads)
    assert "ns/other" in keys


@GENERATED
@given(
    st.lists(st.tuples(st.sampled_from(["grow", "end", "drop", "shrink", "cycle"]), st.integers(1, 12)), max_size=25)
)
def test_slices_together_never_use_more_than_the_quota(steps: list[tuple[str, int]]) -> None:
    """Slices come, end and go in any order, of two jobs in one Cohort: what both have is never above the quota, and is
    what the larger one asks for as long as both are there."""
    state = state_of(queue("q", "12", cohort="c"), queue("p", "8", cohort="c"))
    newest: dict[str, tuple[str, int]] = {}
    for number, (what, size) in enumerate(steps):
        at = "q" if number % 2 else "p"
        local = "lq" if at == "q" else "lq-p"
        last = newest.get(at)
        reserves = last is not None and f"ns/{last[0]}" in state.snapshot.workloads
        if what == "grow" and (last is None or reserves):
            name = f"{at}{number}"
            put(state, sized(name, size, of=last[0] if last else "", queueName=local))
            newest[at] = name, size
        elif what == "end":
            for key, info in list(state.snapshot.workloads.items()):
                if info.covered and info.workload.queue == local:
                    finish(state, key.removeprefix("ns/"))
        elif what == "drop" and last is not None:
            state.drop_workload(f"ns/{last[0]}", NOW)
            del newest[at]
            for key, info in list(state.snapshot.workloads.items()):
                if info.workload.queue == local:
                    finish(state, key.removeprefix("ns/"))
        elif what == "shrink" and last is not None and reserves:
            info = state.snapshot.workloads[f"ns/{last[0]}"]
            (pod_set,) = info.workload.pod_sets
            smaller = replace(pod_set, count=min(pod_set.count, size))
            state.put_workload(replace(info.workload, pod_sets=(smaller,)), NOW)
        elif what == "cycle":
            before = copy.deepcopy(figures(state))
            found = decide(state, NOW)
            assert figures(state) == before
            state.apply(found, NOW)
        infos = list(state.snapshot.workloads.values())
        assert used(state) + used(state, "p") <= 20000
        for node in ("q", "p"):
            mine = [info for info in infos if info.cluster_queue == node]
            assert used(state, node) == sum(info.usage.get(CPU, 0) for info in mine)
            heirs = {info.workload.replaces for info in mine}
            ends = [info for info in mine if info.key not in heirs]
            assert used(state, node) >= sum(info.reserved[CPU] for info in ends)
            chained = max((info.reserved[CPU] for info in mine), default=0)
            assert len(ends) > 1 or used(state, node) >= chained
