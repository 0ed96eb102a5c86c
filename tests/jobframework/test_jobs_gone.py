"""What goes: jobs, their Workloads, one of several, and what is nobody's."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.controllers.connectivity.events import MANAGEMENT, KindSynced, cluster_stream
from controlplane.controllers.jobframework.events import JobInputRefused, JobWorkloadCreationDecided, QueuedJobGone
from controlplane.controllers.jobframework.pod_events import QueuedPodGone
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import JOBS, PODS, WORKLOADS, Kind, meta
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import ObjectChange
from tests.jobframework.scene import NS, Scene, job
from tests.jobframework.single import admitted
from tests.jobframework.test_jobs_more import running, waiting


def test_a_job_that_goes_lets_its_workload_go() -> None:
    scene = waiting()
    scene.store.delete(JOBS, NS, "a")
    scene.settle()
    assert scene.workloads() == []


def test_the_workload_of_a_job_that_is_held_while_it_goes_is_finished() -> None:
    made = job()
    made["metadata"]["finalizers"] = ["example.com/holds"]
    scene = Scene()
    scene.create(made)
    scene.settle()
    scene.store.delete(JOBS, NS, "a")
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert (finished["reason"], finished["message"]) == ("OwnerNotFound", "The workload's owner no longer exists")
    assert "finalizers" not in meta(scene.workload())


def test_a_job_of_a_kind_that_may_not_be_seen_is_not_gone() -> None:
    """A right that was forgotten is no answer: the Workload of a job that runs is not finished."""
    scene = running()
    before = scene.workload()
    scene.begin_anew(JOBS)
    scene.requests.clear()
    scene.settle()
    assert scene.requests == []
    assert scene.workload() == before
    scene.hidden.clear()
    synced = KindSynced(kind=JOBS.name, count=1, resource_version="9")
    scene.record(NewEvent(stream=cluster_stream(MANAGEMENT), event=synced, cluster=MANAGEMENT))
    scene.settle()
    assert scene.workload()["metadata"]["uid"] == before["metadata"]["uid"]
    assert scene.job()["spec"]["suspend"] is False
    assert not is_true(scene.workload(), "Finished")


def test_a_workload_that_is_deleted_stops_its_job_which_gets_another() -> None:
    scene = running()
    before = meta(scene.workload())["uid"]
    scene.store.delete(WORKLOADS, NS, meta(scene.workload())["name"])
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    assert meta(scene.workload())["uid"] != before
    assert ("Stopped", "Workload is deleted") in scene.events()


def test_a_workload_that_is_deleted_is_there_until_nothing_of_its_job_runs() -> None:
    """Its quota counts as long as pods run; no other Workload could be made before either."""
    scene = running()
    before = meta(scene.workload())["uid"]
    drain, scene.jobs.drain = scene.jobs.drain, lambda: 0  # its pods take their time
    assert scene.job()["status"]["active"]
    scene.store.delete(WORKLOADS, NS, meta(scene.workload())["name"])
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    assert meta(scene.workload())["uid"] == before
    scene.jobs.drain = drain
    scene.settle()
    assert meta(scene.workload())["uid"] != before


def test_duplicates_go_and_what_is_not_the_jobs_stays() -> None:
    scene = waiting()
    ours = scene.workload()
    head = {"namespace": NS, "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    owner = meta(ours)["ownerReferences"][0]
    others = {
        "zz-double": [owner],
        "zz-former": [{**owner, "uid": "another"}],
        "zz-foreign": [{**owner, "kind": "Render", "apiVersion": "example.com/v1"}],
        "zz-nobodys": [],
    }
    for name, owners in others.items():
        scene.store.create(
            WORKLOADS, {"metadata": {**head, "name": name, "ownerReferences": owners}, "spec": ours["spec"]}
        )
    scene.settle()
    left = {meta(one)["name"] for one in scene.workloads()}
    assert left == {meta(ours)["name"], "zz-foreign", "zz-nobodys"}
    for one in scene.workloads():
        assert meta(one)["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]


def test_a_job_made_anew_under_its_name_gets_a_workload_of_its_own() -> None:
    scene = running()
    before = meta(scene.workload())["name"]
    scene.store.delete(JOBS, NS, "a")
    scene.create(job(suspend=False))
    scene.settle()
    assert meta(scene.workload())["name"] != before
    assert scene.job()["spec"]["suspend"] is True


def test_a_job_without_a_queue_is_left_alone() -> None:
    scene = Scene()
    made = job(suspend=False)
    made["metadata"]["labels"] = {}
    scene.create(made)
    assert scene.settle() == []
    assert scene.job()["spec"]["suspend"] is False
    assert scene.workloads() == []


def test_nothing_is_decided_before_all_is_in_view() -> None:
    scene = Scene(view=False)
    scene.create(job(suspend=False))
    assert scene.settle() == []
    scene.connect()
    scene.settle()
    assert len(scene.workloads()) == 1


def test_the_end_of_a_job_is_recorded_though_the_log_does_not_have_its_beginning_yet() -> None:
    """Created and deleted while the database is slow: else a Workload would be made for it again and again."""
    scene = Scene()
    scene.create(job())
    obj = scene.job()

    def seen(*, gone: bool) -> NewEvent | None:
        change = ObjectChange(MANAGEMENT, "i", JOBS, obj, meta(obj)["resourceVersion"], gone)
        return scene.controller.observe(change, scene.clock.now())

    began, ended = seen(gone=False), seen(gone=True)
    assert began is not None
    assert ended is not None
    for new in (began, ended):
        scene.record(new)
    scene.store.delete(JOBS, NS, "a")
    scene.settle()
    assert scene.workloads() == []
    assert scene.decided(JobWorkloadCreationDecided) == []


def test_the_end_of_a_job_that_was_never_recorded_is_not() -> None:
    scene = Scene()
    scene.create(job())
    obj = scene.job()
    change = ObjectChange(MANAGEMENT, "i", JOBS, obj, meta(obj)["resourceVersion"], True)
    assert scene.controller.observe(change, scene.clock.now()) is None


@pytest.mark.parametrize("pod", [False, True])
def test_the_workload_of_a_job_that_nobody_could_ever_read_is_not_finished(
    monkeypatch: pytest.MonkeyPatch, *, pod: bool
) -> None:
    """The log was lost, and the job is of a form that this version does not know: it runs all the same."""
    scene = admitted() if pod else running()
    kind = PODS if pod else JOBS
    before, listed = scene.workload(), scene.store.list

    def spoiled(of: Kind, *args: Any, **options: Any) -> Any:
        found, *rest = listed(of, *args, **options)
        if of.kind == kind.kind:
            found = copy.deepcopy(found)
            for one in found:
                one["metadata"]["annotations"] = ["no", "map"]
        return (found, *rest)

    monkeypatch.setattr(scene.store, "list", spoiled)
    scene.begin_anew()
    scene.requests.clear()
    scene.settle()
    assert [one.name for one in scene.decided(JobInputRefused)] == ["a"]
    assert scene.requests == []
    assert scene.workload() == before
    assert scene.controller.index.holds(f"jobframework/refused/{kind.name}/{NS}/a")
    monkeypatch.undo()
    scene.store.delete(kind, NS, "a", **({"grace": 0} if pod else {}))
    scene.crash()
    scene.settle()
    assert [one.name for one in scene.decided(QueuedPodGone if pod else QueuedJobGone)] == ["a"]
    assert all(is_true(one, "Finished") for one in scene.workloads())
    assert not scene.controller.index.holds(f"jobframework/refused/{kind.name}/{NS}/a")


def test_a_job_that_runs_elsewhere_gets_another_workload_though_nobody_says_that_it_rests() -> None:
    """Somebody took the finalizer from its Workload by hand and deleted it: what copied the job's status went with
    it."""
    scene = running(managedBy="kueue.x-k8s.io/multikueue")
    before = meta(scene.workload())["uid"]
    scene.store.patch(JOBS, NS, "a", {"status": {"active": 2}}, subresource="status")
    scene.settle()
    head = {"metadata": {"finalizers": None}}
    scene.store.patch(WORKLOADS, NS, meta(scene.workload())["name"], head, field_manager="somebody")
    scene.store.delete(WORKLOADS, NS, meta(scene.workload())["name"])
    scene.settle()
    assert scene.job()["spec"]["suspend"] is True
    assert [meta(one)["uid"] for one in scene.workloads()] != [before]
    assert len(scene.workloads()) == 1


def test_a_job_whose_templates_say_where_it_ran_before_starts_in_another_queue() -> None:
    """Its Workload went by force, and with it what its templates were; what Kueue's labels said of its queues gives
    way."""
    scene = running()
    bare = {"metadata": {"finalizers": None}}
    scene.store.patch(WORKLOADS, NS, meta(scene.workload())["name"], bare, field_manager="somebody")
    scene.store.delete(WORKLOADS, NS, meta(scene.workload())["name"])
    scene.store.patch(JOBS, NS, "a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "another"}}})
    scene.settle()
    scene.admit()
    scene.settle()
    assert not is_true(scene.workload(), "Finished")
    assert scene.job()["spec"]["suspend"] is False
    labels = scene.job()["spec"]["template"]["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/local-queue-name"] == "another"
