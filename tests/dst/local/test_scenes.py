"""The situations by name, each alone: nodes cordoned, pods evicted, rights withdrawn, ReplicaSets rolled; and what
stands in the way.
"""

from __future__ import annotations

import re

import pytest

from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from controlplane.dst.scenes.local import hosted
from controlplane.dst.scenes.local.people import RIGHTS
from tests.dst.local.plans import plan
from tests.dst.plans import held, step, told
from tests.support.deep import deep_after, deep_but

END = step(290, "cut", "rooms")
ALONE, CONTROLLERS = (
    1,
    14,
)  # values of steps: a run of two tasks that share the claim of a template; how many rights there are


def run(at: float, name: str, seconds: float = 40, value: int = ALONE) -> Step:
    return step(at, "run", name, seconds, value)


def right(sort: str, resource: str, *, cut: bool = True) -> int:
    """The value by which a step withdraws a right, and cuts the watches or not."""
    place = RIGHTS.index((sort, resource))
    return next(value for value in range(place, 210, len(RIGHTS)) if bool(value % 3) is cut)


def node_of(outcome: Outcome, pod: str) -> list[str]:
    """The nodes to which a pod was bound, in order."""
    return [
        found[1]
        for line in told(outcome, "BindingDecided", f"/{pod} ")
        if (found := re.search(r"\((\S+)\)", line)) is not None
    ]


def groups_of(outcome: Outcome, words: str) -> set[str]:
    """The groups to which the pods of a name were resolved."""
    return {line.split("(")[1].split(")")[0] for line in told(outcome, "OwnerResolved", f"member/default/{words}")}


# --- tasks -----------------------------------------------------------------------------------------------------------


def test_a_task_that_no_node_can_take_ends_and_its_run_with_it() -> None:
    """That the run has ended is a rule of the scene; that nothing is cut short, the clock says."""
    too_big = 69  # two tasks that share the claim of a template, the last of which asks for more than there is
    outcome = play(plan(run(10, "run-1", value=too_big), END))
    assert held(outcome)
    (ended,) = told(outcome, "TaskEndDecided")
    (told_of,) = told(outcome, "UnfitTaskTold")
    assert float(ended.split()[0]) == float(told_of.split()[0]) > 600, "a node may be changed"


# --- nodes -----------------------------------------------------------------------------------------------------------


def first_node(name: str) -> str:
    """Where a run's placeholder goes; whatever happens later, it goes there again."""
    outcome = play(plan(run(10, name), END))
    assert held(outcome)
    (node,) = node_of(outcome, f"{hosted.placeholder_of(name)}-0")
    return node


@pytest.mark.parametrize("replicas", deep_after(1, [1, 2]))
def test_a_cordoned_node_is_left_in_the_middle_of_a_run(replicas: int) -> None:
    steps = [run(10, "run-1")]
    before = play(plan(*steps, END, replicas=replicas))
    assert held(before)
    (node,) = node_of(before, f"{hosted.placeholder_of('run-1')}-0")
    outcome = play(plan(*steps, step(20, "cordon", node, 200), END, replicas=replicas))
    assert held(outcome)
    (moved,) = told(outcome, "PlaceholderEvicted")
    assert "NodeCordoned" in moved
    first, second = node_of(outcome, f"{hosted.placeholder_of('run-1')}-0")
    assert (first, node_of(outcome, "run-1-t0-pod"), node_of(outcome, "run-1-t1-pod")) == (node, [node], [second])
    assert second != node


def test_a_node_is_drained_and_another_one_lost() -> None:
    node = first_node("run-1")
    others = [name for name in ("n1", "n2", "n3") if name != node]
    outcome = play(
        plan(run(10, "run-1"), step(25, "drain", node, 150), step(40, "lose-node", others[0], 100), END, replicas=2)
    )
    assert held(outcome)
    assert others[1] in node_of(outcome, f"{hosted.placeholder_of('run-1')}-0")
    assert told(outcome, "RunCompleted")


@pytest.mark.parametrize("crash", deep_but((7,), [0, 7, 31, 60]))
def test_a_leader_that_dies_while_a_node_is_cordoned_evicts_once(crash: int) -> None:
    node = first_node("run-1")
    outcome = play(plan(run(10, "run-1"), step(19.9, "crash", "rooms-1", 0, crash), step(20, "cordon", node, 200), END))
    assert held(outcome)
    assert len(told(outcome, "PlaceholderEvicted")) == 1


# --- pods ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", deep_after(1, range(8)))
def test_pods_that_are_evicted_come_back_where_they_belong(value: int) -> None:
    made = [step(5, "deploy", "web-1", 0, 5), run(6, "run-1", 40, value % 4), step(8, "team", "team-1", 3, 1)]
    outcome = play(plan(*made, step(30, "evict", "", 0, value), step(31, "evict", "", 0, value + 3), END))
    assert held(outcome)
    assert told(outcome, "RunCompleted")


def test_a_gang_that_does_not_fit_waits_with_nothing_and_goes_when_there_is_room() -> None:
    """Two gangs of three on nodes that hold but one of them; the other's places are given back, and more nodes come at
    the end.
    """
    steps = [step(5, "deploy", "web-1", 0, 5), step(6, "deploy", "web-2", 0, 5), step(7, "deploy", "web-3", 0, 5)]
    outcome = play(plan(*steps, END, cpus=1))
    assert held(outcome)
    end = next(place for place, line in enumerate(outcome.lines) if line.text == "all trouble ends")
    early = [line.text for line in outcome.lines[:end] if "BindingDecided" in line.text]
    assert len({text.split("-")[1] for text in early}) == len(early) // 3 == 2
    assert len(told(outcome, "BindingDecided on pod/default/web")) == 9


# --- rights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sort", "resource"), deep_but((RIGHTS[-1],), RIGHTS))
def test_a_right_is_withdrawn_and_given_back(sort: str, resource: str) -> None:
    made = [step(5, "deploy", "web-1", 0, 5), step(6, "custom", "custom-1", 0, 1), run(7, "run-1", 15)]
    during = [step(45, "deploy", "web-2", 0, 5), step(46, "custom", "custom-2", 0, 1), run(47, "run-2", 15)]
    lost = step(40, "withdraw", "", 80, right(sort, resource))
    outcome = play(plan(*made, lost, *during, step(60, "roll", "", 0, 0), END, replicas=2))
    assert held(outcome)
    assert told(outcome, f"{resource} ", "403 Forbidden")


@pytest.mark.parametrize("act", deep_after(1, ["delete-pod", "roll"]))
def test_a_group_keeps_its_name_when_its_owner_may_not_be_read(act: str) -> None:
    """What was known of a ReplicaSet still counts; pods of one that nobody has seen are in its own group, the others
    stay in theirs.
    """
    steps = [step(5, "deploy", "web-1", 0, 5), step(40, "withdraw", "", 150, right("rooms", "replicasets.apps"))]
    outcome = play(plan(*steps, step(60, act, "", 0, 0), END))
    assert held(outcome)
    reasons = [line.rpartition(" because ")[2] for line in told(outcome, "OwnerResolved on member/default/web-1")]
    new = ["RuleMatched"] if act == "delete-pod" else ["FirstOwner"] * 3
    assert reasons == [*["RuleMatched"] * 3, *new]
    assert len(groups_of(outcome, "web-1")) == len(set(reasons))


def test_whoever_may_not_read_an_owner_takes_the_first_and_says_so() -> None:
    steps = [
        step(5, "rules", "", 200, 3),
        step(10, "withdraw", "", 60, right("rooms", "workflows.argoproj.io")),
        step(12, "custom", "custom-1", 0, 0),
    ]
    outcome = play(plan(*steps, END))
    assert held(outcome)
    assert told(outcome, "OwnerResolved on member/default/custom-1-0", "FirstOwner")
    assert told(outcome, "get workflows.argoproj.io custom-1", "403")


# --- owners and rules ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", deep_after(1, [0, 11, 42]))
def test_replica_sets_roll_and_their_deployment_keeps_its_group(crash: int) -> None:
    steps = [step(5, "deploy", "web-1", 0, 5), step(30, "roll", "", 0, 7), step(60, "roll", "", 0, 14)]
    more = [step(30.02, "crash", "rooms-1", 0, crash)] if crash else []
    outcome = play(plan(*steps, *more, END, cpus=8))
    assert held(outcome)
    assert len(groups_of(outcome, "web-1")) == 1
    assert len({line.split("Pod ")[1].rsplit("-", 1)[0] for line in told(outcome, "ADDED Pod web-1")}) == 3
    assert told(outcome, "GroupUpdateDecided", "TemplateChanged")


def test_rules_change_to_others_and_to_nonsense_and_back() -> None:
    made = [step(5, "deploy", "web-1", 0, 5)]
    rules = [step(20, "rules", "", 30, 0), step(60, "rules", "", 30, 4), step(100, "rules", "", 30, 6)]
    more = [step(25, "deploy", "web-2", 0, 5), step(65, "deploy", "web-3", 0, 5), step(30, "delete-pod", "", 0, 0)]
    outcome = play(plan(*sorted([*made, *rules, *more], key=lambda one: one.at), END))
    assert held(outcome)
    assert len(told(outcome, "RulesRefused on podgroup-rules")) >= 2
    assert "FirstOwner" in told(outcome, "OwnerResolved on member/default/web-2")[0]
    assert "RuleMatched" in told(outcome, "OwnerResolved on member/default/web-3")[0]


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", deep_after(1, range(4)))
@pytest.mark.parametrize("end", deep_after(1, ["cancel-run", "delete-run", "again-run"]))
def test_a_run_that_is_ended_in_any_mode_leaves_nothing(mode: int, end: str) -> None:
    steps = [step(2, "flag", "", 0, mode), run(10, "run-1"), run(11, "run-2", 15, 2), step(25, end, "", 0, 0)]
    assert held(play(plan(*steps, END)))


def test_a_claim_that_is_missing_and_comes() -> None:
    outcome = play(plan(step(10, "run-without-claim", "run-1", 60, 1), END))
    assert held(outcome)
    (placed, *_) = told(outcome, "BindingDecided on pod/default/affinity-assistant")
    assert float(placed.split()[0]) > 70


@pytest.mark.parametrize("name", deep_after(1, ["set", "group"]))
def test_somebody_elses_object_of_the_name_is_let_be_until_they_take_it_away(name: str) -> None:
    if name == "set":
        outcome = play(plan(step(5, "squat-set", "run-1", 60), run(10, "run-1", 5), END))
        assert told(outcome, "create statefulsets.apps", "409 AlreadyExists")
    else:
        outcome = play(plan(step(5, "squat-group", "web-1", 60, 5), END))
        assert told(outcome, "MemberWarned")
    assert held(outcome)
