"""Deliberate bugs: each a patch, and the rules one of which has to find it. They show that the exploration bites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controlplane.controllers.candidates.objects import FINALIZER
from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source import decide, decision_pass, delegate_status, permits, pod_status
from controlplane.controllers.candidates.source import render as renders
from controlplane.controllers.candidates.source.events import RevokeAcked
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.controllers.candidates.target import calls
from controlplane.controllers.candidates.target import decide as target_decide
from controlplane.controllers.candidates.target import state as target_states
from controlplane.controllers.candidates.target.events import FinalizerReleased, Unreserved, Withdrawn
from tests.candidates.model.moves import Moves
from tests.candidates.model.world import Config, Faults

Patch = Callable[[pytest.MonkeyPatch], None]
TWO = Faults(total=2)
_USUAL = Config("mutant", targets=2, deviations=0, faults=TWO)


@dataclass(frozen=True)
class Mutant:
    """A bug, where it is looked for, and what has to find it."""

    what: str
    patch: Patch
    rules: tuple[str, ...]
    config: Config = _USUAL


# --- the source ------------------------------------------------------------------------------------------------------


def a_lease_is_enough(patch: pytest.MonkeyPatch) -> None:
    """After the lease another target gets a permit in the same epoch, though the first may have bound in time."""

    def outlive(turn: Any, reason: CandidateReason) -> None:
        permit = turn.permit
        turn.say(RevokeAcked(cluster=permit.cluster, candidate=permit.candidate, number=permit.number, reason=reason))
        turn.permit = None

    patch.setattr(permits, "_outlive", outlive)


def a_withdrawal_needs_no_answer(patch: pytest.MonkeyPatch) -> None:
    original = permits._answer

    def answer(turn: Any, permit: Any, seen: Any) -> CandidateReason | None:
        return original(turn, permit, seen) or (CandidateReason.ACKNOWLEDGED if permit.revoking else None)

    patch.setattr(permits, "_answer", answer)


def a_permit_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The reservation of the seed, in memory only: whoever decides next does not know it."""
    original = decision_pass.PodPass.__init__

    def init(self: Any, *args: Any) -> None:
        original(self, *args)
        self.permit = None

    patch.setattr(decision_pass.PodPass, "__init__", init)


def the_log_takes_any_append(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Moves, "versions_checked", False)


def never_twice_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_pass.PodContext, "outlives", property(lambda self: True))


def losers_stay(patch: pytest.MonkeyPatch) -> None:
    original = decision_pass.PodPass.drop

    def drop(self: Any, name: str, reason: CandidateReason) -> None:
        if reason != CandidateReason.ANOTHER_TARGET_WON:
            original(self, name, reason)

    patch.setattr(decision_pass.PodPass, "drop", drop)


def a_deleted_pod_is_only_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_drop_all", lambda turn, reason: None)


def losers_go_before_the_bind(patch: pytest.MonkeyPatch) -> None:
    original = decide._tidy

    def tidy(turn: Any) -> None:
        original(turn)
        if turn.state.permit is not None:
            for name in turn.state.candidates:
                if name != turn.state.permit.candidate:
                    turn.drop(name, CandidateReason.ANOTHER_TARGET_WON)

    patch.setattr(decide, "_tidy", tidy)


def the_status_goes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pod_status, "later", lambda shown, said: said or "Pending")


def the_end_is_written_over(patch: pytest.MonkeyPatch) -> None:
    """A source pod that has ended shows its next delegate's life (S6)."""
    patch.setattr(delegate_status, "rank", lambda phase: 1 if phase in ("Running", "Succeeded", "Failed") else 0)
    for module in (pod_status, renders.statuses):
        patch.setattr(module, "rank", delegate_status.rank)
        patch.setattr(module, "later", lambda shown, said: said or "Pending", raising=False)
    patch.setattr(decide, "ENDED_PHASES", ())
    patch.setattr(pod_status, "ENDED_PHASES", ())


def a_lost_delegate_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_delegated", lambda turn: None)


# --- the target ------------------------------------------------------------------------------------------------------


def usable(patch: pytest.MonkeyPatch, make: Callable[[Any, Any], Any]) -> None:
    patch.setattr(target_decide, "usable_until", make)


def leases_do_not_end(patch: pytest.MonkeyPatch) -> None:
    original = target_decide.usable_until

    def until(state: Any, policy: Any) -> Any:
        found = original(state, policy)
        return None if found is None else found + timedelta(days=1)

    usable(patch, until)


def any_reservation_will_do(patch: pytest.MonkeyPatch) -> None:
    original, order = target_decide.usable_until, target_decide.bind_order

    def until(state: Any, policy: Any) -> Any:
        seen, held = state.seen, state.held
        if seen is not None and seen.permit is not None and held is not None:
            permit = msgspec.structs.replace(seen.permit, reservation=held.number)
            state = msgspec.structs.replace(state, seen=msgspec.structs.replace(seen, permit=permit))
        return original(state, policy)

    def bind(state: Any, policy: Any, now: Any) -> Any:
        if state.permit is not None and state.held is not None:
            permit = msgspec.structs.replace(state.permit, reservation=state.held.number)
            state = msgspec.structs.replace(state, permit=permit)
        return order(state, policy, now)

    usable(patch, until)
    patch.setattr(calls, "bind_order", bind)


def a_withdrawal_is_acknowledged_while_binding(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether a binding is on its way."""

    def settle(turn: Any, binding: Any, seen: Any) -> None:
        if seen.withdrawn >= binding.number and seen.withdrawn > turn.state.withdrawn:
            turn.say(Unreserved(number=turn.state.held.number, reason=TargetReason.REVOKED))
            turn.say(Withdrawn(number=seen.withdrawn, reason=TargetReason.WITHDRAWN))

    patch.setattr(target_decide, "_settle_binding", settle)


def a_binding_is_never_fenced(patch: pytest.MonkeyPatch) -> None:
    """A binding that nobody confirmed is waited for, for ever."""
    patch.setattr(target_decide, "_settle_binding", lambda turn, binding, seen: None)


def a_candidate_goes_before_its_pod(patch: pytest.MonkeyPatch) -> None:
    original = target_decide._let_go

    def let_go(turn: Any, seen: Any, context: Any) -> None:
        if FINALIZER in seen.finalizers:
            released = FinalizerReleased(
                uid=seen.uid, resource_version=seen.resource_version, reason=TargetReason.POD_STOPPED
            )
            turn.write(released)
        original(turn, seen, context)

    patch.setattr(target_decide, "_let_go", let_go)


def a_pod_outlives_its_candidate(patch: pytest.MonkeyPatch) -> None:
    """The finalizer is never taken off."""

    def let_go(turn: Any, seen: Any, context: Any) -> None:
        target_decide._remove_pod(turn, TargetReason.DELETED)

    patch.setattr(target_decide, "_let_go", let_go)


def everybody_is_invited(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(target_decide, "judge", lambda *args: ("", ""))


def reservations_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        target_states.TargetState, "node", property(lambda self: self.bound.node if self.bound is not None else "")
    )


def the_pods_of_this_cluster_are_not_watched(patch: pytest.MonkeyPatch) -> None:
    original = target_states._fold_pod

    def fold(state: Any, event: Any) -> Any:
        after = original(state, event)
        return msgspec.structs.replace(after, missing=False)

    patch.setattr(target_states, "_fold_pod", fold)


def old_epochs_stay(patch: pytest.MonkeyPatch) -> None:
    original = decision_pass.PodPass.drop

    def drop(self: Any, name: str, reason: CandidateReason) -> None:
        if reason != CandidateReason.OLD_EPOCH:
            original(self, name, reason)

    patch.setattr(decision_pass.PodPass, "drop", drop)


def an_unreserve_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    """With never-twice nothing else ends a permit than its target's word, and this word is not listened to."""
    original = permits._answer

    def answer(turn: Any, permit: Any, seen: Any) -> CandidateReason | None:
        found = original(turn, permit, seen)
        return None if found in (CandidateReason.UNRESERVED, CandidateReason.ACKNOWLEDGED) else found

    patch.setattr(permits, "_answer", answer)


def an_absent_target_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    """The permit of a target that cannot be reached is not outlived."""
    original = permits._ended

    def ended(turn: Any, permit: Any, seen: Any) -> None:
        if turn.context.in_view(permit.cluster):
            original(turn, permit, seen)

    patch.setattr(permits, "_ended", ended)


def a_target_that_was_given_up_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_pass.PodContext, "forgotten", lambda self, cluster: False)


_NEVER = Config("mutant", targets=2, deviations=0, faults=TWO, execution=NEVER_TWICE)
_LIFE = Config("mutant", targets=2, deviations=0, life=True)
_AWAY = Config("mutant", targets=2, deviations=0, faults=Faults.only("away"))
_GIVEN_UP = Config("mutant", targets=2, deviations=0, faults=Faults.only("away"), execution=NEVER_TWICE)
_JOINT = Config("mutant", sources=2, targets=1, coarse=True, deviations=1)

MUTANTS = (
    Mutant("a lease is enough", a_lease_is_enough, ("S1", "S10")),
    Mutant("a withdrawal needs no answer", a_withdrawal_needs_no_answer, ("S1", "S3", "S10")),
    Mutant("a permit is forgotten", a_permit_is_forgotten, ("S1", "S4")),
    Mutant(
        "the log takes any append",
        the_log_takes_any_append,
        ("S1", "S4", "S5", "S10"),
        Config("mutant", targets=2, deviations=1),
    ),
    Mutant("never-twice is ignored", never_twice_is_ignored, ("S1",), _NEVER),
    Mutant("an un-reserve is not heard", an_unreserve_is_not_heard, ("L", "L1"), _NEVER),
    Mutant("losers stay", losers_stay, ("L2",)),
    Mutant("old epochs stay", old_epochs_stay, ("L1", "L2")),
    Mutant("a deleted pod is only forgotten", a_deleted_pod_is_only_forgotten, ("L5",)),
    Mutant("losers go before the bind", losers_go_before_the_bind, ("S10",)),
    Mutant("the status goes back", the_status_goes_back, ("S6",), _LIFE),
    Mutant("the end is written over", the_end_is_written_over, ("S6", "S11"), _LIFE),
    Mutant("a lost delegate is not noticed", a_lost_delegate_is_not_noticed, ("L2",)),
    Mutant("a vanished pod is not reported", the_pods_of_this_cluster_are_not_watched, ("L2",)),
    Mutant("leases do not end", leases_do_not_end, ("S2",)),
    Mutant("any reservation will do", any_reservation_will_do, ("S2",)),
    Mutant("a withdrawal is acknowledged while binding", a_withdrawal_is_acknowledged_while_binding, ("S1", "S3")),
    Mutant("a binding is never fenced", a_binding_is_never_fenced, ("L", "L1", "quiet"), _NEVER),
    Mutant("a candidate goes before its pod", a_candidate_goes_before_its_pod, ("H12",)),
    Mutant("a finalizer is never taken off", a_pod_outlives_its_candidate, ("L4",)),
    Mutant("an absent target is waited for", an_absent_target_is_waited_for, ("L3",), _AWAY),
    Mutant("a target that was given up is waited for", a_target_that_was_given_up_is_waited_for, ("L4",), _GIVEN_UP),
    Mutant(
        "everybody is invited", everybody_is_invited, ("S9",), Config("mutant", targets=2, deviations=0, uninvited=(0,))
    ),
    Mutant("reservations are not counted", reservations_are_not_counted, ("S7",), _JOINT),
)
