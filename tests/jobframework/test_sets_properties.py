"""However a LeaderWorkerSet is scaled, and whenever the process ends: it has a Workload for each group, and none
twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.kube.kinds import WORKLOADS, meta
from tests.jobframework.scene import NS
from tests.jobframework.set_scene import GROUPS, NAME, named, waiting
from tests.support.deep import examples

STEPS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=6)


@given(steps=STEPS, lost=st.booleans())
@settings(max_examples=examples(10, 30), deadline=None)
def test_the_workloads_are_those_of_the_groups_that_it_has(steps: list[tuple[int, bool]], lost: bool) -> None:
    scene = waiting(GROUPS, replicas=1)
    kept = meta(scene.store.get(WORKLOADS, NS, named(scene, GROUPS)))["uid"]
    for replicas, dies in steps:
        scene.store.patch(GROUPS.kind, NS, NAME, {"spec": {"replicas": replicas}}, field_manager="user")
        if dies:
            scene.settle_through_crashes(lost=lost)
        scene.settle()
        found = sorted(meta(one)["name"] for one in scene.workloads())
        assert found == sorted(named(scene, GROUPS, index) for index in range(replicas))
        if min(one for one, _ in steps) > 0:
            assert meta(scene.store.get(WORKLOADS, NS, named(scene, GROUPS)))["uid"] == kept, "the first stays"
    again = scene.replayed()
    assert again.index.states == scene.controller.index.states
