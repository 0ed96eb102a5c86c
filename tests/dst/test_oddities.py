"""Objects that make no sense: recorded by name, told where they are, and everything else goes on."""

from __future__ import annotations

import re
from typing import Any

import pytest

from controlplane.controllers.multikueue import observe
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.steps import Step
from controlplane.dst.invariants.workloads.refusals import RULE
from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.oddities import _MADE, HUGE
from tests.dst.plans import ended, held, plan, step, told
from tests.support.deep import deep_after

HOME, WORKER = _MADE[True], _MADE[False]
END = step(200, "cut", "w1")


def odd_object(side: str, place: int, *, stays: bool) -> Step:
    """The step that makes an object; `value` says which, and by its parity whether it stays."""
    count = len(HOME if side == "management" else WORKER)
    value = next(v for v in range(place, 60, count) if v % 2 == stays) if count % 2 else place
    return step(20, "odd-object", side, 60, value)


@pytest.mark.parametrize("stays", deep_after(1, [True, False]))
@pytest.mark.parametrize("place", range(len(HOME)))
def test_whatever_is_applied_at_home_jobs_go_on(place: int, stays: bool) -> None:
    outcome = play(plan(odd_object("management", place, stays=stays), step(30, "submit", "job-1", 20, 2), END))
    assert held(outcome)
    (kind, body) = HOME[place]
    assert told(outcome, f"ADDED {kind.kind} {body['metadata']['name']}")
    assert bool(told(outcome, "DELETED", f"{kind.kind} {body['metadata']['name']}")) is not stays
    refused = told(outcome, "ObservationRefused on refused/@management/")
    assert bool(refused) is (place not in (1, 5))
    assert told(outcome, "JobCreationDecided", "job-job-1")


@pytest.mark.parametrize("place", deep_after(2, range(len(WORKER))))
def test_whatever_is_applied_on_a_worker_it_is_left_alone(place: int) -> None:
    steps = [step(20, "odd-object", worker, 60, place) for worker in ("w1", "w2", "w3")]
    outcome = play(plan(*steps, step(30, "submit", "job-1", 20, 2), step(40, "submit-set", "job-set-2", 20, 2), END))
    assert held(outcome)
    assert {line.split("refused/")[1][:2] for line in told(outcome, "ObservationRefused")} == {"w1", "w2", "w3"}
    (kind, body) = WORKER[place]
    name = body["metadata"]["name"]
    assert not told(outcome, "request replica-1#1: delete", f"{kind.plural} {name} ")
    assert ended(outcome, "jobset-job-set-2")


@pytest.mark.parametrize("value", deep_after(2, range(1, 16)))
def test_what_is_spoiled_at_home_is_refused_until_it_is_mended(value: int) -> None:
    jobs = [step(5, "submit", "job-1", 60, 2), step(5, "submit-set", "once-set-2", 60, 1)]
    outcome = play(plan(*jobs, step(20, "malform", "management", 40, value), END))
    assert held(outcome)
    refused = told(outcome, "ObservationRefused on refused/@management/")
    assert refused
    assert told(outcome, "warning: object refused", "expected a")
    told_there = told(outcome, "request replica-1#1: create events")
    assert told_there


@pytest.mark.parametrize("value", deep_after(2, range(1, 5)))
def test_copies_that_are_spoiled_for_a_while_finish_all_the_same(value: int) -> None:
    jobs = [step(5, "submit", "job-1", 60, 2), step(5, "submit-set", "once-set-2", 60, 1)]
    spoiled = [step(20, "malform", worker, 60, value) for worker in ("w1", "w2", "w3")]
    outcome = play(plan(*jobs, *spoiled, END))
    assert held(outcome)
    assert told(outcome, "ObservationRefused on refused/w")
    assert len(told(outcome, "JobCreationDecided")) == 2


def broken(outcome: Outcome) -> str:
    return outcome.violation.rule if outcome.violation else ""


def test_whoever_drops_what_it_cannot_read_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "_refused", lambda cluster, kind, obj, error: None)
    assert broken(play(plan(odd_object("management", 2, stays=True), END))) in (
        RULE,
        "the log holds what was committed",
    )


def test_whoever_reads_what_makes_no_sense_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    original = observe._check

    def check(obj: Any) -> Any:
        return original({**obj, "spec": {**obj["spec"], "parameters": {}}})

    monkeypatch.setattr(observe, "_check", check)
    assert broken(play(plan(odd_object("management", 3, stays=True), END))) == RULE


def test_whoever_does_not_name_the_field_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    original = observe._refused
    monkeypatch.setattr(
        observe, "_refused", lambda cluster, kind, obj, error: original(cluster, kind, obj, ValueError("no"))
    )
    assert broken(play(plan(odd_object("management", 2, stays=True), END))) == RULE


def test_a_huge_name_is_a_name() -> None:
    assert len(HUGE) == 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", HUGE)


def test_an_object_with_a_huge_name_is_told_that_it_is_refused() -> None:
    outcome = play(plan(odd_object("management", 3, stays=True), END))
    assert not told(outcome, "create events", "422 Invalid")


def test_the_copy_of_a_deleted_job_goes_although_it_cannot_be_read() -> None:
    spoiled = [step(20, "malform", worker, 150, 1) for worker in ("w1", "w2", "w3")]
    steps = [step(5, "submit", "job-1", 400, 2), *spoiled, step(30, "delete-job", "job-1")]
    outcome = play(plan(*steps, END))
    assert held(outcome)
    gone = [float(line.split()[0]) for line in told(outcome, "store w", "DELETED Job job-1")]
    assert max(gone) < 60
