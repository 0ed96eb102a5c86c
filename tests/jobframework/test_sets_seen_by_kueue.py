"""The template of a StatefulSet that Kueue's webhook has seen says who its pods wait for, and names no queue: Kueue
gives that to the pods when they are there (kubernetes-sigs/kueue
pkg/controller/jobs/statefulset/statefulset_webhook.go, from 0.17 on). Where this service takes Kueue's place, the pods
that such a set makes anew get the queue when they are created, and wait with the others."""

from __future__ import annotations

from controlplane.controllers.jobframework.admission import Defaults, created_as
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.kinds import PODS, WORKLOAD_PRIORITY_CLASSES, Json, meta
from controlplane.kube.kueue_names import PRIORITY_CLASS, QUEUE_LABEL
from tests.jobframework.scene import QUEUE, Scene
from tests.jobframework.set_scene import STATEFUL_SET, gates, owner_of, pod_of, waiting, workload
from tests.jobframework.test_jobs_admission import ALL, review
from tests.jobframework.test_pod_groups import names


def by_kueue(scene: Scene, number: int = 0) -> Json:
    """A pod of the set's, of the template that Kueue's webhook leaves."""
    pod = pod_of(owner_of(scene, STATEFUL_SET), STATEFUL_SET, number=number)
    labels = {name: value for name, value in meta(pod)["labels"].items() if name not in (QUEUE_LABEL, PRIORITY_CLASS)}
    spec = {name: value for name, value in pod["spec"].items() if name != "schedulingGates"}
    return {**pod, "metadata": {**meta(pod), "labels": labels}, "spec": spec}


def created(scene: Scene, pod: Json) -> Json | None:
    defaults = Defaults(of_set=scene.controller.index.sets.labels_for)
    return created_as(review(JOB_KINDS["pod"], pod), ALL, lambda *_: True, defaults)


def test_its_pods_get_its_queue_and_wait_with_the_others() -> None:
    scene = waiting(STATEFUL_SET, replicas=2, labels={PRIORITY_CLASS: "high"})
    scene.store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 5})
    scene.settle()
    for number in (0, 1):
        made = created(scene, by_kueue(scene, number))
        assert made is not None
        assert (meta(made)["labels"][QUEUE_LABEL], meta(made)["labels"][PRIORITY_CLASS]) == (QUEUE, "high")
        scene.create(made, PODS)
    scene.settle()
    assert all("kueue.x-k8s.io/admission" in gates(scene, name) for name in names(scene))
    assert len([one for one in meta(workload(scene, STATEFUL_SET))["ownerReferences"] if one["kind"] == "Pod"]) == 2


def test_a_queue_that_a_pod_names_is_its_own() -> None:
    scene = waiting(STATEFUL_SET)
    pod = by_kueue(scene)
    made = created(scene, {**pod, "metadata": {**meta(pod), "labels": {QUEUE_LABEL: "another"}}})
    assert made is not None
    assert meta(made)["labels"][QUEUE_LABEL] == "another"


def test_a_set_that_was_not_seen_gives_none() -> None:
    scene = waiting(STATEFUL_SET)
    pod = by_kueue(scene)
    (owner,) = meta(pod)["ownerReferences"]
    made = created(scene, {**pod, "metadata": {**meta(pod), "ownerReferences": [{**owner, "uid": "an earlier one"}]}})
    assert made is not None, "it waits all the same"
    assert QUEUE_LABEL not in meta(made)["labels"]
