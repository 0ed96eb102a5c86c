"""What Kueue's job framework asks of each kind that Workloads are made of: pod sets, readiness, what gives its quota
back."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.generic_job import topology_request
from controlplane.kube.fields import BadValue
from controlplane.kube.kinds import Json
from controlplane.kube.pod_templates import containers_digest, stored_template
from controlplane.kube.quantities import canonical_quantity
from tests.job_kinds.rows import ROWS
from tests.support.rows import each

JOB, SET = JOB_KINDS["batch/job"], JOB_KINDS["jobset.x-k8s.io/jobset"]
RECONCILED = [pytest.param(one, id=one.integration) for one in JOB_KINDS.values() if one.reconciled]
KUEUE = "kueue.x-k8s.io/podset-"


def job(status: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"containers": [{"name": "c"}]}}
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"template": template, **spec},
        "status": status or {},
    }


@each("kind", RECONCILED)
def test_pod_sets_have_kueues_names_counts_and_the_label_of_a_pods_index(kind: JobKind) -> None:
    job_ = ROWS[kind.integration].read(kind)
    made = kind.workload_pod_sets(job_)
    assert made
    assert [(one["name"], one["count"]) for one in made] == [
        (one["name"].lower(), one["count"]) for one in kind.pod_sets(job_)
    ]
    assert {one.get("topologyRequest", {}).get("podIndexLabel", "") for one in made} == {kind.index_label}
    for one in made:
        assert all(container["resources"] is not None for container in one["template"]["spec"]["containers"])


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({}, False),
        ({"ready": 2}, False),
        ({"ready": 3}, True),
        ({"ready": 1, "succeeded": 2}, True),
        ({"ready": 1, "succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["x"]}}, True),
    ],
)
def test_a_job_is_ready_with_all_that_run_at_once(status: Json, ready: bool) -> None:
    assert JOB.ready(job(status, parallelism=3)) is ready


@each(
    ("spec", "status", "free"),
    [
        ({"parallelism": 1, "completions": 1}, {"succeeded": 1}, {}),
        ({"parallelism": 3, "completions": 3}, {}, {}),
        ({"parallelism": 3, "completions": 3}, {"succeeded": 2}, {"main": 2}),
        ({"parallelism": 3, "completions": 6}, {"succeeded": 2}, {}),
        ({"parallelism": 3, "completions": 6}, {"succeeded": 5}, {"main": 2}),
        ({"parallelism": 3}, {"succeeded": 1}, {"main": 1}),
        ({"parallelism": 4, "completions": 4, "completionMode": "Indexed"}, {"completedIndexes": "0-2"}, {"main": 3}),
        (
            {"parallelism": 4, "completions": 4, "completionMode": "Indexed"},
            {"completedIndexes": "0,2", "failedIndexes": "1-2", "succeeded": 9},
            {"main": 3},
        ),
        (
            {"parallelism": 2, "completions": 2, "completionMode": "Indexed"},
            {"completedIndexes": "1-900000000,x,5-3"},
            {"main": 1},
        ),
    ],
)
def test_pods_of_a_job_that_will_not_run_again(spec: Json, status: Json, free: dict[str, int]) -> None:
    assert JOB.reclaimable(job(status, **spec)) == free


def test_a_job_set_is_ready_and_gives_back_by_its_jobs() -> None:
    made = ROWS[SET.integration].job()
    replicated = made["spec"]["replicatedJobs"]
    counts = [{"name": one["name"], "ready": int(one.get("replicas", 1)), "succeeded": 0} for one in replicated]
    assert SET.ready({**made, "status": {"replicatedJobsStatus": counts}})
    assert not SET.ready({**made, "status": {"replicatedJobsStatus": counts[1:]}})
    counts[0] |= {"ready": 0, "succeeded": int(replicated[0].get("replicas", 1))}
    pods = {one["name"]: one["count"] for one in SET.workload_pod_sets(made)}
    first = replicated[0]["name"].lower()
    assert SET.reclaimable({**made, "status": {"replicatedJobsStatus": counts}}) == {first: pods[first]}


@each(
    ("annotations", "request_"),
    [
        ({}, {"podIndexLabel": "i"}),
        ({"required-topology": "rack"}, {"required": "rack", "podIndexLabel": "i"}),
        ({"preferred-topology": "rack", "unconstrained-topology": "true"}, {"preferred": "rack", "podIndexLabel": "i"}),
        ({"unconstrained-topology": "T"}, {"unconstrained": True, "podIndexLabel": "i"}),
        (
            {"required-topology": "rack", "slice-required-topology": "host", "slice-size": "2", "group-name": "g"},
            {
                "required": "rack",
                "podSetSliceRequiredTopology": "host",
                "podSetSliceSize": 2,
                "podIndexLabel": "i",
                "podSetGroupName": "g",
            },
        ),
        (
            {"slice-required-topology-constraints": '[{"topology": "rack", "size": 2}]'},
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}], "podIndexLabel": "i"},
        ),
    ],
)
def test_what_a_template_asks_of_topology(annotations: dict[str, str], request_: Json) -> None:
    template = {"metadata": {"annotations": {f"{KUEUE}{name}": value for name, value in annotations.items()}}}
    assert topology_request(template, "i", "", None) == request_


def test_a_pod_set_without_an_index_asks_for_nothing() -> None:
    assert topology_request({}, "", "", None) == {}


@each(
    "annotations",
    [
        {"unconstrained-topology": "perhaps"},
        {"slice-required-topology": "host", "slice-size": "two"},
        {"slice-required-topology": "host", "slice-size": "99999999999"},
        {"slice-required-topology-constraints": "{"},
        {"slice-required-topology-constraints": "[]"},
        {"slice-required-topology-constraints": "[1, 2, 3, 4]"},
    ],
)
def test_annotations_that_say_nothing_are_refused_by_name(annotations: dict[str, str]) -> None:
    template = {"metadata": {"annotations": {f"{KUEUE}{name}": value for name, value in annotations.items()}}}
    with pytest.raises(BadValue, match=r"annotation kueue\.x-k8s\.io/podset-"):
        topology_request(template, "i", "", None)


@each(
    ("found", "written"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1.5Gi", "1536Mi"), ("1024Mi", "1Gi"), ("1024", "1024"), ("2000", "2k"),
        ("1e3", "1e3"), ("0", "0"), ("0Gi", "0"), ("0.5Ki", "512"), ("1.5Ki", "1536"), (2, "2"), ("100u", "100u"),
        ("-1500m", "-1500m"), ("5E", "5E"),
    ],
)  # fmt: skip
def test_quantities_are_written_as_an_api_server_writes_them(found: str | int, written: str) -> None:
    assert canonical_quantity(found) == written


def test_a_template_is_stored_as_gos_types_write_it() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]
    container = {"name": "c", "args": [], "env": env, "resources": {"requests": {"cpu": "1000m"}, "limits": {}}}
    template = {
        "metadata": {"creationTimestamp": None, "labels": {}},
        "spec": {
            "containers": [container, {"name": "d", "env": []}],
            "nodeSelector": {},
            "tolerations": [],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}, {"name": "w", "emptyDir": {}}],
            "overhead": {"cpu": "0.25"},
        },
    }
    assert stored_template(template) == {
        "metadata": {},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "env": [{"name": "A", "value": "2"}, {"name": "B"}],
                    "resources": {"requests": {"cpu": "1"}},
                },
                {"name": "d", "resources": {}},
            ],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "w", "emptyDir": {}}],
            "overhead": {"cpu": "250m"},
        },
    }
    assert containers_digest(template) == containers_digest(stored_template(template))
