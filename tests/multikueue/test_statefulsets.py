"""StatefulSets: nothing of the worker's status is written to the user's, whose own controller writes it; and its pods
stay gated on the management cluster.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import CheckStateDecided
from controlplane.job_kinds.gated import HELD
from controlplane.kube.kinds import STATEFUL_SETS, WORKLOADS, Json
from tests.multikueue.observed import metadata
from tests.multikueue.observed import sighting as sighted
from tests.multikueue.rendered import body
from tests.multikueue.scene import JOB, NS, START, Scene

KIND = STATEFUL_SETS.name
ORIGIN_UID = "kueue.x-k8s.io/multikueue-origin-uid"
RUNS = {"QuotaReserved": True, "Admitted": True}


class Sets(Scene):
    """The Workload of one StatefulSet."""

    def __init__(self, *workers: str, held: bool = True) -> None:
        super().__init__(*workers, connected=False)
        for name in workers:
            self.connect(name, (WORKLOADS, STATEFUL_SETS))
        self.set(held=held)
        owner = observations.Owner(api_version="apps/v1", kind="StatefulSet", name=JOB, uid="job-uid")
        self.workload({"QuotaReserved": True}, owner=owner)

    def set(self, **changes: Any) -> Sets:
        self._job = {"suspended": True, "template": "aa" * 32, "status": "00" * 32, **self._job, **changes}
        version = {"resource_version": self._rv(), "kind": KIND}
        seen = observations.JobObserved(namespace=NS, name=JOB, uid="job-uid", **version, **self._job)
        self.fold(f"job/{KIND}/{NS}/{JOB}", seen)
        return self

    def copy(self, cluster: str, **changes: Any) -> Sets:
        fields = {"status": "00" * 32, "prebuilt": self.wl, "resource_version": self._rv(), **changes}
        seen = observations.RemoteJobObserved(namespace=NS, name=JOB, uid=f"set-{cluster}", kind=KIND, **fields)
        self.fold(self.stream, seen, cluster)
        return self

    def placed(self) -> Sets:
        self.decide()
        self.workload(nominated=["a"])
        self.decide()
        self.clone("a", RUNS)
        return self

    def running(self) -> Sets:
        self.placed().decide()
        self.copy("a").decide()
        self.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
        return self.copy("a", status="11" * 32, inactive=False)


def test_its_copy_names_the_uid_of_the_users() -> None:
    template: Json = {"spec": {"containers": [], "schedulingGates": [{"name": HELD}]}}
    ref, bodies = body({"labels": {}, "annotations": {}, "spec": {"replicas": 2, "template": template}})
    scene = Sets("a").set(template=ref).placed()
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]
    (write,) = scene.fleet.open_writes(scene.stream)
    request = scene.fleet.request(write, bodies, scene.now)
    assert request is not None
    assert request.body["metadata"]["annotations"][ORIGIN_UID] == "job-uid"
    gates = request.body["spec"]["template"]["spec"]["schedulingGates"]
    assert gates == [{"name": "kueue.x-k8s.io/admission"}]


def test_no_status_is_copied_neither_while_it_runs_nor_when_it_stops() -> None:
    scene = Sets("a").running()
    assert scene.tick(seconds=5).names() == []
    scene.workload({"Evicted": "Preempted"}, check="Pending", cluster_name="")
    assert scene.names() == ["Deactivation a"]
    scene.clone("a", {"DeactivationTarget": True, "Evicted": "Deactivated", "QuotaReserved": False}, active=False)
    assert scene.copy("a", status="22" * 32).names() == []
    scene.workload({"QuotaReserved": False})
    assert scene.names() == ["Removal Job a"]


def test_one_whose_pods_would_run_here_as_well_is_rejected() -> None:
    (decision,) = Sets("a", held=False).decide()
    assert isinstance(decision, CheckStateDecided)
    assert decision.state == "Rejected"
    assert HELD in decision.message


@pytest.mark.parametrize(("labels", "seen"), [({}, False), ({"kueue.x-k8s.io/queue-name": "q"}, True)])
def test_only_those_of_a_queue_are_recorded(labels: dict[str, str], seen: bool) -> None:
    template = {"spec": {"schedulingGates": [{"name": HELD}]}}
    obj = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(JOB, labels=labels),
        "spec": {"template": template},
    }
    found = Scene("a").fleet.observe(sighted("@management", STATEFUL_SETS, obj), START)
    assert (found is not None) is seen
    assert found is None or found.event.held  # type: ignore[attr-defined]
