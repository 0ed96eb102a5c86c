"""Who gets the permit, as a table: offers and what is still to come in, the choice and its reason out."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.observations import PlacementOptions
from controlplane.controllers.candidates.source.observe import options
from controlplane.controllers.candidates.source.policy import (
    LONGEST_WAIT,
    MOST_CANDIDATES,
    Offer,
    PermitChoice,
    PermitWait,
    PlacementPolicy,
    Target,
    choose,
    effective,
    preemptor,
    within_skew,
)
from tests.candidates.model.world import START
from tests.support.rows import each

FIRST, BEST = PlacementPolicy(), PlacementPolicy(mode="BestOf", min_candidates=2, max_wait=timedelta(seconds=5))


def offer(cluster: str, score: int = 0, since: float = 0, tier: int = 0, failures: int = 0) -> Offer:
    return Offer(cluster=cluster, score=score, since=START + timedelta(seconds=since), tier=tier, failures=failures)


def pending(**tiers: int) -> dict[str, Target]:
    return {name: Target(name=name, tier=tier) for name, tier in tiers.items()}


CASES = {
    "nobody has answered": ([], {}, FIRST, 0, PermitWait(None, CandidateReason.NOBODY_ANSWERED)),
    "the first that is ready": (
        [offer("b", 1, 1), offer("a", 9, 2)],
        {},
        FIRST,
        2,
        PermitChoice("b", CandidateReason.FIRST_READY),
    ),
    "the only one": ([offer("a")], pending(b=0), FIRST, 0, PermitChoice("a", CandidateReason.ONLY_READY)),
    "a better tier may still answer": (
        [offer("cloud", tier=1)],
        pending(own=0),
        FIRST,
        0,
        PermitWait(START + timedelta(seconds=5), CandidateReason.AWAITS_TIER),
    ),
    "and is not waited for longer than the window": (
        [offer("cloud", tier=1)],
        pending(own=0),
        FIRST,
        5,
        PermitChoice("cloud", CandidateReason.ONLY_READY),
    ),
    "the better tier is preferred to the better score": (
        [offer("cloud", 99, tier=1), offer("own", 1)],
        {},
        BEST,
        0,
        PermitChoice("own", CandidateReason.PREFERRED_TIER),
    ),
    "best-of waits for enough": (
        [offer("a", 1)],
        pending(b=0),
        BEST,
        4,
        PermitWait(START + timedelta(seconds=5), CandidateReason.AWAITS_CANDIDATES),
    ),
    "but not for those who cannot come": ([offer("a", 1)], {}, BEST, 0, PermitChoice("a", CandidateReason.ONLY_READY)),
    "nor longer than its window": (
        [offer("a", 1)],
        pending(b=0),
        BEST,
        5,
        PermitChoice("a", CandidateReason.WINDOW_CLOSED),
    ),
    "the best of enough": (
        [offer("a", 1), offer("b", 2)],
        pending(c=0),
        BEST,
        0,
        PermitChoice("b", CandidateReason.BEST_SCORE),
    ),
    "who failed comes after who did not": (
        [offer("a", 9, 0, failures=1), offer("b", 1, 3)],
        {},
        FIRST,
        3,
        PermitChoice("b", CandidateReason.ONLY_READY),
    ),
    "and after who was not asked yet": (
        [offer("a", failures=1)],
        pending(b=0),
        FIRST,
        0,
        PermitWait(START + timedelta(seconds=10), CandidateReason.AWAITS_UNTRIED),
    ),
    "for a while": ([offer("a", failures=1)], pending(b=0), FIRST, 10, PermitChoice("a", CandidateReason.ONLY_READY)),
}


@each("case", CASES.values(), ids=list(CASES))
def test_the_choice(
    case: tuple[list[Offer], dict[str, Target], PlacementPolicy, float, PermitChoice | PermitWait],
) -> None:
    offers, ahead, placement, seconds, wanted = case
    failures = {entry.cluster: entry.failures for entry in offers}
    assert choose(offers, ahead, failures, {}, placement, START + timedelta(seconds=seconds)) == wanted


def test_a_workload_is_spread() -> None:
    offers = [offer("a", 9), offer("b", 1)]
    spread = PlacementPolicy(max_skew=1)
    assert choose(offers, {}, {}, {"a": 1, "b": 0}, spread, START) == PermitChoice("b", CandidateReason.ONLY_READY)
    assert choose(offers[:1], {}, {}, {"a": 1, "b": 0}, spread, START) == PermitWait(
        None, CandidateReason.SKEW_TOO_LARGE
    )
    assert choose(offers[:1], {}, {}, {"a": 1}, spread, START) == PermitChoice("a", CandidateReason.ONLY_READY), (
        "b is out of view"
    )


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5), min_size=1), st.integers(1, 3), st.integers(1, 30))
def test_pods_placed_one_by_one_never_exceed_the_skew(start: dict[str, int], skew: int, pods: int) -> None:
    counts = dict.fromkeys(start, 0)
    for _ in range(pods):
        allowed = within_skew([offer(name, start[name]) for name in counts], counts, skew)
        assert allowed, "there is always one to go to"
        counts[max(allowed, key=lambda one: one.score).cluster] += 1
        assert max(counts.values()) - min(counts.values()) <= skew


@given(
    st.lists(st.builds(offer, st.sampled_from("abcdef"), st.integers(0, 99), st.floats(0, 9), st.integers(0, 2))),
    st.sampled_from([FIRST, BEST]),
)
def test_nobody_waits_longer_than_the_bounds(offers: list[Offer], placement: PlacementPolicy) -> None:
    now = START + timedelta(seconds=9) + placement.retry_wait + LONGEST_WAIT
    ahead = pending(x=0, y=1)
    verdict = choose(offers, ahead, {one.cluster: one.failures for one in offers}, {}, placement, now)
    assert isinstance(verdict, PermitChoice) == bool(offers)


def test_who_is_asked_to_make_room() -> None:
    able = pending(a=1, b=0, c=0)
    assert preemptor(able, {}, {}, 0) == "b"
    assert preemptor(able, {"b": 1}, {}, 0) == "c"
    assert preemptor(able, {"b": 1, "c": 1}, {}, 0) == "a"
    assert preemptor({}, {}, {}, 0) == ""
    assert preemptor(pending(a=0), {}, {"a": 1, "b": 0}, 1) == ""


PREFIX = "candidates.controlplane.dev"


def test_annotations_choose_within_the_bounds() -> None:
    asked = options(
        {
            f"{PREFIX}/placement": "BestOf",
            f"{PREFIX}/min-candidates": "3",
            f"{PREFIX}/max-wait": "7.5s",
            f"{PREFIX}/max-skew": "1",
            f"{PREFIX}/targets": "a, b",
        }
    )
    assert asked.targets == ["a", "b"]
    wanted = PlacementPolicy(mode="BestOf", min_candidates=3, max_wait=timedelta(seconds=7.5), max_skew=1)
    assert effective(FIRST, asked) == wanted
    assert effective(BEST, PlacementOptions()) == BEST


@each(
    ("key", "value", "allowed"),
    [
        ("placement", "Fastest", "FirstReady or BestOf"),
        ("min-candidates", "0", f"from 1 to {MOST_CANDIDATES}"),
        ("min-candidates", "two", "a whole number"),
        ("max-wait", "1h", "a number of seconds"),
        ("max-wait", "99", "to 20"),
        ("max-skew", "-1", "from 0"),
        ("max-wait", "nan", "a number of seconds"),
    ],
)
def test_an_option_that_cannot_be_is_named(key: str, value: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed) as error:
        options({f"{PREFIX}/{key}": value})
    assert f"{PREFIX}/{key}" in str(error.value)
    assert f'"{value}"' in str(error.value)
