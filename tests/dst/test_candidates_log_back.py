"""Scenes of candidates by hand in which a log goes back, the source's or a scheduler's, and what is there cannot be
read."""

from __future__ import annotations

import pytest

from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.candidates.oddities import (
    HOME_NODE,
    HOME_POD,
    HOME_TARGET,
    THERE_CANDIDATE,
    THERE_POD,
    THERE_SOURCE,
)
from controlplane.dst.scenes.candidates.plan import SOURCE_LOG, VIRTUAL_NODES
from tests.dst.candidates import played, pod, step
from tests.dst.plans import told
from tests.support.deep import deep_after, deep_but

#: A placement takes some eighty milliseconds: what is lost of it depends on when the log goes back. Then the pod runs.
MOMENTS = [round(5.0 + milliseconds / 1000, 3) for milliseconds in (20, 40, 50, 60, 70, 80, 100, 500)] + [40.0]
AT = pytest.mark.parametrize("at", deep_but((5.07,), MOMENTS))
THERE = pytest.mark.parametrize(
    "what", deep_after(1, [THERE_CANDIDATE, THERE_POD, THERE_SOURCE], ids=["candidates", "pods", "sources"])
)
WHILE_IT_RUNS = pytest.mark.parametrize("at", deep_but((40.0,), MOMENTS))
POLICIES = pytest.mark.parametrize("policy", [(), pytest.param((NEVER_TWICE,), marks=pytest.mark.deep)], ids=str)


def back(log: str, at: float) -> Step:
    """A log that goes back to before the pod was submitted."""
    return step(4.9, "restore-log", log, round(at - 4.9, 4))


def spoiled(at: float, where: str, what: int) -> Step:
    """All objects of a kind cannot be read from just before that on, for a minute."""
    return step(round(at - 0.005, 4), "malform", where, 60, what)


def bound(outcome: Outcome) -> int:
    return len(told(outcome, "scheduler", "binding pods web-1"))


@POLICIES
@AT
def test_the_sources_log_goes_back_and_the_pod_is_placed_once(at: float, policy: tuple[str, ...]) -> None:
    outcome = played(back(SOURCE_LOG, at), pod(5.0, seconds=60), traits=policy)
    assert told(outcome, "starting over with what it holds")
    assert bound(outcome) == 1


@POLICIES
@AT
@pytest.mark.parametrize("target", deep_after(1, ["east", "west"]))
def test_a_schedulers_log_goes_back_and_the_pod_is_placed_once(target: str, at: float, policy: tuple[str, ...]) -> None:
    assert bound(played(back(target, at), pod(5.0, seconds=60), traits=policy)) == 1


@AT
@pytest.mark.parametrize("what", deep_after(1, [HOME_POD, HOME_TARGET, HOME_NODE], ids=["pods", "targets", "nodes"]))
@pytest.mark.parametrize("traits", [pytest.param((), marks=pytest.mark.deep), (VIRTUAL_NODES,)], ids=str)
def test_nothing_of_the_source_can_be_read_by_a_log_that_went_back(
    at: float, what: int, traits: tuple[str, ...]
) -> None:
    """A source pod that cannot be read is not gone, nor is a target that its namespace may use, nor a virtual Node."""
    outcome = played(back(SOURCE_LOG, at), pod(5.0, seconds=60), spoiled(at, "management", what), traits=traits)
    assert bound(outcome) == 1
    assert told(outcome, "CandidateObservationRefused") or (what == HOME_NODE and not traits)


@POLICIES
@AT
def test_no_candidate_can_be_read_by_a_source_whose_log_went_back(at: float, policy: tuple[str, ...]) -> None:
    there = [spoiled(at, name, THERE_CANDIDATE) for name in ("east", "west")]
    assert bound(played(back(SOURCE_LOG, at), pod(5.0, seconds=60), *there, traits=policy)) == 1


@AT
@pytest.mark.parametrize("target", deep_after(1, ["east", "west"]))
@THERE
def test_nothing_of_a_target_can_be_read_by_a_log_that_went_back(at: float, what: int, target: str) -> None:
    """The Pod of a Candidate that cannot be read stays, and a Candidate stays whose Pod cannot be."""
    outcome = played(back(target, at), pod(5.0, seconds=60), spoiled(at, target, what))
    assert bound(outcome) == 1


@AT
@THERE
def test_all_logs_go_back_and_nothing_of_the_targets_can_be_read(at: float, what: int) -> None:
    logs = [back(name, at) for name in (SOURCE_LOG, "east", "west")]
    there = [spoiled(at, name, what) for name in ("east", "west")]
    assert bound(played(*logs, pod(5.0, seconds=60), *there)) == 1


@WHILE_IT_RUNS
@THERE
def test_nothing_of_the_targets_can_be_read_any_more(at: float, what: int) -> None:
    """The logs know what it was; the pod is replaced meanwhile, and its successor waits."""
    there = [spoiled(at, name, what) for name in ("east", "west")]
    played(pod(5.0, seconds=60), *there)
    played(pod(5.0, seconds=60), *there, step(at + 10, "replace-pod", "web-1", 1.0))
