"""What the pages say is what the commands say: of the same log, by the same readers."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from controlplane.pages.views.queues import reason_without_amounts
from tests.cli.test_audit_verbs import asked, invoke
from tests.pages.serving import served

AT = "2026-01-01 13:00"
WHOLE = ("team-a/job-safe-0a1b2", "team-b/job-sim-0a1b2", "team-b/job-etl-0a1b2", "team-a/job-live-0a1b2")


def api(pages: TestClient, path: str, **given: str) -> Any:
    answer = pages.get(f"/api/v1{path}", params=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_list_is_that_of_the_command(pages: TestClient, fleet_url: str) -> None:
    said = {(one["namespace"], one["name"]): one for one in asked(fleet_url, "workloads", "--all")}
    shown = {(one["namespace"], one["name"]): one for one in api(pages, "/workloads", limit="500")["items"]}
    there = {key: one for key, one in shown.items() if one["state"] != "Deleted"}
    assert there.keys() == said.keys()
    for key, one in there.items():
        for field in ("state", "result", "queue", "cluster", "waits_for", "kind"):
            assert one[field] == said[key][field], (key, field)
        assert one["owner"] == said[key]["job"]


@pytest.mark.parametrize("at", ["", AT])
def test_the_list_says_why_a_workload_is_where_it_is(pages: TestClient, fleet_url: str, at: str) -> None:
    there = [one for one in api(pages, "/workloads", limit="500", at=at)["items"] if one["cluster"]]
    assert len(there) > 2
    for one in there:
        moments = asked(fleet_url, "timeline", f"{one['namespace']}/{one['name']}")["moments"]
        chosen = [
            told["why"] for told in moments if told["type"] == "WinnerChosen" and told["cluster"] == one["cluster"]
        ]
        assert any(one["because"] in told for told in chosen), one
        assert one["because"] or not chosen


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"namespace": "team-a"}, lambda one: one["namespace"] == "team-a"),
        ({"state": "Succeeded"}, lambda one: one["result"] == "Succeeded"),
        ({"state": "active"}, lambda one: one["state"] not in ("Finished", "Deleted")),
        ({"cluster": "west"}, lambda one: one["cluster"] == "west"),
        ({"queue": "team-b-queue", "state": "Succeeded"}, lambda one: one["queue"] == "team-b-queue" and one["result"]),
        ({"text": "sim"}, lambda one: "sim" in one["name"]),
    ],
)
@pytest.mark.parametrize("at", ["", AT])
def test_a_filter_shows_what_fits_and_counts_it(pages: TestClient, given: Any, fits: Any, at: str) -> None:
    every = api(pages, "/workloads", at=at)["items"]
    found = api(pages, "/workloads", **given, at=at)
    names = [one["name"] for one in every if fits(one)]
    assert sorted(one["name"] for one in found["items"]) == sorted(names)
    assert found["total"] in (None, len(names))


@pytest.mark.parametrize("sort", ["changed", "since", "name"])
@pytest.mark.parametrize("at", ["", AT])
def test_pages_follow_each_other_without_a_gap(pages: TestClient, sort: str, at: str) -> None:
    whole = [one["name"] for one in api(pages, "/workloads", sort=sort, at=at)["items"]]
    found, after = [], ""
    while True:
        part = api(pages, "/workloads", sort=sort, limit="2", after=after, at=at)
        found += [one["name"] for one in part["items"]]
        if not (after := part["after"]):
            break
    assert found == whole


@pytest.mark.parametrize("name", WHOLE)
def test_a_workload_is_told_as_why_and_timeline_tell_it(pages: TestClient, fleet_url: str, name: str) -> None:
    said, told = api(pages, f"/workloads/{name}"), asked(fleet_url, "why", name)
    assert (said["state"], said["cluster"], said["sentence"]) == (told["state"], told["cluster"], told["sentence"])
    listed = next(one for one in asked(fleet_url, "workloads", "--all") if f"{one['namespace']}/{one['name']}" == name)
    assert (said["queue"], said["result"]) == (listed["queue"], listed["result"])
    assert pages.get(f"/workloads/{name}").text.count("First seen") == 1
    assert [one["position"] for one in said["rests_on"]] == [one["position"] for one in told["events"]]
    assert [one["text"] for one in said["statements"]] == [one["text"] for one in told["statements"]]
    moments = asked(fleet_url, "timeline", name)["moments"]
    assert [(one["position"], one["what"], one["why"]) for one in said["moments"]] == [
        (one["position"], one["what"], one["why"]) for one in moments
    ]


def test_the_name_of_a_job_leads_to_its_workload(pages: TestClient) -> None:
    assert api(pages, "/workloads/team-b/sim")["name"] == "job-sim-0a1b2"


def test_the_clusters_are_those_of_the_command(pages: TestClient, fleet_url: str) -> None:
    said = {one["name"]: one for one in asked(fleet_url, "clusters")["clusters"]}
    shown = {one["name"]: one for one in api(pages, "/clusters")["clusters"]}
    assert shown.keys() == said.keys()
    for name, one in shown.items():
        for field in ("state", "since", "running", "copies", "owed", "open_writes", "unknown_copies", "reason"):
            assert one[field] == said[name][field], (name, field)


def test_a_cluster_is_told_as_describe_tells_it(pages: TestClient, fleet_url: str) -> None:
    for name in ("north", "west", "management"):
        said, told = api(pages, f"/clusters/{name}"), asked(fleet_url, "describe", f"cluster/{name}")
        for field in ("state", "since", "reason", "running", "copies", "owed"):
            assert said["cluster"][field] == told[field], (name, field)
        assert (said["identity"], said["restores"]) == (told["incarnation"], told["restores"])
        newest = [(one["position"], one["what"]) for one in reversed(told["events"])]
        assert [(one["position"], one["what"]) for one in said["moments"]][: len(newest)] == newest
        assert said["outages"] == api(pages, "/outages", cluster=said["cluster"]["name"], limit="10")["items"]


@pytest.mark.parametrize("at", ["", AT])
def test_the_workloads_of_a_cluster_are_those_of_the_list(pages: TestClient, at: str) -> None:
    for one in api(pages, "/clusters", at=at)["clusters"]:
        said = api(pages, f"/clusters/{one['name']}", at=at)
        listed = api(pages, "/workloads", cluster=one["name"], state="active", at=at)["items"]
        assert said["workloads"] == listed
        assert said["total"] == len(listed) == sum(said["states"].values())
        assert said["cluster"] == one
    assert any(api(pages, f"/clusters/{name}", at=AT)["workloads"] for name in ("north", "west"))


def test_a_cluster_that_is_not_there_is_said_with_the_nearest(pages: TestClient) -> None:
    answer = pages.get("/api/v1/clusters/nort")
    assert (answer.status_code, answer.json()["error"]) == (404, "There is no cluster nort in the log main.")
    assert answer.json()["near"] == ["/clusters/north"]
    assert '<a href="/clusters/north">' in pages.get("/clusters/nort").text
    assert pages.get("/clusters").url.path == "/"


@pytest.mark.parametrize("at", ["", AT])
def test_states_stand_in_the_order_in_which_workloads_go_through_them(pages: TestClient, at: str) -> None:
    found = list(api(pages, "/clusters", at=at)["states"])
    assert len(found) > 2
    order = ["Pending", "Nominated", "Chosen", "Admitted", "Running", "Lost", "Finished", "Succeeded", "Failed"]
    assert [one for one in order if one in found] == [one for one in found if one in order]


def test_the_past_is_what_as_of_says(pages: TestClient, fleet_url: str) -> None:
    workloads = asked(fleet_url, "as-of", AT, "workloads")
    shown = api(pages, "/workloads", at=AT, sort="name")["items"]
    assert [(one["name"], one["state"], one["cluster"]) for one in shown] == [
        (one["name"], one["phase"], one["cluster"] or "") for one in workloads
    ]
    clusters = asked(fleet_url, "as-of", AT, "clusters")
    assert [(one["name"], one["state"]) for one in api(pages, "/clusters", at=AT)["clusters"]] == [
        (one["cluster"], one["phase"]) for one in clusters
    ]
    queues = asked(fleet_url, "as-of", AT, "queues")
    assert [(one["queue"], one["counts"]["lost"]) for one in api(pages, "/queues", at=AT)["items"]] == [
        (one["queue"], one["lost"]) for one in queues
    ]
    told = asked(fleet_url, "why", "team-b/sim", "--at", AT)
    assert api(pages, "/workloads/team-b/sim", at=AT)["sentence"] == told["sentence"]


def test_hours_are_those_of_the_command(pages: TestClient, fleet_url: str) -> None:
    said = asked(fleet_url, "usage", "--by", "namespace,cluster")
    shown = api(pages, "/usage", by="namespace,cluster", days="3660")["rows"]
    assert [(one["by"], round(one["run_hours"], 6)) for one in shown] == [
        ({"namespace": one["namespace"], "cluster": one["cluster"]}, round(one["run_hours"], 6)) for one in said
    ]


def test_an_outage_says_what_became_of_whom(pages: TestClient) -> None:
    (one,) = [each for each in api(pages, "/outages")["items"] if each["cluster"] == "north"]
    story = api(pages, f"/outages/north/{one['position']}")
    became = {each["name"]: each["became"] for each in story["workloads"]}
    assert became == {"job-safe-0a1b2": "Kept", "job-sim-0a1b2": "Requeued"}
    assert story["became"] == {"Kept": 1, "Requeued": 1}
    assert api(pages, "/outages", at="2026-01-01 12:00")["items"] == []


def test_queues_say_who_waits_for_what(pages: TestClient) -> None:
    found = {one["queue"]: one for one in api(pages, "/queues")["items"]}
    head = found["team-a-queue"]["head"]
    assert (head["name"], head["waits_for"]) == (
        "job-big-0a1b2",
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu",
    )
    waits = {(one["state"], one["waits_for"]): one["count"] for one in found["team-a-queue"]["waiting"]}
    assert waits["Pending", "quota in team-a-queue"] == 1
    assert found["team-a-queue"]["pending"] == [{"reason": "insufficient quota for nvidia.com/gpu", "count": 1}]
    assert "Why there is no quota" in pages.get("/queues").text
    assert sum(sum(one["counts"].values()) for one in found.values()) == api(pages, "/workloads")["total"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", ""),
        ("Not admitted, LocalQueue q is stopped", "Not admitted, LocalQueue q is stopped"),
        (
            "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor a, 3 more needed",
            "insufficient unused quota for cpu in flavor a",
        ),
        (
            (
                "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor a, 500m more "
                "needed, insufficient quota for memory in flavor b, previously considered podsets requests (0) + "
                "current podset request (27Gi) > maximum capacity (12Gi)"
            ),
            (
                "insufficient unused quota for cpu in flavor a, insufficient quota for memory in flavor b (more than "
                "there can be)"
            ),
        ),
    ],
)
def test_reasons_are_alike_whatever_the_amounts(message: str, reason: str) -> None:
    assert reason_without_amounts(message) == reason


def test_a_pod_that_has_a_place_waits_no_more(pages: TestClient) -> None:
    """Whatever others had said of it. The story's pod is on east."""
    found = api(pages, "/pods")
    assert (found["pods"], found["groups"], found["answers"]) == (0, [], [])


def test_an_event_leads_to_its_causes_and_to_what_followed(pages: TestClient, fleet_url: str) -> None:
    lost = asked(fleet_url, "why", "team-b/sim", "--at", AT)["events"][-1]
    story = api(pages, f"/events/{lost['position']}")
    assert story["event"]["type"] == "ClusterLost"
    (decided,) = [one for one in story["followed"] if one["type"] == "CheckStateDecided"]
    assert decided["caused_by"] == lost["position"]
    assert api(pages, f"/events/{decided['position']}")["causes"][0]["position"] == lost["position"]


def test_the_evidence_is_a_file_that_can_be_checked(pages: TestClient, fleet_url: str, tmp_path: Any) -> None:
    answer = pages.get("/workloads/team-b/sim/evidence.jsonl")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="team-b_sim.jsonl"'
    file = tmp_path / "sim.jsonl"
    file.write_bytes(answer.content)
    assert "Every line is as it was written" in invoke(fleet_url, "verify-export", str(file)).stdout


def test_a_log_without_anything_says_what_to_do(database_url: str) -> None:
    with served(database_url) as pages:
        assert "The log has seen no Workload yet" in pages.get("/workloads").text
        assert "The log has seen no cluster yet" in pages.get("/").text
        assert pages.get("/queues").status_code == pages.get("/outages").status_code == 200
