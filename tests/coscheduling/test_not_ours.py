"""What belongs to a run and was not made for it stays, and what is nobody's any more stands in nobody's way."""

from __future__ import annotations

import pytest

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.names import claim_name, made_claim_name
from tests.coscheduling.samples import NS, UID, claim, owner, run, task, template, volume_claim
from tests.coscheduling.scene import Scene
from tests.coscheduling.started import MODES, SINGLE, finish

AUTO = {"tekton.dev/auto-cleanup-pvc": "true"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("controls", [True, False])
def test_a_claim_of_the_user_is_not_deleted_because_it_names_the_run_as_its_owner(mode: str, controls: bool) -> None:
    """It goes with the run, by garbage collection, and not at the end of it: somebody may still read what is on it."""
    scene = Scene(mode)
    for name in ("artifacts", "data"):
        mine = volume_claim(name, uid=f"uid-of-{name}")
        mine["metadata"]["ownerReferences"] = [owner() | {"controller": controls}]
        scene.put(mine)
    scene.put(run(template("a"), claim("b", "data"), tasks=[task("t", "a")], annotations=AUTO))
    scene.settle()
    made = {made_claim_name("", "a", UID, SINGLE), claim_name("", "a", UID)} & set(scene.names("PersistentVolumeClaim"))
    assert len(made) == 1
    finish(scene)
    kept = made if mode == "disabled" else set()
    assert scene.names("PersistentVolumeClaim") == sorted({"artifacts", "data", *kept})
    assert all(one.name in made for one in scene.events(events.ClaimRemovalDecided, events.ClaimReleaseDecided))
