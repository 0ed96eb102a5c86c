"""When the job framework is hosted, for which kinds, and what it watches."""

from __future__ import annotations

import msgspec
import pytest

from controlplane.app.hosted import HostedControllers
from controlplane.controllers.jobframework import hosting
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.kinds import (
    JOBS,
    JOBSETS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from controlplane.settings import Settings

replace = msgspec.structs.replace


def settings(mode: str, *kinds: str, pods_ready: str = "no") -> Settings:
    made = Settings()
    return replace(
        made,
        quota=replace(made.quota, mode=mode, pods_ready=pods_ready),
        multikueue=replace(made.multikueue, kinds=kinds or made.multikueue.kinds),
        leader=replace(made.leader, identity="test"),
    )


def test_it_is_hosted_only_where_this_service_decides_on_quota() -> None:
    assert hosting.host(settings("kueue")) == ()
    assert HostedControllers(settings("kueue")).jobs is None
    (found,) = hosting.host(settings("builtin"))
    watched = {spec.kind for spec in found.home}
    assert watched == {WORKLOADS, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES, PRIORITY_CLASSES, JOBS, JOBSETS}
    assert found.workers == ()
    assert HostedControllers(settings("builtin")).jobs is not None


def test_of_pods_those_alone_are_watched_that_name_a_queue() -> None:
    (found,) = hosting.host(settings("builtin", "batch/job", "pod"))
    assert [spec.label_selector for spec in found.home if spec.kind == PODS] == ["kueue.x-k8s.io/queue-name"]


@pytest.mark.parametrize("pods_ready", ["yes", "no"])
def test_kinds_that_no_workload_is_made_of_are_left_out(pods_ready: str) -> None:
    policy = hosting.policy_of(settings("builtin", *JOB_KINDS, pods_ready=pods_ready))
    assert {one.integration for one in policy.adapters.values()} == {
        "batch/job",
        "jobset.x-k8s.io/jobset",
        "kubeflow.org/jaxjob",
        "kubeflow.org/mpijob",
        "kubeflow.org/paddlejob",
        "kubeflow.org/pytorchjob",
        "kubeflow.org/tfjob",
        "sparkoperator.k8s.io/sparkapplication",
        "trainer.kubeflow.org/trainjob",
        "kubeflow.org/xgboostjob",
        "pod",
        "ray.io/raycluster",
        "ray.io/rayjob",
        "ray.io/rayservice",
        "workload.codeflare.dev/appwrapper",
    }
    assert policy.pods_ready is (pods_ready == "yes")
