"""What the API server says no to, and what becomes of the run then."""

from __future__ import annotations

import pytest

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.names import claim_name, placeholder_name
from controlplane.runtime.controller import WriteRefusal
from tests.coscheduling.samples import DONE, NS, UID, claim, run, template
from tests.coscheduling.scene import Scene
from tests.coscheduling.started import SINGLE

# --- what the API server says no to ---


def test_a_placeholder_that_is_refused_is_tried_again() -> None:
    """Tekton fails the run for good, even on a passing error."""
    scene = Scene()
    scene.put(run(template("a")))
    scene.refuse["create", "StatefulSet"] = WriteRefusal(500, "InternalError", "etcd is away")
    scene.decide()
    scene.decide()
    scene.carry_out()
    assert scene.decide() == []
    scene.refuse.clear()
    scene.wait(seconds=2)
    scene.settle()
    assert scene.names("StatefulSet") == [SINGLE]


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (WriteRefusal(403, "Forbidden", "exceeded quota: storage"), False),
        (WriteRefusal(409, "Conflict", "changed"), False),
        (WriteRefusal(503, "ServiceUnavailable", "later"), False),
        (WriteRefusal(422, "Invalid", "spec.resources: too small"), True),
    ],
)
def test_claims_that_are_refused(failure: WriteRefusal, told: bool) -> None:
    scene = Scene("workspaces")
    scene.put(run(template("a")))
    scene.refuse["create", "PersistentVolumeClaim"] = failure
    for _ in range(4):
        scene.decide()
        scene.carry_out()
    reasons = [one.condition_reason for one in scene.events(events.RunRefused)]
    assert reasons == (["CouldntCreateWorkspacePVC"] if told else [])
    scene.refuse.clear()
    scene.wait(minutes=10)
    scene.settle()
    assert scene.names("PersistentVolumeClaim") == [claim_name("", "a", UID)]


def test_a_name_that_another_run_holds_is_waited_for() -> None:
    scene = Scene("workspaces")
    other = run(template("a"), name="bc", uid="uid-bc")
    other["spec"]["workspaces"][0]["name"] = "a"
    scene.put(other)
    scene.settle()
    mine = run(claim("ab", "data"), name="c", uid="uid-c")
    scene.put(mine)
    for _ in range(3):
        scene.decide()
        scene.carry_out()
    (taken,) = scene.names("StatefulSet")
    assert taken == placeholder_name("ab", "c") == placeholder_name("a", "bc")
    assert scene.of("StatefulSet")[0]["metadata"]["ownerReferences"][0]["uid"] == "uid-bc"
    scene.change("PipelineRun", NS, "bc", status=DONE)
    scene.wait(minutes=10)
    scene.settle()
    assert scene.of("StatefulSet")[0]["metadata"]["ownerReferences"][0]["uid"] == "uid-c"
