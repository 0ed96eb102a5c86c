"""Why a Workload waits for quota, on its page: with the names of Workloads only for whom may see them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx2
import msgspec
import pytest

from controlplane.audit.quota_past import intervals, others
from controlplane.audit.quota_wait import sentences
from controlplane.audit.reads import READ
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.manifests import EVERY
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.controllers.quota.admission import events
from controlplane.controllers.scheduling import events as scheduling
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.kube import kinds
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.pages.access import Access
from controlplane.pages.app import create_app
from controlplane.pages.concealing import NAMING, OTHER, OTHER_POD, as_shown, plain_as_shown
from controlplane.pages.follower import Follower
from controlplane.pages.readers import Readers, connector
from controlplane.pages.routes import API
from controlplane.pages.views.event import namespace_of
from controlplane.settings import Settings
from controlplane.settings.web import WebSettings
from tests.audit.database import keep
from tests.audit.samples import sample
from tests.audit.script import write
from tests.pages.reviews import reviewing
from tests.pages.serving import until_ready
from tests.quota.admission.scene import Scene

OWN, FOREIGN = "team-a", "team-b"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class TwoTeams(Scene):
    """Two namespaces with a LocalQueue each, that lead to one ClusterQueue."""

    def __init__(self) -> None:
        super().__init__()
        self.queue("q", "10", preemption={"withinClusterQueue": "LowerPriority"})
        for namespace in (OWN, FOREIGN):
            self.put(kinds.NAMESPACES, namespace)
            self.put(kinds.LOCAL_QUEUES, "q", namespace, spec={"clusterQueue": "q"})

    def submit(self, namespace: str, name: str, cpu: str, priority: int) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}]
        spec = {"queueName": "q", "priority": priority, "podSets": pod_sets}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}"}
        self.put(kinds.WORKLOADS, name, namespace, spec=spec, metadata={"ownerReferences": [owner]})
        self.settle()
        self.pass_time(60)


@pytest.fixture(scope="module")
def scene() -> TwoTeams:
    """Ada's is preempted for the other team's, and waits behind another one of theirs."""
    found = TwoTeams()
    found.submit(OWN, "mine", "8", 0)
    found.submit(FOREIGN, "theirs", "9", 5)
    evicted = found.objects[kinds.WORKLOADS, OWN, "mine"]
    kept = [one for one in evicted["status"]["conditions"] if one["type"] not in ("Admitted", "QuotaReserved")]
    gone = {"status": "False", "reason": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:02:00Z"}
    status = {"conditions": [*kept, {"type": "Admitted", **gone}, {"type": "QuotaReserved", **gone}]}
    found.put(kinds.WORKLOADS, "mine", OWN, status=status)
    found.settle()
    found.submit(FOREIGN, "more", "9", 3)
    return found


async def asked(url: str, *paths: str, user: str) -> list[httpx2.Response]:
    settings = msgspec.structs.replace(Settings(), web=msgspec.structs.replace(WebSettings(), authentication="token"))
    connect = connector(settings, url)
    follower, readers = Follower(connect, settings), Readers(connect)
    follower.start()
    until_ready(follower)
    try:
        async with reviewing() as (_, cluster):
            app = create_app(settings, readers, follower, Access(settings.web, cluster))
            transport = httpx2.ASGITransport(app, client=("10.0.0.7", 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://pages.example") as client:
                return [await client.get(path, headers={"Authorization": f"Bearer t-{user}"}) for path in paths]
    finally:
        follower.stop()
        readers.close()


def known(namespace: str) -> NewEvent:
    """A Workload that MultiKueue has seen: of such namespaces it is asked who may see them."""
    event = sample(WorkloadObserved, namespace=namespace, name="other")
    return NewEvent(stream=f"workload/{namespace}/other", event=event, cluster=MANAGEMENT)


def positions(scene: Scene, kind: type[Any], name: str) -> list[int]:
    stream = f"admission/workload/{OWN}/{name}"
    return [one.position for one in scene.log if isinstance(one.event, kind) and one.stream == stream]


async def test_a_queue_leads_to_its_cluster_queue_before_anybody_has_quota(database_url: str) -> None:
    scene = TwoTeams()
    scene.submit(OWN, "big", "11", 0)
    await keep(database_url, scene.log, types=READ)
    waits = sample(WorkloadObserved, namespace=OWN, name="big", queue_name="q", cluster_queue="", conditions=[])
    await write(database_url, [NewEvent(stream=f"workload/{OWN}/big", event=waits, cluster=MANAGEMENT)], types=READ)
    (found,) = await asked(database_url, f"{API}/queues", user="auditor")
    (queue,) = [one for one in found.json()["items"] if one["namespace"] == OWN]
    assert (queue["queue"], queue["cluster_queue"]) == ("q", "q")


async def test_the_page_says_why_it_waits_and_names_only_what_may_be_seen(database_url: str, scene: TwoTeams) -> None:
    await keep(database_url, scene.log, types=READ)
    await write(database_url, [known(OWN), known(FOREIGN)], types=READ)
    (preempted,) = positions(scene, events.WorkloadPreemptionDecided, "mine")
    paths = [
        f"{API}/workloads/{OWN}/mine",
        f"/workloads/{OWN}/mine",
        f"{API}/events/{preempted}",
        f"/events/{preempted}",
    ]
    (story, page, event, event_page) = await asked(database_url, *paths, user="auditor")
    assert [one.status_code for one in (story, page, event, event_page)] == [200] * 4
    quota = story.json()["quota"]
    assert quota[0] == f"It is number 2 of 2 that wait in ClusterQueue q, behind {FOREIGN}/more."
    assert f"{FOREIGN}/theirs (9) has it." in quota[1]
    assert quota[1] in page.text
    assert quota[-1] == "No estimate of when: no run is recorded that has ended."
    waited = story.json()["waited"]
    assert [one["reason"] for one in waited] == ["WaitingForQuota"]
    assert waited[0]["others"] == f"it was preempted for {FOREIGN}/theirs"
    assert waited[0]["missing"] == "7 of cpu in flavor default"
    assert "How it waited for quota" in page.text
    assert waited[0]["others"] in page.text
    assert event.json()["data"]["preemptor"] == f"{FOREIGN}/theirs"
    what = [one["what"] for one in story.json()["moments"]]
    assert f"Workload is to be preempted for {FOREIGN}/theirs (InClusterQueue)" in what

    (both,) = await asked(database_url, paths[0], user="grace")
    assert both.json()["quota"] == quota

    hidden = await asked(database_url, *paths, user="ada")
    assert [one.status_code for one in hidden] == [200] * 4
    quota = hidden[0].json()["quota"]
    assert quota[0] == "It is number 2 of 2 that wait in ClusterQueue q, behind another Workload."
    assert "another Workload has it." in quota[1]
    assert [one["others"] for one in hidden[0].json()["waited"]] == ["it was preempted for another Workload"]
    what = [one["what"] for one in hidden[0].json()["moments"]]
    assert "Workload is to be preempted for another Workload (InClusterQueue)" in what
    for answer in hidden:
        assert "theirs" not in answer.text
        assert FOREIGN not in answer.text
    (foreign,) = await asked(database_url, f"{API}/workloads/{FOREIGN}/theirs", user="ada")
    assert foreign.status_code == 404


async def test_what_has_quota_waits_for_none(database_url: str, scene: TwoTeams) -> None:
    await keep(database_url, scene.log, types=READ)
    (story,) = await asked(database_url, f"{API}/workloads/{FOREIGN}/theirs", user="auditor")
    assert story.json()["state"] == "Admitted"
    assert story.json()["quota"] == []


async def test_victims_are_counted_in_how_it_waited(database_url: str, scene: TwoTeams) -> None:
    await keep(database_url, scene.log, types=READ)
    await write(database_url, [known(OWN), known(FOREIGN)], types=READ)
    path = f"{API}/workloads/{FOREIGN}/theirs"
    (seen,) = await asked(database_url, path, user="auditor")
    assert [one["others"] for one in seen.json()["waited"] if one["others"]] == [f"{OWN}/mine preempted for it"]
    (event,) = [one for one in scene.log if isinstance(one.event, events.WorkloadInadmissible) and one.event.victims][
        :1
    ]
    (found,) = intervals([as_shown(event, lambda namespace: namespace == FOREIGN)])
    assert others(found) == f"{OTHER} preempted for it"


def test_victims_are_named_only_to_who_may_see_them(scene: TwoTeams) -> None:
    waits = [one for one in scene.log if isinstance(one.event, events.WorkloadInadmissible) and one.event.victims]
    assert waits
    shown = as_shown(waits[0], lambda namespace: namespace == FOREIGN)
    assert shown.event.victims == [OTHER]  # type: ignore[union-attr]
    assert as_shown(waits[0], lambda namespace: True) == waits[0]


def test_names_are_concealed_wherever_a_state_has_them() -> None:
    state = {
        "effects": {"a": {"decision": {"preemptor": "x/one", "preemptor_uid": "u", "amounts": {"f": {"cpu": 1}}}}},
        "unsaid": {"victims": ["x/one is being evicted", "y/two"]},
    }
    assert plain_as_shown(state, lambda namespace: namespace == "y") == {
        "effects": {"a": {"decision": {"preemptor": OTHER, "preemptor_uid": "", "amounts": {"f": {"cpu": 1}}}}},
        "unsaid": {"victims": [OTHER, "y/two"]},
    }
    assert plain_as_shown(state, lambda namespace: True) == state


def test_every_event_that_names_another_workload_is_known() -> None:
    """A field that is added is to be concealed as well."""
    naming = {
        (kind.__name__, name)
        for kind in READ
        for name in kind.__struct_fields__
        if name in (*NAMING, "preemptee", "workloads", "holders", "ahead")
    }
    assert naming == {
        ("WorkloadPreemptionDecided", "preemptor"),
        ("WorkloadPreemptionDecided", "preemptor_uid"),
        ("WorkloadInadmissible", "victims"),
        ("VictimChosen", "preemptor"),
        ("VictimChosen", "preemptor_uid"),
        ("NodeReserved", "woken"),
        ("SchedulingFailed", "woken"),
    }
    assert sample(events.WorkloadInadmissible).victims


def _pods(preemptor: str, woken: str) -> list[tuple[str, Event]]:
    """What a scheduler's log has of a pod that gives way to another, and of one that another's end woke."""
    went = scheduling.Woken(resource="Pod", action="Delete", name=woken)
    drop: dict[str, Any] = {
        "reason": SchedulingReason.PREEMPTED,
        "number": 1,
        "message": f"preempted by pod {preemptor}",
    }
    held: dict[str, Any] = {"reason": SchedulingReason.NODE_FOUND, "number": 1, "node": "n", "uid": "u", "attempt": 2}
    chosen: dict[str, Any] = {
        "uid": "u",
        "node": "n",
        "preemptor": preemptor,
        "preemptor_uid": "secret",
        "scheduler": "s",
    }
    failed: dict[str, Any] = {
        "reason": SchedulingReason.UNSCHEDULABLE,
        "message": "0/1 nodes are available: 1 Too many pods.",
    }
    return [
        (f"victim/{OWN}/web", scheduling.VictimChosen(**chosen, reason=SchedulingReason.LOWER_PRIORITY)),
        (f"pod/{OWN}/web", scheduling.NodeReserved(**held, woken=went)),
        (f"pod/{OWN}/web", scheduling.ReservationDropped(**drop)),
        (f"pod/{OWN}/web", scheduling.SchedulingFailed(**failed, attempt=2, woken=went)),
    ]


async def test_pods_of_others_are_not_named_in_the_log_of_a_scheduler(database_url: str) -> None:
    told = [NewEvent(stream=stream, event=event) for stream, event in _pods(f"{FOREIGN}/db", f"{FOREIGN}/gone")]
    await write(database_url, [known(OWN), known(FOREIGN), *told], types=READ)
    paths = [path for position in range(3, 7) for path in (f"{API}/events/{position}", f"/events/{position}")]
    for path, answer in zip(paths, await asked(database_url, *paths, user="ada"), strict=True):
        assert answer.status_code == 200, path
        assert FOREIGN not in answer.text, path
        assert "secret" not in answer.text, path
    first, *_ = await asked(database_url, paths[0], user="ada")
    assert first.json()["event"]["what"] == f"pod is to go from node n, for pod {OTHER_POD}"
    for path, answer in zip(paths, await asked(database_url, *paths, user="auditor"), strict=True):
        assert FOREIGN in answer.text, path


def test_pods_of_ones_own_namespaces_are_named() -> None:
    for number, (stream, event) in enumerate(_pods(f"{OWN}/db", f"{OWN}/gone")):
        recorded = Recorded(position=number + 1, stream=stream, version=1, event=event, recorded_at=NOW)
        assert as_shown(recorded, lambda namespace: namespace == OWN) == recorded


HOLDERS = [{"workload": f"{FOREIGN}/{number}", "amount": "1"} for number in range(3)]


@pytest.mark.parametrize(
    ("ahead", "seen", "said"),
    [
        ([f"{OWN}/a", f"{FOREIGN}/b"], {OWN}, f"{OWN}/a and 1 more"),
        ([f"{OWN}/a", f"{FOREIGN}/b"], {OWN, FOREIGN}, f"{OWN}/a, {FOREIGN}/b"),
        ([f"{FOREIGN}/b"], {OWN}, "another Workload"),
        ([f"{FOREIGN}/b", f"{FOREIGN}/c"], {OWN}, "2 other Workloads"),
    ],
)
def test_who_is_not_to_be_seen_is_counted(ahead: list[str], seen: set[str], said: str) -> None:
    short = {"resource": "cpu", "wanted": "9", "free": "1", "missing": "8", "never": False, "holders": HOLDERS}
    option = {
        "flavor": "f", "unusable": "", "unplaced": "", "fits": False, "resources": [short], "preemptible": [],
        "would_end": [f"{FOREIGN}/1"],
    }  # fmt: skip
    wait = {
        "cluster_queue": "q", "position": len(ahead) + 1, "pending": 9, "ahead": ahead, "inadmissible": "",
        "uncovered": [], "flavors": [option],
    }  # fmt: skip
    found = list(sentences(wait, lambda namespace: namespace in seen))
    assert found[0] == f"It is number {len(ahead) + 1} of 9 that wait in ClusterQueue q, behind {said}."
    if FOREIGN not in seen:
        assert found[1].endswith("3 other Workloads have it.")
        assert found[2] == "It would fit if another Workload ended."


def test_a_stream_is_of_the_namespace_that_its_pattern_says() -> None:
    """Of the others, only who sees everything sees the events: else a ClusterQueue's would be shown to whoever sees a
    namespace of the name `clusterqueue`.
    """
    for manifest in EVERY:
        for pattern in manifest.streams:
            if ", " in pattern:
                continue
            assert namespace_of(pattern) in ("NS", None), pattern
            assert (namespace_of(pattern) == "NS") == (pattern.split("/")[-2:-1] == ["NS"]), pattern
    assert namespace_of("gang/team/other/east") is None, "the name of a gang is no namespace"
