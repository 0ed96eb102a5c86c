"""What a process knows does not rest on the events of streams that are over: without them the same log gives the same
state, the same open writes and the same decisions, also where a stream that was over begins again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controlplane.app.ended_streams import ended_of
from controlplane.app.hosted import HostedControllers
from controlplane.dst.engine.plan import EDITION
from controlplane.dst.play import plan_of
from controlplane.dst.scenes.workloads.processes import QUOTA, policy_of, settings_of
from controlplane.log.codec import Codec
from controlplane.log.event import Recorded
from controlplane.runtime.router import ControllerRouter
from controlplane.settings import Settings
from tests.interface.logs import recorded, state, written
from tests.support import folded
from tests.support.deep import deep_after
from tests.support.played import log_of

# The UIDs of what went last, a hint against stale lists that is forgotten after a while anyway; and what is asked about
# next, which `folded.asked` compares; and answers of clusters, of which those count that are in the window. What the
# end of Workloads that are over rests on is remembered of more of them than needed.
HINTS = ("newest._gone", "_dirty", "_answers._answers", "index._rested", "index._looked_through")
WINDOW = timedelta(seconds=61)
PLACES = 12


def left(router: ControllerRouter, events: Sequence[Recorded]) -> set[str]:
    ended, now = ended_of(router, events[-1].position), events[-1].recorded_at
    assert ended.age == WINDOW
    last = {one.stream: one.recorded_at for one in events}
    return {stream for stream, at in last.items() if ended.is_over(stream) and at < now - ended.age}


def answers(router: ControllerRouter) -> list[Any]:
    index: Any = router.registrations[0].controller
    found = index.index.history._answers
    return [(cluster, found.of(cluster)) for cluster in ("w1", "w2", "w3")]


def same(whole: ControllerRouter, kept: ControllerRouter) -> None:
    for one, other in zip(whole.registrations, kept.registrations, strict=True):
        differs = folded.difference(one.controller, other.controller)
        assert {path: pair for path, pair in differs.items() if not path.endswith(HINTS)} == {}
    assert answers(whole) == answers(kept)


def follows(router: ControllerRouter, events: Sequence[Recorded]) -> tuple[list[str], dict[str, Any]]:
    """Return what is asked about first, and what is open and decided next. Whoever is asked remembers it: nothing is to
    be folded afterwards.
    """
    return folded.asked(router), state(router, events, Codec(router.types))


def check(events: Sequence[Recorded], traits: Sequence[str] = (), edition: int = EDITION) -> int:
    """Let streams leave at some places of a log; return how many events that were, together."""

    def hosted() -> ControllerRouter:
        policy = msgspec.structs.replace(policy_of(edition, traits), scoring_window=WINDOW)
        return HostedControllers(settings_of(traits), policy).router

    def fork(router: ControllerRouter) -> ControllerRouter:
        into = hosted()
        for one, other in zip(router.registrations, into.registrations, strict=True):
            folded.copied(one.controller, other.controller)
        return folded.copied(router, into)

    def ends_alike() -> None:
        """Compare at the end, with all that came after what was folded last."""
        same(end, folded.folded(kept, events[done:]))
        assert follows(kept, events) == at_the_end

    end = folded.folded(hosted(), events)
    at_the_end = follows(folded.folded(hosted(), events), events)
    whole, kept = hosted(), hosted()
    count, done = 0, 0
    without: list[int] = []  # the positions that `kept` has not folded
    for place in range(1, PLACES + 1):
        before, new = events[: len(events) * place // PLACES], events[done : len(events) * place // PLACES]
        gone = left(folded.folded(whole, new), before)
        leave = [one.position for one in before if one.stream in gone]
        if leave == without:
            folded.folded(kept, new)
        else:
            ends_alike()
            kept = folded.folded(hosted(), [one for one in before if one.stream not in gone])
        without, done = leave, len(before)
        same(whole, kept)
        assert follows(fork(whole), before) == follows(fork(kept), before)
        count += len(leave)
    ends_alike()
    return count


@pytest.mark.parametrize("name", ["workloads-5", "workloads-23"])
def test_of_a_recorded_log(name: str) -> None:
    codec = Codec(HostedControllers(Settings()).router.types)
    check([recorded(line, codec) for line in written(name)])


@pytest.mark.parametrize("seed", deep_after(1, range(1, 41)))
@pytest.mark.parametrize("traits", [(), pytest.param((QUOTA,), marks=pytest.mark.deep)], ids=["alone", "with quota"])
def test_of_a_simulated_log(seed: int, traits: tuple[str, ...]) -> None:
    plan = plan_of(seed)
    plan = replace(plan, traits=(*plan.traits, *traits))
    check(log_of(plan), plan.traits, plan.edition)


def test_much_of_a_log_is_over() -> None:
    """So that the tests above try something."""
    codec = Codec(HostedControllers(Settings()).router.types)
    assert check([recorded(line, codec) for line in written("workloads-23")]) > 50


def test_what_cannot_be_folded_is_not_over() -> None:
    codec = Codec(HostedControllers(Settings()).router.types)
    events = [recorded(line, codec) for line in written("workloads-23")]
    router = folded.folded(HostedControllers(Settings()).router, events)
    gone = next(one.stream for one in events if ended_of(router, 1).is_over(one.stream))
    router._folding.left_alone[gone] = "it could not be read"
    assert not ended_of(router, 1).is_over(gone)
