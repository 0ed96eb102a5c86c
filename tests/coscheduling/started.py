"""A run of the room's tests that has started, and its placeholder."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.coscheduling.names import placeholder_name
from tests.coscheduling.samples import DONE, NS, run, task, template
from tests.coscheduling.scene import Scene

RUN = "my-pipelinerun"
SINGLE = placeholder_name("", RUN)
OF_A = placeholder_name("a", RUN)
MODES = ["workspaces", "pipelineruns", "isolate-pipelinerun", "disabled"]


def names(scene: Scene) -> list[str]:
    return [type(event).__name__ for event in scene.decide()]


def started(mode: str = "pipelineruns", *workspaces: Any, **more: Any) -> Scene:
    scene = Scene(mode)
    scene.put(run(*(workspaces or (template("a"),)), tasks=[task("t", "a")], **more))
    scene.settle()
    return scene


def pod(scene: Scene) -> dict[str, Any]:
    (found,) = scene.of("Pod")
    return found


def finish(scene: Scene) -> None:
    scene.change("PipelineRun", NS, RUN, status=DONE)
    scene.settle()
