"""An installation in which all is well, as facts: what a test then changes is what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.doctor.facts import (
    ClusterFacts,
    DatabaseFacts,
    Facts,
    Lead,
    Login,
    OldVersions,
    QueueFacts,
    Server,
    Standbys,
)
from controlplane.doctor.rights import NeededRight
from controlplane.kube.access import AccessRight
from controlplane.kube.kinds import JOBSETS, WORKLOADS, Json

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RIGHT = NeededRight(
    right=AccessRight(group="kueue.x-k8s.io", resource="workloads/status", verb="patch"),
    manifest="deploy/rbac/management/clusterrole.yaml",
)
NAME = "kueue.x-k8s.io/multikueue"
ACTIVE = {"conditions": [{"type": "Active", "status": "True"}]}
INACTIVE = {"conditions": [{"type": "Active", "status": "False", "reason": "Broken", "message": "of no use"}]}

put = msgspec.structs.replace


def obj(name: str, namespace: str = "", **more: Any) -> Json:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **more}


def check(config: str = "config", controller: str = NAME, status: Json = ACTIVE) -> Json:
    spec = {"controllerName": controller, "parameters": {"kind": "MultiKueueConfig", "name": config}}
    return obj("check", spec=spec, status=status)


def config(*clusters: str) -> Json:
    return obj("config", spec={"clusters": list(clusters)})


def cluster_queue(*checks: str, status: Json = ACTIVE) -> Json:
    rules = [{"name": one} for one in checks]
    return obj("cq", spec={"admissionChecksStrategy": {"admissionChecks": rules}}, status=status)


def local_queue(target: str = "cq", name: str = "lq") -> Json:
    return obj(name, "default", spec={"clusterQueue": target})


def mk_cluster(name: str, status: Json = ACTIVE, *writers: tuple[str, str]) -> Json:
    fields = [{"manager": manager, "subresource": "status", "time": at} for manager, at in writers]
    found = obj(name, status=status)
    found["metadata"]["managedFields"] = fields or [
        {"manager": "controlplane", "subresource": "status", "time": "2026-03-01T10:00:00Z"}
    ]
    return found


def cluster(identity: str, **more: Any) -> ClusterFacts:
    found = ClusterFacts(
        version="v1.33.0",
        clock=(NOW, NOW),
        identity=identity,
        served={WORKLOADS: True, JOBSETS: True},
        rights=[(RIGHT, True)],
        local_queues=[local_queue()],
    )
    return put(found, **more)


def database(**more: Any) -> DatabaseFacts:
    found = DatabaseFacts(
        no_room="",
        encrypted=True,
        server=Server(
            version=160003,
            standby=False,
            read_only=False,
            settings={"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"},
            clock=(NOW, NOW),
        ),
        standbys=Standbys(),
        old_versions=OldVersions(count=12, holder="somebody, process 7", seconds=2.0),
        revision="0015",
        login=Login(user="controlplane_service"),
        lead=Lead(log="main", log_id="id", position=7, epoch=3, holder="replica-1", age=0.4),
        connections={
            MANAGEMENT: Connection(name=MANAGEMENT, phase="Connected", incarnation="uid-home"),
            "a": Connection(name="a", phase="Connected", incarnation="uid-a"),
            "b": Connection(name="b", phase="Connected", incarnation="uid-b"),
        },
        unknown_copies={},
    )
    return put(found, **more)


def queues(**more: Any) -> QueueFacts:
    found = QueueFacts(
        controller_name=NAME,
        origin="multikueue",
        checks=[check()],
        configs=[config("a", "b")],
        clusters=[mk_cluster("a"), mk_cluster("b")],
        cluster_queues=[cluster_queue("check")],
        local_queues=[local_queue()],
        configuration="featureGates: {MultiKueue: false}",
        arguments=["--zap-log-level=2"],
    )
    return put(found, **more)


def facts(**more: Any) -> Facts:
    ends = NOW + timedelta(days=30)
    found = Facts(
        now=NOW,
        database=database(),
        management=cluster("uid-home"),
        queues=queues(),
        workers={"a": cluster("uid-a", token_ends=ends), "b": cluster("uid-b")},
    )
    return put(found, **more)


def on_a(**more: Any) -> Facts:
    """All is well but on the worker a."""
    return facts(workers={"a": cluster(more.pop("identity", "uid-a"), **more), "b": cluster("uid-b")})
