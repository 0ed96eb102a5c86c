"""Pods that wait for a node, by a scheduler's log: which, why each node is none, and how it was at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from controlplane.audit.reads import READ
from controlplane.controllers.scheduling import events as s
from controlplane.controllers.scheduling.reasons import SchedulingReason as R
from controlplane.controllers.scheduling.refusals import NodeReason, Refusal, refusal
from controlplane.log.event import NewEvent, Recorded
from tests.audit.database import keep
from tests.audit.script import write
from tests.pages.serving import served

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
FULL = "0/5000 nodes are available: 3 Insufficient cpu, 4997 node(s) had untolerated taint {a: b, c: d}."
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


STORY = [
    pod("web"), failed("web", FULL), pod("db"), failed("db", CLAIM), pod("job"), failed("job", PREEMPTION),
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
