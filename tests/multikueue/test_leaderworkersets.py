"""LeaderWorkerSets: one Workload for each replica, and one copy for all of them, on one cluster. It is created once,
and goes with the last that wants it.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import CheckStateDecided, RemovalDecided
from controlplane.job_kinds.gated import HELD
from controlplane.job_kinds.leaderworkerset import LeaderWorkerSet, workload_name
from controlplane.kube.kinds import WORKLOADS, Json
from controlplane.simulation.kueue.common import workload_name as name_by_kueue
from tests.multikueue.observed import metadata, observe
from tests.multikueue.observed import workload as of_workload
from tests.multikueue.rendered import body
from tests.multikueue.scene import JOB, NS, Scene, describe

KIND = LeaderWorkerSet.kind
UID = "job-uid"
RUNS = {"QuotaReserved": True, "Admitted": True}
ORIGIN_UID = "kueue.x-k8s.io/multikueue-origin-uid"


def named(index: int) -> str:
    return workload_name(KIND, JOB, UID, index)


class Sets(Scene):
    """A LeaderWorkerSet with some replicas, and the Workload of each."""

    def __init__(self, *workers: str, replicas: int = 2, seen: int | None = None, **policy: Any) -> None:
        super().__init__(*workers, connected=False, policy=policy)
        self._workers = workers
        for name in workers:
            self.connect(name, (WORKLOADS, KIND))
        self.replicas = replicas
        self.set(components=replicas)
        for index in range(replicas if seen is None else seen):
            self.at(index).workload({"QuotaReserved": True})

    def at(self, index: int) -> Sets:
        """From here on the Workload of this replica is meant."""
        self.on(named(index))
        owner = observations.Owner(api_version=KIND.api_version, kind=KIND.kind, name=JOB, uid=UID)
        self._local = {"owner": owner, "component": index, **self._local}
        return self

    def set(self, **changes: Any) -> Sets:
        self._job = {
            "held": True,
            "suspended": True,
            "template": "aa" * 32,
            "status": "00" * 32,
            **self._job,
            **changes,
        }
        version = {"resource_version": self._rv(), "kind": KIND.name}
        seen = observations.JobObserved(namespace=NS, name=JOB, uid=UID, **version, **self._job)
        self.fold(f"job/{KIND.name}/{NS}/{JOB}", seen)
        return self

    def copy(self, cluster: str, **changes: Any) -> Sets:
        """The copy is seen, on the stream of the first replica, whichever is meant."""
        fields = {"status": "00" * 32, "resource_version": self._rv(), **changes}
        seen = observations.RemoteJobObserved(
            namespace=NS, name=JOB, uid=f"lws-{cluster}", kind=KIND.name, prebuilt=named(0), shared=UID, **fields
        )
        self.fold(f"workload/{NS}/{named(0)}", seen, cluster)
        return self

    def copy_gone(self, cluster: str) -> Sets:
        gone = observations.RemoteJobGone(namespace=NS, name=JOB, uid=f"lws-{cluster}", kind=KIND.name)
        self.fold(f"workload/{NS}/{named(0)}", gone, cluster)
        return self

    def each(self) -> dict[int, list[str]]:
        """One pass over each Workload that decides something."""
        found = {}
        for index in range(self.replicas):
            if f"workload/{NS}/{named(index)}" in self.fleet.index.workloads and (said := self.at(index).names()):
                found[index] = said
        return found

    def chosen(self) -> Sets:
        """The first replica has `a`, and the copy is on its way there."""
        self.at(0).decide()
        self.workload(nominated=list(self._workers)).decide()
        for name in self._workers:
            self.clone(name)
        self.clone("a", RUNS)
        said = self.names()
        assert said[0] == "WinnerChosen a"
        assert "JobCreation a" in said
        for name in self._workers[1:]:
            self.clone_gone(name)
        return self

    def running(self) -> Sets:
        """Every replica is on `a`, and Ready."""
        self.chosen().copy("a")
        self.at(0).decide()
        self.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
        for index in range(1, self.replicas):
            self.follow(index)
        assert self.each() == {}
        return self

    def follow(self, index: int) -> Sets:
        assert self.at(index).names() == ["Nomination", "Clone a"]
        self.workload(nominated=["a"]).clone("a", RUNS)
        said = self.decide()
        assert [describe(one) for one in said] == ["WinnerChosen a", "CheckState"]
        self.workload({"Admitted": True}, check="Ready", cluster_name="a", nominated=[])
        return self

    def evict(self, index: int) -> Sets:
        """Kueue takes the quota of one replica, which is stopped on its worker."""
        self.at(index).workload({"Evicted": "Preempted"}, check="Pending", cluster_name="")
        assert self.names() == ["Deactivation a"]
        self.clone(
            "a",
            {"DeactivationTarget": "EvictedOnManagerCluster", "Evicted": "Deactivated", "QuotaReserved": False},
            active=False,
        )
        assert self.names() == []
        self.workload({"QuotaReserved": False, "Admitted": False})
        return self


# --- what is seen of it
# ------------------------------------------------------------------------------------------------


def test_the_name_of_a_replicas_workload_is_kueues() -> None:
    assert named(3).startswith("leaderworkerset-train-3-")
    for name in (JOB, "x" * 300):
        assert workload_name(KIND, name, UID, 3) == name_by_kueue(KIND, f"{name}-3", UID)


def test_what_is_seen_of_a_set_its_workloads_and_its_copy() -> None:
    template = {"spec": {"containers": [], "schedulingGates": [{"name": HELD}]}}
    spec = {"replicas": 3, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    obj: Json = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata(JOB, labels=labels)}
    seen = observe("@management", KIND, {**obj, "spec": spec}).event
    assert (seen.components, seen.held) == (3, True)
    marks = {"kueue.x-k8s.io/component-workload-index": "2"}
    assert observe("@management", WORKLOADS, of_workload(metadata=metadata(annotations=marks))).event.component == 2
    marks["kueue.x-k8s.io/component-workload-index"] = "two"
    assert observe("@management", WORKLOADS, of_workload(metadata=metadata(annotations=marks))).event.component == -1
    about = metadata(JOB, annotations={ORIGIN_UID: UID}, labels={"kueue.x-k8s.io/multikueue-origin": "multikueue"})
    found = observe("a", KIND, {**obj, "metadata": about, "spec": spec})
    assert (found.stream, found.event.shared) == (f"workload/{NS}/{named(0)}", UID)


def test_its_copy_names_the_uid_of_the_users_and_no_workload() -> None:
    template: Json = {"spec": {"containers": [], "schedulingGates": [{"name": HELD}]}}
    ref, bodies = body(
        {"labels": {}, "annotations": {}, "spec": {"leaderWorkerTemplate": {"workerTemplate": template}}}
    )
    scene = Sets("a").set(template=ref).chosen()
    (write,) = scene.fleet.open_writes(scene.stream)
    request = scene.fleet.request(write, bodies, scene.now)
    assert request is not None
    assert request.body["metadata"]["annotations"] == {ORIGIN_UID: UID}
    gates = request.body["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["schedulingGates"]
    assert gates == [{"name": "kueue.x-k8s.io/admission"}]


# --- to one cluster
# ----------------------------------------------------------------------------------------------------


def test_nothing_is_nominated_before_all_replicas_have_a_workload() -> None:
    scene = Sets("a", "b", replicas=2, seen=1)
    assert scene.each() == {}
    scene.at(1).workload({"QuotaReserved": False})
    assert scene.each() == {0: ["Nomination", "Clone a", "Clone b"]}


def test_the_first_replica_chooses_and_the_others_follow_it() -> None:
    scene = Sets("a", "b", replicas=3)
    scene.running()
    assert {scene.at(index).state.local.cluster_name for index in range(3)} == {"a"}  # type: ignore[union-attr]


def test_its_others_wait_while_the_first_has_no_cluster() -> None:
    scene = Sets("a", "b")
    assert scene.each() == {0: ["Nomination", "Clone a", "Clone b"]}
    assert scene.each() == {}


def test_a_choice_that_was_not_carried_out_yet_is_followed_and_the_copy_is_created_once() -> None:
    scene = Sets("a").chosen()
    assert scene.at(1).names() == ["Nomination", "Clone a"]
    scene.workload(nominated=["a"]).clone("a", RUNS)
    assert scene.names() == ["WinnerChosen a"], "the first one's creation is on its way"
    scene.copy("a")
    assert scene.names() == ["CheckState"]
    assert scene.at(0).names() == ["CheckState"]


def test_the_creation_that_another_replica_decided_is_settled_by_the_copy() -> None:
    scene = Sets("a").chosen()
    assert scene.at(1).names() == ["Nomination", "Clone a"]
    scene.workload(nominated=["a"]).clone("a", RUNS).decide()
    # The first one's place is taken from it before the copy was made: the second creates it, on its own stream.
    scene.at(0).clone("a", {"Evicted": "Preempted", "Admitted": False})
    scene.refuses(next(iter(scene.state.effects.values())).decision, 500, "InternalError", scene.now - scene.now)
    assert scene.names() == ["WinnerReleased a"]
    assert scene.at(1).names() == ["JobCreation a"]
    scene.copy("a")
    assert "a/Job" not in scene.state.effects
    assert scene.names() == ["CheckState"]


def test_a_dispatcher_of_somebody_else_nominates_for_the_first_alone() -> None:
    scene = Sets("a", "b", dispatcher="example.com/mine")
    assert scene.each() == {}
    scene.at(0).workload(nominated=["a"])
    assert scene.each() == {0: ["AttemptBegun", "Clone a"]}
    scene.at(0).clone("a", RUNS)
    assert scene.names() == ["WinnerChosen a", "JobCreation a"]
    assert scene.at(1).names() == ["Nomination", "Clone a"]


def test_a_replica_that_is_added_goes_where_the_others_are_and_finds_the_copy() -> None:
    scene = Sets("a", "b").running().set(components=3)
    scene.replicas = 3
    scene.at(2).workload({"QuotaReserved": True})
    scene.follow(2)
    assert scene.state.remote("a").job is not None


# --- away
# ----------------------------------------------------------------------------------------------------------------


def test_a_replica_whose_cluster_is_away_waits_for_it() -> None:
    scene = Sets("a", "b").running()
    scene.evict(1).lose("a")
    scene.at(1).workload({"QuotaReserved": True, "Evicted": False})
    assert scene.names() == []
    scene.tick(minutes=16)
    assert scene.at(1).names() == [], "the first one is on the lost cluster still"
    assert scene.at(0).names() == ["CheckState"]
    assert isinstance(scene.decided[-1], CheckStateDecided)
    assert scene.decided[-1].state == "Retry"
    scene.workload({"Evicted": "AdmissionCheck"}, check="Pending", cluster_name="")
    scene.workload({"QuotaReserved": False, "Admitted": False}).decide()
    assert scene.at(1).names() == [], "the first one chooses"
    scene.at(0).workload({"QuotaReserved": True, "Evicted": False})
    assert scene.names() == ["Nomination", "Clone b"]


@pytest.mark.parametrize("asked", [0, 1])
def test_none_is_started_elsewhere_while_the_copy_may_run_on_a_lost_cluster(asked: int) -> None:
    scene = Sets("a", "b").running()
    for index in range(2):
        scene.at(index).workload({"Evicted": "Preempted", "Admitted": False}, check="Pending", cluster_name="")
        scene.workload({"QuotaReserved": False})
    scene.lose("a")
    for index in range(2):
        scene.at(index).workload({"QuotaReserved": True, "Evicted": False})
    assert scene.at(asked).names() == []
    scene.tick(minutes=16)
    assert scene.at(1).names() == []
    assert scene.at(0).names() == ["Nomination", "Clone b"]


def test_what_a_lost_cluster_brings_back_goes_when_all_are_elsewhere() -> None:
    scene = Sets("a", "b").running().lose("a").tick(minutes=16)
    for index in range(2):
        assert scene.at(index).names() == ["CheckState"]
        scene.workload({"Evicted": "AdmissionCheck"}, check="Pending", cluster_name="")
        scene.workload({"QuotaReserved": False, "Admitted": False}).decide()
    for index in range(2):
        scene.at(index).workload({"QuotaReserved": True, "Evicted": False})
    scene.at(0).decide()
    scene.workload(nominated=["b"]).clone("b", RUNS).decide()
    scene.copy("b").decide()
    scene.connect("a", (WORKLOADS, KIND))
    removed = [one for index in range(2) for one in scene.at(index).decide() if isinstance(one, RemovalDecided)]
    assert [(one.of, one.uid) for one in removed if one.of == "Job"] == [("Job", "lws-a")]


# --- the way back
# --------------------------------------------------------------------------------------------------------


def test_the_copy_stays_while_another_replica_wants_it() -> None:
    scene = Sets("a").running().evict(1)
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.names() == []
    assert scene.at(0).names() == []
    scene.at(1).workload({"QuotaReserved": True, "Evicted": False})
    scene.follow(1)


def test_a_replica_that_is_removed_leaves_the_copy_to_the_others() -> None:
    scene = Sets("a").running().set(components=1)
    scene.at(1).gone()
    assert scene.names() == ["Removal Workload a"]
    scene.clone_gone("a")
    assert scene.names() == []
    assert scene.at(0).names() == []


def test_the_copy_goes_with_the_last_and_before_the_workloads_copies() -> None:
    scene = Sets("a").running()
    scene.at(0).gone()
    scene.at(1).gone()
    assert scene.each() == {0: ["Removal Job a"]}
    scene.copy_gone("a")
    assert scene.each() == {0: ["Removal Workload a"], 1: ["Removal Workload a"]}
    for index in range(2):
        scene.at(index).clone_gone("a")
    assert not [one for one in scene.fleet.index.workloads if one.startswith("workload/")]


def test_a_copy_whose_first_workload_nobody_knows_is_not_taken_for_an_orphan() -> None:
    """As with names that are cut: the copy is recorded on a stream that no Workload has."""
    scene = Sets("a").running()
    scene.copy_gone("a")
    stream = f"workload/{NS}/of-another-name"
    fields = {"status": "00" * 32, "resource_version": "999", "prebuilt": "of-another-name", "shared": UID}
    seen = observations.RemoteJobObserved(namespace=NS, name=JOB, uid="lws-a", kind=KIND.name, **fields)
    scene.fold(stream, seen, "a")
    scene.tick(minutes=5)
    assert scene.names(stream) == []
    assert scene.at(1).state.remote("a").job is not None


def test_a_copy_that_vanishes_takes_all_of_them_back() -> None:
    scene = Sets("a").running().copy_gone("a")
    assert scene.each() == {0: ["CheckState"], 1: ["CheckState"]}


def test_one_whose_pods_would_run_here_as_well_is_rejected() -> None:
    scene = Sets("a").set(held=False)
    (decision,) = scene.at(0).decide()
    assert isinstance(decision, CheckStateDecided)
    assert decision.state == "Rejected"
    assert HELD in decision.message
