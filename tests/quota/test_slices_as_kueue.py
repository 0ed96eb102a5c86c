"""The quota engine decides about workload slices as Kueue's own packages do, word for word.

`data/kueue-slices-digests.bin` has, for each seed of `slice_fleets.question`, eight bytes of the hash of Kueue's
answer; `data/kueue-slices-answers.json.gz` has the first answers in full, and all answers of Kueue's to the questions
that it does not always answer alike.

How they were made: a test of Go in kubernetes-sigs/kueue (ff69552e, default feature gates), package pkg/scheduler, read
the questions as JSON lines. For each it made a `cache/scheduler.Cache` and a `cache/queue.Manager` over a fake client
with the objects, and called `Scheduler.schedule` with a fake clock that moves by a minute a cycle. After each cycle it
took what had finished out of the cache, and had inadmissible workloads requeued for that; it wrote which admissions,
preemptions and ends a cycle had written to workloads, and the QuotaReserved conditions of all that wait. Each question
was asked three times."""

from __future__ import annotations

from collections import Counter

import pytest

from controlplane.controllers.quota.engine.cycle import _Cycle
from controlplane.controllers.quota.engine.entry import Entry
from controlplane.controllers.quota.engine.modes import AssignmentMode
from controlplane.controllers.quota.engine.preemption import PreemptionTarget
from controlplane.controllers.quota.engine.tree import rollback
from tests.quota.answers import digest
from tests.quota.recorded import RecordedAnswers, as_json
from tests.quota.slice_fleets import answer, of_kueue, question
from tests.support.deep import deep_after
from tests.support.rows import each

RECORDED = RecordedAnswers("kueue-slices")
QUESTIONS = RECORDED.questions
AT_ONCE = 250
COUNTED_AS_GONE = frozenset({
    46, 49, 57, 66, 86, 127, 145, 282, 383, 417, 441, 481, 486, 532, 570, 579, 598, 609,
    625, 688, 704, 774, 821, 844, 909, 914, 937, 943, 1032, 1100, 1140, 1143, 1154, 1214, 1270, 1313,
    1338, 1379, 1426, 1494, 1500, 1546, 1547, 1686, 1764, 1772, 1777, 1790, 1861, 1874, 1909, 1921, 1943, 1958,
    1967, 2065, 2084, 2094, 2182, 2197, 2199, 2200, 2203, 2243, 2258, 2267, 2283, 2366, 2373, 2403, 2428, 2505,
    2534, 2538, 2590, 2601, 2618, 2619, 2626, 2629, 2651, 2663, 2676, 2682, 2694, 2698, 2709, 2735, 2739, 2756,
    2763, 2822,
})  # fmt: skip
"""Seeds to which Kueue's answer is another one, since it counts an old slice as gone for all that it considers later in
the cycle: what that one has is given to others, or to the new slice, while it is still there. Counted so, the answers
are Kueue's."""
OTHERWISE = frozenset({195, 1875})
"""Seeds to which Kueue's answer is another one, counted so or not: with fair sharing, and workloads that several want
to preempt in one cycle, old slices among them."""


@each("seed", sorted(map(int, RECORDED.full)))
def test_answers_that_were_recorded_in_full(seed: int) -> None:
    wanted = of_kueue(RECORDED.full[str(seed)])
    assert RECORDED.expected(seed) == {digest(wanted)}
    assert (as_json(answer(question(seed))) == wanted) is (seed not in COUNTED_AS_GONE | OTHERWISE)


@pytest.mark.parametrize("start", deep_after(0, range(0, QUESTIONS, AT_ONCE)))
def test_answers_of_which_a_digest_was_recorded(start: int) -> None:
    seeds = range(start, min(start + AT_ONCE, QUESTIONS))
    differ = {seed for seed in seeds if digest(as_json(answer(question(seed)))) not in RECORDED.expected(seed)}
    assert differ == (COUNTED_AS_GONE | OTHERWISE) & set(seeds)


@each("seed", sorted(COUNTED_AS_GONE))
def test_where_kueue_counts_an_old_slice_as_gone_so_does_the_engine_if_it_is_told_to(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def old(entry: Entry) -> list[PreemptionTarget]:
        takes = entry.targets or entry.assignment.mode is AssignmentMode.FIT
        return [PreemptionTarget(entry.replaces, entry.queue, "")] if entry.replaces is not None and takes else []

    def fits(cycle: _Cycle, entry: Entry) -> bool:
        mark, gone = len(cycle.journal), set()
        for target in [*cycle.freed.preempted.values(), *entry.targets, *old(entry)]:
            if target.info.key not in gone:
                gone.add(target.info.key)
                cycle.preemptor.remove(cycle.snapshot.queues[target.queue.name], target.info)
        found = all(max(0, entry.queue.available(place)) >= amount for place, amount in entry.usage.items())
        rollback(cycle.journal, mark)
        return found

    take = _Cycle._take

    def taken(cycle: _Cycle, entry: Entry) -> None:
        cycle.freed.preempt(old(entry))
        take(cycle, entry)

    monkeypatch.setattr(_Cycle, "_fits", fits)
    monkeypatch.setattr(_Cycle, "_take", taken)
    monkeypatch.setattr(Entry, "usage", property(lambda entry: entry.assignment.usage))
    assert digest(as_json(answer(question(seed)))) in RECORDED.expected(seed)


def test_the_questions_cover_what_can_happen() -> None:
    counts: Counter[str] = Counter()
    for seed in map(int, RECORDED.full):
        for cycle in answer(question(seed)):
            counts["replaced"] += len(cycle["replaced"])
            counts["preempts"] += bool(cycle["preempt"])
            for key, (reason, message) in cycle["waits"].items():
                counts[reason] += key.endswith("-grown")
                counts["other flavor"] += "since the original workload is assigned" in message
    assert min(counts[what] for what in ("replaced", "preempts", "other flavor", "WaitingForQuota")) > 10
    assert QUESTIONS == 3_000
