"""Why a workload waits for quota, as `explain` tells it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from controlplane.controllers.quota.engine import parse_queues, parse_workloads
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Inadmissible, Preempt
from controlplane.controllers.quota.engine.explain import FlavorOption, Wait, explain
from controlplane.controllers.quota.engine.state import State
from tests.quota.answers import Play
from tests.quota.fleets import question
from tests.quota.test_engine_properties import GENERATED, SEEDS, nodes

NOW = 1_800_000_000.0


def queue(name: str, cpu: str, *flavors: str, cohort: str = "", **preemption: Any) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    groups = [
        {"coveredResources": ["cpu"], "flavors": [{"name": one, "resources": resources} for one in flavors or ("f",)]}
    ]
    spec = {"namespaceSelector": {}, "resourceGroups": groups, "preemption": preemption, "cohortName": cohort}
    return {"metadata": {"name": name}, "spec": spec}


def workload(name: str, cpu: str, *, at: str = "lq", priority: int = 0, taken: str = "", **spec: Any) -> dict[str, Any]:
    pods = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec}
    found: dict[str, Any] = {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "queueName": at, "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pods}}],
        },
    }  # fmt: skip
    if taken:
        given_to = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": cpu}, "count": 1}
        reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        found["status"] = {
            "admission": {"clusterQueue": taken, "podSetAssignments": [given_to]},
            "conditions": [reserved],
        }
    return found


def state_of(*objects: dict[str, Any], flavors: tuple[dict[str, Any], ...] = ({"metadata": {"name": "f"}},)) -> State:
    state = State()
    state.put_namespace("ns", {}, NOW)
    for flavor in flavors:
        state.put_flavor(parse_queues.resource_flavor({"spec": {}, **flavor}), NOW)
    for obj in objects:
        if "resourceGroups" in obj["spec"]:
            state.put_cluster_queue(parse_queues.cluster_queue(obj), NOW)
            at = "lq" if obj["metadata"]["name"] == "q" else f"lq-{obj['metadata']['name']}"
            spec = {"metadata": {"namespace": "ns", "name": at}, "spec": {"clusterQueue": obj["metadata"]["name"]}}
            state.put_local_queue(parse_queues.local_queue(spec))
        else:
            state.put_workload(parse_workloads.workload(obj), NOW)
    return state


def wait_of(state: State, name: str) -> Wait:
    found = explain(state, f"ns/{name}", NOW)
    assert found is not None
    return found


def only(wait: Wait) -> FlavorOption:
    ((found,),) = wait.groups
    return found


def test_what_is_missing_who_has_it_and_who_would_have_to_end() -> None:
    state = state_of(
        queue("q", "10", withinClusterQueue="LowerPriority"),
        workload("big", "6", taken="q", priority=5),
        workload("small", "3", taken="q"),
        workload("w", "4", priority=3),
    )
    option = only(wait_of(state, "w"))
    (short,) = option.shortages
    assert (short.flavor, short.resource, short.wanted, short.free, short.most, short.missing) == (
        "f", "cpu", 4000, 1000, 10000, 3000,
    )  # fmt: skip
    assert [(one.workload, one.amount, one.priority, one.borrows) for one in short.holders] == [
        ("ns/big", 6000, 5, False),
        ("ns/small", 3000, 0, False),
    ]
    assert option.would_end == option.preemptible == ("ns/small",)
    assert not short.never


def test_whom_it_may_not_preempt_has_to_end() -> None:
    state = state_of(queue("q", "10"), workload("big", "9", taken="q", priority=5), workload("w", "4"))
    option = only(wait_of(state, "w"))
    assert option.preemptible == ()
    assert option.would_end == ("ns/big",)


@pytest.mark.parametrize(("borrow", "preemptible"), [("Never", ()), ("LowerPriority", ("ns/one", "ns/two"))])
def test_who_would_have_to_borrow_may_preempt_only_where_its_queue_preempts_while_it_borrows(
    borrow: str, preemptible: tuple[str, ...]
) -> None:
    """As in fitsResourceQuota: what is beyond the nominal quota is not got by preemption unless borrowWithinCohort says
    so."""
    state = state_of(
        queue(
            "q", "4", cohort="all", withinClusterQueue="LowerPriority", reclaimWithinCohort="Any",
            borrowWithinCohort={"policy": borrow},
        ),
        queue("other", "4", cohort="all"),
        workload("one", "4", taken="q"),
        workload("two", "4", taken="q"),
        workload("w", "8", priority=9),
    )  # fmt: skip
    option = only(wait_of(state, "w"))
    assert option.preemptible == preemptible
    assert set(option.would_end) == {"ns/one", "ns/two"}
    decided = next(one for one in decide(state, NOW) if one.workload == "ns/w")
    assert isinstance(decided, Preempt) == bool(preemptible), decided


def test_what_can_never_fit_says_so_and_names_nobody() -> None:
    state = state_of(queue("q", "10"), workload("big", "9", taken="q"), workload("w", "11"))
    option = only(wait_of(state, "w"))
    assert option.shortages[0].never
    assert option.would_end == ()


def test_the_place_in_the_queue() -> None:
    state = state_of(
        queue("q", "1"),
        workload("b", "2"),
        workload("urgent", "2", priority=9),
        workload("a", "2"),
        workload("c", "2"),
    )
    wait = wait_of(state, "c")
    assert (wait.position, wait.pending, wait.ahead) == (4, 4, ("ns/urgent", "ns/a", "ns/b"))
    assert not wait.tried
    assert wait_of(state, "urgent").position == 1


def test_others_of_the_cohort_who_borrow() -> None:
    state = state_of(
        queue("q", "5", cohort="all", reclaimWithinCohort="Any"),
        queue("other", "5", cohort="all"),
        workload("borrower", "8", at="lq-other", taken="other"),
        workload("w", "5"),
    )
    option = only(wait_of(state, "w"))
    (holder,) = option.shortages[0].holders
    assert (holder.workload, holder.cluster_queue, holder.borrows) == ("ns/borrower", "other", True)
    assert option.preemptible == option.would_end == ("ns/borrower",)


def test_a_flavor_that_pods_may_not_run_on() -> None:
    tainted = {"metadata": {"name": "t"}, "spec": {"nodeTaints": [{"key": "gpu", "value": "", "effect": "NoSchedule"}]}}
    state = state_of(
        queue("q", "1", "t", "absent", "f"), workload("w", "2"), flavors=(tainted, {"metadata": {"name": "f"}})
    )
    # A ClusterQueue with a flavor that is missing is not active: nobody is tried there, and all the same it is told
    # why.
    ((first, second, third),) = wait_of(state, "w").groups
    assert "untolerated taint" in first.unusable
    assert second.unusable == "flavor absent not found"
    assert third.shortages[0].never
    assert wait_of(state, "w").inactive == "references missing ResourceFlavor(s): absent"


def test_a_cluster_queue_that_admits_nobody() -> None:
    """Its condition has the reason; of Cohorts in a cycle it says nothing, as with Kueue."""
    stopped = queue("q", "10")
    stopped["spec"]["stopPolicy"] = "Hold"
    assert wait_of(state_of(stopped, workload("w", "1")), "w").inactive == "is stopped"
    state = state_of(queue("q", "10", cohort="a"), workload("w", "1"))
    assert wait_of(state, "w").inactive == ""
    for name, parent in (("a", "b"), ("b", "a")):
        state.put_cohort(parse_queues.cohort({"metadata": {"name": name}, "spec": {"parentName": parent}}), NOW)
    assert wait_of(state, "w").inactive == "its Cohorts are in a cycle, by their spec.parentName"


def test_a_resource_that_no_group_covers_and_a_namespace_that_is_not_selected() -> None:
    asks = workload("w", "1")
    asks["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["gpu"] = "1"
    state = state_of(queue("q", "10"), asks)
    assert wait_of(state, "w").uncovered == ("gpu",)
    selected = queue("q", "10")
    selected["spec"]["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    wait = wait_of(state_of(selected, workload("w", "1")), "w")
    assert "namespace doesn't match" in wait.inadmissible
    assert wait.groups == ()


def test_who_waits_in_no_queue_is_not_told_of() -> None:
    state = state_of(queue("q", "10"), workload("w", "1", at="nowhere"), workload("r", "1", taken="q"))
    assert explain(state, "ns/w", NOW) is None
    assert explain(state, "ns/r", NOW) is None


@pytest.mark.generated
@GENERATED
@given(SEEDS)
def test_with_those_gone_that_are_named_it_fits_and_with_one_less_it_does_not(seed: int) -> None:
    play = Play(question(seed))
    state = play.state
    before = {name: dict(node.usage) for name, node in nodes(state).items()}
    for pending in list(state.queues.pending.values()):
        for key in [*pending.active, *pending.inadmissible][:2]:
            wait = explain(state, key, play.now)
            assert wait is not None
            assert {name: dict(node.usage) for name, node in nodes(state).items()} == before
            for at, options in enumerate(wait.groups):
                for number, option in enumerate(options):
                    assert option.fits == (not option.unusable and not any(one.missing for one in option.shortages))
                    for leaving in (option.would_end, option.preemptible):
                        if leaving:
                            assert _fits_without(state, key, leaving, at, number, play.now)
                    for kept in option.would_end:
                        rest = [one for one in option.would_end if one != kept]
                        assert not _fits_without(state, key, rest, at, number, play.now)


def _fits_without(state: State, key: str, leaving: Any, group: int, flavor: int, now: float) -> bool:
    alone = copy.deepcopy(state)
    for one in leaving:
        alone.drop_workload(one, now)
    wait = explain(alone, key, now)
    assert wait is not None
    return wait.groups[group][flavor].fits


@pytest.mark.generated
@GENERATED
@given(SEEDS)
def test_who_is_told_that_it_fits_is_admitted_if_it_is_first(seed: int) -> None:
    play = Play(question(seed))
    heads = {info.key for _, info in play.state.heads()}
    waits = {key: explain(play.state, key, play.now) for key in heads}
    for decision in decide(play.state, play.now):
        wait = waits[decision.workload]
        assert wait is not None
        if wait.inadmissible:
            assert isinstance(decision, Inadmissible)
        elif isinstance(decision, Admit) and len(decision.admission.pod_sets) == 1:
            pods = decision.admission.pod_sets[0]
            whole = play.state.queues.pending[decision.cluster_queue].find(decision.workload)
            if whole is not None and pods.count == whole.pod_sets[0].count:
                assert all(any(not option.unusable for option in options) for options in wait.groups)
        elif isinstance(decision, Preempt):
            assert any(not option.fits for options in wait.groups for option in options)
