"""What a Workload's devices count as does not depend on the order in which objects were seen, and whoever folds the log
later comes to the same."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.quota.engine.info import Info
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from tests.quota.admission.placed import sees
from tests.quota.admission.scene import Scene
from tests.quota.device_answers import KINDS, answer, rules_of
from tests.quota.device_questions import NS, question

SEEDS = st.integers(min_value=0, max_value=999_999)


def _counted(scene: Scene) -> Json:
    index = scene.controller.index
    if refusal := index.devices.refused.get(f"{NS}/asks"):
        return {"refused": refusal}
    pending = index.engine.queues.pending["q"].find(f"{NS}/asks")
    assert pending is not None
    asked = {
        one.name: {name: str(amount) for name, amount in one.requests.items()}
        for one in Info(pending.workload).pod_sets
    }
    return {"requests": asked}


@given(SEEDS, SEEDS)
def test_the_order_in_which_objects_come_does_not_count(seed: int, order: int) -> None:
    asked = {**question(seed), "excluded": [], "transformations": []}
    dice = random.Random(order)
    scene = sees(Scene(devices=rules_of(asked["mappings"])), *KINDS.values())
    scene.put(kinds.NAMESPACES, NS)
    scene.queue("q", "0")
    steps = [*asked["objects"], asked["workload"]]
    dice.shuffle(steps)
    for obj in steps:
        again = dice.random() < 0.3
        _show(scene, obj)
        if again and obj["kind"] != "Workload":
            scene.delete(KINDS[obj["kind"]], obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
            _show(scene, obj)
    scene.settle()
    scene.pass_time(2)
    assert _counted(scene) == answer(asked)
    assert scene.replayed().index.devices.kept() == scene.controller.index.devices.kept()


def _show(scene: Scene, obj: Json) -> None:
    metadata, name = obj["metadata"], obj["metadata"]["name"]
    if obj["kind"] == "Workload":
        scene.put(
            kinds.WORKLOADS, name, NS, spec=obj["spec"], metadata={"ownerReferences": [{"kind": "Job", "uid": "j"}]}
        )
        return
    made = {key: metadata[key] for key in ("creationTimestamp",) if key in metadata}
    scene.put(KINDS[obj["kind"]], name, metadata.get("namespace", ""), spec=obj["spec"], metadata=made)
