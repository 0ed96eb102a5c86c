"""Deliberate bugs in what is decided about a gang: each a patch, and the rules one of which has to find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import decide, gang_decide, gang_events, gang_pass, gang_state, permits
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from tests.candidates.model.gang_world import GangConfig
from tests.candidates.model.world import Faults

Patch = Callable[[pytest.MonkeyPatch], None]
ONE = Faults(total=1)


@dataclass(frozen=True)
class GangMutant:
    """A bug, where it is looked for, and what has to find it."""

    what: str
    patch: Patch
    rules: tuple[str, ...]
    config: GangConfig


_PLAIN = GangConfig("mutant", faults=Faults(total=0), deviations=2)
_APART = GangConfig("mutant", faults=Faults(total=0), deviations=2, together=False, room=(1, 2))
_LOST = GangConfig("mutant", faults=Faults(total=1, frozen=0, cut=0, timeouts=0, ticks=0), deviations=0)
_LOST_APART = replace(_LOST, deviations=1, together=False)
_FAULT_APART = GangConfig("mutant", faults=ONE, deviations=0, together=False)


def _view(patch: pytest.MonkeyPatch, change: Callable[[Any], dict[str, Any]]) -> None:
    original = gang_state.view_of

    def view(*args: Any) -> Any:
        found = original(*args)
        return msgspec.structs.replace(found, **change(found))

    patch.setattr(gang_state, "view_of", view)


def members_go_where_they_like(patch: pytest.MonkeyPatch) -> None:
    """The source as it was: it permits members one by one, and does not know that they belong together."""
    original = permits.grant

    def grant(turn: Any) -> Any:
        turn.context = msgspec.structs.replace(turn.context, gang=None)
        return original(turn)

    patch.setattr(permits, "grant", grant)


def one_is_a_quorum(patch: pytest.MonkeyPatch) -> None:
    original = gang_pass.place_in
    patch.setattr(gang_decide, "place_in", lambda *args: original(*args)._replace(need=1))


def a_lost_member_goes_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """A member whose pod was lost is placed anew by itself, wherever there is room, while the others run."""

    def follow(turn: Any, home: str) -> CandidateReason | None:
        offers = turn.offers()
        if not offers:
            return CandidateReason.AWAITS_GANG
        permits._new(turn, offers[-1].cluster, "Bind", CandidateReason.GANG_FOLLOWS, {})
        return None

    _view(patch, lambda found: {"formed": False})
    patch.setattr(permits, "_follow", follow)


def the_gang_moves_when_one_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Whoever is alone counts as nobody."""
    original = gang_pass.GangPass.runs

    def runs(self: Any, name: str) -> bool:
        return original(self, name) and sum(original(self, other) for other in self.members) > 1

    patch.setattr(gang_pass.GangPass, "runs", runs)
    patch.setattr(gang_decide, "_adopt", lambda turn: False)


def what_ran_before_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A gang is placed anew while the lost target may still run it, and never-twice was asked for."""
    patch.setattr(gang_pass, "predecessor_runs", lambda turn: False)
    patch.setattr(decide, "_lost", _lost_for_good)
    patch.setattr(permits, "predecessor_runs", lambda turn: False)
    original = decide._delegated

    def delegated(turn: Any) -> None:
        known = turn.state.chosen
        if known is not None and not turn.context.in_view(known.cluster):
            _lost_for_good(turn, known, CandidateReason.TARGET_LOST, "")
        else:
            original(turn)

    patch.setattr(decide, "_delegated", delegated)


def _lost_for_good(turn: Any, known: Any, reason: CandidateReason, message: str) -> None:
    turn.say(decide.DelegateLost(cluster=known.cluster, candidate=turn.state.delegate, message=message, reason=reason))
    turn.closed = True


def a_gang_is_never_let_go(patch: pytest.MonkeyPatch) -> None:
    """The target that it lost stays its target."""
    patch.setattr(gang_decide, "_release", lambda turn, placed, done: None)


def a_member_that_is_bound_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A gang that is withdrawn is withdrawn, whoever was bound meanwhile."""
    events = {**vars(gang_events), "GangKept": gang_events.GangWithdrawn}
    patch.setattr(gang_decide, "gang_events", SimpleNamespace(**events))


def nobody_follows(patch: pytest.MonkeyPatch) -> None:
    """A member that is replaced waits for a quorum, while the others run."""
    _view(patch, lambda found: {"follows": False})


GANG_MUTANTS = (
    GangMutant("members go where they like", members_go_where_they_like, ("G1", "G2"), _PLAIN),
    GangMutant("one is a quorum", one_is_a_quorum, ("G4",), _APART),
    GangMutant("a lost member goes elsewhere", a_lost_member_goes_elsewhere, ("G1", "G2"), _LOST_APART),
    GangMutant("the gang moves when one is lost", the_gang_moves_when_one_is_lost, ("G1", "G2", "L1"), _LOST),
    GangMutant(
        "what ran before is not waited for",
        what_ran_before_is_not_waited_for,
        ("S1", "G2"),
        GangConfig("mutant", faults=ONE, deviations=0, execution=NEVER_TWICE),
    ),
    GangMutant("nobody follows", nobody_follows, ("L", "L1"), _LOST),
    GangMutant("a gang is never let go", a_gang_is_never_let_go, ("L", "L1"), _LOST),
    GangMutant(
        "a member that is bound is forgotten", a_member_that_is_bound_is_forgotten, ("quiet", "L"), _FAULT_APART
    ),
)
