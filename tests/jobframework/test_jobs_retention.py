"""What becomes of jobs whose Workload was deactivated, as with Kueue's `afterDeactivatedByKueue`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from controlplane.controllers.jobframework import events
from controlplane.controllers.jobframework.hosting import policy_of
from controlplane.doctor.rights import needed_on_management
from controlplane.job_kinds.rights import cluster_role
from controlplane.kube.kinds import JOBS, PODS, WORKLOADS, meta
from controlplane.settings import resolve
from tests.jobframework.scene import NS, Scene, job
from tests.jobframework.single import is_there, pod

HOUR = timedelta(hours=1)
BY_US = "DeactivatedDueToRequeuingLimitExceeded"
ROOT = Path(__file__).parents[2]


def deactivated(after: timedelta | None = HOUR, reason: str = BY_US, *, active: bool = False) -> Scene:
    """Have a job that ran, and whose Workload was deactivated."""
    scene = Scene(after_deactivated=after)
    scene.flavor()
    scene.create(job())
    scene.settle()
    scene.admit()
    scene.settle()
    if not active:
        name = meta(scene.workload())["name"]
        scene.store.patch(WORKLOADS, NS, name, {"spec": {"active": False}}, field_manager="somebody")
    scene.evict(reason, "The workload is deactivated")
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    return scene


def passed(scene: Scene, by: timedelta) -> None:
    scene.clock.move(by.total_seconds())
    scene.crash()  # whoever starts looks at everything
    scene.settle()


def jobs(scene: Scene) -> list[str]:
    return [meta(one)["name"] for one in scene.store.list(JOBS)[0]]


def test_a_job_is_deleted_some_time_after_its_workload_was_deactivated_and_not_before() -> None:
    scene = deactivated()
    uid = meta(scene.job())["uid"]
    passed(scene, HOUR - timedelta(seconds=2))
    assert jobs(scene) == ["a"]
    passed(scene, timedelta(seconds=2))
    assert jobs(scene) == []
    (decided,) = scene.decided(events.JobDeletionDecided)
    assert (decided.reason, decided.uid, decided.cause) == ("DeactivationRetentionElapsed", uid, BY_US)
    (deletion,) = [one for one in scene.requests if one.verb == "delete"]
    assert (deletion.ref.kind, deletion.uid, deletion.resource_version) == (JOBS, uid, decided.resource_version)
    assert ("Deleted", "Deleted job: deactivation retention period expired") in scene.events()


def test_it_is_looked_at_again_when_the_time_comes() -> None:
    scene = deactivated()
    scene.crash()
    scene.decide()
    assert scene.wake is not None
    assert timedelta(0) < scene.wake - scene.clock.now() <= HOUR


@pytest.mark.parametrize(
    ("after", "reason", "active"),
    [
        (None, BY_US, False),
        (HOUR, "Deactivated", False),
        (HOUR, "Preempted", False),
        (HOUR, BY_US, True),
    ],
)
def test_every_other_job_stays(after: timedelta | None, reason: str, *, active: bool) -> None:
    scene = deactivated(after, reason, active=active)
    passed(scene, 100 * HOUR)
    assert jobs(scene) == ["a"]
    assert scene.decided(events.JobDeletionDecided) == []


def test_another_job_of_its_name_is_not_deleted_for_it() -> None:
    scene = deactivated()
    scene.clock.move(3600)
    scene.crash()
    (decided,) = [one for one in scene.decide() if isinstance(one, events.JobDeletionDecided)]
    (write,) = scene.open_writes()
    scene.store.delete(JOBS, NS, "a", uid=decided.uid)
    scene.create(job())
    scene.carry_out(write)
    assert jobs(scene) == ["a"]


def test_the_setting_and_the_rights_that_it_needs() -> None:
    on = resolve(
        None, {"CONTROLPLANE_QUOTA_MODE": "builtin", "CONTROLPLANE_QUOTA_OBJECT_RETENTION_AFTER_DEACTIVATED": "1h"}
    ).settings
    off = resolve(None, {"CONTROLPLANE_QUOTA_MODE": "builtin"}).settings
    assert policy_of(on).after_deactivated == HOUR
    assert policy_of(off).after_deactivated is None
    path = "deploy/rbac/management/job-deletion.yaml"
    asked = {(one.right.resource, one.right.verb) for one in needed_on_management(on) if one.manifest == path}
    assert asked == {("jobs", "delete"), ("jobsets", "delete")}
    assert not [one for one in needed_on_management(off) if one.manifest == path]
    assert (ROOT / path).read_text() == cluster_role("deletion"), f"python -m controlplane.job_kinds deletion > {path}"


def test_a_pod_that_waits_is_not_deleted() -> None:
    scene = Scene(after_deactivated=HOUR)
    scene.flavor()
    scene.create(pod(), PODS)
    scene.settle()
    name = meta(scene.workload())["name"]
    scene.store.patch(WORKLOADS, NS, name, {"spec": {"active": False}}, field_manager="somebody")
    scene.evict(BY_US, "The workload is deactivated")
    scene.settle()
    passed(scene, 2 * HOUR)
    assert is_there(scene)
    assert scene.decided(events.JobDeletionDecided) == []
