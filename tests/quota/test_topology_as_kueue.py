"""The quota engine places pods as Kueue's own packages do, word for word.

`data/kueue-topology-digests.bin` has, for each seed of `topology_fleets.question`, eight bytes of the hash of Kueue's
answer (`answers.digest`); `data/kueue-topology-answers.json.gz` has the first answers in full, and the digests of all
answers of Kueue's to the questions that it does not always answer alike.

How they were made: as told in `test_engine_as_kueue`, on commit ff69552e of kubernetes-sigs/kueue (main after v0.19.2,
default feature gates), with the builder of clients of its own tests. Nodes went to `TASCache().SyncNode` and
`DeleteNodeByName`, other pods to `UpdateNonTASUsage`; `checks` wrote admission checks that are Ready into the status of
workloads whose topology was delayed, `unhealthy` wrote `status.unhealthyNodes`, and both called
`QueueSecondPassIfNeeded`; all inadmissible workloads were requeued whenever anything left. It wrote admissions that
changed, with their topology assignments as they are encoded, preemptions, evictions, the events of those that wait, and
both parts of each queue. Each question was asked twice, those with differing answers, or with another one than the
engine's, 40 times."""

from __future__ import annotations

import copy
from collections import Counter

import pytest

from tests.quota.answers import digest
from tests.quota.recorded import RecordedAnswers, as_json
from tests.quota.topology_answers import answer
from tests.quota.topology_fleets import question
from tests.support.deep import deep_after
from tests.support.rows import each

RECORDED = RecordedAnswers("kueue-topology")
QUESTIONS = RECORDED.questions
AT_ONCE = 250
SHARED = {866, 2889, 2999, 3223, 3821, 4098, 4172, 4432, 4704}
"""Seeds with flavors of the same nodes. Within a cycle Kueue lets each have them, here what one takes is taken of
all."""
ORDER = {459, 628, 1676, 1911, 2220, 2324, 2410, 3003, 3133, 3239, 3268, 3491, 3496, 3652, 4186, 4444, 4790, 4879, 4927}
"""Seeds to which Kueue's answer follows the order of a Go map, and ours was not among those that were recorded: which
pod set of a group is named, or with fair sharing which of several trees is considered first."""
TOGETHER = {
    *(348, 442, 495, 700, 819, 1296, 1309, 1311, 1516, 1639, 2509, 2607, 2668, 2683, 2701, 2747, 2842, 2981),
    *(3035, 3140, 3164, 3377, 3597, 3881, 3943, 4143, 4233, 4290, 4417, 4437, 4560, 4561, 4617, 4631, 4989),
}
"""Seeds in which several pod sets of a workload are for one domain of which another workload took a part in the same
cycle: Kueue asks for each pod set by itself whether it still fits, here they have to fit together."""
PODS_OF_A_NODE = {
    *(43, 79, 91, 100, 109, 162, 314, 335, 407, 436, 505, 536, 547, 556, 557, 571, 671, 676, 746, 811),
    *(835, 854, 862, 879, 884, 912, 925, 928, 1009, 1028, 1050, 1085, 1108, 1191, 1214, 1275, 1303, 1349, 1363, 1449),
    *(
        1515,
        1536,
        1583,
        1635,
        1646,
        1674,
        1709,
        1783,
        1798,
        1804,
        1920,
        1997,
        2003,
        2061,
        2112,
        2126,
        2134,
        2157,
        2205,
        2208,
    ),
    *(
        2237,
        2311,
        2348,
        2351,
        2356,
        2364,
        2418,
        2443,
        2499,
        2531,
        2626,
        2646,
        2659,
        2667,
        2679,
        2697,
        2716,
        2746,
        2795,
        2804,
    ),
    *(
        2830,
        2887,
        2970,
        3033,
        3091,
        3139,
        3293,
        3331,
        3383,
        3385,
        3411,
        3530,
        3536,
        3546,
        3557,
        3569,
        3632,
        3638,
        3709,
        3746,
    ),
    *(
        3777,
        3805,
        3837,
        3938,
        3939,
        3983,
        4052,
        4090,
        4101,
        4147,
        4154,
        4165,
        4198,
        4243,
        4248,
        4407,
        4412,
        4446,
        4462,
        4525,
    ),
    *(4556, 4615, 4651, 4719, 4737, 4754, 4796, 4845, 4850, 4909),
}
"""Seeds in which workloads of one cycle are for a node that takes fewer pods than all of them have: Kueue counts the
pods of a node when it looks for places, and not when it asks whether one is still free."""
UNEXPLAINED = {3166, 4271}
"""Seeds whose answers differ in a second pass, and it is not known why."""
KNOWN = SHARED | ORDER | TOGETHER | PODS_OF_A_NODE | UNEXPLAINED


@each("seed", sorted(set(map(int, RECORDED.full)) - KNOWN))
def test_answers_that_were_recorded_in_full(seed: int) -> None:
    found, wanted = as_json(answer(question(seed))), RECORDED.full[str(seed)]
    assert found["cycles"] == wanted["cycles"]
    assert RECORDED.expected(seed) == {digest(wanted)}


@pytest.mark.parametrize("start", deep_after(0, range(0, QUESTIONS, AT_ONCE)))
def test_answers_of_which_a_digest_was_recorded(start: int) -> None:
    seeds = range(start, min(start + AT_ONCE, QUESTIONS))
    differ = {seed for seed in seeds if digest(as_json(answer(question(seed)))) not in RECORDED.expected(seed)}
    assert differ == KNOWN & set(seeds)


def test_the_questions_cover_what_can_happen() -> None:
    counts: Counter[str] = Counter()
    for seed in RECORDED.full:
        for cycle in RECORDED.full[seed]["cycles"]:
            counts.update(said[0] for said in cycle.get("preempt", {}).values())
            counts.update(said[0] for said in cycle.get("evict", {}).values())
            for admitted in cycle.get("admit", {}).values():
                counts["placed"] += bool(admitted["topology"])
                counts.update(admitted["delayed"].values())
            for reason, message in cycle.get("pending", {}).values():
                counts[reason] += 1
                counts["layers"] += "slice(s) fit on level" in message
                counts["taints"] += "excluded" in message and "taint" in message
    assert set(counts) >= {
        "placed",
        "Pending",
        "Ready",
        "InClusterQueue",
        "InCohortReclamation",
        "NodeFailures",
        "NoMatchingFlavor",
        "ExceedsMaxQuota",
        "SecondPassFailed",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "WaitingForQuota",
        "layers",
        "taints",
    }
    assert QUESTIONS == 5_000
    assert len(KNOWN - PODS_OF_A_NODE) / QUESTIONS < 0.014
    assert len(PODS_OF_A_NODE) / QUESTIONS < 0.027
    assert len(SHARED | UNEXPLAINED) / QUESTIONS < 0.003


def test_a_digest_notices_one_pod_elsewhere() -> None:
    wanted = [
        (found, given)
        for found in map(copy.deepcopy, RECORDED.full.values())
        for admitted in found["cycles"][0].get("admit", {}).values()
        for given in admitted["topology"].values()
        if given["domains"]
    ]
    found, given = wanted[0]
    before = digest(found)
    given["domains"][0][1] += 1
    assert digest(found) != before
