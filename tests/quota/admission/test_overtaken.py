"""What happens between a decision of a cycle and its record."""

from __future__ import annotations

from tests.quota.admission.scene import Scene


def test_a_change_between_a_decision_and_its_record_keeps_nobody_behind_it_waiting() -> None:
    """The head was tried in vain once more, its try was noted as said, and who came after it was not tried before the
    next change."""
    scene = Scene()
    scene.queue("q", "4")
    for name in ("one", "two"):
        scene.workload(name, "q", cpu="2")
    scene.settle()
    scene.workload("large", "q", cpu="8")
    scene.settle()
    scene.workload("fits", "q", cpu="4")
    scene.settle()
    assert not scene.is_true("fits", "QuotaReserved")
    scene.finish("one")
    scene.decide_together(meanwhile=lambda: scene.finish("two"))
    scene.settle()
    assert scene.is_true("fits", "QuotaReserved")
