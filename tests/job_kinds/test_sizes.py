"""How a copy of an elastic job gets the size of the user's job, or of its Workload."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.job_kinds.batch_job import BatchJob
from controlplane.job_kinds.ray import RayCluster


def groups(**sizes: tuple[int, int | None]) -> list[dict[str, Any]]:
    return [
        {"groupName": name, "image": "copy's own", "replicas": replicas, **({"numOfHosts": hosts} if hosts else {})}
        for name, (replicas, hosts) in sizes.items()
    ]


def test_a_job_has_the_parallelism_of_its_pod_set() -> None:
    spec = {"parallelism": 2, "completions": 9}
    assert BatchJob().of_size(spec, {"main": 5}) == {"parallelism": 5, "completions": 9}
    assert BatchJob().of_size(spec, {"other": 5}) == spec


def test_a_ray_cluster_s_groups_have_the_replicas_that_make_the_pods() -> None:
    spec = {"headGroupSpec": {}, "workerGroupSpecs": groups(Small=(1, None), slices=(1, 4), left=(3, None))}
    found = RayCluster().of_size(spec, {"head": 1, "small": 6, "slices": 8})
    assert found == {"headGroupSpec": {}, "workerGroupSpecs": groups(Small=(6, None), slices=(2, 4), left=(3, None))}
    assert RayCluster().of_size({"headGroupSpec": {}}, {"head": 1}) == {"headGroupSpec": {}}


@pytest.mark.parametrize(
    ("wanted", "becomes"),
    [
        (groups(a=(5, None), b=(1, None)), groups(a=(5, None), b=(1, None))),
        (groups(a=(5, 2), b=(1, None)), groups(a=(5, 2), b=(1, None))),
        (groups(a=(5, None)), groups(a=(5, None), b=(2, 4))),  # one that the user's has no more stays as it is
        ([{"groupName": "a"}], [{"groupName": "a", "image": "copy's own"}, *groups(b=(2, 4))]),  # KubeRay's default
    ],
)
def test_a_ray_cluster_is_resized_as_a_whole_and_keeps_all_else_of_the_copy(
    wanted: list[dict[str, Any]], becomes: list[dict[str, Any]]
) -> None:
    part = RayCluster().sized({"headGroupSpec": {}, "workerGroupSpecs": groups(a=(1, None), b=(2, 4))})
    users = [{**group, "image": "the user's"} for group in wanted]
    assert RayCluster().resized(part, {"spec": {"workerGroupSpecs": users}}) == {"workerGroupSpecs": becomes}
