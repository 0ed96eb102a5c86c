"""What a target does again and again: candidates beyond an invitation's bound, bindings that the API server refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn

from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.state import TargetState
from tests.candidates.stage import NS
from tests.candidates.test_target_causes import Told

NAMES = ("a", "b", "c", "d")


def at_once(told: Told) -> None:
    """Decide about all that changed before any of it is folded, as the loop does, until nothing is left to decide."""
    process = told.process
    for _ in range(20):
        decided = [process.capability.decide(stream, process.now) for stream in process.capability.take_dirty()]
        if not decided:
            return
        for one in decided:
            process.take(one)
    raise AssertionError("it does not come to rest")


def taken(told: Told) -> list[str]:
    """Return the names of the candidates that were taken and not refused since."""
    return [name for name in NAMES if told.targets.candidates[f"candidate/{NS}/{name}"].admitted]


def invited(most: int) -> Told:
    told = Told().invited(most=most)
    for name in NAMES:
        told.candidate(name)
    return told


def test_of_candidates_that_come_at_once_as_many_are_taken_as_are_allowed() -> None:
    told = invited(2)
    at_once(told)
    assert len(taken(told)) == 2


def test_a_bound_that_is_lowered_leaves_those_that_came_first() -> None:
    told = invited(0)
    at_once(told)
    assert taken(told) == list(NAMES)
    told.invited(most=2)
    at_once(told)
    assert taken(told) == ["a", "b"]


def test_who_goes_leaves_its_place_to_one_that_was_refused() -> None:
    told = invited(2)
    at_once(told)
    first = taken(told)[0]
    told.vanished(first)
    at_once(told)
    assert sum(told.targets.candidates[f"candidate/{NS}/{name}"].admitted for name in NAMES if name != first) == 2


def refuse_binding(told: Told) -> bool:
    """Begin the binding, have it refused, and fence it; return whether it could be begun."""
    stream = f"candidate/{NS}/web"
    decided = told.targets.bind(stream, told.process.now)
    if not decided.events:
        return False
    told.say(decided).unconfirmed().settle()
    told.pod(resource_version=f"{len(told.process.rows)}").settle()
    return True


def test_a_binding_that_is_refused_again_and_again_is_not_begun_again_at_once() -> None:
    told = Told().reserved().permitted().settle()
    assert refuse_binding(told)
    assert refuse_binding(told)  # an answer that was lost says nothing against it
    assert not refuse_binding(told)
    told.tick(1.0).settle()
    assert refuse_binding(told)
    told.tick(1.0).settle()
    assert not refuse_binding(told)
    told.tick(1.0).settle()
    assert refuse_binding(told)


def test_a_pause_between_bindings_ends_by_itself() -> None:
    told = Told().reserved().permitted().settle()
    assert refuse_binding(told)
    assert refuse_binding(told)
    assert told.process.now + timedelta(seconds=1) in told.process.wakes


def test_a_binding_that_succeeds_ends_what_is_known_of_those_before() -> None:
    told = Told().reserved().permitted().settle()
    assert refuse_binding(told)
    assert refuse_binding(told)
    told.tick(1.0).settle()
    told.bind().pod(node="node").settle()
    state = told.targets.candidates[f"candidate/{NS}/web"]
    assert isinstance(state.bound, events.Bound)
    assert state.bind_failures == 0


class Unseen(dict[str, TargetState]):
    """Candidates of which nobody may look at all."""

    def values(self) -> NoReturn:
        raise AssertionError("all candidates are looked at")


def test_to_decide_about_one_nobody_looks_at_all_of_them() -> None:
    """The work for so many candidates would be their square: some minutes for ten thousand."""
    told = invited(2)
    told.targets.candidates = Unseen(told.targets.candidates)
    at_once(told)
    first, *_ = taken(told)
    told.vanished(first)
    at_once(told)
    assert len([name for name in NAMES if name != first and name in taken(told)]) == 2
