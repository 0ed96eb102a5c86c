"""What an API server puts into selectors for keys of labels is taken out again, and nothing else."""

from __future__ import annotations

import copy

from controlplane.controllers.candidates.label_keys import as_written
from controlplane.kube.kinds import Json

MINE: Json = {"matchLabels": {"app": "a"}}
OTHER: Json = {"key": "tier", "operator": "In", "values": ["x"]}
HASH: Json = {"key": "pod-template-hash", "operator": "In", "values": ["h1"]}
NOT: Json = {**HASH, "operator": "NotIn"}


def spread(selector: Json, **more: object) -> Json:
    return {"topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": selector, **more}]}


def affinity(kind: str, when: str, term: Json) -> Json:
    listed = [{"weight": 1, "podAffinityTerm": term}] if when == "preferred" else [term]
    return {"affinity": {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": listed}, "nodeAffinity": {}}}


def test_the_requirement_of_a_key_is_taken_out() -> None:
    keys = {"matchLabelKeys": ["pod-template-hash"]}
    assert as_written(spread({**MINE, "matchExpressions": [OTHER, HASH]}, **keys)) == spread(
        {**MINE, "matchExpressions": [OTHER]}, **keys
    )
    for kind in ("podAffinity", "podAntiAffinity"):
        for when in ("required", "preferred"):
            for named, found in (("matchLabelKeys", HASH), ("mismatchLabelKeys", NOT)):
                term = {"topologyKey": "zone", named: ["pod-template-hash"]}
                shown = affinity(kind, when, {**term, "labelSelector": {**MINE, "matchExpressions": [found]}})
                before = copy.deepcopy(shown)
                wanted = affinity(kind, when, {**term, "labelSelector": MINE})
                assert as_written(shown) == wanted
                assert as_written(wanted) == wanted
                assert shown == before


def test_what_its_user_wrote_stays() -> None:
    for spec in (
        {},
        spread({**MINE, "matchExpressions": [HASH]}),
        spread({**MINE, "matchExpressions": [NOT]}, matchLabelKeys=["pod-template-hash"]),
        spread({**MINE, "matchExpressions": [OTHER]}, matchLabelKeys=["pod-template-hash"]),
        affinity("podAffinity", "required", {"topologyKey": "zone", "labelSelector": {"matchExpressions": [NOT]}}),
    ):
        assert as_written(spec) == spec
