"""Configuration that was deleted and made again under its name while nobody watched: a list shows the new object before
it says that the old one is gone, and the new one stays known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.log.event import Event, NewEvent
from tests.audit.script import POLICY, Script
from tests.support.rows import each

IDENTITY = {"name": "one", "resource_version": "9"}
Row = tuple[str, Event, type[observations.ObjectGone], Callable[[WorkloadIndex], Any]]
ROWS: dict[str, Row] = {
    "AdmissionCheck": (
        "admissioncheck/one",
        observations.AdmissionCheckObserved(
            **IDENTITY, uid="new", controller_name=POLICY.controller_name, parameters={"name": "config"}
        ),
        observations.AdmissionCheckGone,
        lambda index: index.checks.get("one"),
    ),
    "MultiKueueConfig": (
        "multikueueconfig/one",
        observations.MultiKueueConfigObserved(**IDENTITY, uid="new", clusters=["a"]),
        observations.MultiKueueConfigGone,
        lambda index: index.configs.get("one"),
    ),
    "MultiKueueCluster": (
        "cluster/one",
        observations.MultiKueueClusterObserved(**IDENTITY, uid="new", location="one"),
        observations.MultiKueueClusterGone,
        lambda index: index.clusters.get("one"),
    ),
    "ClusterQueue": (
        "clusterqueue/one",
        observations.ClusterQueueObserved(**IDENTITY, uid="new"),
        observations.ClusterQueueGone,
        lambda index: index.queues.get("one"),
    ),
    "LocalQueue": (
        "localqueue/ns/one",
        observations.LocalQueueObserved(**IDENTITY, namespace="ns", uid="new"),
        observations.LocalQueueGone,
        lambda index: index.local_queues.get("localqueue/ns/one"),
    ),
}


@each("row", ROWS.values(), ids=ROWS)
def test_what_is_gone_is_so_by_its_uid(row: Row) -> None:
    stream, seen, gone, known = row
    script = Script("a")
    namespace = getattr(seen, "namespace", "")
    script.put(NewEvent(stream=stream, event=seen))
    script.put(NewEvent(stream=stream, event=gone(namespace=namespace, name="one", uid="old")))
    assert known(script.fleet.index) == seen
    script.put(NewEvent(stream=stream, event=gone(namespace=namespace, name="one", uid="new")))
    assert known(script.fleet.index) is None
