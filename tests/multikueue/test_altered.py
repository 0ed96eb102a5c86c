"""A worker whose API server stores another spec than was sent, by a webhook of its own or since its Kueue is of another
version: its copy is not created and removed again and again."""

from __future__ import annotations

from controlplane.controllers.multikueue.events import ClusterRefused
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.multikueue.scene import Scene

OTHER = "another-spec"


def altered(*clusters: str) -> Scene:
    """The copy on `a` shows, and is not what was sent."""
    scene = Scene(*clusters).nominated(*clusters)
    scene.decide()
    for name in clusters:
        scene.clone(name, spec_key=OTHER if name == "a" else "spec-1")
    return scene


def test_it_is_left_out_for_a_while() -> None:
    scene = altered("a")
    refusal, removal = scene.decide()
    assert isinstance(refusal, ClusterRefused)
    assert (refusal.cluster, refusal.reason) == ("a", WorkloadReason.ALTERED_BY_WORKER)
    assert type(removal).__name__ == "RemovalDecided"
    scene.clone_gone("a").workload(nominated=[])
    assert scene.names() == []
    assert scene.wake == refusal.until
    scene.now = refusal.until
    assert scene.names() == ["Nomination", "Clone a"]
    scene.workload(nominated=["a"]).clone("a", spec_key=OTHER, uid="again")
    assert "ClusterRefused a" in scene.names()


def test_others_may_have_the_workload() -> None:
    scene = altered("a", "b")
    assert scene.names() == ["ClusterRefused a", "Removal Workload a"]
    assert scene.names() == ["Nomination"]
    scene.workload(nominated=["b"]).clone_gone("a").clone("b", {"Admitted": True})
    assert scene.names() == ["WinnerChosen b", "JobCreation b"]


def test_a_copy_of_what_the_workload_was_before_is_made_again_at_once() -> None:
    scene = altered("a").workload(spec_key="spec-2", template="cc" * 32)
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.names() == ["Clone a"]
    scene.clone("a", spec_key="spec-2", uid="again")
    assert scene.names() == []


def test_so_is_one_that_nobody_saw_created() -> None:
    """The log was put back to before it; whose spec it has is not known."""
    scene = Scene("a").clone("a", spec_key=OTHER).reserved()
    scene.decide()
    scene.workload(nominated=["a"])
    assert "ClusterRefused a" not in scene.names()
