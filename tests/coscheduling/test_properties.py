"""Whatever happens in whatever order: no placeholder without cleanup, every deletion by UID, nothing of the user's
deleted.

And a replay of the log gives the live state.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.controllers.coscheduling.names import is_dns_label, is_dns_name
from tests.coscheduling.samples import DONE, NS, claim, empty, run, task, template
from tests.coscheduling.scene import Scene, config
from tests.support.deep import examples

MODES = st.sampled_from(["workspaces", "pipelineruns", "isolate-pipelinerun", "disabled"])
RUNS = ("bc", "c", "build")
WORKSPACES = st.lists(
    st.one_of(
        st.builds(template, st.sampled_from(["a", "ab"]), st.sampled_from(["", "data"])),
        st.builds(claim, st.sampled_from(["a", "ab", "x"]), st.just("users-claim")),
        st.builds(empty, st.just("scratch")),
    ),
    max_size=3,
    unique_by=lambda one: one["name"],
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["start", "finish", "delete", "cordon", "uncordon", "flag", "lose", "restart", "settle", "wait"]
        ),
        st.sampled_from(RUNS),
        WORKSPACES,
        MODES,
    ),
    max_size=14,
)


def play(scene: Scene, steps: list[Any], uids: Any) -> None:
    for action, name, workspaces, mode in steps:
        key = ("PipelineRun", NS, name)
        match action:
            case "start" if key not in scene.objects:
                tasks = [task(f"t{number}", one["name"]) for number, one in enumerate(workspaces)] or [task("t")]
                annotations = {"tekton.dev/auto-cleanup-pvc": "true"}
                scene.put(run(*workspaces, tasks=tasks, name=name, uid=next(uids), annotations=annotations))
            case "finish" if key in scene.objects:
                scene.change("PipelineRun", NS, name, status=DONE)
            case "delete":
                scene.drop("PipelineRun", NS, name)
            case "cordon" | "uncordon":
                scene.change("Node", "", "n1", spec={"unschedulable": action == "cordon"})
            case "flag":
                scene.put(config("feature-flags", coschedule=mode))
            case "lose":
                scene.decide()
                scene.carry_out(lose=True)
            case "restart":
                scene.restart()
            case "settle":
                scene.decide()
                scene.carry_out()
                scene.controllers()
            case "wait":
                scene.wait(minutes=6)


def end(scene: Scene) -> None:
    for name in RUNS:
        if ("PipelineRun", NS, name) in scene.objects:
            scene.change("PipelineRun", NS, name, status=DONE)
    for _ in range(4):
        scene.wait(minutes=40)
        scene.settle()


@pytest.mark.generated
@settings(max_examples=examples(30, 120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mode=MODES, steps=STEPS)
def test_everything_that_was_made_goes(mode: str, steps: list[Any]) -> None:
    scene = Scene(mode)
    users = {"kind": "PersistentVolumeClaim", "metadata": {"name": "users-claim", "namespace": NS}, "spec": {}}
    scene.put(users)
    play(scene, steps, (f"run-{number}" for number in range(1000)))
    end(scene)
    assert scene.names("StatefulSet") == scene.names("Pod") == []
    pinned = {
        attempt.uid for state in scene.room.runs.values() for attempt in state.attempts.values() if attempt.pinned
    }
    left = [one for one in scene.of("PersistentVolumeClaim") if one["metadata"]["name"] != "users-claim"]
    for one in left:  # only a run of the mode `disabled` keeps its claims: they go with it
        (owner,) = one["metadata"]["ownerReferences"]
        (state,) = [state for state in scene.room.runs.values() if owner["uid"] in state.attempts]
        assert state.attempts[owner["uid"]].pinned.mode == "disabled"
        assert owner["uid"] in pinned
    assert "users-claim" in scene.names("PersistentVolumeClaim")
    for request in scene.requests:
        assert request.verb != "delete" or request.uid
        named = is_dns_name if request.ref.kind.kind == "PersistentVolumeClaim" else is_dns_label
        assert named(request.ref.name)
    live = scene.room
    scene.restart()
    assert scene.room.runs == live.runs
    assert scene.room.nodes == live.nodes


@pytest.mark.generated
@settings(max_examples=examples(15, 40), deadline=None)
@given(mode=MODES, workspaces=WORKSPACES, seed=st.integers(0, 1000))
def test_the_order_in_which_things_are_seen_does_not_matter_for_what_is_made(
    mode: str, workspaces: list[Any], seed: int
) -> None:
    objects = [
        run(*workspaces, tasks=[task("t", *(one["name"] for one in workspaces[:1]))]),
        config("feature-flags", coschedule=mode),
        {"kind": "Node", "metadata": {"name": "n3"}, "spec": {}},
    ]
    made = []
    for shuffled in (objects, random.Random(seed).sample(objects, len(objects))):
        scene = Scene(mode)
        for obj in shuffled:
            scene.put(obj)
        scene.settle()
        made.append((scene.names("StatefulSet"), scene.names("PersistentVolumeClaim")))
    assert made[0] == made[1]
