"""The labels of a job that its Workload gets (`quota.labelKeysToCopy`)."""

from __future__ import annotations

import pytest

from controlplane.kube.kinds import PODS, meta
from tests.jobframework.scene import Scene, job
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
