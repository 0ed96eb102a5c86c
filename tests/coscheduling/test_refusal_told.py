"""What a run says of why it is not placed is said, whatever happens to the write, and no longer than it holds."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.explain import explain_run
from controlplane.controllers.coscheduling.names import claim_name
from controlplane.runtime.controller import WriteRefusal
from tests.coscheduling.samples import NS, UID, claim, run, task, template
from tests.coscheduling.scene import Scene
from tests.coscheduling.started import RUN, SINGLE

STREAM = f"pipelinerun/{NS}/{RUN}"


def said(scene: Scene) -> list[tuple[str, str]]:
    conditions = scene.objects["PipelineRun", NS, RUN].get("status", {}).get("conditions", [])
    return [(one["type"], one["reason"]) for one in conditions if one["type"] == "Coscheduled"]


def refused() -> Scene:
    """A run of which it is decided, and not written yet, that it cannot be placed."""
    scene = Scene("workspaces")
    scene.put(run(template("a"), claim("b", "data"), tasks=[task("t", "a", "b")]))
    scene.decide()
    assert [type(one) for one in scene.decide()] == [events.RunRefused]
    return scene


def why(scene: Scene) -> str:
    return explain_run(STREAM, [one for one in scene.log if one.stream == STREAM]).sentence


def test_a_refusal_that_tekton_was_quicker_than_is_said_all_the_same() -> None:
    scene = refused()
    scene.change("PipelineRun", NS, RUN, status={"startTime": "2026-01-01T00:00:00Z"})
    scene.settle()
    assert said(scene) == [("Coscheduled", "CoschedulingRefused")]


def test_a_refusal_that_is_overwritten_is_said_again_ever_more_rarely() -> None:
    """Tekton writes the whole status, by what it had read before."""
    scene = refused()
    scene.settle()
    for _ in range(60):
        scene.change("PipelineRun", NS, RUN, status={"conditions": []})
        assert "It is not placed" in why(scene)
        scene.wait(seconds=10)
        scene.settle()
    assert 5 <= len(scene.events(events.RunRefused)) <= 12
    scene.wait(minutes=6)
    scene.settle()
    assert said(scene) == [("Coscheduled", "CoschedulingRefused")]
    requests = len(scene.requests)
    scene.wait(minutes=60)
    scene.settle()
    assert len(scene.requests) == requests


@pytest.mark.parametrize("failure", [WriteRefusal(409, "Conflict", "changed"), WriteRefusal(403, "Forbidden", "no")])
def test_a_refusal_whose_write_failed_is_said_later(failure: WriteRefusal) -> None:
    scene = refused()
    scene.refuse["patch", "PipelineRun"] = failure
    scene.carry_out()
    scene.settle()
    assert said(scene) == []
    assert "It is not placed" in why(scene)
    scene.refuse.clear()
    scene.wait(minutes=10)
    scene.settle()
    assert said(scene) == [("Coscheduled", "CoschedulingRefused")]


def claims_fail(scene: Scene) -> None:
    scene.refuse["create", "PersistentVolumeClaim"] = WriteRefusal(403, "Forbidden", "not yet")
    for _ in range(4):
        scene.decide()
        scene.carry_out()


def test_a_refusal_that_no_longer_holds_is_taken_back() -> None:
    scene = Scene("workspaces")
    scene.put(run(template("a"), tasks=[task("t", "a")], status={"conditions": [other := condition("Succeeded")]}))
    claims_fail(scene)
    assert said(scene) == [("Coscheduled", "CouldntCreateWorkspacePVC")]
    assert "It is not placed" in why(scene)
    (shown,) = (one for one in scene.objects["PipelineRun", NS, RUN]["status"]["conditions"] if "message" in one)
    claim_of_a = f"PersistentVolumeClaim {claim_name('', 'a', UID)}"
    assert shown["message"] == f"Failed to create PVC for PipelineRun {NS}/{RUN}: {claim_of_a}: not yet"
    told = len(scene.events(events.RunRefused))
    for _ in range(3):
        scene.wait(minutes=10)
        scene.settle()
        assert said(scene) == [("Coscheduled", "CouldntCreateWorkspacePVC")], "it still holds"
    assert len(scene.events(events.RunRefused)) == told == 1
    scene.refuse.clear()
    scene.wait(minutes=10)
    scene.settle()
    assert scene.names("PersistentVolumeClaim") == [claim_name("", "a", UID)]
    assert scene.objects["PipelineRun", NS, RUN]["status"]["conditions"] == [other]
    assert "It is not placed" not in why(scene)


def test_why_names_what_is_refused_as_kubernetes_does() -> None:
    scene = Scene("pipelineruns")
    scene.put(run(template("a"), tasks=[task("t", "a")]))
    scene.refuse["create", "StatefulSet"] = WriteRefusal(403, "Forbidden", "no right")
    for _ in range(3):
        scene.decide()
        scene.carry_out()
    assert f"The API server refuses StatefulSet {SINGLE}: no right." in why(scene)


def condition(kind: str) -> dict[str, Any]:
    return {"type": kind, "status": "Unknown", "reason": "Started"}


def test_what_was_refused_to_an_earlier_run_of_the_name_is_not_said_of_the_next() -> None:
    scene = Scene("workspaces")
    scene.put(run(template("a"), claim("b", "data"), tasks=[task("t", "a"), task("u", "b")]))
    claims_fail(scene)
    scene.wait(minutes=10)
    scene.settle()
    assert scene.names("StatefulSet")
    gone = scene.objects.pop(("PipelineRun", NS, RUN))
    scene._see(gone, gone=True)  # what it owns goes a moment later
    scene.put(run(template("a"), tasks=[task("t", "a")], uid="second"))
    scene.refuse.clear()
    scene.settle()
    assert said(scene) == []
    assert scene.names("PersistentVolumeClaim") == [claim_name("", "a", "second")]
