"""Scenes of candidates by hand in which an operator gives a target up: with `controlplane clusters forget`, rightly or
not (L4).
"""

from __future__ import annotations

import pytest

from controlplane.app import operate
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.controllers.connectivity.events import ClusterForgotten, cluster_stream
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.steps import Step
from controlplane.dst.invariants.workloads.decisions import WORD
from controlplane.dst.play import play
from controlplane.log.event import Append, NewEvent
from tests.dst.candidates import played, pod, step, written
from tests.dst.plans import told
from tests.support.deep import deep_but

POLICIES = pytest.mark.parametrize("policy", [(), pytest.param((NEVER_TWICE,), marks=pytest.mark.deep)], ids=str)
#: With seed 1 the pod is in `east`.
AWAY = step(40.0, "partition", "east", 400.0)
SAID = step(50.0, "forget", "east", 90.0)


def times(outcome: Outcome, *words: str) -> list[float]:
    return [float(line.split()[0]) for line in told(outcome, *words)]


@POLICIES
def test_what_ran_there_runs_elsewhere_at_once_and_is_removed_when_it_is_back(policy: tuple[str, ...]) -> None:
    outcome = played(pod(5.0), AWAY, SAID, traits=policy)
    (heard,) = times(outcome, "operator: is heard")
    (back,) = times(outcome, "east are back") or times(outcome, "east is back")
    first, second = times(outcome, "binding pods web-1")
    assert first < heard < second < heard + 1
    assert told(outcome, "DelegateLost", "TargetForgotten")
    assert [at for at in times(outcome, "store east: DELETED Candidate web-1") if at > back]


@POLICIES
@pytest.mark.parametrize("kind", deep_but(("replace-pod",), ["delete-pod", "replace-pod"]))
@pytest.mark.parametrize("at", deep_but((60.0,), [38.0, 60.0, 100.0]))
def test_a_pod_of_it_that_is_taken_back_holds_nothing(kind: str, at: float, policy: tuple[str, ...]) -> None:
    """Before it is away, while it is, and when it was given up: a successor of its name starts elsewhere, and nothing
    is left.
    """
    steps: list[Step] = sorted([pod(5.0), AWAY, SAID, step(at, kind, "web-1", 1.0)], key=lambda one: one.at)
    outcome = played(*steps, traits=policy)
    assert told(outcome, "CleanupDone on sourcepod/default/web-1") or kind == "replace-pod"
    (heard,) = times(outcome, "operator: is heard")
    assert len(told(outcome, "binding pods web-1")) == 1 + (at > heard) + (kind == "replace-pod")


@POLICIES
@pytest.mark.parametrize("at", deep_but((5.07,), [5.06, 5.07, 5.08, 5.09]))
def test_a_permit_of_which_nothing_is_heard_ends_with_the_target(at: float, policy: tuple[str, ...]) -> None:
    """Whether it was bound there nobody knows; the operator says that it does not matter."""
    away = [step(at, "partition", "east", 400.0), step(10.0, "forget", "east", 120.0)]
    outcome = played(pod(5.0), *away, traits=policy)
    assert told(outcome, "operator: is heard")
    assert told(outcome, "binding pods web-1", "on west")


def test_a_delegate_that_somebody_was_deleting_there_is_not_waited_for() -> None:
    outcome = played(pod(5.0), step(39.9, "delete-candidate", "east"), AWAY, SAID, seed=4, traits=(NEVER_TWICE,))
    assert told(outcome, "DelegateLost", "TargetForgotten")


def test_he_is_told_when_a_target_is_not_lost() -> None:
    outcome = played(pod(5.0), step(20.0, "forget", "east", 30.0), step(20.0, "forget", "south", 3.0))
    assert told(outcome, 'is told: cluster "east" is connected, not lost')
    assert told(outcome, 'is told: the log knows no cluster "south"')
    assert not told(outcome, "ClusterForgotten")


def test_an_operator_who_is_not_judged_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget_in(log: operate.Assisted, policy: object, name: str, by: str) -> int:
        await log.assist()
        return int(await log.append(Append([NewEvent(stream=cluster_stream(name), event=ClusterForgotten(by=by))])))

    monkeypatch.setattr(operate, "forget_in", forget_in)
    outcome = play(written(step(20.0, "forget", "east", 30.0)))
    assert outcome.violation is not None
    assert outcome.violation.rule == WORD
