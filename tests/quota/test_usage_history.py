"""What must hold of past usage, whatever was used and however often it was sampled."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.quota.engine.usage_history import (
    AdmissionFairSharing,
    Amounts,
    UsageHistory,
    decayed,
    from_quantities,
    quantities,
)

QUEUE = "ns/a"
NANO = Decimal("1e-9")
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
    st.integers(0, 2**60).map(lambda nanos: Decimal(nanos) * NANO),
    max_size=3,
)
SECONDS = st.floats(0, 10_000_000, allow_nan=False)
HALF_LIVES = st.sampled_from([0.0, 1.0, 60.0, 3600.0, 604_800.0])
CONFIGS = st.builds(AdmissionFairSharing, HALF_LIVES, st.sampled_from([1.0, 300.0, 3600.0]))


@given(old=AMOUNTS, shorter=SECONDS, more=SECONDS, half_life=HALF_LIVES)
def test_what_is_not_used_any_more_fades_and_is_never_negative(
    old: Amounts, shorter: float, more: float, half_life: float
) -> None:
    soon, later = (decayed(old, {}, elapsed, half_life) for elapsed in (shorter, shorter + more))
    for name, amount in old.items():
        assert 0 <= later[name] <= soon[name] <= amount


@given(old=AMOUNTS, used=AMOUNTS, elapsed=SECONDS, half_life=HALF_LIVES)
def test_past_usage_lies_between_what_it_was_and_what_is_used(
    old: Amounts, used: Amounts, elapsed: float, half_life: float
) -> None:
    found = decayed(old, used, elapsed, half_life)
    for name in {*old, *used}:
        ends = old.get(name, Decimal(0)), used.get(name, Decimal(0))
        # Each product is rounded down, and the two factors are floats, whose sum is 1 but for their last bit.
        inexact = max(ends) * Decimal("1e-15")
        assert min(ends) - 2 * NANO - inexact <= found[name] <= max(ends) + inexact


@given(config=CONFIGS, used=AMOUNTS, seconds=st.lists(SECONDS, max_size=5), requests=AMOUNTS)
def test_what_is_noted_twice_is_as_noted_once(
    config: AdmissionFairSharing, used: Amounts, seconds: list[float], requests: Amounts
) -> None:
    once, twice = UsageHistory(config), UsageHistory(config)
    now = 0.0
    for count, elapsed in enumerate(seconds):
        now += elapsed
        workload = f"ns/w{count}"
        for history, times in ((once, 1), (twice, 2)):
            for _ in range(times):
                history.enter(QUEUE, workload, history.penalty(requests), now)
        assert once.kept() == twice.kept()
        settled = [workload] if count % 2 else []
        sample = once.sampled(QUEUE, used, now, settled)
        for history, times in ((once, 1), (twice, 2)):
            for _ in range(times):
                history.record(QUEUE, sample, now, settled)
    assert once.kept() == twice.kept()


@given(config=CONFIGS, requests=AMOUNTS, weight=st.sampled_from([0.5, 1.0, 3.0]))
def test_settling_at_once_changes_no_usage(config: AdmissionFairSharing, requests: Amounts, weight: float) -> None:
    history = UsageHistory(config)
    history.record(QUEUE, {"cpu": Decimal(1)}, 0)
    history.enter(QUEUE, "ns/w", history.penalty(requests), 10)
    before = history.usage(QUEUE, weight)
    history.record(QUEUE, history.sampled(QUEUE, {}, 0, ["ns/w"]), 0, ["ns/w"])
    if config.half_life:
        assert history.usage(QUEUE, weight) == before
    else:
        assert history.usage(QUEUE, weight) == 0


@given(config=CONFIGS, consumed=AMOUNTS, requests=AMOUNTS, seconds=SECONDS)
def test_what_was_kept_is_the_same_again(
    config: AdmissionFairSharing, consumed: Amounts, requests: Amounts, seconds: float
) -> None:
    history, other = UsageHistory(config), UsageHistory(config)
    history.record(QUEUE, consumed, seconds)
    history.enter(QUEUE, "ns/w", history.penalty(requests), seconds)
    history.enter("ns/b", "ns/v", history.penalty(requests), seconds)
    other.give(history.kept())
    assert other.kept() == history.kept()
    assert other.usage(QUEUE, 1.0) == history.usage(QUEUE, 1.0)
    for one in (history, other):
        one.leave("ns/v")
        one.stay("ns/w", "ns/elsewhere")
    assert other.kept() == history.kept()
    assert history.entered(QUEUE) == history.entered("ns/b") == ()


@given(amounts=AMOUNTS)
def test_quantities_are_the_same_amounts(amounts: Amounts) -> None:
    assert from_quantities(quantities(amounts)) == {name: amount for name, amount in amounts.items() if amount}


def test_who_was_idle_begins_as_if_it_had_been_sampled() -> None:
    history = UsageHistory(AdmissionFairSharing(300, 300))
    history.record(QUEUE, {}, 0)
    assert history.due(QUEUE, {}) is None
    assert history.sampled(QUEUE, {"cpu": Decimal(4)}, 10 * 300 + 1) == decayed({}, {"cpu": Decimal(4)}, 1, 300)
    assert history.due(QUEUE, {"cpu": Decimal(4)}) == 300


WEEK = 604_800.0


def test_what_an_idle_queue_used_is_told_again_when_a_hundredth_has_faded() -> None:
    history = UsageHistory(AdmissionFairSharing(WEEK, 300))
    history.record(QUEUE, {"cpu": Decimal(4)}, 0, idle=True)
    due = history.due(QUEUE, {})
    assert due == pytest.approx(8_770, abs=1)
    assert float(history.sampled(QUEUE, {}, due)["cpu"]) == pytest.approx(4 * 0.99, rel=1e-6)
    assert history.due(QUEUE, {"cpu": Decimal(1)}) == 300, "what is used now is counted as soon as ever"
    history.record(QUEUE, {"cpu": Decimal(4)}, 0)
    assert history.due(QUEUE, {}) == 300, "that nothing is used is noted first"
    fast = UsageHistory(AdmissionFairSharing(600, 300))
    fast.record(QUEUE, {"cpu": Decimal(4)}, 0, idle=True)
    assert fast.due(QUEUE, {}) == 300


@given(
    old=AMOUNTS,
    used=AMOUNTS,
    samples=st.lists(st.integers(1, 30), max_size=5),
    late=st.integers(0, 299),
    half_life=HALF_LIVES,
)
def test_an_idle_queue_that_is_sampled_less_often_has_used_as_much(
    old: Amounts, used: Amounts, samples: list[int], late: int, half_life: float
) -> None:
    """What it has used is within a billionth a sample, however many samples there were, also once it uses something
    again."""
    often, seldom = (UsageHistory(AdmissionFairSharing(half_life, 300)) for _ in range(2))
    for history in (often, seldom):
        history.record(QUEUE, old, 0, idle=True)
    whole = sum(samples)
    for count in range(1, whole + 1):
        often.record(QUEUE, often.sampled(QUEUE, {}, 300 * count), 300 * count, idle=True)
    now = 300 * whole + late
    one, other = often.sampled(QUEUE, used, now), seldom.sampled(QUEUE, used, now)
    for name in one.keys() | other.keys():
        a, b = one.get(name, Decimal(0)), other.get(name, Decimal(0))
        inexact = max(old.get(name, Decimal(0)), used.get(name, Decimal(0))) * Decimal("1e-13")
        assert abs(a - b) <= (whole + 3) * NANO + inexact


def test_with_a_half_life_of_zero_the_past_is_reset_and_then_nothing_is_due() -> None:
    history = UsageHistory(AdmissionFairSharing(0, 300))
    history.record(QUEUE, {"cpu": Decimal(4)}, 0)
    assert history.due(QUEUE, {}) == 300
    history.record(QUEUE, history.sampled(QUEUE, {"cpu": Decimal(8)}, 300), 300)
    assert history.usage(QUEUE, 1.0) == 0
    assert history.due(QUEUE, {"cpu": Decimal(8)}) is None
    assert history.penalty({"cpu": Decimal(8)}) == {}


def test_other_settings_do_not_change_what_was_recorded() -> None:
    slow, fast, none = (UsageHistory(one) for one in (AdmissionFairSharing(600), AdmissionFairSharing(6), None))
    for history in (slow, fast, none):
        history.record(QUEUE, {"cpu": Decimal(4)}, 0)
        history.enter(QUEUE, "ns/w", {"cpu": Decimal(2)}, 1)
    assert slow.kept() == fast.kept() == none.kept()
    assert slow.usage(QUEUE, 1.0) == fast.usage(QUEUE, 1.0) == 6


def test_what_is_no_quantity_names_the_resource() -> None:
    with pytest.raises(ValueError, match=r"cpu: not a quantity: 'much'"):
        from_quantities({"memory": "1Gi", "cpu": "much"})


# Tenants and shares.


FLEETS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
    st.integers(0, 2**40).map(lambda nanos: Decimal(nanos) * NANO),
    max_size=3,
)
BY_QUEUE = st.dictionaries(st.sampled_from(["ns/a", "ns/b", "other/a"]), AMOUNTS, max_size=3)


@given(by_queue=BY_QUEUE, fleet=FLEETS, weight=st.sampled_from([0.5, 1.0, 2.0]), together=st.booleans())
def test_the_dominant_share_is_the_largest_of_what_the_tenant_used(
    by_queue: dict[str, Amounts], fleet: Amounts, weight: float, together: bool
) -> None:
    history = UsageHistory(AdmissionFairSharing(1.0, dominant=True, by_namespace=together))
    for queue, amounts in by_queue.items():
        history.record(queue, amounts, 0.0)
    counted = [amounts for queue, amounts in by_queue.items() if queue == QUEUE or (together and queue == "ns/b")]
    largest = max(
        (
            Fraction(sum((of.get(name, Decimal(0)) for of in counted), Decimal(0))) / Fraction(there)
            for name, there in fleet.items()
            if there
        ),
        default=Fraction(0),
    )
    assert history.usage(QUEUE, weight, fleet) == pytest.approx(float(largest) / weight)
    assert history.usage(QUEUE, 0.0, fleet) == math.inf


@given(by_queue=BY_QUEUE)
def test_a_namespace_used_what_its_queues_used_whoever_of_them_is_asked(by_queue: dict[str, Amounts]) -> None:
    alone, together = (
        UsageHistory(AdmissionFairSharing(1.0)),
        UsageHistory(AdmissionFairSharing(1.0, by_namespace=True)),
    )
    for queue, amounts in by_queue.items():
        for history in (alone, together):
            history.record(queue, amounts, 0.0)
    summed = alone.usage("ns/a", 1.0) + alone.usage("ns/b", 1.0)
    assert together.usage("ns/a", 1.0) == together.usage("ns/b", 1.0) == pytest.approx(summed)
    assert together.usage("other/a", 1.0) == alone.usage("other/a", 1.0)
    for queue in by_queue:
        together.forget(queue)
    assert together.usage("ns/a", 1.0) == 0.0
