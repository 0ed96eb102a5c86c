"""Copies of jobs that have something private, over crashes between what is decided and what is done; and the rule that
looks at them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play
from controlplane.log.event import Body
from controlplane.log.redaction import Redaction
from controlplane.runtime import bodies as live
from controlplane.runtime.bodies import Bodies
from tests.dst.plans import ended, held, plan, step, told
from tests.support.deep import deep_after

KINDS = {"submit": "job-1", "submit-set": "job-set-1"}
# Nothing gets through to the workers, so that decisions stay open over the crash.
LATE: Sequence[Step] = [step(20.45, "partition", worker, 30.0) for worker in ("w1", "w2", "w3")]


def crashed(submit: str, *, replicas: int = 1) -> Plan:
    """A submission whose copies cannot be made at once, and a leader that dies meanwhile."""
    steps = [*LATE, step(20.5, submit, KINDS[submit], 20, 3), step(21.0, "crash", "replica-1")]
    return plan(*steps, replicas=replicas)


@pytest.mark.parametrize("replicas", deep_after(1, [1, 2]))
@pytest.mark.parametrize("submit", KINDS)
def test_a_copy_that_was_decided_on_before_a_crash_has_all_of_its_job(submit: str, replicas: int) -> None:
    outcome = play(crashed(submit, replicas=replicas))
    assert held(outcome)
    (taken_over,) = (text for text in told(outcome, "leads epoch 2"))
    (first, *_) = told(outcome, "CloneDecided")
    (made, *_) = told(outcome, "create workloads")
    assert _at(first) < _at(taken_over) < _at(made), "decided on by one process, and done by the other"
    assert told(outcome, "JobCreationDecided")
    assert ended(outcome)


def _at(line: str) -> float:
    return float(line.split()[0])


def test_a_worker_that_is_away_and_a_process_that_is_new() -> None:
    """The last status is on a worker that nobody reaches, and the process that saw it is dead."""
    steps = [step(5, "submit", "job-1", 20, 4), step(25.2, "partition", "w1", 60.0), step(25.5, "crash", "replica-1")]
    outcome = play(plan(*steps))
    assert held(outcome)
    assert ended(outcome)


def test_a_memory_that_holds_nothing_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bodies, "_put", lambda self, ref, text: None)
    outcome = play(crashed("submit"))
    assert held(outcome)
    assert ended(outcome)


class Believed(str):
    """A hash that every other one equals."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class AnyHash:
    """What `hashlib` would be to a service that believes the log."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def hexdigest(self) -> Believed:
        """Return a hash that agrees with what was asked for."""
        return Believed(hashlib.sha256(self._text).hexdigest())

    sha256 = classmethod(lambda cls, text: cls(text))


@pytest.mark.parametrize("submit", KINDS)
def test_the_rule_finds_a_copy_that_is_made_of_what_the_log_has_left(
    submit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies are stored under the hash of the whole, and what the log gives for a hash is believed."""
    original = Redaction.of

    def of(self: Redaction, body: Body) -> Body | int:
        found = original(self, body)
        return found if isinstance(found, int) else Body(body.hash, found.text)

    monkeypatch.setattr(Redaction, "of", of)
    monkeypatch.setattr(live, "hashlib", AnyHash)
    monkeypatch.setattr(Bodies, "keep", lambda self, bodies: None)
    violation = play(crashed(submit)).violation
    assert violation is not None
    assert violation.rule == "a copy is made of all of its job"


def test_the_rule_finds_what_is_private_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redaction, "of", lambda self, body: body)
    violation = play(crashed("submit")).violation
    assert violation is not None
    assert violation.rule == "the log holds no value that is private"


def test_nothing_is_made_if_the_log_alone_has_it_and_it_is_listed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a list shows of known versions fills the memory: without it, nothing would ever be made after a crash."""
    monkeypatch.setattr(Bodies, "saw", lambda self, sighting, bodies: None)
    outcome = play(crashed("submit"))
    assert outcome.violation is not None
    assert outcome.violation.rule == "everything settles"
