"""The engine in virtual time: when a workload gets quota, if those that have some end at given moments."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.quota.engine import forecast as module
from controlplane.controllers.quota.engine.amounts import spelled
from controlplane.controllers.quota.engine.explain import explain, in_line
from controlplane.controllers.quota.engine.forecast import MOST_STEPS, NOTHING_ENDS, Forecast, excerpt, forecast
from controlplane.controllers.quota.engine.reasons import MissingQuota, beyond_all, missing_in, unused_missing
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.state import State
from tests.quota.answers import Play
from tests.quota.fleets import question
from tests.quota.test_engine_properties import GENERATED, SEEDS
from tests.quota.test_explain import NOW, queue, state_of, workload

A_MINUTE = 60.0


def asked(state: State, name: str, ends: Mapping[str, float], lasts: float = A_MINUTE, most: int = 1000) -> Forecast:
    """Return the forecast; `ends` in seconds from now."""
    of = excerpt(state, f"ns/{name}")
    assert of is not None
    return forecast(of, NOW, {f"ns/{key}": NOW + at for key, at in ends.items()}, lambda key: lasts, most)


def test_it_starts_when_enough_has_ended() -> None:
    state = state_of(queue("q", "4"), workload("a", "2", taken="q"), workload("b", "2", taken="q"), workload("w", "3"))
    found = asked(state, "w", {"a": 10, "b": 25})
    assert (found.at, found.why, found.started) == (NOW + 25, "", ())


def test_those_before_it_are_started_first_and_end_after_their_time() -> None:
    state = state_of(queue("q", "2"), workload("a", "2", taken="q"), *(workload(f"w{n}", "2") for n in range(3)))
    assert [asked(state, f"w{n}", {"a": 10}).at for n in range(3)] == [NOW + 10, NOW + 70, NOW + 130]
    assert asked(state, "w2", {"a": 10}).started == ("ns/w0", "ns/w1")


def test_a_smaller_one_passes_a_big_one_unless_the_queue_is_strict() -> None:
    objects = [workload("a", "1", taken="q"), workload("b", "3", taken="q"), workload("big", "3"), workload("w", "1")]
    assert asked(state_of(queue("q", "4"), *objects), "w", {"a": 10, "b": 50}).at == NOW + 10
    strict = queue("q", "4")
    strict["spec"]["queueingStrategy"] = "StrictFIFO"
    assert asked(state_of(strict, *objects), "w", {"a": 10, "b": 50}).at == NOW + 50


def test_it_preempts_and_its_victim_waits_again() -> None:
    spec = queue("q", "4", withinClusterQueue="LowerPriority")
    state = state_of(spec, workload("a", "4", taken="q"), workload("w", "4", priority=5))
    assert asked(state, "w", {"a": 500}).at == NOW
    assert asked(state_of(spec, workload("a", "4", taken="q"), workload("w", "4")), "w", {"a": 500}).at == NOW + 500


def test_what_is_borrowed_is_reclaimed_in_the_tree() -> None:
    state = state_of(
        queue("q", "2", cohort="c"),
        queue("other", "2", cohort="c", reclaimWithinCohort="Any"),
        workload("a", "4", taken="q"),
        workload("theirs", "2", at="lq-other"),
        workload("w", "2"),
    )
    assert asked(state, "theirs", {"a": 500}).at == NOW
    # The victim comes back once there is room for all of it: it waits before what came after it.
    assert asked(state, "w", {"a": 500}).at == NOW


@pytest.mark.parametrize(
    ("ends", "lasts", "most", "why"),
    [({}, A_MINUTE, 1000, NOTHING_ENDS), ({"a": 10}, math.inf, 1000, NOTHING_ENDS), ({"a": 10}, 60, 3, MOST_STEPS)],
)
def test_why_there_is_none(ends: Mapping[str, float], lasts: float, most: int, why: str) -> None:
    state = state_of(queue("q", "2"), workload("a", "2", taken="q"), *(workload(f"w{n}", "2") for n in range(3)))
    found = asked(state, "w2", ends, lasts, most)
    assert (found.at, found.why) == (None, why)


def test_a_holder_that_does_not_end_is_no_hindrance_where_others_do() -> None:
    state = state_of(queue("q", "4"), workload("a", "2", taken="q"), workload("b", "2", taken="q"), workload("w", "2"))
    assert asked(state, "w", {"b": 30}).at == NOW + 30


def test_more_wait_than_are_in_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(queue("q", "1"), workload("a", "1", taken="q"), *(workload(f"w{n:02}", "1") for n in range(20)))
    whole = asked(state, "w19", {"a": 10})
    monkeypatch.setattr(module, "WINDOW", 3)
    assert asked(state, "w19", {"a": 10}) == whole
    assert whole.at == NOW + 10 + 19 * A_MINUTE


def test_nobody_is_waited_for_whose_pods_are_not_ready() -> None:
    state = State(EngineSettings(block_admission=True))
    other = state_of(queue("q", "1"), workload("a", "1", taken="q"), workload("w0", "1"), workload("w1", "1"))
    state.give(other.kept())
    assert asked(state, "w1", {"a": 10}).at == NOW + 70


def test_of_who_does_not_wait_there_is_no_excerpt() -> None:
    assert excerpt(state_of(queue("q", "1"), workload("a", "1", taken="q")), "ns/a") is None


@GENERATED
@given(SEEDS)
def test_the_state_that_is_asked_is_as_it_was(seed: int) -> None:
    state = Play(question(seed)).state
    keys = waiting(state)[:2]
    told = [explain(state, key, NOW) for key in keys]
    before = copy.deepcopy(state.kept())
    for key in keys:
        of = excerpt(state, key)
        assert of is not None
        ends = {one.key: NOW + at for at, one in enumerate(of.holders)}
        first = forecast(of, NOW, ends, lambda key: A_MINUTE, 100)
        assert forecast(of, NOW, ends, lambda key: A_MINUTE, 100) == first
        assert first.at is None or first.at >= NOW
    assert state.kept() == before
    assert [explain(state, key, NOW) for key in keys] == told


def waiting(state: State) -> list[str]:
    return [one.key for pending in state.queues.pending.values() for one in in_line(state, pending)]


AMOUNTS = st.integers(min_value=0, max_value=2**62)
RESOURCES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "pods", "gpu-memory"])
IN_BYTES = frozenset({"gpu-memory"})  # as what counts by a counter of devices


@given(RESOURCES, AMOUNTS, AMOUNTS, AMOUNTS)
def test_what_is_missing_is_read_out_of_the_message(resource: str, amount: int, used: int, most: int) -> None:
    unused = unused_missing(resource, "on-demand.a", amount, IN_BYTES)
    assert missing_in(f"couldn't assign flavors to pod set main: {unused}. Pending the preemption") == (
        MissingQuota("on-demand.a", resource, spelled(resource, amount, IN_BYTES)),
    )
    if used + amount > most:
        (found,) = missing_in(f"{unused}, {beyond_all(resource, 'f', used, amount, most, IN_BYTES)}")[1:]
        assert (found.flavor, found.resource, found.never) == ("f", resource, True)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("", ()),
        ("Workload no longer fits after processing another workload", ()),
        (
            (
                "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously "
                "considered podsets requests (0) + current podset request (11) > maximum capacity (10)"
            ),
            (MissingQuota("default", "cpu", "1", never=True),),
        ),
        (
            (
                "insufficient unused quota for cpu in flavor a, 500m more needed, insufficient unused quota for "
                "memory in flavor b, 2Gi more needed"
            ),
            (MissingQuota("a", "cpu", "500m"), MissingQuota("b", "memory", "2Gi")),
        ),
    ],
)
def test_messages(message: str, found: tuple[Any, ...]) -> None:
    assert missing_in(message) == found
