"""The labels and annotations of a job that its Workload gets (`quota.labelKeysToCopy`,
`quota.metrics.customLabels`)."""

from __future__ import annotations

import pytest

from controlplane.controllers.jobframework.hosting import policy_of
from controlplane.kube.kinds import PODS, meta
from controlplane.settings.custom_metric_labels import CustomLabel
from controlplane.settings.model import Settings
from controlplane.settings.quota import QuotaSettings
from controlplane.settings.quota_metrics import QuotaMetricsSettings
from tests.jobframework.scene import Scene, job
from tests.jobframework.set_scene import GROUPS, made
from tests.jobframework.single import pod
from tests.jobframework.test_pod_groups import member

TEAM, COST = "example.com/team", "cost"
UID = "kueue.x-k8s.io/job-uid"


def test_the_workload_of_a_job_gets_the_labels_that_are_named() -> None:
    scene = Scene(label_keys=(TEAM, COST))
    scene.create(job(labels={TEAM: "a", "other": "b"}))
    scene.settle()
    labels = meta(scene.workload())["labels"]
    assert labels == {TEAM: "a", UID: meta(scene.job())["uid"]}


def test_so_does_that_of_a_pod() -> None:
    scene = Scene(label_keys=(TEAM,))
    scene.create(pod("p", labels={TEAM: "a"}), PODS)
    scene.settle()
    assert meta(scene.workload())["labels"][TEAM] == "a"


@pytest.mark.parametrize(("other", "expected"), [({}, {TEAM: "a"}), ({COST: "1"}, {TEAM: "a", COST: "1"})])
def test_the_workload_of_a_group_gets_those_on_which_its_pods_agree(
    other: dict[str, str], expected: dict[str, str]
) -> None:
    scene = Scene(label_keys=(TEAM, COST))
    for name, labels in (("a", {TEAM: "a"}), ("b", {"x": "y", **other})):
        scene.create(member(name, labels=labels), PODS)
    scene.settle()
    assert meta(scene.workload())["labels"] == expected


def test_pods_that_disagree_get_none_and_are_told_so() -> None:
    scene = Scene(label_keys=(TEAM,))
    for name in ("a", "b"):
        scene.create(member(name, labels={TEAM: name}), PODS)
    scene.settle()
    assert scene.workloads() == []
    assert ("ErrWorkloadCompose", "constructing workload: pods have different label values") in scene.events()


def test_the_workload_of_a_job_gets_the_annotations_that_the_metrics_report() -> None:
    scene = Scene(annotation_keys=(TEAM, COST))
    made = job()
    made["metadata"]["annotations"] = {TEAM: "a", "other": "b"}
    scene.create(made)
    scene.settle()
    assert meta(scene.workload())["annotations"] == {TEAM: "a"}


def test_so_does_that_of_a_group_if_its_pods_agree() -> None:
    scene = Scene(annotation_keys=(TEAM, COST))
    for name, notes in (("a", {TEAM: "x"}), ("b", {TEAM: "x", COST: "1", "other": "y"})):
        scene.create(member(name, annotations=notes), PODS)
    scene.settle()
    notes = meta(scene.workload())["annotations"]
    assert (notes[TEAM], notes[COST], notes.get("other")) == ("x", "1", None)


def test_pods_whose_annotations_disagree_get_no_workload_and_are_told_so() -> None:
    scene = Scene(annotation_keys=(TEAM,))
    for name in ("a", "b"):
        scene.create(member(name, annotations={TEAM: name}), PODS)
    scene.settle()
    assert scene.workloads() == []
    assert ("ErrWorkloadCompose", "constructing workload: pods have different annotation values") in scene.events()


def test_what_the_metrics_report_of_workloads_they_get_from_their_jobs() -> None:
    labels = (
        CustomLabel("team", "Workload", label_key=TEAM, tracked_values=("a",)),
        CustomLabel("cost", "Workload", annotation_key=COST, tracked_values=("1",)),
        CustomLabel("queue", "ClusterQueue", label_key="queue"),
    )
    metrics = QuotaMetricsSettings(custom_labels=labels)
    policy = policy_of(Settings(quota=QuotaSettings(label_keys_to_copy=(UID, TEAM), metrics=metrics)))
    assert (policy.label_keys, policy.annotation_keys) == ((UID, TEAM), (COST,))


def test_the_workloads_of_a_set_get_its_labels_and_annotations() -> None:
    scene = Scene(label_keys=(TEAM,), annotation_keys=(COST,))
    owner = made(GROUPS, labels={TEAM: "a"})
    owner["metadata"]["annotations"] = {**owner["metadata"].get("annotations", {}), COST: "1", "other": "b"}
    scene.create(owner, GROUPS.kind)
    scene.settle()
    found = [meta(one) for one in scene.workloads()]
    assert found
    assert {(one["labels"][TEAM], one["annotations"][COST], "other" in one["annotations"]) for one in found} == {
        ("a", "1", False)
    }
