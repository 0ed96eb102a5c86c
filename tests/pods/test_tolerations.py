"""Which taint which toleration covers (specs/scheduler.md section 4)."""

from __future__ import annotations

from controlplane.kube.kinds import Json
from controlplane.kube.tolerations import PREFER_NO_SCHEDULE, Taint, taints, tolerations, untolerated
from tests.support.rows import each

TAINT = Taint("gpu", "a100", "NoSchedule")


@each(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "a100"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "a100"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "h100"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"operator": "Equal", "value": "a100"}, True),
        ({}, False),
        ({"key": "gpu", "operator": "Lt", "value": "z"}, False),
        ({"key": "gpu", "operator": "Gt", "value": "0"}, False),
    ],
)
def test_tolerates(toleration: Json, tolerates: bool) -> None:
    assert tolerations([toleration])[0].tolerates(TAINT) is tolerates


def test_the_first_untolerated_taint_is_found() -> None:
    found = taints(
        [
            {"key": "soft", "effect": "PreferNoSchedule"},
            {"key": "gpu", "value": "a100", "effect": "NoSchedule"},
            {"key": "gone", "effect": "NoExecute"},
        ]
    )
    tolerated = tolerations([{"key": "gpu", "operator": "Exists"}])
    assert untolerated(found, tolerated) == Taint("gone", "", "NoExecute")
    assert untolerated(found, ()) == TAINT
    assert untolerated(found, (), {PREFER_NO_SCHEDULE}) == Taint("soft", "", "PreferNoSchedule")
    assert untolerated(found[:1], ()) is None
    assert untolerated(taints(None), tolerations(None)) is None
