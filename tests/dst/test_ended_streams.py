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
from controlplane.dst.engine.plan import EDITION, Plan
from controlplane.dst.engine.quiet import hushed
from controlplane.dst.play import plan_of
from controlplane.dst.scenes.workloads.processes import QUOTA, policy_of, settings_of
from controlplane.dst.scenes.workloads.run import WorkloadRun
from controlplane.log.codec import Codec
from controlplane.log.event import Recorded
from controlplane.runtime.router import ControllerRouter
from controlplane.settings import Settings
from tests.interface.logs import recorded, state, written
from tests.support import folded
from tests.support.deep import deep_after

# The UIDs of what went last, a hint against stale lists that is forgotten after a while anyway; and what is asked about next, which
# `folded.asked` compares; and answers of clusters, of which those count that are in the window.
HINTS = ("newest._gone", "_dirty", "_answers._answers")
WINDOW = timedelta(seconds=61)
PLACES = 12


def events_of(plan: Plan) -> Sequence[Recorded]:
    with hushed():
        run = WorkloadRun(plan)
        run.play()
    try:
        return list(run.database.read(0, 100_000))
    finally:
        run.close()


def left(router: ControllerRouter, events: Sequence[Recorded]) -> set[str]:
    ended, now = ended_of(router, events[-1].position), events[-1].recorded_at
    assert ended.age == WINDOW
    last = {one.stream: one.recorded_at for one in events}
    return {stream for stream, at in last.items() if ended.is_over(stream) and at < now - ended.age}


def answers(router: ControllerRouter) -> list[Any]:
    index: Any = router.registrations[0].controller
    found = index.index.history._answers
    return [(cluster, found.of(cluster)) for cluster in ("w1", "w2", "w3")]


def same(whole: ControllerRouter, kept: ControllerRouter, events: Sequence[Recorded]) -> None:
    for one, other in zip(whole.registrations, kept.registrations, strict=True):
        differs = folded.difference(one.controller, other.controller)
        assert {path: pair for path, pair in differs.items() if not path.endswith(HINTS)} == {}
    assert answers(whole) == answers(kept)
    assert folded.asked(whole) == folded.asked(kept)
    codec = Codec(whole.types)
    assert state(whole, events, codec) == state(kept, events, codec)


def check(events: Sequence[Recorded], traits: Sequence[str] = (), edition: int = EDITION) -> int:
    """Let streams leave at some places of a log; return how many events that were, together."""

    def hosted() -> ControllerRouter:
        policy = msgspec.structs.replace(policy_of(edition, traits), scoring_window=WINDOW)
        return HostedControllers(settings_of(traits), policy).router

    count = 0
    for place in range(1, PLACES + 1):
        before, after = events[: len(events) * place // PLACES], events[len(events) * place // PLACES :]
        gone = left(folded.folded(hosted(), before), before)
        stay = [one for one in before if one.stream not in gone]
        whole, kept = (folded.folded(hosted(), some) for some in (before, stay))
        same(whole, kept, before)
        folded.folded(whole, after)
        folded.folded(kept, after)
        same(whole, kept, events)
        count += len(before) - len(stay)
    return count


@pytest.mark.parametrize("name", ["workloads-5", "workloads-23"])
def test_of_a_recorded_log(name: str) -> None:
    codec = Codec(HostedControllers(Settings()).router.types)
    check([recorded(line, codec) for line in written(name)])


@pytest.mark.parametrize("seed", deep_after(2, list(range(1, 41))))
@pytest.mark.parametrize("traits", [(), (QUOTA,)], ids=["alone", "with quota"])
def test_of_a_simulated_log(seed: int, traits: tuple[str, ...]) -> None:
    plan = plan_of(seed)
    plan = replace(plan, traits=(*plan.traits, *traits))
    check(events_of(plan), plan.traits, plan.edition)


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
