"""Pods are placed in topologies as Kueue places them with its gates `TASBalancedPlacement` and
`TASRespectNodeAffinityPreferred`.

`data/kueue-placements-digests.bin` has, for each seed of `placement_questions.question`, eight bytes of the hash of
Kueue's answer; `data/kueue-placements-answers.json.gz` has the first answers in full.

How they were made: a test of Go in kubernetes-sigs/kueue (ff69552e), package pkg/cache/scheduler, read the questions as
JSON lines, turned the gates on that each names, gave its nodes to a `TASCache` over a fake client, and wrote what
`FindTopologyAssignmentsForFlavor` returned."""

from __future__ import annotations

import pytest

from tests.quota.answers import digest
from tests.quota.placement_questions import answer, question
from tests.quota.recorded import RecordedAnswers, as_json
from tests.support.deep import deep_after
from tests.support.rows import each

RECORDED = RecordedAnswers("kueue-placements")
AT_ONCE = 1000


@each("seed", sorted(map(int, RECORDED.full)))
def test_answers_that_were_recorded_in_full(seed: int) -> None:
    wanted = RECORDED.full[str(seed)]
    assert as_json(answer(question(seed))) == wanted
    assert RECORDED.expected(seed) == {digest(wanted)}


@pytest.mark.parametrize("start", deep_after(0, range(0, RECORDED.questions, AT_ONCE)))
def test_answers_of_which_a_digest_was_recorded(start: int) -> None:
    seeds = range(start, start + AT_ONCE)
    assert not [seed for seed in seeds if digest(as_json(answer(question(seed)))) not in RECORDED.expected(seed)]


@each("rule", ("balanced", "preferred"))
def test_many_answers_are_others_without_the_rule(rule: str) -> None:
    seeds = [seed for seed in range(len(RECORDED.full)) if question(seed)[rule]]
    others = [seed for seed in seeds if answer({**question(seed), rule: False}) != answer(question(seed))]
    assert len(others) > len(seeds) / 10
