"""Deliberate bugs about targets that do not do their part: what is not told, what is waited for, what silence is taken
for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source import decision_pass, permits
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.controllers.candidates.target import decide, permissions
from tests.candidates.model.configs import APART, IDLE
from tests.candidates.model.mutants import Mutant
from tests.candidates.model.world import Config, Faults


def a_silent_target_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_pass.PodPass, "silent", lambda self, cluster: False)


def silence_frees_a_permit(patch: pytest.MonkeyPatch) -> None:
    """Whoever was permitted and says nothing for as long as an answer takes is passed over in the same epoch."""
    original = permits._answer

    def answer(turn: Any, permit: Any, seen: Any) -> CandidateReason | None:
        over = turn.now >= permit.until + turn.context.policy.skew
        return original(turn, permit, seen) or (CandidateReason.UNRESERVED if over else None)

    patch.setattr(permits, "_answer", answer)


def a_refused_pod_is_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(permissions, "says_no", lambda trouble: False)


def what_was_refused_stays_refused(patch: pytest.MonkeyPatch) -> None:
    original = decide.judge

    def judge(*args: Any) -> tuple[str, str]:
        reason, message = original(*args)
        return (TargetReason.POD_REFUSED if reason == TargetReason.POD_NOT_CREATED else reason), message

    patch.setattr(decide, "judge", judge)


def who_refuses_is_a_place_to_spread_to(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_pass.PodPass, "declined", decision_pass.PodPass.silent)


_SILENT = Config("mutant", targets=2, deviations=0, faults=Faults.only("silent"), answer=6, preempt=(0, 1))
_FORBIDDEN = Config("mutant", targets=2, deviations=0, faults=Faults.only("forbidden"), preempt=(0, 1))
_PERMITTED = Config("mutant", targets=2, deviations=1, faults=IDLE, answer=6, execution=NEVER_TWICE)
_SPREAD = Config("mutant", targets=2, deviations=0, faults=IDLE, answer=6, elsewhere=(1, 0), placement=APART)
_ALONE = Config("mutant", targets=1, deviations=1, faults=IDLE, answer=6)

IDLE_MUTANTS = (
    Mutant("a silent target is waited for", a_silent_target_is_waited_for, ("L3",), _SILENT),
    Mutant("silence frees a permit", silence_frees_a_permit, ("S1",), _PERMITTED),
    Mutant("a refused pod is not told", a_refused_pod_is_not_told, ("L1",), _FORBIDDEN),
    Mutant("what was refused stays refused", what_was_refused_stays_refused, ("L1",), _ALONE),
    Mutant("who refuses is a place to spread to", who_refuses_is_a_place_to_spread_to, ("L1", "L3"), _SPREAD),
)
TOLD = replace(_FORBIDDEN, name="told")
"""A refusal is told: nobody waits without end for one that gave it, though an answer is waited for without end."""
