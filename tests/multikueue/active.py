"""The `Active` conditions that are seen and that are decided."""

from __future__ import annotations

from controlplane.controllers.multikueue.events import ConditionDecided
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.conditions import Condition
from tests.multikueue.scene import CHECK, Scene

CHECK_STREAM = f"admissioncheck/{CHECK}"
SECRET_MISSING = 'load client config failed: Secret "a" not found'
INSECURE = "load client config failed: tokenFile is not allowed"
CONNECTED = {
    "conditions": [Condition(type="Active", status="True", reason="Active", message="Connected")],
}


def active(scene: Scene, name: str, value: bool = True) -> None:
    stored = Condition(
        type="Active", status="True" if value else "False", reason="Active" if value else "X", last_transition_time="T"
    )
    scene.cluster(name, conditions=[stored])


def decided(scene: Scene, stream: str) -> tuple[str, str, str] | None:
    found = scene.decide(stream)
    if not found:
        return None
    (decision,) = found
    assert isinstance(decision, ConditionDecided)
    return decision.status, decision.condition_reason, decision.message


def reason(scene: Scene, stream: str) -> WorkloadReason:
    (decision,) = scene.decide(stream)
    assert isinstance(decision, ConditionDecided)
    return decision.reason
