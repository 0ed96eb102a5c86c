"""From a scene to the request that its open write becomes: for the tests of what MultiKueue writes."""

from __future__ import annotations

from typing import Any

from controlplane.kube.kinds import Json, Request
from controlplane.log.event import body_of
from tests.multikueue.scene import STREAM, Scene

ORIGIN = "kueue.x-k8s.io/multikueue-origin"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
GATES = {"origin": "east-1"}
TEMPLATE: Json = {
    "labels": {"kueue.x-k8s.io/job-uid": "u", "kueue.x-k8s.io/queue-name": "user-queue", "team": "blue"},
    "annotations": {"kueue.x-k8s.io/priority-boost": "3", "note": "für alle"},
    "spec": {
        "active": True,
        "queueName": "user-queue",
        "priority": 5,
        "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}],
    },
}


def request_of(scene: Scene, bodies: dict[str, bytes] | None = None, action: str = "") -> Request:
    """The request of the one open write, or of the one with this action."""
    writes = [w for w in scene.fleet.open_writes(STREAM) if not action or w.action == action]
    (write,) = writes
    needed, given = set(scene.fleet.bodies_needed(write)), bodies or {}
    assert needed <= set(given)
    request = scene.fleet.request(write, {ref: given[ref] for ref in needed}, scene.now)  # the loop loads no others
    assert request is not None
    return request


def body(value: Any) -> tuple[str, dict[str, bytes]]:
    made = body_of(value)
    return made.ref, {made.ref: made.text.encode()}
