"""The page of one queue: its quota, who has it, who waits in which order, who had it, and what of that who may see."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from controlplane.audit.past import queues_at
from controlplane.audit.queue_quota import holders_of, lines_of, shape_of, waiting_in
from controlplane.audit.reads import READ, LogReader
from controlplane.kube import kinds
from controlplane.pages.routes import API
from tests.audit.database import keep
from tests.audit.script import Script, write
from tests.pages.serving import served
from tests.pages.test_quota import FOREIGN, OWN, TwoTeams, asked, known
from tests.quota.admission.scene import NS, Scene

AT = "2026-01-01T13:00:00Z"  # in the log of the cookbook


def one_line(scene: Scene, queue: str) -> dict[str, str]:
    (line,) = lines_of(scene.controller.index, queue)
    return {name: getattr(line, name) for name in ("reserved", "nominal", "borrowed", "lent", "free")}


# --- what admission knows
# -----------------------------------------------------------------------------------------------


def test_what_is_borrowed_of_one_is_lent_by_another() -> None:
    scene = Scene()
    scene.queue("rich", "6", cohortName="all")
    scene.queue("poor", "2", cohortName="all")
    scene.workload("big", "poor", "5")
    scene.settle()
    assert one_line(scene, "poor") == {"reserved": "5", "nominal": "2", "borrowed": "3", "lent": "0", "free": "3"}
    assert one_line(scene, "rich") == {"reserved": "0", "nominal": "6", "borrowed": "0", "lent": "3", "free": "3"}
    assert shape_of(scene.controller.index, "poor").cohorts == ["all"]
    (holder,) = holders_of(scene.controller.index, "poor")
    assert (holder.name, holder.queue, holder.amounts) == ("big", "poor", {"default": {"cpu": "5"}})


def test_who_waits_is_in_the_order_in_which_they_are_tried() -> None:
    scene = Scene()
    scene.queue("q", "2")
    for name, priority in (("first", 0), ("second", 0), ("urgent", 9)):
        scene.workload(name, "q", "2", priority=priority)
        scene.settle()
        scene.pass_time(60)
    waits = waiting_in(scene.controller.index, "q")
    assert [(one.name, one.position, one.priority) for one in waits] == [("urgent", 1, 9), ("second", 2, 0)]
    assert all("insufficient unused quota" in one.message for one in waits)


def test_why_a_queue_admits_nobody() -> None:
    scene = Scene()
    scene.queue("q", "2", stopPolicy="Hold", queueingStrategy="StrictFIFO")
    scene.settle()
    found = shape_of(scene.controller.index, "q")
    assert (found.strategy, found.stop_policy, bool(found.inactive)) == ("StrictFIFO", "Hold", True)


def test_a_cycle_of_cohorts_is_told() -> None:
    scene = Scene()
    scene.queue("q", "2", cohortName="a")
    scene.put(kinds.COHORTS, "a", spec={"parentName": "b"})
    scene.put(kinds.COHORTS, "b", spec={"parentName": "a"})
    scene.settle()
    assert "its Cohorts are in a cycle" in shape_of(scene.controller.index, "q").inactive


def test_a_queue_that_is_being_deleted_is_not_called_stopped() -> None:
    scene = Scene()
    scene.queue("q", "2")
    scene.workload("a", "q", "1")
    scene.settle()
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    seen = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]
    scene.put(kinds.CLUSTER_QUEUES, "q", spec=seen["spec"], metadata={**seen["metadata"], **metadata})
    scene.settle()
    found = shape_of(scene.controller.index, "q")
    assert (found.stop_policy, found.inactive) == ("", "is being deleted")


# --- the page, where this service decides on quota
# ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scene() -> TwoTeams:
    found = TwoTeams()
    found.submit(OWN, "mine", "8", 0)
    found.submit(FOREIGN, "theirs", "9", 0)
    found.submit(OWN, "later", "1", 0)
    found.submit(OWN, "big", "7", 0)
    return found


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{one['namespace']}/{one['name']}" for one in rows]


async def test_all_of_a_cluster_queue_for_who_sees_all(database_url: str, scene: TwoTeams) -> None:
    await keep(database_url, scene.log, types=READ)
    await write(database_url, [known(OWN), known(FOREIGN)], types=READ)
    paths = [f"{API}/clusterqueues/q", "/clusterqueues/q", f"{API}/queues/{OWN}/q", f"/queues/{OWN}/q"]
    (story, page, local, local_page) = await asked(database_url, *paths, user="auditor")
    assert [one.status_code for one in (story, page, local, local_page)] == [200] * 4
    found = story.json()
    assert found["decided"] is True
    assert names(found["holding"]) == [f"{OWN}/mine", f"{OWN}/later"]
    assert names(found["waiting"]) == [f"{FOREIGN}/theirs", f"{OWN}/big"]
    (line,) = found["quota"]
    assert (line["nominal"], line["reserved"], line["free"]) == ("10", "9", "1")
    assert {(one["namespace"], one["queue"]) for one in found["queues"]} >= {(OWN, "q"), (FOREIGN, "q")}
    for text in (f'href="/queues/{OWN}/q"', f'href="/workloads/{OWN}/mine"', "insufficient unused quota"):
        assert text in page.text
    its = local.json()
    assert (its["cluster_queue"], its["sees_cluster_queue"]) == ("q", True)
    assert names(its["waiting"]) == [f"{OWN}/big"]
    assert (its["waiting"][0]["position"], its["waiting"][0]["in_queue"]) == (2, 1)
    assert [one["reserved"] for one in its["quota"]] == ["9"]
    assert 'href="/clusterqueues/q"' in local_page.text


async def test_of_another_namespace_nothing_is_said(database_url: str, scene: TwoTeams) -> None:
    await keep(database_url, scene.log, types=READ)
    await write(database_url, [known(OWN), known(FOREIGN)], types=READ)
    paths = [f"{API}/queues/{OWN}/q", f"/queues/{OWN}/q", f"{API}/queues/{FOREIGN}/q", f"{API}/clusterqueues/q"]
    (local, page, foreign, cluster) = await asked(database_url, *paths, user="ada")
    assert [one.status_code for one in (local, page, foreign, cluster)] == [200, 200, 404, 404]
    assert local.json()["sees_cluster_queue"] is False
    assert names(local.json()["holding"]) == [f"{OWN}/mine", f"{OWN}/later"]
    for answer in (local, page):
        assert "theirs" not in answer.text
        assert FOREIGN not in answer.text
        assert "/clusterqueues/" not in answer.text


# --- where Kueue decides
# ------------------------------------------------------------------------------------------------


def api(pages: TestClient, path: str, **given: str) -> Any:
    answer = pages.get(f"{API}{path}", params=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_queue_of_which_only_the_workloads_are_known(pages: TestClient) -> None:
    (item,) = [one for one in api(pages, "/queues")["items"] if one["namespace"] == "team-b"]
    found = api(pages, f"/queues/team-b/{item['queue']}")
    assert found["decided"] is False
    assert found["counts"] == item["counts"]
    assert found["history"]
    assert {one["namespace"] for one in found["history"]} == {"team-b"}
    whole = api(pages, f"/clusterqueues/{found['cluster_queue']}")
    assert [one["queue"] for one in whole["queues"] if one["namespace"] == "team-b"] == [item["queue"]]
    assert len(whole["history"]) >= len(found["history"])


def test_as_it_was_at_a_time(pages: TestClient) -> None:
    then = api(pages, "/queues/team-b/team-b-queue", at=AT)
    (item,) = [one for one in api(pages, "/queues", at=AT)["items"] if one["namespace"] == "team-b"]
    assert then["counts"] == item["counts"]
    assert len(then["holding"]) == sum(
        item["counts"][name] for name in ("reserved", "offered", "admitted", "running", "lost")
    )
    assert all(one["since"] <= AT for one in then["history"])
    assert all(one["until"] is None or one["until"] <= AT for one in then["history"])
    page = pages.get(f"/queues/team-b/team-b-queue?at={AT}")
    assert page.status_code == 200
    assert f"/queues?at={AT}" in page.text.replace("%3A", ":")


def test_a_name_that_is_none_has_near_ones(pages: TestClient) -> None:
    for path, near in (
        ("/queues/team-b/team-b-queu", "/queues/team-b/team-b-queue"),
        ("/clusterqueues/cqq", "/clusterqueues/cq"),
    ):
        answer = pages.get(f"{API}{path}")
        assert answer.status_code == 404
        assert answer.json()["near"] == [near]


def test_what_links_to_a_queue(pages: TestClient) -> None:
    for path in ("/queues", "/workloads/team-b/sim"):
        assert 'href="/queues/team-b/team-b-queue"' in pages.get(path).text
        assert 'href="/clusterqueues/cq"' in pages.get(path).text


async def test_what_was_deleted_is_not_counted_and_has_its_history(database_url: str) -> None:
    script = Script("a")
    script.workload("over-0a1b2").runs("a").finishes("a")
    for name in ("waits", "ended"):
        life = script.workload(f"{name}-0a1b2", namespace="team-b")
        (life.offered("a") if name == "waits" else life.runs("a").finishes("a")).gone()
    await write(database_url, script.appended, types=READ)
    with served(database_url) as client:
        found = {one["namespace"]: one["counts"] for one in api(client, "/queues")["items"]}
        assert {name: sum(counts.values()) for name, counts in found.items()} == {"default": 1}
        assert found["default"]["finished"] == 1
        gone = api(client, "/queues/team-b/lq")
        assert sum(gone["counts"].values()) == 0
        assert {one["name"] for one in gone["history"]} == {"waits-0a1b2", "ended-0a1b2"}
        assert api(client, "/queues/team-b/lq", at="now")["history"] == gone["history"]


async def test_where_a_queue_led_of_which_all_workloads_have_finished(database_url: str) -> None:
    script = Script("a")
    script.workload("over-0a1b2").runs("a").finishes("a")
    await write(database_url, script.appended, types=READ)
    with LogReader.connect(database_url) as reader:
        (told,) = queues_at(reader, reader.clock())
    with served(database_url) as client:
        for at in ({}, {"at": "now"}):
            (item,) = api(client, "/queues", **at)["items"]
            assert item["cluster_queue"] == told["cluster_queue"] == "cq"
            assert api(client, "/queues/default/lq", **at)["cluster_queue"] == "cq"
            assert [one["queue"] for one in api(client, "/clusterqueues/cq", **at)["queues"]] == ["lq"]


def test_a_queue_with_a_name_that_has_to_be_quoted(database_url: str) -> None:
    with served(database_url) as client:
        answer = client.get("/queues/a/%3Cscript%3E")
        assert answer.status_code == 404
        assert "<script>" not in answer.text


async def test_what_is_told_goes_by_the_clock_of_the_events(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is slow serves the pages."""
    scene = Scene()
    for name in ("q", "empty"):
        scene.queue(name, "2")
    await keep(database_url, scene.log, types=READ)
    await write(database_url, Script("a").workload("train-0a1b2").runs("a").script.appended, types=READ)
    monkeypatch.setattr("controlplane.clock.SystemClock.now", lambda _: datetime(2020, 1, 1, tzinfo=UTC))
    with served(database_url) as client:
        assert {one["queue"] for one in api(client, "/queues")["items"]} == {"q", "empty", "lq"}
        assert api(client, "/queues/default/lq")["history"]
        assert api(client, "/usage", by="day")["rows"]


def test_nobody_waits(database_url: str) -> None:
    import asyncio

    scene = Scene()
    scene.queue("q", "2")
    scene.put(kinds.LOCAL_QUEUES, "q", NS, spec={"clusterQueue": "q"})
    scene.settle()
    asyncio.run(keep(database_url, scene.log, types=READ))
    with served(database_url) as client:
        assert [(one["queue"], sum(one["counts"].values())) for one in api(client, "/queues")["items"]] == [("q", 0)]
        page = client.get("/clusterqueues/q").text
        assert "Nobody waits for quota here." in page
        assert "Nobody has quota here." in page
        assert "The log has nobody who had quota here." in page
