"""What a user reads of a scheduler's own log: `why`, `timeline` and `events` of pods that a real scheduler placed,
refused and evicted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.__main__ import run
from controlplane.cli import cli
from controlplane.kube.kinds import PODS, PRIORITY_CLASSES
from tests.scheduling.stage import Stage, staged, until
from tests.scheduling.test_candidates import HOME, Source
from tests.support import postgres


async def played(url: str) -> None:
    """A node that is too small and one that comes later, a gate, a preemption, candidates before their permit, after it
    and refused.
    """
    async with staged(url) as stage:
        cluster, source = stage.cluster, Source(stage.cluster)
        for name, value in (("low", -10), ("high", 1000)):
            cluster.store.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        cluster.node("small", cpu="2")
        source.invited(priorityClasses=["low"])
        await stage.replica()
        cluster.pod("gated", schedulingGates=[{"name": "example.com/quota"}])
        cluster.pod("big", cpu="8")
        await until(lambda: cluster.condition("big").get("reason") == "Unschedulable")
        await until(lambda: cluster.condition("gated").get("reason") == "SchedulingGated")
        cluster.node("large", cpu="10")
        await until(lambda: cluster.on("big") == "large")
        cluster.pod("victim", cpu="2", priorityClassName="low")
        await until(lambda: cluster.on("victim"))
        await _evicted(stage)
        source.asks("barred", priorityClassName="high")
        await until(lambda: source.status("barred").get("phase") == "Refused")
        source.asks("offered", cpu="0.5")
        await until(lambda: source.status("offered").get("phase") == "Unschedulable")
        cluster.store.delete(PODS, "default", "urgent")
        await until(lambda: source.status("offered").get("phase") == "Reserved")
        source.asks("permitted", cpu="0.5")
        await until(lambda: source.status("permitted").get("phase") == "Reserved")
        source.permits("permitted", reservation=source.status("permitted")["reservation"]["number"])
        await until(lambda: source.status("permitted").get("phase") == "Bound")
        cluster.pod("huge", cpu="99")
        await until(lambda: cluster.condition("huge").get("reason") == "Unschedulable")


async def _evicted(stage: Stage) -> None:
    cluster = stage.cluster
    cluster.pod("filler", cpu="2", priorityClassName="high")
    await until(lambda: cluster.on("filler"))
    cluster.pod("urgent", cpu="2", priorityClassName="high")
    await until(lambda: "victim" not in cluster.pods() and cluster.on("urgent"))


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    name = postgres.new_name("scheduled")
    found = postgres_server.create(name, migrated_template)
    try:
        asyncio.run(played(found))
        yield found
    finally:
        postgres_server.drop(name)


def said(url: str, *arguments: str) -> str:
    result = CliRunner().invoke(cli, ["--database-url", url, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def asked(url: str, *arguments: str) -> Any:
    return json.loads(said(url, *arguments, "-o", "json"))


def fails(capsys: pytest.CaptureFixture[str], url: str, *arguments: str) -> tuple[int, str]:
    code = run(["--database-url", url, *arguments])
    return code, capsys.readouterr().err


def test_a_pod_without_a_node_says_why_and_what_will_help(url: str) -> None:
    told = asked(url, "why", "pod/default/huge")
    assert told["workload"] == "pod/default/huge"
    assert told["state"] == "Pending"
    assert told["sentence"].startswith(
        "No node: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are "
    )
    assert "It is tried again when a node comes or gets room, or a pod leaves one" in told["sentence"]
    assert [one["type"] for one in told["events"]] == ["SchedulingFailed"]


@pytest.mark.parametrize("asked_for", ["why", "describe", "timeline"])
def test_a_refusal_names_the_nodes(url: str, asked_for: str) -> None:
    told = " ".join(said(url, asked_for, "pod/default/huge").split())
    assert "Insufficient cpu on large and small" in told
    told = " ".join(said(url, "why", "candidate/default/offered", "--at", _refused(url, "offered")).split())
    assert "Insufficient cpu on large and small" in told
    moments = asked(url, "timeline", "candidate/default/offered")["moments"]
    (refused,) = [one["what"] for one in moments if one["type"] == "NotSchedulable"]
    assert "Insufficient cpu on large and small" in refused


def _refused(url: str, name: str) -> str:
    """When the source of a candidate was told that there is no node."""
    moments = asked(url, "timeline", f"candidate/default/{name}")["moments"]
    return str(next(one["at"] for one in moments if one["type"] == "NotSchedulable"))


def test_a_pod_that_got_a_node_says_by_which_scores_and_what_woke_it(url: str) -> None:
    told = asked(url, "why", "pod/default/big")
    assert told["state"] == "Running"
    assert told["sentence"].startswith("It is on node large, because it was the only feasible node (score ")
    assert "it was found at attempt 2, after node large " in told["sentence"]
    assert {"SchedulingFailed", "NodeReserved", "BindingDecided"} <= {one["type"] for one in told["events"]}
    scored = next(one for one in told["events"] if one["type"] == "NodeReserved")["data"]
    assert sum(scored["scores"].values()) == scored["score"]


def test_a_gate_is_named(url: str) -> None:
    told = asked(url, "why", "pod/default/gated")
    assert told["sentence"].startswith("It is not tried, because it has scheduling gates: example.com/quota.")
    assert told["waits_for"] == "its scheduling gates to go (example.com/quota)"


def test_who_was_evicted_for_whom(url: str) -> None:
    told = asked(url, "why", "pod/default/victim")
    (chosen,) = [one for one in told["events"] if one["type"] == "VictimChosen"]
    assert told["state"] == "Deleted"
    assert told["sentence"] == (
        f"It is gone: it was evicted from node {chosen['data']['node']}, "
        "because pod default/urgent has a higher priority and needs its place."
    )
    lines = said(url, "timeline", "pod/default/urgent")
    assert "default/victim: pod is to go from node " in lines
    assert "pod default/urgent has a higher priority and needs its place" in lines
    assert "default/victim: victim is gone" in lines
    assert "room is made on node " in lines


def test_a_candidate_that_waits_for_its_permit(url: str) -> None:
    told = asked(url, "why", "pod/default/offered")
    assert told["state"] == "Reserved"
    assert told["waits_for"] == f"the permit of {HOME}"
    assert f"It waits for the permit of {HOME}; without one the node is given back at " in told["sentence"]
    assert told["sentence"].endswith(f"It is the candidate of pod default/offered of {HOME}.")
    assert asked(url, "why", "candidate/default/offered") == told


def test_a_candidate_that_was_permitted(url: str) -> None:
    told = asked(url, "why", "pod/default/permitted")
    assert f"because {HOME} permitted its reservation (permit 1)." in told["sentence"]
    assert "Here " in told["sentence"]
    kinds = [one["type"] for one in told["events"]]
    assert {"Reserved", "PermitSeen", "Bound"} <= set(kinds)
    lines = said(url, "timeline", "candidate/default/permitted")
    for words in (
        "candidate is taken",
        "is held (reservation 1)",
        "permit 1 for reservation 1 is read",
        "pod is bound to",
    ):
        assert words in lines
    assert lines.count("pod waits for a node") == 0  # the candidate's own stream says it


def test_a_candidate_that_is_refused(url: str) -> None:
    told = asked(url, "why", "pod/default/barred")
    assert told["state"] == "Rejected"
    assert "does not allow priority class" in told["sentence"]


def test_events_have_words_and_the_log_may_be_named(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = asked(url, "events", "--log", "scheduler", "--limit", "500")
    assert {"PendingPodObserved", "NodeReserved", "VictimChosen", "Reserved", "Bound"} <= {one["type"] for one in told}
    assert all(one["what"] != one["type"] for one in told)
    assert run(["--database-url", url, "events"]) == 0
    assert "The log main is empty; the logs of this database are scheduler" in capsys.readouterr().err


def test_the_log_that_answered_is_named(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--database-url", url, "why", "pod/default/huge"]) == 0
    assert capsys.readouterr().err == "From the log scheduler.\n"
    assert run(["--database-url", url, "why", "pod/default/huge", "--log", "scheduler"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pod/default/hugo"], "did you mean pod/default/huge of the log scheduler?"),
        (["pod/elsewhere/huge"], "did you mean pod/default/huge of the log scheduler?"),
        (["pod/default/hugo", "--log", "scheduler"], "did you mean pod/default/huge?"),
        (["pod/default/huge", "--log", "main"], "scheduler has it: choose with --log"),
        (["pod/default/huge", "--log", "nosuch"], "scheduler has it: choose with --log"),
        (
            ["pod/default/zzzzzzz", "--log", "scheduler"],
            "a scheduler records the pods whose spec.schedulerName is one of its profiles",
        ),
        (["candidate/default/zzzzzzz"], "the log main is empty; the logs of this database are scheduler"),
        (["default/huge", "--log", "scheduler"], "did you mean pod/default/huge?"),
    ],
)
@pytest.mark.parametrize("verb", ["why", "timeline"])
def test_what_is_not_there_says_what_may_be_meant(
    url: str, capsys: pytest.CaptureFixture[str], verb: str, arguments: list[str], words: str
) -> None:
    code, error = fails(capsys, url, verb, *arguments)
    assert code == 5
    assert words in error


def test_a_name_with_too_many_parts_is_a_usage_error(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = fails(capsys, url, "why", "pod/default/huge/more")
    assert code == 2
    assert "KIND/NAMESPACE/NAME" in error


def test_no_such_database(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = fails(capsys, url.replace("controlplane_scheduled", "nosuch"), "why", "pod/default/huge")
    assert code == 4
    assert "the database cannot be used" in error


def test_a_node_tells_which_pods_were_held_and_bound_there(url: str) -> None:
    found = asked(url, "timeline", "node", "large")
    told = {moment["what"].partition(":")[0] for moment in found["moments"]}
    assert "default/big" in told
    assert "default/huge" not in told
    assert {"NodeReserved", "BindingDecided"} <= {moment["type"] for moment in found["moments"]}
    evicted = [*found["moments"], *asked(url, "timeline", "node", "small")["moments"]]
    assert any(moment["type"] == "VictimChosen" and "default/victim" in moment["what"] for moment in evicted)


def test_a_candidate_as_a_picture(url: str) -> None:
    assert "<title>management: running from" in said(url, "timeline", "candidate", "default/permitted", "-o", "svg")


def test_a_pod_as_it_was(url: str) -> None:
    """Before the node came that it fits on, and after; the log that has it is found as without a time."""
    moments = asked(url, "timeline", "pod/default/big")["moments"]
    failed = next(moment["at"] for moment in moments if moment["type"] == "SchedulingFailed")
    assert asked(url, "why", "pod/default/big", "--at", failed)["state"] == "Pending"
    assert (
        asked(url, "why", "pod/default/big", "--at", moments[-1]["at"])["state"]
        == asked(url, "why", "pod/default/big")["state"]
    )


def test_a_pod_that_was_not_there_yet(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = asked(url, "events", "--log", "scheduler", "--after", "0", "--limit", "1")[0]["at"]
    code, told = fails(capsys, url, "why", "pod/default/huge", "--at", first, "--log", "scheduler")
    assert (code, "there is no pod default/huge" in told) == (5, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["candidate", "default/offered", "--log", "scheduler"], "held for it"),
        (["pod", "default/huge", "--log", "scheduler"], "node"),
        (["pod/default/huge"], "node"),
    ],
    ids=" ".join,
)
def test_a_pod_and_a_candidate_can_be_described(url: str, words: list[str], why: str) -> None:
    text = said(url, "describe", *words)
    assert text.startswith("Name:")
    assert why in text.partition("Why:")[2].partition("\n")[0].lower()
    assert "Events:\n  Age" in text
    found = json.loads(said(url, "describe", *words, "-o", "json"))
    assert found["kind"] in ("candidate", "pod")
    assert found["namespace"] == "default"
    assert found["events"]
