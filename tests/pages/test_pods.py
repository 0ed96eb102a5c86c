"""Pods that wait for a node, by a scheduler's log: which, why each node is none, and how it was at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from controlplane.audit.reads import READ
from controlplane.controllers.candidates.source.events import CandidateRequested, CandidateWriteFailed
from controlplane.controllers.candidates.source.observations import CandidateRefused, CandidateUnschedulable
from controlplane.controllers.candidates.target import events as target
from controlplane.controllers.scheduling import events as s
from controlplane.controllers.scheduling.reasons import SchedulingReason as R
from controlplane.controllers.scheduling.refusals import NodeReason, Refusal, refusal
from controlplane.controllers.scheduling.state import PodState
from controlplane.log.event import NewEvent, Recorded
from controlplane.pages.pending_pods import PendingPods
from tests.audit import scheduled
from tests.audit.database import keep
from tests.audit.script import write
from tests.candidates.told import Told
from tests.pages.serving import served

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
FULL = "0/5000 nodes are available: 3 Insufficient cpu, 4997 node(s) had untolerated taint {a: b, c: d}."
TAINT = "node(s) had untolerated taint {a: b, c: d}"
PREEMPTION = f"{FULL} preemption: 0/5000 nodes are available: 5000 Preemption is not helpful for scheduling."
CLAIM = '0/3 nodes are available: persistentvolumeclaim "data" not found.'


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            FULL,
            Refusal(
                nodes=5000,
                reasons=[
                    NodeReason(reason="Insufficient cpu", nodes=3),
                    NodeReason(reason="node(s) had untolerated taint {a: b, c: d}", nodes=4997),
                ],
            ),
        ),
        (
            CLAIM,
            Refusal(nodes=3, reasons=[NodeReason(reason='persistentvolumeclaim "data" not found', nodes=3)]),
        ),
        ("0/0 nodes are available:", Refusal(nodes=0, reasons=[])),
        ("running PreBind plugin: it broke", None),
        ("", None),
    ],
)
def test_a_message_is_read_as_it_is_written(message: str, said: Refusal | None) -> None:
    assert refusal(message) == said


def test_what_preemption_says_is_kept_apart() -> None:
    found = refusal(PREEMPTION)
    assert found is not None
    assert [one.nodes for one in found.reasons] == [3, 4997]
    assert found.preemption == "0/5000 nodes are available: 5000 Preemption is not helpful for scheduling"


def pod(name: str, **fields: Any) -> tuple[str, Any]:
    given = {"uid": name, "resource_version": "1", "scheduler": "controlplane"} | fields
    return f"pod/team-a/{name}", s.PendingPodObserved(**given)


def failed(name: str, message: str, **fields: Any) -> tuple[str, Any]:
    given = {"message": message, "reason": R.UNSCHEDULABLE, "attempt": 2} | fields
    return f"pod/team-a/{name}", s.SchedulingFailed(**given)


NODES = {"Insufficient cpu": ["n1", "n2", "n<b>"], TAINT: [f"t{number:02}" for number in range(20)]}
STORY = [
    pod("web"), failed("web", FULL), pod("db"), failed("db", CLAIM), pod("job"), failed("job", PREEMPTION, nodes=NODES),
    pod("done"), failed("done", FULL), pod("gone"), failed("gone", FULL),
    pod("done", resource_version="2", node="n1"), ("pod/team-a/gone", s.PendingPodGone(uid="gone")),
]  # fmt: skip
RECORDED = [
    Recorded(
        position=number,
        stream=stream,
        version=1 + sum(other == stream for other, _ in STORY[: number - 1]),
        event=event,
        recorded_at=START + timedelta(minutes=number),
    )
    for number, (stream, event) in enumerate(STORY, 1)
]


def asked(pages: TestClient, **given: str) -> Any:
    answer = pages.get("/api/v1/pods", params=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(found: Any) -> list[str]:
    return [one["pod"] for one in found["pending"]]


async def test_each_reason_leads_to_its_pods(database_url: str) -> None:
    await keep(database_url, RECORDED, types=READ)
    with served(database_url) as pages:
        found = asked(pages)
        assert names(found) == ["job", "db", "web"]
        assert found["pods"] == 3
        reasons = {one["reason"]: (one["nodes"], one["of_nodes"], one["pods"]) for one in found["reasons"]}
        assert reasons == {
            "Insufficient cpu": (3, 5000, 2),
            "node(s) had untolerated taint {a: b, c: d}": (4997, 5000, 2),
            'persistentvolumeclaim "data" not found': (3, 3, 1),
        }
        assert names(asked(pages, reason="Insufficient cpu")) == ["job", "web"]
        text = pages.get("/pods").text
        assert "0/5000 nodes are available: 3 Insufficient cpu" in text
        assert "/pods?reason=Insufficient+cpu" in text
        before = (START + timedelta(minutes=10, seconds=1)).isoformat()
        assert names(asked(pages, at=before)) == ["gone", "done", "job", "db", "web"]


async def test_what_is_followed_is_what_is_read_at_once(database_url: str) -> None:
    half = [NewEvent(stream=stream, event=event) for stream, event in STORY]
    await write(database_url, half[:8], types=READ)
    with served(database_url) as pages:
        assert names(asked(pages)) == ["done", "job", "db", "web"]
        await write(database_url, half[8:], types=READ)
        follower = pages.app.state.site.follower  # type: ignore[attr-defined]
        while follower.position < len(STORY):
            await asyncio.sleep(0.01)
        assert names(asked(pages)) == ["job", "db", "web"]


async def test_a_reason_opens_to_the_nodes_that_gave_it(database_url: str) -> None:
    await keep(database_url, RECORDED, types=READ)
    with served(database_url) as pages:
        found = asked(pages)
        reasons = {one["reason"]: one["names"] for one in found["reasons"]}
        assert reasons == NODES | {'persistentvolumeclaim "data" not found': []}
        assert {one["pod"]: one["nodes"] for one in found["pending"]} == {"job": NODES, "db": {}, "web": {}}
        text = pages.get("/pods").text
        assert "<summary>Insufficient cpu</summary>" in text
        assert "<li>n1</li><li>n2</li><li>n&lt;b&gt;</li></ul>" in text
        assert '<li>t19</li><li class="soft">and 4 977 more</li></ul>' in text
        before = (START + timedelta(minutes=4, seconds=1)).isoformat()
        assert {one["reason"]: one["names"] for one in asked(pages, at=before)["reasons"]}["Insufficient cpu"] == []
        assert "<details" not in pages.get("/pods", params={"at": before}).text


async def test_what_clusters_refuse_is_grouped_by_reason_with_their_names(database_url: str) -> None:
    told = Told("east", "north", "west").asked()
    told.says(
        CandidateUnschedulable, "east", why="Unschedulable", message="0/9 nodes are available: 9 Insufficient cpu."
    )
    few = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    told.says(CandidateUnschedulable, "north", why="Unschedulable", message=few)
    told.says(CandidateRefused, "west", why="NotInvited", message="no target of this namespace")
    await write(database_url, [row for row in told.rows if row.stream.startswith("sourcepod/")], types=READ)
    with served(database_url) as pages:
        found = asked(pages)
        assert [(one["reason"], one["clusters"], one["pods"]) for one in found["refusals"]] == [
            ("Insufficient cpu", ["east", "north"], 1),
            ("NotInvited", ["west"], 1),
            ("node(s) were unschedulable", ["north"], 1),
        ]
        text = pages.get("/pods").text
        assert "NotInvited: no target of this namespace" in text
        assert '<a href="/pods?cluster=east">east</a>, <a href="/pods?cluster=north">north</a>' in text


async def test_pods_are_grouped_by_what_they_were_told(database_url: str) -> None:
    told = Told("east", "west").asked("one", "two")
    for name in ("one", "two"):
        told.says(CandidateRefused, "east", name, why="NotInvited", message="not here").settle()
    await write(database_url, told.rows, types=READ)
    with served(database_url) as pages:
        found = asked(pages)
    assert {(one["cluster"], one["outcome"], one["count"]) for one in found["groups"]} >= {("east", "Refused", 2)}
    assert sum(one["count"] for one in found["groups"]) == len(found["answers"]) == 4
    assert found["pods"] == 2


async def test_a_candidate_that_was_never_made_waits_no_longer_than_its_pod(database_url: str) -> None:
    """A target that refused to have it may never say that it is gone; its pod is placed elsewhere, or deleted."""
    told = Told("east", "west").asked("web", "gone").reserves("west", "web").settle().binds("west", "web").settle()
    told.pod_gone("gone").settle()
    await write(database_url, told.rows, types=READ)
    with served(database_url) as pages:
        found = asked(pages)
    assert (found["pods"], found["answers"]) == (0, [])


@pytest.mark.parametrize(("code", "outcome"), [(403, "Refused"), (500, "Waiting"), (409, "Waiting")])
async def test_what_an_api_server_refuses_is_a_refusal_of_its_cluster(
    database_url: str, code: int, outcome: str
) -> None:
    told = Told("east", "north").asked()
    requested = next(
        row for row in told.rows if isinstance(row.event, CandidateRequested) and row.event.cluster == "east"
    )
    assert isinstance(requested.event, CandidateRequested)
    no = CandidateWriteFailed(
        target=requested.event.target, action="CandidateRequested", code=code, error="Forbidden", failures=1,
        message="exceeded quota: candidates", retry_at=START,
    )  # fmt: skip
    rows = [row for row in told.rows if row.stream.startswith("sourcepod/")]
    await write(database_url, [*rows, NewEvent(stream=requested.stream, event=no)], types=READ)
    with served(database_url) as pages:
        found = asked(pages)
        assert {one["cluster"]: one["outcome"] for one in found["answers"]} == {"east": outcome, "north": "Waiting"}
        refusals = [(one["reason"], one["message"], one["clusters"]) for one in found["refusals"]]
        assert refusals == ([("Forbidden", "exceeded quota: candidates", ["east"])] if outcome == "Refused" else [])


def of_candidate(events: Sequence[Any]) -> list[tuple[PodState, Recorded]]:
    """Return the pods that wait by the log of a target's scheduler."""
    found = PendingPods()
    for recorded in scheduled.log(*events, stream=scheduled.OFFERED):
        found.take(recorded)
    return list(found.failed())


OFFERED = [*scheduled.TAKEN, (scheduled.OWN, scheduled.pod(candidate=True))]
NO_NODE = [target.NotSchedulable(message=FULL), (scheduled.OWN, scheduled.failed(FULL))]


@pytest.mark.parametrize(
    ("events", "waits"),
    [
        (OFFERED, False),
        ([*OFFERED, *NO_NODE], True),
        ([*OFFERED, *NO_NODE, (scheduled.OWN, scheduled.pod(candidate=True, priority=2))], True),
        ([*OFFERED, *NO_NODE, scheduled.RESERVED], False),
        ([*OFFERED, *NO_NODE, scheduled.RESERVED, scheduled.READ, scheduled.BINDING, scheduled.ON_NODE], False),
        ([*OFFERED, *NO_NODE, scheduled.VANISHED, scheduled.GONE_POD], False),
        ([*OFFERED, *NO_NODE, (scheduled.OWN, s.PendingPodGone(uid="u"))], False),
    ],
)
def test_the_pod_of_a_candidate_waits_until_a_node_is_held(events: Sequence[Any], waits: bool) -> None:
    assert [state.name for state, _ in of_candidate(events)] == (["web"] if waits else [])
