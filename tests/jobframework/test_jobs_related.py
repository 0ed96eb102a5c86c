"""Jobs with other objects around them: those of a JobSet, Workloads that are there before their jobs, and what cannot
be read."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.jobframework import events
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import JOBSETS, RESOURCE_FLAVORS, WORKLOADS, Json, meta
from tests.jobframework.scene import NS, QUEUE, Scene, job, pod_template
from tests.jobframework.test_jobs_more import patch, running, waiting

# --- other kinds ---


def job_set(**spec: Any) -> Json:
    replicated = [
        {
            "name": name,
            "replicas": 2,
            "template": {"spec": {"parallelism": pods, "completions": pods, "template": pod_template()}},
        }
        for name, pods in (("Driver", 1), ("workers", 3))
    ]
    return {
        "metadata": {"namespace": NS, "name": "s", "labels": {"kueue.x-k8s.io/queue-name": QUEUE}},
        "spec": {"suspend": True, "replicatedJobs": replicated, **spec},
    }


def test_a_job_set_has_a_pod_set_for_each_replicated_job_and_starts_and_stops() -> None:
    scene = Scene()
    scene.flavor()
    scene.create(job_set(), JOBSETS)
    scene.settle()
    sets = scene.workload()["spec"]["podSets"]
    assert [(one["name"], one["count"]) for one in sets] == [("driver", 2), ("workers", 6)]
    before = scene.job("s", JOBSETS)["spec"]["replicatedJobs"]
    scene.admit()
    scene.settle()
    spec = scene.job("s", JOBSETS)["spec"]
    assert spec["suspend"] is False
    templates = [one["template"]["spec"]["template"] for one in spec["replicatedJobs"]]
    assert [one["spec"]["nodeSelector"] for one in templates] == [{"pool": "general"}] * 2
    assert [one["metadata"]["labels"]["kueue.x-k8s.io/podset"] for one in templates] == ["driver", "workers"]
    scene.evict()
    scene.settle()
    spec = scene.job("s", JOBSETS)["spec"]
    assert spec["suspend"] is True
    restored = [one["template"]["spec"]["template"]["spec"] for one in spec["replicatedJobs"]]
    assert restored == [one["template"]["spec"]["template"]["spec"] for one in before]
    assert not is_true(scene.workload(), "QuotaReserved")


def child(name: str, owner: Json, *, queue: str = "", kind: str = "JobSet") -> Json:
    made = job(name, queue=queue, suspend=False)
    if not queue:
        made["metadata"]["labels"] = {}
    reference = {
        "apiVersion": JOBSETS.api_version,
        "kind": kind,
        "name": meta(owner)["name"],
        "uid": meta(owner)["uid"],
    }
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made


@pytest.mark.parametrize("queue", ["", QUEUE])
def test_a_job_of_a_job_set_waits_for_it_and_gets_no_workload(queue: str) -> None:
    scene = Scene()
    scene.flavor()
    owner = scene.create(job_set(), JOBSETS)
    scene.settle()
    scene.create(child("s-0", owner, queue=queue))
    scene.settle()
    assert scene.job("s-0")["spec"]["suspend"] is True
    assert ("Suspended", "Kueue managed child job suspended") in scene.events()
    scene.admit()
    scene.settle()
    patch(scene, {"spec": {"suspend": False}}, name="s-0")
    scene.settle()
    assert scene.job("s-0")["spec"]["suspend"] is False
    assert len(scene.workloads()) == 1


def test_a_job_whose_owner_is_seen_after_it_waits_a_moment_for_that() -> None:
    scene = Scene()
    made = scene.create(job_set(), JOBSETS)
    held, scene.store.list = scene.store.list, lambda kind, *rest: ([], "0") if kind == JOBSETS else held(kind, *rest)
    scene.create(child("s-0", made, queue=QUEUE))
    scene.settle()
    assert scene.wake is not None
    assert scene.workloads() == []
    scene.store.list = held
    scene.settle()
    assert [meta(one)["ownerReferences"][0]["name"] for one in scene.workloads()] == ["s"]


# --- Workloads that are there before their jobs ---


def prebuilt(scene: Scene, like: Json, name: str = "ready-made") -> Json:
    return scene.store.create(WORKLOADS, {"metadata": {"namespace": NS, "name": name}, "spec": like["spec"]})


def test_a_job_takes_the_workload_that_it_names() -> None:
    source = waiting()
    scene = Scene()
    scene.flavor()
    made = job()
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "ready-made"}
    scene.create(made)
    scene.settle()
    assert scene.workloads() == []
    prebuilt(scene, source.workload())
    scene.settle()
    (owner,) = meta(scene.workload())["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Job", "a")
    scene.admit()
    scene.settle()
    assert scene.job()["spec"]["suspend"] is False
    assert scene.replayed().index.states == scene.controller.index.states


def test_other_owners_of_a_named_workload_stay() -> None:
    source = waiting()
    scene = Scene()
    made = job()
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "ready-made"}
    scene.create(made)
    another = job("z")
    another["metadata"]["labels"] = {}
    uid = meta(scene.create(another))["uid"]
    other = {"apiVersion": "batch/v1", "kind": "Job", "name": "z", "uid": uid}
    head = {"namespace": NS, "name": "ready-made", "ownerReferences": [other]}
    scene.store.create(WORKLOADS, {"metadata": head, "spec": source.workload()["spec"]})
    scene.settle()
    assert [one["name"] for one in meta(scene.workload())["ownerReferences"]] == ["z", "a"]


def test_a_named_workload_that_asks_for_something_else_is_finished() -> None:
    source = waiting(parallelism=1)
    scene = Scene()
    made = job()
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "ready-made"}
    scene.create(made)
    prebuilt(scene, source.workload())
    scene.settle()
    finished = condition(scene.workload(), "Finished")
    assert finished is not None
    assert (finished["reason"], finished["message"]) == (
        "OutOfSync",
        "The prebuilt workload is out of sync with its user job",
    )


# --- bad input ---


def test_what_cannot_be_composed_is_told_and_the_others_go_on() -> None:
    scene = Scene()
    template = pod_template()
    template["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-unconstrained-topology": "perhaps"}}
    scene.create(job(template=template))
    scene.create(job("b"))
    scene.settle()
    assert len(scene.workloads()) == 1
    (said,) = [note for reason, note in scene.events() if reason == "ErrWorkloadCompose"]
    assert "perhaps" in said


def test_an_object_that_does_not_fit_its_api_is_refused_and_what_was_known_counts_on() -> None:
    scene = running()
    flavor = scene.store.get(RESOURCE_FLAVORS, "", "default-flavor")
    flavor["spec"] = {"nodeLabels": ["no", "map"]}
    flavor["metadata"]["resourceVersion"] = "99999"
    from controlplane.controllers.connectivity.events import MANAGEMENT
    from controlplane.runtime.controller import ObjectChange

    new = scene.controller.observe(
        ObjectChange(MANAGEMENT, "i", RESOURCE_FLAVORS, flavor, "99999", False), scene.clock.now()
    )
    assert new is not None
    scene.record(new)
    (refused,) = scene.decided(events.JobInputRefused)
    assert (refused.name, refused.field) == ("default-flavor", "spec.nodeLabels")
    assert scene.controller.index.catalog.flavors["default-flavor"].node_labels == {"pool": "general"}
