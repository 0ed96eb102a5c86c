"""Objects that do not fit are refused by the field that is wrong, and what never gets into an event."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from controlplane.controllers.multikueue.observations import ObservationRefused, RemoteJobGone
from controlplane.kube.kinds import (
    ADMISSION_CHECKS,
    JOBS,
    JOBSETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    SECRETS,
    WORKLOADS,
    Json,
    Kind,
)
from controlplane.log.event import NewEvent, canonical
from tests.multikueue.observed import HOME, PREBUILT, job, metadata, observe, remote_job, sighting, workload
from tests.multikueue.scene import NS, START, WL, Scene
from tests.support.rows import each

# --- what is refused -------------------------------------------------------------------------------------------------


def bent(obj: Json, path: str, value: Any) -> Json:
    """The object with one field set, by its path."""
    obj = copy.deepcopy(obj)
    *way, last = path.split(".")
    place: Any = obj
    for step in way:
        place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
    place[int(last) if last.isdigit() else last] = value
    return obj


@each(
    ("path", "value", "field"),
    [
        ("spec", "text", "spec"),
        ("status", [], "status"),
        ("status.conditions", {}, "status.conditions"),
        ("status.conditions.0", "True", "status.conditions"),
        ("status.conditions.0.type", 1, "status.conditions[].type"),
        ("status.conditions.0.status", True, "status.conditions[].status"),
        ("status.admissionChecks", "Ready", "status.admissionChecks"),
        ("status.admissionChecks.0.retryCount", "2", "status.admissionChecks[].retryCount"),
        ("status.clusterName", 5, "status.clusterName"),
        ("status.nominatedClusterNames", "a", "status.nominatedClusterNames"),
        ("status.nominatedClusterNames", [1], "status.nominatedClusterNames"),
        ("spec.queueName", [], "spec.queueName"),
        ("spec.priority", "high", "spec.priority"),
        ("metadata.uid", "", "metadata.uid"),
        ("metadata.generation", "3", "metadata.generation"),
        ("metadata.ownerReferences", {}, "metadata.ownerReferences"),
    ],
)
def test_a_workload_that_does_not_fit_is_refused_by_its_field(path: str, value: Any, field: str) -> None:
    obj = bent(workload(), path, value)
    new = observe(HOME, WORKLOADS, obj)
    event = new.event
    assert isinstance(event, ObservationRefused)
    assert event.field == field
    assert event.field in event.error
    assert (event.namespace, event.name, event.kind) == (NS, WL, WORKLOADS.name)
    assert new.stream == f"refused/{HOME}/{WORKLOADS.name}/{NS}/{WL}"
    (body,) = new.bodies
    assert body.ref == event.object
    assert body.text.encode() == canonical(obj)


@each("cluster", [HOME, "a"])
@each("kind", [JOBS, JOBSETS])
@each(
    ("path", "value", "field"),
    [
        ("spec", ["x"], "spec"),
        ("status", "x", "status"),
        ("status.conditions", "x", "status.conditions"),
        ("status.conditions.0", "x", "status.conditions"),
        ("metadata.annotations", [], "annotations"),
    ],
)
def test_a_job_that_does_not_fit_is_refused_by_its_field(
    cluster: str, kind: Kind, path: str, value: Any, field: str
) -> None:
    obj = bent(remote_job(kind=kind.kind, apiVersion=kind.api_version), path, value)
    event = observe(cluster, kind, obj).event
    assert isinstance(event, ObservationRefused)
    assert event.field.endswith(field)


@each(
    ("kind", "path", "value", "field"),
    [
        (ADMISSION_CHECKS, "spec.controllerName", 1, "spec.controllerName"),
        (ADMISSION_CHECKS, "spec.parameters", "x", "parameters"),
        (ADMISSION_CHECKS, "spec.parameters", {"name": 1}, "spec.parameters.name"),
        (MULTIKUEUE_CONFIGS, "spec.clusters", [1], "spec.clusters"),
        (MULTIKUEUE_CLUSTERS, "spec.clusterSource", "x", "clusterSource"),
        (
            MULTIKUEUE_CLUSTERS,
            "spec.clusterSource.kubeConfig",
            {"location": 1},
            "spec.clusterSource.kubeConfig.location",
        ),
    ],
)
def test_configuration_that_does_not_fit_is_refused_by_its_field(kind: Kind, path: str, value: Any, field: str) -> None:
    obj = bent({"metadata": {"name": "x", "uid": "u"}}, path, value)
    event = observe(HOME, kind, obj).event
    assert isinstance(event, ObservationRefused)
    assert event.field == field


def test_a_jobs_copy_that_names_no_workload_is_refused() -> None:
    event = observe("a", JOBS, job()).event
    assert isinstance(event, ObservationRefused)
    assert PREBUILT in event.field


def test_a_refused_object_does_not_stop_its_stream() -> None:
    scene = Scene("a").reserved()
    new = observe(HOME, WORKLOADS, bent(workload(), "status.conditions", 1), scene=scene)
    scene.fold(new.stream, new.event)
    assert scene.names() == ["Nomination", "Clone a"]


# --- what never gets in ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [HOME, "a"])
@pytest.mark.parametrize("gone", [False, True])
def test_secrets_are_never_recorded(cluster: str, gone: bool) -> None:
    secret = {"metadata": metadata("a-kubeconfig"), "data": {"kubeconfig": "c2VjcmV0"}}
    assert Scene("a").fleet.observe(sighting(cluster, SECRETS, secret, gone=gone), START) is None


def test_a_workers_own_configuration_concerns_nobody() -> None:
    obj = {"metadata": metadata("config"), "spec": {"clusters": ["x"]}}
    assert Scene("a").fleet.observe(sighting("a", MULTIKUEUE_CONFIGS, obj), START) is None


def test_managed_fields_and_what_kueue_does_not_apply_are_not_kept() -> None:
    obj = workload()
    obj["metadata"]["managedFields"] = [{"manager": "needle"}]
    obj["status"]["reclaimablePods"] = [{"name": "needle", "count": 1}]
    new: NewEvent = observe(HOME, WORKLOADS, obj)
    assert b"needle" not in msgspec.json.encode(new.event)
    assert not any("needle" in body.text for body in new.bodies)


@pytest.mark.parametrize(
    ("clusters", "why"),
    [
        ([f"c{n}" for n in range(21)], "spec.clusters: 21 clusters, and a Workload can be nominated to 20"),
        (["c1", "c2", "c1"], 'spec.clusters: names "c1" twice'),
    ],
)
def test_clusters_that_kueue_does_not_allow_are_refused(clusters: list[str], why: str) -> None:
    """A Workload cannot be nominated to them, so that its nomination would be refused for ever."""
    obj = {"metadata": {"name": "config", "uid": "u", "resourceVersion": "7"}, "spec": {"clusters": clusters}}
    event = observe(HOME, MULTIKUEUE_CONFIGS, obj).event
    assert isinstance(event, ObservationRefused)
    assert (event.field, event.error) == ("spec.clusters", why)


def test_as_many_clusters_as_kueue_allows_are_taken() -> None:
    clusters = [f"c{n}" for n in range(20)]
    obj = {"metadata": {"name": "config", "uid": "u", "resourceVersion": "7"}, "spec": {"clusters": clusters}}
    assert observe(HOME, MULTIKUEUE_CONFIGS, obj).event.clusters == clusters


def test_a_copy_that_names_no_workload_and_is_gone_before_its_refusal_is_folded_is_seen_to_be_gone() -> None:
    scene = Scene("a")
    obj = remote_job()
    obj["metadata"] = metadata(labels={"kueue.x-k8s.io/multikueue-origin": "multikueue"})
    refused = observe("a", JOBS, obj, scene=scene)
    gone = observe("a", JOBS, obj, scene=scene, gone=True)
    assert isinstance(refused.event, ObservationRefused)
    assert isinstance(gone.event, RemoteJobGone)
    assert gone.stream == refused.stream
    for new in (refused, gone):
        scene.fold(new.stream, new.event, "a")
    assert not list(scene.fleet.index.unread.seen("a", JOBS.name))
