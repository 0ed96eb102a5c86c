"""What becomes of Workloads that have finished, as with Kueue's `objectRetentionPolicies.workloads.afterFinished`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.kube import kinds
from controlplane.runtime.controller import WriteRefusal
from controlplane.settings import SettingsError, resolve
from tests.quota.admission.scene import NS, Scene

HOUR = timedelta(hours=1)
W = (kinds.WORKLOADS, NS, "w")


def scene_of(after: timedelta | None = HOUR, finalizers: tuple[str, ...] = ()) -> Scene:
    scene = Scene(after_finished=after)
    scene.queue("q", "1")
    scene.workload("w", "q")
    if finalizers:
        scene.put(kinds.WORKLOADS, "w", NS, metadata={"finalizers": list(finalizers)})
    scene.settle()
    assert scene.is_true("w", "Admitted")
    return scene


def test_a_finished_workload_is_deleted_when_its_time_is_over_and_not_before() -> None:
    scene = scene_of()
    scene.finish("w")
    scene.settle()
    scene.pass_time(3599)
    assert W in scene.objects
    uid, version = scene.of("w")["metadata"]["uid"], scene.of("w")["metadata"]["resourceVersion"]
    scene.pass_time(1)
    assert W not in scene.objects
    (decided,) = scene.said(events.WorkloadDeletionDecided, "w")
    assert (decided.reason, decided.uid, decided.resource_version) == ("RetentionElapsed", uid, version)
    deletions = [one for one in scene.written if one.verb == "delete"]
    assert [(one.ref.name, one.uid, one.resource_version) for one in deletions] == [("w", uid, version)]
    assert scene.settle() == 0
    assert f"{NS}/w" not in scene.controller.index.workloads


def test_by_default_nothing_is_deleted() -> None:
    scene = scene_of(None)
    scene.finish("w")
    scene.pass_time(10_000_000)
    assert W in scene.objects


def test_a_time_of_zero_is_at_once() -> None:
    scene = scene_of(timedelta(0))
    scene.finish("w")
    scene.settle()
    assert W not in scene.objects


def test_who_has_not_finished_stays() -> None:
    scene = scene_of(timedelta(0))
    scene.set_condition("w", "Finished", "False")
    scene.pass_time(100)
    assert W in scene.objects


def test_the_finalizer_goes_first_and_that_of_others_stays() -> None:
    scene = scene_of(finalizers=("kueue.x-k8s.io/resource-in-use", "example.com/mine"))
    scene.finish("w")
    scene.settle()
    scene.pass_time(3600)
    assert scene.of("w")["metadata"]["finalizers"] == ["example.com/mine"]
    assert scene.of("w")["metadata"]["deletionTimestamp"]
    scene.pass_time(3600)
    assert len([one for one in scene.written if one.verb == "delete"]) == 1, "one that is being deleted is left alone"


def test_who_is_in_no_queue_of_ours_stays() -> None:
    scene = scene_of()
    scene.workload("other", "nowhere")
    scene.settle()
    scene.finish("other")
    scene.pass_time(3601)
    assert (kinds.WORKLOADS, NS, "other") in scene.objects


def test_a_refused_deletion_is_tried_again() -> None:
    scene = scene_of()
    scene.finish("w")
    scene.settle()
    scene.refuses = lambda request: WriteRefusal(403, "Forbidden", "not allowed") if request.verb == "delete" else None
    scene.pass_time(3600)
    assert W in scene.objects
    scene.refuses = lambda request: None
    scene.pass_time(600)
    assert W not in scene.objects


def test_another_one_of_its_name_is_not_deleted_for_it() -> None:
    scene = scene_of()
    scene.finish("w")
    scene.settle()
    scene.now += HOUR
    scene.decide()
    (write,) = [one for one in scene.open_writes() if one.stream.endswith("/w")]
    scene.drop(W)
    scene.workload("w", "q")
    assert not scene.controller.is_open(write)
    scene.settle()
    assert scene.is_true("w", "Admitted")


@pytest.mark.parametrize(("text", "value"), [("never", None), ("0", timedelta(0)), ("24h", 24 * HOUR)])
def test_the_setting(text: str, value: Any) -> None:
    variable = "CONTROLPLANE_QUOTA_OBJECT_RETENTION_AFTER_FINISHED"
    assert resolve(None, {variable: text}, {}).settings.quota.object_retention.after_finished == value


def test_a_setting_that_is_none_says_so() -> None:
    with pytest.raises(
        SettingsError, match=r"quota.objectRetention.afterFinished must not be negative.*; or write never"
    ):
        resolve(None, {"CONTROLPLANE_QUOTA_OBJECT_RETENTION_AFTER_FINISHED": "-1h"}, {})
