"""A worker whose API server stores another spec than was sent, by a webhook of its own or since its Kueue is of another
version: its copy is not created and removed again and again. Fields that nobody here knows may be added."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.multikueue.events import ClusterRefused
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.spec_keys import is_same, spec_key
from tests.multikueue.scene import Scene
from tests.support.rows import each

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


SENT: dict[str, Any] = {
    "queueName": "q",
    "active": True,
    "podSets": [{"name": "main", "count": 2, "template": {"spec": {}}, "topologyRequest": {"required": "rack"}}],
}
MAIN = SENT["podSets"][0]


def with_pod_set(**fields: Any) -> dict[str, Any]:
    return {**SENT, "podSets": [{**MAIN, **fields}]}


NEWER = with_pod_set(topologyRequest={"required": "rack", "tomorrows": 1}, newest="x")


@each(
    ("stored", "sent", "same"),
    [
        (SENT, SENT, True),
        ({**SENT, "active": False, "priority": 7, "preemptionGates": [{"name": "x"}]}, SENT, True),
        ({**SENT, "tomorrows": {"a": 1}}, SENT, True),
        (NEWER, SENT, True),
        (NEWER, NEWER, True),
        (SENT, NEWER, False),
        (SENT, {**SENT, "tomorrows": 1}, False),
        ({**SENT, "queueName": "another"}, SENT, False),
        (with_pod_set(count=1), SENT, False),
        (with_pod_set(template={"spec": {"tomorrows": 1}}), SENT, False),
        (with_pod_set(topologyRequest={"required": "block"}), SENT, False),
    ],
)
def test_a_worker_may_add_fields_that_nobody_here_knows_and_drop_none(
    stored: dict[str, Any], sent: dict[str, Any], same: bool
) -> None:
    assert is_same(spec_key(stored), spec_key(sent)) is same


def test_a_copy_with_more_than_this_version_knows_can_win() -> None:
    scene = Scene("a").nominated("a")
    scene.decide()
    scene.clone("a", {"Admitted": True}, spec_key="spec-1+podSets.newest")
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]
