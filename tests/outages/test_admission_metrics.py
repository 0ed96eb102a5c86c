"""Kueue's metrics of the whole service carry the labels of a ClusterQueue and of jobs; another process that leads
reports the same, though no labels are in the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from controlplane.kube.kinds import CLUSTER_QUEUES, JOBS
from controlplane.settings import Settings
from controlplane.settings.custom_metric_labels import CustomLabel
from tests.outages.stage import NS, Stage, settings

Make = Callable[..., Awaitable[Stage]]
LABELS = (
    CustomLabel("team", "ClusterQueue", label_key="team"),
    CustomLabel("stage", "Workload", annotation_key="example.com/stage", tracked_values=("train",)),
)


def labelled() -> Settings:
    found = settings(lost=3600)
    metrics = msgspec.structs.replace(found.quota.metrics, custom_labels=LABELS)
    return msgspec.structs.replace(found, quota=msgspec.structs.replace(found.quota, mode="builtin", metrics=metrics))


def submit(on: Stage, name: str, stage: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    metadata = {
        "namespace": NS,
        "name": name,
        "labels": {"kueue.x-k8s.io/queue-name": "user-queue"},
        "annotations": {"example.com/stage": stage},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "parallelism": 1, "template": {"spec": pod}}
    on.manager.store.create(JOBS, {"metadata": metadata, "spec": spec}, field_manager="user")


def team(on: Stage, name: str) -> None:
    queue = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    queue["metadata"]["labels"] = {"team": name}
    on.manager.store.update(CLUSTER_QUEUES, queue)


def read(on: Stage, metric: str, **labels: str) -> float | None:
    everywhere = {"cluster_queue": "cluster-queue", "replica_role": "leader"}
    return on.replica.metrics.registry.get_sample_value(f"kueue_{metric}", {**everywhere, **labels})


async def test_whoever_leads_reports_the_labels_of_queues_and_jobs(stage: Make) -> None:
    on = await stage("a", settings=labelled(), manager_is={"kueue": False})
    team(on, "blue")
    submit(on, "first", "train")
    blue = {"custom_team": "blue", "custom_stage": "train"}
    await on.until(lambda: read(on, "admitted_active_workloads", **blue) == 1, "the first is admitted")
    assert read(on, "admitted_workloads_total", priority_class="", custom_team="blue") == 1
    await on.kill()
    await on.up()
    await on.until(lambda: read(on, "admitted_active_workloads", **blue) == 1, "another process says so too")
    team(on, "red")
    red = {"custom_team": "red", "custom_stage": "train"}
    await on.until(lambda: read(on, "admitted_active_workloads", **red) == 1, "the ClusterQueue has another team")
    assert read(on, "admitted_active_workloads", **blue) is None
