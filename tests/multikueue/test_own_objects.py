"""Of a management cluster that services of several logs share, each records what its queues lead to, and what it cannot
tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.observations import ObservationRefused
from controlplane.kube.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, WORKLOADS, Json, Kind
from controlplane.runtime.controller import ObjectChange
from controlplane.settings.load import SettingsError, load
from tests.multikueue.observed import metadata
from tests.multikueue.observed import sighting as sighted
from tests.multikueue.scene import START, Scene

OURS = "kueue.x-k8s.io/multikueue"


class Shared(Scene):
    """A scene with three queues: `ours`, `theirs`, and `new`, whose check nobody has seen."""

    def __init__(self) -> None:
        super().__init__("a", policy={"own_only": True})
        for name, controller in (("first", OURS), ("second", "example.com/second")):
            self.make_check(name, controller)
        for name, check in (("ours", "first"), ("theirs", "second"), ("new", "unseen")):
            self.queue(name, check)
            local = {"metadata": metadata(name), "spec": {"clusterQueue": name}}
            assert self.see(LOCAL_QUEUES, local)

    def see(self, kind: Kind, obj: Json, **change: Any) -> bool:
        """Show an object; return whether it is recorded."""
        change = {"gone": False, **change}
        shown = sighted(MANAGEMENT, kind, obj)
        found = self.fleet.observe(msgspec.structs.replace(shown, **change), START)
        if found is not None:
            self.fold(found.stream, found.event)
        return found is not None

    def make_check(self, name: str, controller: str) -> None:
        assert self.see(ADMISSION_CHECKS, {"metadata": metadata(name), "spec": {"controllerName": controller}})

    def queue(self, name: str, *checks: str, version: str = "1") -> None:
        rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": one} for one in checks]}}
        assert self.see(CLUSTER_QUEUES, {"metadata": metadata(name, resourceVersion=version), "spec": rules})


def workload(queue: str, *checks: str, name: str = "w", version: str = "7") -> Json:
    status = {"admissionChecks": [{"name": one, "state": "Pending"} for one in checks]}
    return {"metadata": metadata(name, resourceVersion=version), "spec": {"queueName": queue}, "status": status}


def job(queue: str, **spec: Any) -> Json:
    return {"metadata": metadata("j", labels={"kueue.x-k8s.io/queue-name": queue}), "spec": spec, "status": {}}


@pytest.mark.parametrize(
    ("kind", "obj", "recorded"),
    [
        pytest.param(WORKLOADS, workload("ours"), True, id="a Workload of our queue"),
        pytest.param(WORKLOADS, workload("theirs"), False, id="of another's"),
        pytest.param(WORKLOADS, workload("theirs", "second"), False, id="with another's check"),
        pytest.param(WORKLOADS, workload("theirs", "second", "first"), True, id="with our check, whatever its queue"),
        pytest.param(WORKLOADS, workload("theirs", "gone"), True, id="with a check that nobody has seen"),
        pytest.param(WORKLOADS, workload("new"), True, id="of a queue whose check nobody has seen"),
        pytest.param(WORKLOADS, workload("nowhere"), True, id="of a queue that nobody has seen"),
        pytest.param(WORKLOADS, workload(""), True, id="of no queue"),
        pytest.param(JOBS, job("ours"), True, id="a job of our queue"),
        pytest.param(JOBS, job("theirs"), False, id="a job of another's"),
        pytest.param(JOBS, job("theirs", managedBy="example.com/second"), False, id="a job that is another's"),
        pytest.param(JOBS, job("theirs", managedBy=OURS), True, id="a job that is ours by its managedBy"),
        pytest.param(JOBS, job("nowhere"), True, id="a job of a queue that nobody has seen"),
        pytest.param(PODS, job("theirs"), False, id="a pod of another's queue"),
    ],
)
def test_what_is_not_known_to_lead_elsewhere_is_recorded(kind: Kind, obj: Json, recorded: bool) -> None:
    assert Shared().see(kind, obj) is recorded


def test_an_object_that_cannot_be_read_is_recorded_as_that_and_so_is_its_end() -> None:
    scene = Shared()
    unfit = {"metadata": metadata("w"), "spec": "text"}
    found = scene.fleet.observe(sighted(MANAGEMENT, WORKLOADS, unfit), START)
    assert found is not None
    assert isinstance(found.event, ObservationRefused)
    scene.fold(found.stream, found.event)
    assert scene.see(WORKLOADS, {"metadata": metadata("w")}, gone=True)
    assert scene.see(WORKLOADS, {"metadata": metadata("v")}, unreadable="too large")


def test_what_was_recorded_is_recorded_until_it_is_gone_also_before_the_log_has_it() -> None:
    scene = Shared()
    scene.queue("theirs", "first", version="2")
    first = scene.fleet.observe(sighted(MANAGEMENT, WORKLOADS, workload("theirs")), START)
    scene.queue("theirs", "second", version="3")
    assert first is not None, "and it is not folded yet"
    assert scene.see(WORKLOADS, workload("theirs", "second", version="8"))
    assert scene.see(WORKLOADS, workload("theirs", "second", version="9"))
    assert scene.see(WORKLOADS, workload("theirs", version="10"), gone=True)
    assert not scene.see(WORKLOADS, {"metadata": metadata("w", uid="other")}, gone=True)


def test_the_end_of_what_was_not_recorded_is_not_recorded() -> None:
    scene = Shared()
    assert not scene.see(WORKLOADS, workload("theirs"))
    assert not scene.see(WORKLOADS, workload("theirs"), gone=True)
    assert not scene.see(JOBS, job("theirs"), gone=True)


def test_a_queue_that_leads_to_us_from_now_on_has_everything_listed_again_once() -> None:
    scene = Shared()
    assert not scene.see(WORKLOADS, workload("theirs"))
    scene.queue("new", "second", version="2")
    assert not scene.fleet.take_missed()
    scene.queue("theirs", "first", version="2")
    assert scene.fleet.take_missed()
    assert not scene.fleet.take_missed()
    assert scene.see(WORKLOADS, workload("theirs"))


def test_a_check_that_is_no_longer_known_may_be_ours_next() -> None:
    scene = Shared()
    assert not scene.see(JOBS, job("theirs"))
    assert scene.see(ADMISSION_CHECKS, {"metadata": metadata("second")}, gone=True)
    assert scene.fleet.take_missed()
    assert scene.see(JOBS, job("theirs"))


def test_objects_of_workers_are_recorded_whatever_their_queue() -> None:
    scene = Shared()
    copy = workload("theirs")
    shown: ObjectChange = sighted("a", WORKLOADS, copy)
    assert scene.fleet.observe(shown, START) is not None


def test_it_does_not_go_with_quota_of_our_own() -> None:
    given = {"CONTROLPLANE_QUOTA_MODE": "builtin", "CONTROLPLANE_MULTIKUEUE_RECORDED_WORKLOADS": "own"}
    with pytest.raises(SettingsError, match=r"recordedWorkloads must be all when quota.mode is builtin"):
        load(None, given)
