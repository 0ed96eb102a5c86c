"""A page as of a time is the page of a log that ended then."""

from __future__ import annotations

import asyncio
import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from controlplane.audit.past import workloads_at
from controlplane.audit.reads import READ, LogReader
from tests.audit.database import keep
from tests.docs.fleet_story import story
from tests.pages.serving import served
from tests.support import postgres
from tests.support.deep import deep_after

RECORDED = story().recorded
TIMES = sorted({one.recorded_at for one in RECORDED})
LATER = timedelta(milliseconds=1)


def api(pages: TestClient, path: str, **given: str) -> Any:
    answer = pages.get(f"/api/v1{path}", params=given)
    return answer.json() if answer.status_code == 200 else answer.status_code


def story_of(pages: TestClient, path: str, at: str) -> Any:
    found = api(pages, path, at=at)
    if isinstance(found, dict):
        found.pop("looked_until", None)
    return found


ASKED = (
    {}, {"sort": "name"}, {"sort": "since"}, {"namespace": "team-b"}, {"state": "Finished"}, {"state": "Succeeded"},
    {"state": "active"},
    {"state": "Failed", "sort": "name"}, {"cluster": "west"}, {"queue": "team-a-queue"}, {"text": "sim"}, {"limit": "2"},
)  # fmt: skip


def list_of(pages: TestClient, at: str, given: dict[str, str]) -> list[Any]:
    """Return a list without what is deleted, which nobody asks the past for, and how often was tried what is over,
    which the present does not know."""
    items = api(pages, "/workloads", at=at, **given)["items"]
    return [
        {**one, "attempt": 0 if one["state"] == "Finished" else one["attempt"]}
        for one in items
        if one["state"] != "Deleted"
    ]


def queues_of(pages: TestClient, at: str) -> dict[str, Any]:
    """Return the queues in which there is a Workload; what is deleted counts as finished in the present alone."""
    found = {}
    for one in api(pages, "/queues", at=at)["items"]:
        one["counts"].pop("finished")
        if any(one["counts"].values()):
            found[one["namespace"], one["queue"]] = one
    return found


@pytest.mark.parametrize("part", deep_after(1, [0.62, 0.45, 0.8, 0.2, 0.3, 0.5, 0.55, 0.7, 0.75, 0.9, 0.95]))
def test_it_is_that_of_a_log_that_ended_then(
    postgres_server: postgres.Server, migrated_template: str, pages: TestClient, part: float
) -> None:
    then = TIMES[int(len(TIMES) * part)]
    before = [one for one in RECORDED if one.recorded_at <= then]
    at = (then + LATER).isoformat()
    name = postgres.new_name("ended")
    url = postgres_server.create(name, migrated_template)
    try:
        asyncio.run(keep(url, before, types=READ))
        with served(url) as ended:
            assert api(pages, "/pods", at=at) == api(ended, "/pods")
            assert queues_of(pages, at) == queues_of(ended, "")
            assert fleet_of(pages, at) == fleet_of(ended, "")
            for given in ASKED:
                assert list_of(pages, at, given) == list_of(ended, "", given), given
            absences = api(ended, "/outages")["items"]
            assert api(pages, "/outages", at=at)["items"] == absences
            for one in absences:
                path = f"/outages/{one['cluster']}/{one['position']}"
                assert story_of(pages, path, at) == story_of(ended, path, "")
            for recorded in [*before[-12:], *before[:: max(len(before) // 6, 1)]]:
                path = f"/events/{recorded.position}"
                assert story_of(pages, path, at) == story_of(ended, path, "")
            assert api(pages, f"/events/{before[-1].position + 1}", at=at) == 404
    finally:
        postgres_server.drop(name)


def test_an_absence_that_was_to_come_is_not_there(pages: TestClient) -> None:
    (one,) = [each for each in api(pages, "/outages")["items"] if each["cluster"] == "north"]
    path, since = f"/outages/north/{one['position']}", datetime.fromisoformat(one["since"])
    assert api(pages, path, at=(since - LATER).isoformat()) == 404
    open_still = api(pages, path, at=(since + LATER).isoformat())
    assert open_still["outage"]["until"] is None
    assert {each["became"] for each in open_still["workloads"]} == {"Kept"}
    assert {each["ran_on"] for each in open_still["workloads"]} == {None}, "it is not back yet"
    assert "north has been away for" in pages.get(path, params={"at": (since + LATER).isoformat()}).text


def test_what_became_of_lost_runs_is_what_the_view_says(pages: TestClient, fleet_url: str) -> None:
    query = "SELECT * FROM audit.outage_workloads WHERE log = %(log)s ORDER BY namespace, name, position"
    with LogReader.connect(fleet_url) as reader:
        said = {(row["cluster"], row["since"], row["namespace"], row["name"]): row for row in reader.rows(query)}
    found = {}
    for away in api(pages, "/outages")["items"]:
        for one in api(pages, f"/outages/{away['cluster']}/{away['position']}")["workloads"]:
            since = datetime.fromisoformat(away["since"]).astimezone(UTC)
            found[away["cluster"], since, one["namespace"], one["name"]] = one
    assert found.keys() == said.keys() != set()
    for key, one in found.items():
        row = said[key]
        assert (one["became"], one["ran_on"], one["position"]) == (row["became"], row["ran_on"], row["position"])
        assert timedelta(seconds=one["twice"]) == (row["twice"] or timedelta())


@pytest.mark.parametrize("part", deep_after(3, [0.45, 0.8, 1, 0.15, 0.6, 0.97]))
def test_the_list_of_the_past_is_what_the_view_says(pages: TestClient, fleet_url: str, part: float) -> None:
    """It is made of the directory and what is folded; the view is made of the events in SQL."""
    at = TIMES[min(int(len(TIMES) * part), len(TIMES) - 1)] + LATER
    with LogReader.connect(fleet_url) as reader:
        said = {(row["namespace"], row["name"]): row for row in workloads_at(reader, at)}
    found = api(pages, "/workloads", at=at.isoformat(), limit="500")
    assert found["total"] == len(said)
    for one in found["items"]:
        row = said.pop((one["namespace"], one["name"]))
        assert one["state"] == row["phase"]
        assert one["cluster"] == (row["cluster"] or "")
        assert one["queue"] == (row["queue"] or "")
        assert f"{one['kind']}/{one['owner']}".strip("/") == (row["owner"] or "")
        assert one["result"] == (row["reason"] if row["phase"] == "Finished" else "")
        assert one["attempt"] in ([row["attempt"]] if row["phase"] != "Finished" else [0, row["attempt"]])
    assert not said


def test_of_more_workloads_than_are_read_for_a_time_one_namespace_is_asked_for(
    pages: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A moment of its own: what is answered for another test's moment is kept.
    at = (TIMES[len(TIMES) // 3] + LATER).isoformat()
    monkeypatch.setattr("controlplane.pages.asking.MOST", 0)
    for path in ("/workloads", "/queues"):
        answer = pages.get(f"/api/v1{path}", params={"at": at})
        assert answer.status_code == 400
        assert "Workloads have changed since then: ask for one namespace" in answer.json()["error"]


def test_a_time_that_was_asked_for_is_not_read_again(pages: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    at = (TIMES[len(TIMES) // 2] + LATER).isoformat()
    first = api(pages, "/workloads", at=at)
    monkeypatch.setattr("controlplane.pages.past.folded", None)
    assert api(pages, "/workloads", at=at) == first
    assert api(pages, "/queues", at=at)["items"]


def fleet_of(pages: TestClient, at: str) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """Return how many Workloads were how far, those that had finished together, and what was on each cluster."""
    found = api(pages, "/clusters", at=at)
    states = dict(found["states"])
    over = sum(states.pop(word, 0) for word in ("Finished", "Succeeded", "Failed"))
    states.pop("Deleted", None)
    clusters = {one["name"]: (one["copies"], one["running"]) for one in found["clusters"]}
    return {**states, "Finished": over}, clusters


def test_the_fleet_of_more_workloads_than_are_read_is_shown_without_their_counts(
    pages: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = (TIMES[int(len(TIMES) * 0.57)] + LATER).isoformat()
    with monkeypatch.context() as few:
        few.setattr("controlplane.pages.asking.MOST", 0)
        cut = api(pages, "/clusters", at=at)
        page = pages.get("/", params={"at": at}).text
    whole = api(pages, "/clusters", at=at)
    assert [one["state"] for one in cut["clusters"]] == [one["state"] for one in whole["clusters"]]
    assert any(one["running"] for one in whole["clusters"])
    assert whole["uncounted"] == ""
    assert {one["running"] for one in cut["clusters"]} == {None}
    assert "changed since then" in cut["uncounted"]
    assert "changed since then" in page


def test_every_page_that_is_linked_from_one_of_the_past_answers(pages: TestClient) -> None:
    page = pages.get("/workloads", params={"at": "2026-01-01 13:00"}).text
    linked = {html.unescape(one) for one in re.findall(r'href="(/[^"]*)"', page)}
    assert "/whatif" in linked
    assert {one: code for one in linked if (code := pages.get(one).status_code) != 200} == {}
