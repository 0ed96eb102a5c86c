"""Scenes of candidates by hand with gangs: PodGroups whose members start together, in one target, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.dst.engine.run import Outcome
from controlplane.dst.invariants.candidates import gangs as rules
from controlplane.dst.play import play
from controlplane.dst.scenes.candidates.plan import GANG_PLUGIN, TWO_SCHEDULERS
from tests.dst.candidates import played, step, written
from tests.dst.mutants.candidates_gang_bugs import there_are_no_gangs
from tests.dst.plans import told
from tests.support.deep import deep_but

TRAITS = pytest.mark.parametrize(
    "traits", [(), pytest.param((GANG_PLUGIN,), marks=pytest.mark.deep)], ids=["the source alone", "the plugin too"]
)
#: Three members, all of which start together.
GANG = step(5.0, "submit-gang", "gang-9", 0.0, 33)
BOTH = ("east", "west")
MOMENTS = [round(5.0 + milliseconds / 1000, 3) for milliseconds in range(20, 140, 24)]


def places(outcome: Outcome) -> set[str]:
    """Return where members were bound."""
    return {line.rpartition(" ")[2] for line in told(outcome, "binding pods gang-9-")}


@TRAITS
def test_a_gang_goes_as_a_whole_to_one_target(traits: tuple[str, ...]) -> None:
    outcome = played(GANG, traits=traits)
    assert len(told(outcome, "binding pods gang-9-")) == 3
    assert len(places(outcome)) == 1
    assert len(told(outcome, "GangPermitted")) == len(told(outcome, "GangFormed")) == 1


@TRAITS
def test_it_waits_for_all_of_its_members(traits: tuple[str, ...]) -> None:
    outcome = played(step(5.0, "submit-gang", "gang-9", 10.0, 33), traits=traits)
    assert min(float(line.split()[0]) for line in told(outcome, "binding pods gang-9-")) > 25.0


@TRAITS
def test_two_of_three_wait_for_ever_and_say_so(traits: tuple[str, ...]) -> None:
    outcome = played(step(5.0, "submit-gang", "gang-9", 0.0, 23), traits=traits)
    assert told(outcome, "ElectionRefused", "TooFewMembers")
    assert not told(outcome, "CandidateRequested")


@TRAITS
def test_more_than_the_quorum_follow(traits: tuple[str, ...]) -> None:
    outcome = played(step(5.0, "submit-gang", "gang-9", 10.0, 32), traits=traits)
    assert len(places(outcome)) == 1
    assert len(told(outcome, "binding pods gang-9-")) == 3
    assert told(outcome, "PermitGranted", "GangFollows")


@TRAITS
def test_where_there_is_room_for_some_nobody_starts(traits: tuple[str, ...]) -> None:
    """Each target has one place; somewhere two more are made free."""
    full = [
        step(1.0 + n / 10, "rival", where, seconds, 2)
        for where, seconds in zip(BOTH, (60.0, 90.0), strict=True)
        for n in (0, 1)
    ]
    outcome = played(*full, replace(GANG, at=20.0), traits=traits, east=2, west=2)
    assert min(float(line.split()[0]) for line in told(outcome, "binding pods gang-9-")) > 60.0
    assert len(places(outcome)) == 1


@TRAITS
@pytest.mark.parametrize("at", deep_but((5.044,), MOMENTS))
def test_a_member_is_replaced_in_the_middle_of_it(at: float, traits: tuple[str, ...]) -> None:
    played(GANG, step(at, "replace-pod", "gang-9-2", 1.0), traits=traits)


@TRAITS
@pytest.mark.parametrize("at", deep_but((5.068,), MOMENTS[::2]))
@pytest.mark.parametrize("who", deep_but(("replica-1",), ["replica-1", "east-scheduler-1"]))
def test_whoever_decides_dies_in_the_middle_of_it(at: float, who: str, traits: tuple[str, ...]) -> None:
    outcome = played(GANG, step(at, "crash", who, value=60), traits=(*traits, TWO_SCHEDULERS))
    assert len(places(outcome)) == 1


@TRAITS
@pytest.mark.parametrize("at", deep_but((5.068,), MOMENTS[::2]))
def test_targets_go_back_to_a_backup_in_the_middle_of_it(at: float, traits: tuple[str, ...]) -> None:
    played(GANG, *(step(at, "restore", where, 20.0) for where in BOTH), traits=traits)
    played(GANG, step(at, "restore-home", "management", 20.0), traits=traits)


@pytest.mark.parametrize("policy", [(), pytest.param((NEVER_TWICE,), marks=pytest.mark.deep)], ids=str)
def test_a_gang_of_a_target_that_is_given_up_goes_elsewhere_as_a_whole(policy: tuple[str, ...]) -> None:
    """With seed 1 it is in `east`."""
    outcome = played(GANG, step(40.0, "partition", "east", 400.0), step(50.0, "forget", "east", 90.0), traits=policy)
    assert places(outcome) == {"east", "west"}
    assert len(told(outcome, "binding pods gang-9-")) == 6
    assert told(outcome, "GangReleased")


def test_a_gang_that_is_apart_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the clusters show, whatever the log says: each target has room for some, and members are placed one by
    one.
    """
    there_are_no_gangs(monkeypatch)
    monkeypatch.setattr(rules.CandidateGangRules, "before_fold", lambda self, recorded: None)
    full = [step(1.0 + n / 10, "rival", where, 200.0, 2 + n) for where in BOTH for n in (0, 1)]
    outcome = play(written(*full, replace(GANG, at=20.0)))
    assert outcome.violation is not None
    assert outcome.violation.rule == rules.TARGET


def test_a_part_of_a_gang_that_starts_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    there_are_no_gangs(monkeypatch)
    monkeypatch.setattr(rules.CandidateGangRules, "before_fold", lambda self, recorded: None)
    outcome = play(written(step(5.0, "submit-gang", "gang-9", 0.0, 23)))
    assert outcome.violation is not None
    assert outcome.violation.rule == rules.WHOLE
