"""A page as of a time is the page of a log that ended then."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

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


@pytest.mark.parametrize("part", deep_after(3, [0.62, 0.45, 0.8, 0.2, 0.3, 0.5, 0.55, 0.7, 0.75, 0.9, 0.95]))
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


ASKED = (
    {}, {"sort": "name"}, {"namespace": "team-b"}, {"state": "Finished"}, {"state": "Succeeded"}, {"state": "active"},
    {"state": "Failed", "sort": "name"}, {"cluster": "west"}, {"queue": "team-a-queue"}, {"text": "sim"},
    {"limit": "2"}, {"limit": "2", "after": "2"},
)  # fmt: skip


@pytest.mark.parametrize("part", deep_after(3, [0.45, 0.8, 1, 0.15, 0.6, 0.97]))
def test_the_list_of_the_past_is_what_the_view_says(
    pages: TestClient, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    """Whether it is made of the directory and the history of what changed since, or of all histories."""
    at = (TIMES[min(int(len(TIMES) * part), len(TIMES) - 1)] + LATER).isoformat()
    for given in ASKED:
        quick = api(pages, "/workloads", at=at, **given)
        with monkeypatch.context() as slow:
            slow.setattr("controlplane.pages.views.workloads._CHANGED", -1)
            whole = api(pages, "/workloads", at=at, **given)
        whole["namespaces"] = quick["namespaces"] = []
        assert quick["total"] in (None, whole["total"])
        whole["total"] = quick["total"]
        assert quick == whole, given
