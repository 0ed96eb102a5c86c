"""Jobs that name no queue wait too where that is asked for; and jobs of namespaces that are not selected are left
alone."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.jobframework import hosting
from controlplane.controllers.jobframework.admission import Defaults, created_as
from controlplane.controllers.jobframework.context import JobFrameworkPolicy
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import JOBS, JOBSETS, NAMESPACES, PODS, Json, meta
from controlplane.settings import Settings
from controlplane.simulation.apiserver.errors import ApiRefusal
from tests.jobframework.scene import ADAPTERS, NS, PARENTS, QUEUE, Scene, job
from tests.jobframework.single import plain_pod
from tests.jobframework.test_jobs_admission import created, review
from tests.jobframework.test_jobs_related import child, job_set

SELECTED = "team in (blue,green)"


def namespace(scene: Scene, name: str = NS, **labels: str) -> None:
    if labels or name not in {meta(one)["name"] for one in scene.store.list(NAMESPACES)[0]}:
        with contextlib.suppress(ApiRefusal):
            scene.store.create(NAMESPACES, {"metadata": {"name": name}}, field_manager="admin")
        scene.store.patch(NAMESPACES, "", name, {"metadata": {"labels": labels}}, field_manager="admin")


def relabelled(scene: Scene, **labels: str | None) -> None:
    scene.store.patch(NAMESPACES, "", NS, {"metadata": {"labels": labels}}, field_manager="admin")
    scene.settle()


def alone(name: str = "a", *, suspend: bool = False, **more: Any) -> Json:
    """A job that names no queue."""
    made = job(name, suspend=suspend, **more)
    del meta(made)["labels"]["kueue.x-k8s.io/queue-name"]
    return made


def managing(**more: Any) -> Scene:
    scene = Scene(manages_all=True, **more)
    scene.flavor()
    return scene


def suspended(scene: Scene, name: str = "a") -> bool:
    return bool(scene.job(name)["spec"]["suspend"])


def test_a_job_without_a_queue_is_stopped_and_waits_until_it_names_one() -> None:
    scene = managing()
    namespace(scene)
    scene.create(alone())
    scene.settle()
    assert suspended(scene)
    found = scene.workload()
    assert "queueName" not in found["spec"]
    assert meta(found)["labels"] == {"kueue.x-k8s.io/job-uid": meta(scene.job())["uid"]}
    scene.store.patch(JOBS, NS, "a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": QUEUE}}})
    scene.settle()
    assert scene.workload()["spec"]["queueName"] == QUEUE
    scene.admit()
    scene.settle()
    assert not suspended(scene)
    assert len(scene.workloads()) == 1


def test_unless_that_is_asked_for_a_job_without_a_queue_runs_on() -> None:
    scene = Scene()
    namespace(scene)
    scene.create(alone())
    assert scene.settle() == []
    assert not suspended(scene)


@pytest.mark.parametrize("name", ["kube-system", "kueue-system"])
def test_what_runs_in_the_systems_own_namespaces_is_never_touched(name: str) -> None:
    scene = managing()
    namespace(scene, name)
    made = alone()
    meta(made)["namespace"] = name
    scene.create(made)
    assert scene.settle() == []
    assert scene.store.get(JOBS, name, "a")["spec"]["suspend"] is False


def test_while_its_namespace_is_not_known_a_job_is_left_alone() -> None:
    scene = managing()
    scene.hidden = {NAMESPACES}
    scene.create(alone())
    scene.settle()
    assert not suspended(scene)
    scene.hidden = set()
    scene.settle()
    assert suspended(scene)


def test_while_namespaces_may_not_be_seen_nothing_is_stopped() -> None:
    scene = managing()
    namespace(scene)
    scene.create(alone())
    scene.begin_anew(NAMESPACES)
    assert not suspended(scene)
    scene.settle()
    assert not suspended(scene)


def test_a_job_whose_owner_is_looked_after_is_the_owners_business() -> None:
    scene = managing()
    namespace(scene)
    found = job_set()
    del meta(found)["labels"]["kueue.x-k8s.io/queue-name"]
    owner = scene.create(found, JOBSETS)
    scene.settle()
    scene.create(child("s-0", owner))
    scene.settle()
    assert [meta(one)["ownerReferences"][0]["kind"] for one in scene.workloads()] == ["JobSet"]
    assert suspended(scene, "s-0"), "its owner is not admitted"
    scene.store.patch(JOBSETS, NS, meta(owner)["name"], {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": QUEUE}}})
    scene.settle()
    scene.admit()
    scene.settle()
    scene.store.patch(JOBS, NS, "s-0", {"spec": {"suspend": False}})
    scene.settle()
    assert not suspended(scene, "s-0")
    assert len(scene.workloads()) == 1


def test_a_job_whose_owner_is_not_seen_is_not_stopped_for_want_of_a_queue() -> None:
    scene = managing()
    namespace(scene)
    unseen = scene.create({"metadata": {"namespace": NS, "name": "other"}, "spec": {"containers": []}}, PODS)
    found = child("s-0", unseen)
    found["spec"]["suspend"] = False
    scene.create(found)
    scene.settle()
    scene.clock.move(10)
    scene.settle()
    assert not suspended(scene, "s-0")
    assert scene.workloads() == []


def test_pods_and_what_has_its_pods_wait_are_left_alone_without_a_queue() -> None:
    scene = managing()
    namespace(scene)
    found = plain_pod()
    del meta(found)["labels"]["kueue.x-k8s.io/queue-name"]
    scene.create(found, PODS)
    assert scene.settle() == []
    defaults = Defaults(managed=lambda name: True)
    for kind in (JOB_KINDS["pod"], *PARENTS.values()):
        made = created(kind)
        meta(made)["labels"] = {}
        assert created_as(review(kind, made), {**ADAPTERS, **PARENTS}, lambda *_: False, defaults) is None


def test_the_webhook_has_jobs_without_a_queue_created_suspended() -> None:
    kind = JOB_KINDS["batch/job"]
    made = created(kind)
    meta(made)["labels"] = {}
    found = created_as(review(kind, made), ADAPTERS, lambda *_: False, Defaults(managed=lambda name: name == NS))
    assert found is not None
    assert kind.suspended(found)
    assert created_as(review(kind, made), ADAPTERS, lambda *_: False, Defaults()) is None
    owner = {"apiVersion": JOBSETS.api_version, "kind": "JobSet", "name": "s", "uid": "u", "controller": True}
    owned = {**made, "metadata": {**meta(made), "ownerReferences": [owner]}}
    assert created_as(review(kind, owned), ADAPTERS, lambda *_: True, Defaults(managed=lambda name: True)) is None
    other = Defaults(selected=lambda name: False, managed=lambda name: True)
    assert created_as(review(kind, created(kind)), ADAPTERS, lambda *_: False, other) is None


def test_of_namespaces_that_are_not_selected_jobs_are_left_alone_whatever_queue_they_name() -> None:
    scene = Scene(namespaces=SELECTED)
    scene.flavor()
    namespace(scene, team="red")
    scene.create(job(suspend=False))
    assert scene.settle() == []
    assert not suspended(scene)
    relabelled(scene, team="blue")
    assert suspended(scene)
    scene.admit()
    scene.settle()
    assert not suspended(scene)
    relabelled(scene, team=None)
    scene.evict()
    scene.settle()
    assert not suspended(scene), "it is not ours any more"
    relabelled(scene, team="green")
    assert suspended(scene)
    assert not is_true(scene.workload(), "QuotaReserved")


def test_jobs_without_a_queue_wait_in_selected_namespaces_alone() -> None:
    scene = managing(namespaces=SELECTED)
    namespace(scene, team="red")
    scene.create(alone())
    scene.settle()
    assert not suspended(scene)
    relabelled(scene, team="green")
    assert suspended(scene)


def test_one_that_goes_lets_its_workload_go_also_where_it_is_not_looked_after_any_more() -> None:
    scene = Scene(namespaces=SELECTED)
    scene.flavor()
    namespace(scene, team="blue")
    scene.create(job())
    scene.settle()
    relabelled(scene, team="red")
    scene.store.delete(JOBS, NS, "a")
    scene.settle()
    assert scene.workloads() == []


def test_the_process_may_end_after_every_step() -> None:
    for lost in (False, True):
        scene = managing()
        namespace(scene)
        scene.create(alone())
        scene.settle_through_crashes(lost=lost)
        assert suspended(scene)
        assert len(scene.workloads()) == 1
        assert scene.replayed().index.namespaces.seen == scene.controller.index.namespaces.seen


def test_namespaces_are_watched_only_where_it_depends_on_them() -> None:
    import msgspec

    def watched(**quota: str) -> set[str]:
        found = Settings()
        chosen = msgspec.structs.replace(found.quota, mode="builtin", **quota)
        (hosted,) = hosting.host(msgspec.structs.replace(found, quota=chosen))
        return {spec.kind.name for spec in hosted.home}

    assert "namespaces" not in watched()
    assert "namespaces" in watched(manage_jobs_without_queue_name="yes")
    assert "namespaces" in watched(managed_jobs_namespace_selector=SELECTED)


@given(st.text(max_size=12), st.booleans())
def test_the_systems_namespaces_are_never_among_those_that_are_managed_as_a_whole(name: str, manages: bool) -> None:
    policy = JobFrameworkPolicy(manages_all=manages)
    assert policy.may_manage(name) is (manages and name not in ("kube-system", "kueue-system"))
    assert not policy.may_manage("kube-system")


def test_a_namespace_concerns_its_own_jobs_alone() -> None:
    scene = Scene(namespaces=SELECTED)
    scene.create(job())
    namespace(scene, NS, team="red")
    namespace(scene, "elsewhere", team="red")
    scene.settle()
    index = scene.controller.index
    for name, concerns in (("elsewhere", False), (NS, True)):
        namespace(scene, name, team="blue")
        scene.look()
        assert bool(index.take_dirty()) is concerns
