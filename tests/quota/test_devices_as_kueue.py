"""Devices count as quota as Kueue's own packages count them, and are refused word for word.

`data/kueue-devices-answers.json.gz` has, for each seed of `device_questions.question`, all answers that Kueue gave:
what all pods of each pod set ask for, or what its condition would say.

How they were made: a program in Go beside kubernetes-sigs/kueue (ff69552e, default feature gates) read the questions as
JSON lines (`python -m tests.quota.device_questions 0 1000`). For each it filled a `dra.ResourceMapper` and a fake
client, and called, as `WorkloadReconciler.handleDRA` does, `dra.GetResourceRequestsForResourceClaimTemplates`,
`dra.ResolveExtendedResourceQuota` and `dra.GetCounterResourcesForWorkload`; of what these found it had
`workload.NewInfo` make the requests. Each question was asked twelve times, since some of it is told in the order of a
Go map."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.quota.device_answers import answer, of_kueue
from tests.quota.device_questions import question
from tests.support.rows import each

ANSWERS = json.loads(gzip.decompress((Path(__file__).parent / "data/kueue-devices-answers.json.gz").read_bytes()))
AT_ONCE = 100


@each("start", range(0, len(ANSWERS), AT_ONCE))
def test_answers_are_those_of_kueue(start: int) -> None:
    differ = {
        seed: found
        for seed in range(start, start + AT_ONCE)
        if (found := answer(question(seed))) not in [of_kueue(one) for one in ANSWERS[seed]]
    }
    assert not differ


def test_the_questions_ask_for_much() -> None:
    told = [of_kueue(one[0]) for one in ANSWERS]
    counted = [requests for one in told for requests in one.get("requests", {}).values()]
    refused = [one["refused"] for one in told if "refused" in one]
    for resource in ("devices", "others", "gpu.memory", "gpu.slots", "credits", "example.com/gpu"):
        assert sum(resource in one for one in counted) > 10
    for words in (
        "FirstAvailable device selection is not supported",
        "AllocationMode 'All' is not supported",
        "does not support use of resource claims",
        "is not mapped in DRA configuration",
        "failed to get claim spec for ResourceClaimTemplate",
        "failed to get DeviceClass",
        "insufficient matching devices for CEL selector",
        "insufficient matching devices for counter driver",
        "CEL evaluation failed for DeviceClass",
        "with counters configured",
        "must be an integer",
        "have no consumesCounters entry",
    ):
        assert any(words in one for one in refused)
