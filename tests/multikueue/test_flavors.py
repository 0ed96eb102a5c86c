"""Clusters are scored by what is left of the quota behind the Workload's LocalQueue there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.app.hosted import HostedControllers
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue import observations, worker_queues
from controlplane.controllers.multikueue.flavors import CLUSTER_QUEUE, LOCAL_QUEUE, WorkerQueues
from controlplane.controllers.multikueue.nominate import SCORED
from controlplane.controllers.multikueue.scoring import ScoringRules
from controlplane.controllers.multikueue.worker_queues import WorkerFlavor, WorkerResourceGroup
from controlplane.kube.kinds import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS, Json
from controlplane.log.event import Recorded
from controlplane.settings import Settings
from controlplane.settings.multikueue import MultiKueue
from controlplane.settings.scoring import Scoring as Rules
from tests.multikueue.observed import metadata, sighting, workload
from tests.multikueue.scene import NS, START, Scene
from tests.multikueue.test_scoring import QUIET, said
from tests.support.rows import each

WATCHED = (WORKLOADS, JOBS, CLUSTER_QUEUES, LOCAL_QUEUES)
POLICY: dict[str, Any] = {
    "dispatcher": SCORED,
    "step_size": 1,
    "scoring": ScoringRules(flavors_weight=1, **QUIET),
}
ONE_CPU = {"main": {"cpu": "1"}}


def group(*flavors: tuple[str, dict[str, str]], covered: tuple[str, ...] = ("cpu",)) -> WorkerResourceGroup:
    return WorkerResourceGroup(covered=list(covered), flavors=[WorkerFlavor(name=n, free=free) for n, free in flavors])


def local_queue(cluster: str, name: str = "lq", **fields: Any) -> tuple[str, str, Any]:
    fields.setdefault("cluster_queue", "cq")
    seen = worker_queues.WorkerLocalQueueObserved(
        namespace=NS, name=name, uid=f"lq-{cluster}", resource_version="1", **fields
    )
    return f"{LOCAL_QUEUE}/{cluster}/{NS}/{name}", cluster, seen


def cluster_queue(cluster: str, *groups: WorkerResourceGroup, **fields: Any) -> tuple[str, str, Any]:
    fields.setdefault("groups", list(groups))
    seen = worker_queues.WorkerClusterQueueObserved(name="cq", uid=f"cq-{cluster}", resource_version="1", **fields)
    return f"{CLUSTER_QUEUE}/{cluster}/cq", cluster, seen


def fit(
    *events: tuple[str, str, Any], requests: dict[str, dict[str, str]] | None = None, off: frozenset[str] = frozenset()
) -> tuple[int, str]:
    queues = WorkerQueues()
    for position, (stream, cluster, event) in enumerate(events, 1):
        queues.fold(
            Recorded(
                position=position, stream=stream, version=position, event=event, cluster=cluster, recorded_at=START
            )
        )
    scene = Scene("a")
    scene.workload(queue_name="lq", requests=ONE_CPU if requests is None else requests)
    synced = frozenset(kind.name for kind in WATCHED) - off
    connection = Connection(name="a", phase="Connected", synced=synced)
    assert scene.state.local is not None
    return queues.fit("a", scene.state.local, connection)


SPOT_AND_MORE = (
    group(("spot", {"cpu": "1"}), ("on-demand", {"cpu": "4"})),
    group(("ram", {"memory": "8Gi"}), covered=("memory",)),
)


@each(
    ("requests", "found"),
    [
        (ONE_CPU, (100, "free in cq")),
        ({"main": {"cpu": "3500m", "memory": "8Gi"}}, (100, "free in cq")),
        ({"main": {"cpu": "1"}, "workers": {"cpu": "4"}}, (100, "free in cq")),
        ({"main": {"cpu": "1"}, "workers": {"cpu": "4"}, "more": {"cpu": "1"}}, (0, "0 cpu free in on-demand, 1 asked")),
        ({"main": {"cpu": "1", "memory": "9Gi"}}, (0, "8Gi memory free in ram, 9Gi asked")),
        ({"main": {"cpu": "5"}}, (0, "4 cpu free in on-demand, 5 asked")),
        ({"main": {"example.com/gpu": "1"}}, (0, "no example.com/gpu")),
        ({"main": {"cpu": "1", "example.com/gpu": "0"}}, (100, "free in cq")),
        ({}, (50, "not known")),
    ],
)  # fmt: skip
def test_it_fits_where_every_pod_set_finds_a_flavor(
    requests: dict[str, dict[str, str]], found: tuple[int, str]
) -> None:
    assert fit(local_queue("a"), cluster_queue("a", *SPOT_AND_MORE), requests=requests) == found


def test_what_a_cluster_does_not_say_is_neither_for_nor_against_it() -> None:
    assert fit(local_queue("a"), cluster_queue("a", groups=None)) == (50, "not known")
    full = cluster_queue("a", group(("only", {"cpu": "0"})), borrows=True)
    assert fit(local_queue("a"), full) == (50, "0 cpu free in only, 1 asked, and its cohort may lend")
    for kind in (CLUSTER_QUEUES, LOCAL_QUEUES):
        assert fit(local_queue("a"), full, off=frozenset({kind.name})) == (50, "not known")


def test_a_queue_that_admits_nothing_has_nothing_left() -> None:
    room = group(("only", {"cpu": "9"}))
    assert fit() == (0, f"no LocalQueue {NS}/lq")
    assert fit(local_queue("a", "another")) == (0, f"no LocalQueue {NS}/lq")
    assert fit(local_queue("a")) == (0, "no ClusterQueue cq")
    assert fit(local_queue("a", inactive="it is stopped"), cluster_queue("a", room)) == (0, "it is stopped")
    assert fit(local_queue("a"), cluster_queue("a", room, inactive="it is not active (X)")) == (
        0,
        "it is not active (X)",
    )
    assert fit(local_queue("b"), cluster_queue("b", room)) == (0, f"no LocalQueue {NS}/lq"), "another cluster's"


def test_a_queue_that_is_gone_counts_no_more_and_one_made_again_does() -> None:
    room = group(("only", {"cpu": "9"}))
    stream, cluster, _ = cluster_queue("a")
    old = worker_queues.WorkerClusterQueueGone(name="cq", uid="cq-a")
    assert fit(local_queue("a"), cluster_queue("a", room), (stream, cluster, old)) == (0, "no ClusterQueue cq")
    before = worker_queues.WorkerClusterQueueGone(name="cq", uid="its predecessor")
    assert fit(local_queue("a"), cluster_queue("a", room), (stream, cluster, before)) == (100, "free in cq")


def scored(**policy: Any) -> Scene:
    scene = Scene("a", "b", "c", policy={**POLICY, **policy}, connected=False)
    for name in ("a", "b", "c"):
        scene.connect(name, WATCHED)
    for stream, cluster, event in (
        local_queue("a"),
        local_queue("b"),
        cluster_queue("b", groups=None),
        cluster_queue("a", group(("only", {"cpu": "0"}))),
        local_queue("c"),
        cluster_queue("c", group(("only", {"cpu": "2"}))),
    ):
        scene.fold(stream, event, cluster)
    scene.job()
    return scene


def test_the_one_with_room_is_asked_first_and_the_log_says_why() -> None:
    scene = scored().workload({"QuotaReserved": True}, queue_name="lq", requests=ONE_CPU)
    clusters, found = said(scene)
    assert clusters == ["c"]
    assert [(one.cluster, one.score, one.facts["flavors"]) for one in found.clusters] == [
        ("c", 100, "free in cq"),
        ("b", 50, "not known"),
        ("a", 0, "0 cpu free in only, 1 asked"),
    ]
    assert found.left_out == {}, "a full cluster is asked last, and not left out"


def test_a_weight_of_zero_asks_nobody_for_his_queues() -> None:
    scene = scored(scoring=ScoringRules(**QUIET)).workload({"QuotaReserved": True}, queue_name="lq")
    assert said(scene)[0] == ["a"]
    assert scene.fleet.observe(sighting("a", CLUSTER_QUEUES, SEEN), START) is None


SEEN: Json = {
    "metadata": {"name": "cq", "uid": "u", "resourceVersion": "42"},
    "spec": {
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "only",
                        "resources": [{"name": "cpu", "nominalQuota": 4}, {"name": "memory", "nominalQuota": "1Gi"}],
                    }
                ],
            }
        ],
        "cohortName": "all",
    },
    "status": {
        "conditions": [{"type": "Active", "status": "True"}],
        "pendingWorkloads": 1,
        "flavorsReservation": [
            {"name": "only", "resources": [{"name": "cpu", "total": "1500m"}, {"name": "memory", "total": "2Gi"}]}
        ],
    },
}


def test_a_worker_s_queues_are_recorded_when_what_is_left_changes() -> None:
    scene = Scene("a", policy=POLICY)
    new = scene.fleet.observe(sighting("a", CLUSTER_QUEUES, SEEN), START)
    assert new is not None
    assert (new.stream, new.cluster) == (f"{CLUSTER_QUEUE}/a/cq", "a")
    assert isinstance(new.event, worker_queues.WorkerClusterQueueObserved)
    assert new.event.borrows
    assert new.event.inactive == ""
    assert new.event.groups == [group(("only", {"cpu": "2500m", "memory": "0"}), covered=("cpu", "memory"))]
    later = {**SEEN["metadata"], "resourceVersion": "43"}
    waits = {**SEEN, "metadata": later, "status": {**SEEN["status"], "pendingWorkloads": 7}}
    assert scene.fleet.observe(sighting("a", CLUSTER_QUEUES, waits, rv="43"), START) is None
    empty = {**SEEN, "status": {**SEEN["status"], "flavorsReservation": []}}
    again = scene.fleet.observe(sighting("a", CLUSTER_QUEUES, empty, rv="44"), START)
    assert again is not None
    assert again.event.groups[0].flavors[0].free == {"cpu": "4", "memory": "1Gi"}  # type: ignore[attr-defined]
    gone = scene.fleet.observe(sighting("a", CLUSTER_QUEUES, SEEN, gone=True, rv="45"), START)
    assert gone is not None
    assert isinstance(gone.event, worker_queues.WorkerClusterQueueGone)


@pytest.mark.parametrize(
    ("spec", "status", "inactive"),
    [
        ({}, {}, ""),
        ({"stopPolicy": "None"}, {}, ""),
        ({"stopPolicy": "Hold"}, {}, "it is stopped"),
        ({}, {"conditions": [{"type": "Active", "status": "False", "reason": "Why"}]}, "it is not active (Why)"),
    ],
)
def test_a_local_queue_is_recorded_with_where_it_leads(spec: Json, status: Json, inactive: str) -> None:
    obj = {"metadata": metadata("lq"), "spec": {"clusterQueue": "cq", **spec}, "status": status}
    new = Scene("a", policy=POLICY).fleet.observe(sighting("a", LOCAL_QUEUES, obj), START)
    assert new is not None
    assert new.stream == f"{LOCAL_QUEUE}/a/{NS}/lq"
    assert isinstance(new.event, worker_queues.WorkerLocalQueueObserved)
    assert (new.event.cluster_queue, new.event.inactive) == ("cq", inactive)


@pytest.mark.parametrize(
    "broken", [{"resourceGroups": 7}, {"resourceGroups": [{"flavors": [{"resources": [{"nominalQuota": "x"}]}]}]}]
)
def test_a_queue_that_cannot_be_read_is_refused_by_name(broken: Json) -> None:
    new = Scene("a", policy=POLICY).fleet.observe(sighting("a", CLUSTER_QUEUES, {**SEEN, "spec": broken}), START)
    assert new is not None
    assert isinstance(new.event, observations.ObservationRefused)


def test_a_workload_is_recorded_with_what_its_pod_sets_take_where_that_counts() -> None:
    assigned = [{"name": "main", "count": 2, "resourceUsage": {"cpu": "2", "memory": "1Gi"}}]
    obj = workload(status={"admission": {"clusterQueue": "cq", "podSetAssignments": assigned}})
    for policy, found in ((POLICY, {"main": {"cpu": "2", "memory": "1Gi"}}), ({}, {})):
        new = Scene("a", policy=policy).fleet.observe(sighting(MANAGEMENT, WORKLOADS, obj), START)
        assert new is not None
        assert new.event.requests == found  # type: ignore[attr-defined]


def test_what_the_log_knows_of_a_worker_s_queues_is_what_a_list_is_compared_with() -> None:
    scene = scored()
    assert scene.fleet.index.known("a", CLUSTER_QUEUES.name) == {"cq-a": ("", "cq", "1")}
    assert scene.fleet.index.known("c", LOCAL_QUEUES.name) == {"lq-c": (NS, "lq", "1")}
    assert scene.fleet.index.newest.of("a", CLUSTER_QUEUES.name) == 1


@pytest.mark.parametrize(("flavors", "quota", "watched"), [(1, "yes", 1), (1, "no", 1), (0, "yes", 1), (0, "no", 0)])
def test_one_watch_of_a_worker_s_queues_serves_whoever_asks_for_them(flavors: int, quota: str, watched: int) -> None:
    multikueue = MultiKueue(dispatcher_name=SCORED, scoring=Rules(flavors_weight=flavors), quota_automation=quota)
    hosted = HostedControllers(msgspec.structs.replace(Settings(), multikueue=multikueue))
    for kind in (CLUSTER_QUEUES, LOCAL_QUEUES):
        assert [one.kind for one in hosted.workers].count(kind) == watched
