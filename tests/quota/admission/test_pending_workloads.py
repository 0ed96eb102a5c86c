"""What Kueue's visibility API tells of who waits: order, positions, limits, and what it says of queues that are not
there."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from controlplane.app.service import Service
from controlplane.app.visibility import PendingWorkloadsApi
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.quota.admission import pending_workloads
from controlplane.controllers.quota.engine.queue_order import key_of
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.kube import kinds
from controlplane.kube.api_requests import attributes
from controlplane.kube.kinds import Json
from controlplane.log.event import NewEvent
from controlplane.web.aggregated import Unavailable
from tests.quota.admission.scene import NS, START, Scene

GROUP = "/apis/visibility.kueue.x-k8s.io/v1beta2"
BATCH, TEAM = f"{GROUP}/clusterqueues/batch/pendingworkloads", f"{GROUP}/namespaces/{NS}/localqueues"


def workload(scene: Scene, name: str, queue: str = "batch", priority: int = 0, cpu: str = "9", **metadata: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}]
    spec = {"queueName": queue, "priority": priority, "podSets": pod_sets}
    scene.put(kinds.WORKLOADS, name, NS, metadata=metadata, spec=spec)


def waiting(**more: Any) -> Scene:
    """A queue of 4 cpu, in which nobody fits: two LocalQueues lead to it."""
    scene = Scene(**more)
    scene.queue("batch", "4")
    scene.put(kinds.LOCAL_QUEUES, "other", NS, spec={"clusterQueue": "batch"})
    for name, queue, priority in (("a", "batch", 0), ("b", "other", 5), ("c", "batch", 5), ("d", "batch", 0)):
        workload(scene, name, queue, priority)
        scene.now += timedelta(seconds=1)
    return scene


def api_of(scene: Scene, *, current: bool = True) -> PendingWorkloadsApi:
    found = SimpleNamespace(admission=scene.controller, current=current)
    return PendingWorkloadsApi(cast("Service", found))


async def asked(
    scene: Scene, path: str, method: str = "GET", *, current: bool = True, **query: str
) -> tuple[int, Json]:
    code, body = await api_of(scene, current=current)(attributes(method, path), query)
    return code, msgspec.json.decode(body) if isinstance(body, bytes) else body


async def positions(scene: Scene, path: str, **query: str) -> list[tuple[str, int, int]]:
    code, body = await asked(scene, path, **query)
    assert code == 200
    return [
        (one["metadata"]["name"], one["positionInClusterQueue"], one["positionInLocalQueue"]) for one in body["items"]
    ]


ALL = [("b", 0, 0), ("c", 1, 0), ("a", 2, 1), ("d", 3, 2)]
OF_BATCH = [ALL[1], ALL[2], ALL[3]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ALL),
        ({"limit": "2"}, ALL[:2]),
        ({"offset": "1", "limit": "2"}, ALL[1:3]),
        ({"offset": "3"}, ALL[3:]),
        ({"offset": "4"}, []),
        ({"offset": "-2", "limit": "1"}, ALL[:1]),
        ({"limit": "0"}, ALL),
        ({"limit": "-1"}, []),
        ({"limit": "+1"}, ALL[:1]),
        ({"limit": str(2**63 - 1)}, ALL),
        ({"continue": "x"}, ALL),
    ],
)
async def test_a_cluster_queue(query: dict[str, str], found: list[tuple[str, int, int]]) -> None:
    assert await positions(waiting(), BATCH, **query) == found


@pytest.mark.parametrize(
    ("queue", "query", "found"),
    [
        ("batch", {}, OF_BATCH),
        ("batch", {"limit": "1"}, OF_BATCH[:1]),
        ("batch", {"offset": "1", "limit": "1"}, OF_BATCH[1:2]),
        ("batch", {"offset": "2", "limit": "0"}, OF_BATCH[2:]),
        ("batch", {"offset": "3"}, []),
        ("other", {}, ALL[:1]),
    ],
)
async def test_a_local_queue(queue: str, query: dict[str, str], found: list[tuple[str, int, int]]) -> None:
    assert await positions(waiting(), f"{TEAM}/{queue}/pendingworkloads", **query) == found


async def test_who_was_tried_in_vain_keeps_its_place() -> None:
    scene = waiting()
    scene.settle()
    assert scene.controller.index.engine.queues.pending["batch"].inadmissible
    assert await positions(scene, BATCH) == ALL


async def test_a_workload_is_told_with_its_owners_and_nothing_else() -> None:
    scene = Scene()
    scene.queue("batch", "4")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    metadata = {"ownerReferences": [{**owner, "controller": True}], "labels": {"a": "b"}, "annotations": {"a": "b"}}
    workload(scene, "a", priority=7, **metadata)
    assert await asked(scene, BATCH.replace("v1beta2", "v1beta1")) == (
        200,
        {
            "kind": "PendingWorkloadsSummary",
            "apiVersion": "visibility.kueue.x-k8s.io/v1beta1",
            "metadata": {},
            "items": [
                {
                    "metadata": {
                        "name": "a",
                        "namespace": NS,
                        "creationTimestamp": "2026-01-01T00:00:00Z",
                        "ownerReferences": [owner],
                    },
                    "priority": 7,
                    "localQueueName": "batch",
                    "positionInClusterQueue": 0,
                    "positionInLocalQueue": 0,
                }
            ],
        },
    )


async def test_who_has_quota_or_is_gone_does_not_wait() -> None:
    scene = waiting()
    workload(scene, "fits", cpu="1", priority=1)
    scene.settle()
    scene.drop((kinds.WORKLOADS, NS, "c"))
    assert await positions(scene, BATCH) == [("b", 0, 0), ("a", 1, 0), ("d", 2, 1)]


async def test_where_past_usage_counts_it_comes_first() -> None:
    sharing = AdmissionFairSharing(half_life=3600.0, sampling_interval=300.0, weights={})
    scene = waiting(past_usage=sharing)
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    scene.queue("batch", "4", admissionScope=scope)
    engine = scene.controller.index.engine
    engine.history.enter(f"{NS}/other", "some", {"cpu": Decimal(1)}, START.timestamp())
    assert engine.usage_of(f"{NS}/other") > engine.usage_of(f"{NS}/batch")
    assert [name for name, _, _ in await positions(scene, BATCH)] == ["c", "a", "d", "b"]


async def test_who_waits_for_its_victims_comes_first_where_it_is_tried_first() -> None:
    scene = waiting()
    pending = scene.controller.index.engine.queues.pending["batch"]
    pending.first = f"{NS}/d"
    assert [name for name, _, _ in await positions(scene, BATCH)] == ["d", "b", "c", "a"]
    pending.strategy = "StrictFIFO"
    assert [name for name, _, _ in await positions(scene, BATCH)] == ["b", "c", "a", "d"]


async def test_the_first_is_the_head() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        scene = Scene()
        scene.queue("batch", "4")
        for number in range(chance.randrange(1, 12)):
            workload(scene, f"w{number}", priority=chance.randrange(3))
            scene.now += timedelta(seconds=chance.randrange(2))
        pending = scene.controller.index.engine.queues.pending["batch"]
        head = pending.head()
        assert head is not None
        assert (await positions(scene, BATCH, limit="1"))[0][0] == head.workload.name


async def test_many_are_sorted_in_pieces_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.queue("batch", "4")
    for number in range(40):
        workload(scene, f"w{number}", priority=number * 7 % 5)
    whole = await positions(scene, BATCH)
    monkeypatch.setattr(pending_workloads, "_AT_ONCE", 3)
    assert await positions(scene, BATCH) == whole
    assert await positions(scene, BATCH, offset="7", limit="9") == whole[7:16]


async def test_the_key_of_a_queue_keeps_what_it_was_made_of() -> None:
    scene = waiting()
    engine = scene.controller.index.engine
    pending = engine.queues.pending["batch"]
    line = pending_workloads.of_cluster_queue(scene.controller.index, "batch")
    assert line is not None
    before, key = sorted(pending.all(), key=key_of(engine, pending)), key_of(engine, pending)
    scene.drop((kinds.WORKLOADS, NS, "b"))
    assert sorted(before, key=key) == before
    told = [(one.observed.name, one.in_cluster_queue) for one in line.of_cluster_queue(0, 10)]
    assert told == [("c", 1), ("a", 2), ("d", 3)], "who is gone meanwhile is left out"


@pytest.mark.parametrize(
    ("path", "kind", "name"),
    [
        (f"{GROUP}/clusterqueues/none/pendingworkloads", "clusterqueue", "none"),
        (f"{TEAM}/none/pendingworkloads", "localqueue", "none"),
        (f"{GROUP}/namespaces/elsewhere/localqueues/batch/pendingworkloads", "localqueue", "batch"),
        (f"{TEAM}/stopped/pendingworkloads", "localqueue", "stopped"),
    ],
)
async def test_a_queue_that_is_not_there(path: str, kind: str, name: str) -> None:
    scene = waiting()
    scene.put(kinds.LOCAL_QUEUES, "stopped", NS, spec={"clusterQueue": "batch", "stopPolicy": "Hold"})
    code, body = await asked(scene, path)
    assert (code, body["reason"]) == (404, "NotFound")
    assert body["message"] == f'{kind}.visibility.kueue.x-k8s.io "{name}" not found'
    assert body["details"] == {"name": name, "group": "visibility.kueue.x-k8s.io", "kind": kind}


async def test_a_local_queue_that_leads_nowhere_is_empty() -> None:
    scene = waiting()
    scene.put(kinds.LOCAL_QUEUES, "astray", NS, spec={"clusterQueue": "none"})
    workload(scene, "e", "astray")
    assert await positions(scene, f"{TEAM}/astray/pendingworkloads") == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"limit": "abc"}, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ({"offset": ""}, 'strconv.ParseInt: parsing "": invalid syntax'),
        ({"limit": "1_0"}, 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        ({"limit": "١"}, 'strconv.ParseInt: parsing "١": invalid syntax'),
        ({"offset": "9" * 30}, f'strconv.ParseInt: parsing "{"9" * 30}": value out of range'),
        ({"offset": str(2**63)}, f'strconv.ParseInt: parsing "{2**63}": value out of range'),
    ],
)
async def test_what_is_no_number_is_refused(query: dict[str, str], said: str) -> None:
    code, body = await asked(waiting(), BATCH, **query)
    assert (code, body["reason"], body["message"]) == (400, "BadRequest", said)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{GROUP}/clusterqueues", 404),
        ("GET", f"{GROUP}/clusterqueues/batch", 404),
        ("GET", f"{GROUP}/clusterqueues/batch/status", 404),
        ("GET", f"{BATCH}/more", 404),
        ("GET", f"{GROUP}/localqueues/batch/pendingworkloads", 404),
        ("GET", f"{GROUP}/namespaces/{NS}/clusterqueues/batch/pendingworkloads", 404),
        ("GET", BATCH.replace("v1beta2", "v1alpha1"), 404),
        ("GET", BATCH.replace("visibility.", ""), 404),
        ("POST", BATCH, 405),
        ("DELETE", BATCH, 405),
        ("PATCH", BATCH, 405),
    ],
)
async def test_what_is_not_served(method: str, path: str, code: int) -> None:
    assert (await asked(waiting(), path, method))[0] == code


async def test_nothing_is_told_before_the_log_is_read_and_all_is_in_view() -> None:
    scene = waiting()
    with pytest.raises(Unavailable, match="has not read the log to its end; ask again"):
        await asked(scene, BATCH, current=False)
    lost = connectivity.ClusterLost(message="gone", reason="Silent")
    scene.record(NewEvent(stream=connectivity.cluster_stream(MANAGEMENT), event=lost, cluster=MANAGEMENT))
    with pytest.raises(Unavailable, match="does not see all that quota rests on") as refused:
        await asked(scene, BATCH)
    assert refused.value.again
