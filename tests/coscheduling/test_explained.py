"""`why pipelinerun/…`: where the placeholder of a run is, and what its scheduler says of one that finds no node."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.coscheduling.explain import explain_run
from controlplane.runtime.explanation import Explanation
from tests.coscheduling.samples import NS, owner
from tests.coscheduling.scene import Scene
from tests.coscheduling.started import RUN, SINGLE, started
from tests.support.rows import each

STREAM = f"pipelinerun/{NS}/{RUN}"
COMPLAINT = "0/2 nodes are available: 2 Insufficient cpu."


def why(scene: Scene) -> Explanation:
    return explain_run(STREAM, [one for one in scene.log if one.stream == STREAM])


def shown(scene: Scene, node: str = "", **condition: Any) -> Explanation:
    """Show the placeholder's pod on a node or none, with a condition, and ask."""
    found = scene.objects["Pod", NS, f"{SINGLE}-0"]
    spec = {key: value for key, value in found["spec"].items() if key != "nodeName"}
    scene.put({**found, "spec": spec | ({"nodeName": node} if node else {}), "status": {"conditions": [condition]}})
    return why(scene)


NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": COMPLAINT}


@each(
    ("node", "condition", "said"),
    [
        ("", NO_NODE, f"is waiting for a node ({COMPLAINT.rstrip('.')}), and"),
        ("", {"type": "PodScheduled", "status": "Unknown"}, "is waiting for a node, and"),
        ("n2", NO_NODE, "is not ready, on node n2, and"),
        ("n2", {"type": "Ready", "status": "True"}, "is on node n2, and"),
    ],
)
def test_where_a_placeholder_is(node: str, condition: dict[str, str], said: str) -> None:
    told = shown(started(), node, **condition)
    assert f"Its placeholder {SINGLE} {said}" in told.sentence
    assert told.events, "it rests on what was seen of the pod"


def test_the_tasks_that_follow_are_counted() -> None:
    scene = started()
    assert "and no task follows it yet." in why(scene).sentence
    for number, said in ((1, "1 task follows it"), (2, "2 tasks follow it")):
        metadata = {"name": f"t{number}", "namespace": NS, "uid": f"uid-t{number}", "ownerReferences": [owner()]}
        notes = {
            "labels": {"tekton.dev/pipelineTask": f"t{number}"},
            "annotations": {"pipeline.tekton.dev/affinity-assistant": SINGLE},
        }
        scene.put({"kind": "TaskRun", "metadata": metadata | notes, "spec": {}})
        scene.settle()
        assert f"and {said}." in why(scene).sentence
