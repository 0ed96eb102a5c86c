"""Plans: drawn from a seed, cut down, spelled and read; and failures made smaller."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from controlplane.dst.engine.plan import Plan, chosen, spell
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.shrink import shrink
from controlplane.dst.engine.story import command, story, summary
from controlplane.dst.engine.trace import TraceLine, Violation
from controlplane.dst.scenes.workloads import disruptions
from controlplane.dst.scenes.workloads.acts import ACTS
from controlplane.dst.scenes.workloads.fifth_edition import NEW_KINDS
from controlplane.dst.scenes.workloads.fourth_edition import OTHER_KINDS
from controlplane.dst.scenes.workloads.plan import TROUBLE, plan_of
from controlplane.dst.scenes.workloads.processes import (
    BRIEF,
    DISPATCHERS,
    FLAVORS,
    GATES,
    KIND,
    KUEUES,
    LOCALITY,
    PIECES,
    QUOTA,
    RULES,
    SNAPSHOTS,
    WEBHOOK,
)
from tests.support.rows import each

FIRST_EDITION = "088d08136d812b18347c5a3e6b5eb39967e3174d43916166f800c4c87f869550"
SECOND_EDITION = "c27e610eaa4cee2c80ae7429ac052fc0023c3c01108987618e4234cc495bcd31"
FOURTH_EDITION = "2a131feb61fe0945ba1deaff5e8ddd2aad7efc2f39f5e87f9717a2f71f6363d6"
FIFTH_EDITION = "2280f5ae36dbbf4a42f44a3c31f29b294493f41210ba92158d8ad1aab8b059d8"
SIXTH_EDITION = "a69081e1292b6e1ebce1f9491cf0abe57a4296af9f6d6509a2a049233f0fe91e"
THIRD_EDITION = "1b1b7398c0000ccdee5fb7aa3de60f4816e3dbbcb2670416c807c42e25c9d87d"


def test_a_seed_always_means_the_same_plan() -> None:
    assert plan_of(17) == plan_of(17) != plan_of(18)


def test_every_kind_of_trouble_is_drawn_and_can_be_played() -> None:
    first = {step.kind for seed in range(200) for step in plan_of(seed, edition=1).steps}
    drawn = {step.kind for seed in range(200) for step in plan_of(seed).steps}
    assert first == {*TROUBLE, "submit"}
    assert first < drawn == set(ACTS)


def test_the_first_edition_is_closed() -> None:
    """Pinned seeds mean what they meant: whoever changes how it is drawn makes another edition."""
    text = "\n".join(str(plan_of(seed, edition=1)) for seed in range(1, 101))
    assert hashlib.sha256(text.encode()).hexdigest() == FIRST_EDITION


@each("seed", range(1, 30))
def test_the_second_edition_is_the_first_and_more(seed: int) -> None:
    first, second = plan_of(seed, edition=1), plan_of(seed, edition=2)
    assert second.only(first.numbers).steps == first.steps
    assert (second.quotas, second.replicas) == (first.quotas, first.replicas)
    assert sorted(second.numbers) == list(range(1, second.size + 1))
    assert [step.at for step in second.steps] == sorted(step.at for step in second.steps)
    assert second.size > first.size or not (set(second.numbers) - set(first.numbers))


@each("seed", range(1, 30))
def test_the_third_edition_is_the_second_and_more(seed: int) -> None:
    second, third = plan_of(seed, edition=2), plan_of(seed, edition=3)
    assert third.only(second.numbers).steps == second.steps
    assert (third.quotas, third.replicas) == (second.quotas, second.replicas)
    assert sorted(third.numbers) == list(range(1, third.size + 1))
    assert [step.at for step in third.steps] == sorted(step.at for step in third.steps)
    assert third.size > second.size


def test_the_second_edition_is_closed() -> None:
    text = "\n".join(str(plan_of(seed, edition=2)) for seed in range(1, 101))
    assert hashlib.sha256(text.encode()).hexdigest() == SECOND_EDITION


@each("seed", range(1, 30))
def test_the_fourth_edition_is_the_third_and_more(seed: int) -> None:
    third, fourth = plan_of(seed, edition=3), plan_of(seed, edition=4)
    assert fourth.only(third.numbers).steps == third.steps
    assert (fourth.quotas, fourth.replicas, third.traits) == (third.quotas, third.replicas, ())
    assert sorted(fourth.numbers) == list(range(1, fourth.size + 1))
    assert [step.at for step in fourth.steps] == sorted(step.at for step in fourth.steps)
    assert fourth.size > third.size


def test_the_third_edition_is_closed() -> None:
    text = "\n".join(str(plan_of(seed, edition=3)) for seed in range(1, 101))
    assert hashlib.sha256(text.encode()).hexdigest() == THIRD_EDITION


@each("seed", range(1, 30))
def test_the_fifth_edition_is_the_fourth_and_more(seed: int) -> None:
    fourth, fifth = plan_of(seed, edition=4), plan_of(seed, edition=5)
    assert fifth.only(fourth.numbers).steps == fourth.steps
    assert (fifth.quotas, fifth.replicas) == (fourth.quotas, fourth.replicas)
    assert fifth.traits[: len(fourth.traits)] == fourth.traits != fifth.traits
    assert sorted(fifth.numbers) == list(range(1, fifth.size + 1))
    assert [step.at for step in fifth.steps] == sorted(step.at for step in fifth.steps)
    assert fifth.size > fourth.size


@each("seed", range(1, 30))
def test_the_sixth_edition_is_the_fifth_and_more(seed: int) -> None:
    fifth, sixth = plan_of(seed, edition=5), plan_of(seed, edition=6)
    assert sixth.only(fifth.numbers).steps == fifth.steps
    assert (sixth.quotas, sixth.replicas) == (fifth.quotas, fifth.replicas)
    assert sixth.traits[: len(fifth.traits)] == fifth.traits
    assert sorted(sixth.numbers) == list(range(1, sixth.size + 1))
    assert [step.at for step in sixth.steps] == sorted(step.at for step in sixth.steps)


@each("seed", range(1, 30))
def test_the_seventh_edition_is_the_sixth_and_more(seed: int) -> None:
    sixth, seventh = plan_of(seed, edition=6), plan_of(seed, edition=7)
    assert seventh.only(sixth.numbers).steps == sixth.steps
    assert (seventh.quotas, seventh.replicas) == (sixth.quotas, sixth.replicas)
    assert seventh.traits[: len(sixth.traits)] == sixth.traits
    assert sorted(seventh.numbers) == list(range(1, seventh.size + 1))
    assert [step.at for step in seventh.steps] == sorted(step.at for step in seventh.steps)


@each("seed", range(1, 30))
def test_the_tenth_edition_is_the_seventh_and_more(seed: int) -> None:
    """The eighth and the ninth are of the scene of admission."""
    seventh, tenth = plan_of(seed, edition=7), plan_of(seed, edition=10)
    assert [plan_of(seed, edition=edition).steps for edition in (8, 9)] == [seventh.steps] * 2
    assert tenth.only(seventh.numbers).steps == seventh.steps
    assert (tenth.quotas, tenth.replicas) == (seventh.quotas, seventh.replicas)
    assert tenth.traits[: len(seventh.traits)] == seventh.traits
    assert sorted(tenth.numbers) == list(range(1, tenth.size + 1))
    assert [step.at for step in tenth.steps] == sorted(step.at for step in tenth.steps)
    assert tenth.size > seventh.size


def test_every_scene_of_the_tenth_edition_is_drawn() -> None:
    drawn = {step.kind for seed in range(200) for step in plan_of(seed, edition=10).steps}
    assert set(disruptions.ACTS) <= drawn


@pytest.mark.parametrize(("edition", "digest"), [(5, FIFTH_EDITION), (6, SIXTH_EDITION)])
def test_the_edition_is_closed(edition: int, digest: str) -> None:
    text = "\n".join(f"{plan} {plan.traits}" for plan in (plan_of(seed, edition=edition) for seed in range(1, 101)))
    assert hashlib.sha256(text.encode()).hexdigest() == digest


def test_the_fourth_edition_is_closed() -> None:
    text = "\n".join(f"{plan} {plan.traits}" for plan in (plan_of(seed, edition=4) for seed in range(1, 101)))
    assert hashlib.sha256(text.encode()).hexdigest() == FOURTH_EDITION


def test_every_dispatcher_rule_gate_and_kind_of_job_is_drawn() -> None:
    plans = [plan_of(seed) for seed in range(200)]
    drawn = {trait for plan in plans for trait in plan.traits}
    kinds, later = {*OTHER_KINDS, *NEW_KINDS}, {SNAPSHOTS, PIECES, BRIEF, FLAVORS, LOCALITY}
    assert drawn == {*DISPATCHERS, *RULES, QUOTA, WEBHOOK, KUEUES, GATES, *(KIND + name for name in kinds), *later}
    words = {step.where.split("-")[1] for plan in plans for step in plan.steps if step.kind == "submit-kind"}
    assert words == {"job", *(name.lower() for name in kinds)}


@pytest.mark.parametrize(("numbers", "text"), [([1], "1"), ([1, 2, 3, 7], "1-3,7"), ([5, 3, 9], "3,5,9"), ([], "")])
def test_numbers_are_spelled_and_read(numbers: list[int], text: str) -> None:
    assert spell(numbers) == text
    assert chosen(text) == sorted(numbers)


@pytest.mark.parametrize("text", ["a", "1-b", "1..3"])
def test_what_is_no_list_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        chosen(text)


def fails_with(needed: set[int], rule: str = "a rule") -> object:
    """Return a run that breaks a rule if the plan has all needed steps."""
    runs: list[Plan] = []

    def run(plan: Plan) -> Outcome:
        runs.append(plan)
        broken = needed <= set(plan.numbers)
        lines = [TraceLine(61.5, 3, "violation", rule, "so")] if broken else []
        return Outcome(plan, Violation(rule, "so") if broken else None, "d" * 64, lines, 61.5, 10, 3)

    return run


@pytest.mark.parametrize("needed", [{3}, {2, 9}, {1, 4, 5}])
def test_a_failure_is_cut_down_to_what_it_needs(needed: set[int]) -> None:
    run = fails_with(needed)
    plan = plan_of(3)
    assert needed <= set(plan.numbers)
    assert set(shrink(run(plan), run).plan.numbers) == needed  # type: ignore[operator, arg-type]


def test_another_rule_is_another_failure() -> None:
    plan = plan_of(3)
    first: Outcome = fails_with({1})(plan)  # type: ignore[operator]
    assert shrink(first, fails_with({1}, "another"), tries=20).plan == plan  # type: ignore[arg-type]


def test_the_story_ends_where_the_rule_breaks_and_says_how_to_see_it_again() -> None:
    plan = plan_of(3)
    outcome: Outcome = fails_with({1})(plan.only([1]))  # type: ignore[operator]
    outcome = replace(outcome, lines=[*outcome.lines, TraceLine(90.0, 4, "plan", "plan", "later")])
    told = list(story(outcome))
    assert told == ["  1:01.500 X a rule: so"]
    assert command(outcome.plan) == "controlplane simulate --seed 3 --steps 1 --story"
    assert command(plan) == "controlplane simulate --seed 3 --story"
    assert command(plan_of(3, edition=1)) == "controlplane simulate --seed 3 --plan 1 --story"
    assert summary(outcome).startswith("seed 3: FAILED, a rule: so")
