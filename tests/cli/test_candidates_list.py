"""`controlplane candidates list`, as it is typed: what is printed of pods on their way to other clusters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.__main__ import run
from controlplane.audit.reads import READ
from controlplane.cli import cli
from controlplane.controllers.candidates.source import observations as seen
from tests.audit.script import write
from tests.candidates.stage import NS
from tests.candidates.told import Told
from tests.support import postgres


def story() -> Told:
    """A pod that runs, one that was permitted, one that nobody has a node for, one of a gang, one that was deleted and
    one of which nothing is left.
    """
    told = Told("a", "b").asked("bound", "gone", "left", "permitted", "nowhere")
    told.reserves("a", "bound", "permitted", "gone").settle().binds("a", "bound").settle()
    told.says(seen.CandidateRefused, "b", "nowhere", why="NotInvited", message="not here")
    told.says(seen.CandidateUnschedulable, "a", "nowhere", why="NoNode", message="0/3 nodes").settle()
    for name in ("gone", "left"):
        told.pod_gone(name).settle()
    told.candidate_gone("a", "gone").candidate_gone("b", "gone").candidate_gone("b", "left").settle()
    told.pod("alone", group="team").settle()
    told.pod("wrong", problem="InvalidOption", problem_message='placement "x": use FirstReady').settle()
    return told


async def _written(server: postgres.Server, template: str) -> str:
    url = server.create(postgres.new_name("candidates"), template)
    await write(url, story().rows, types=READ)
    return url


async def kept(url: str, told: Told) -> str:
    await write(url, told.rows, types=READ)
    return url


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> str:
    import asyncio

    return asyncio.run(_written(postgres_server, migrated_template))


def invoke(url: str, *arguments: str) -> Result:
    given = ["--database-url", url, "candidates", "list", *arguments]
    result = CliRunner().invoke(cli, given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def rows(url: str, *arguments: str) -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(invoke(url, *arguments, "-o", "json").stdout)}


def test_where_each_pod_is(url: str) -> None:
    found = rows(url)
    assert list(found) == ["alone", "bound", "left", "nowhere", "permitted", "wrong"]
    said = {name: (one["state"], one["cluster"], one["node"], one["waits_for"]) for name, one in found.items()}
    assert said == {
        "alone": ("Pending", "", "", "PodGroup team is not there"),
        "bound": ("Pending", "a", "n", "its delegate to start"),
        "left": ("Deleted", "", "", "its candidates in a to go"),
        "nowhere": ("Pending", "", "", "a: candidate finds no node: 0/3 nodes; b: candidate is refused: not here"),
        "permitted": ("Pending", "a", "n", "a to bind it"),
        "wrong": ("Pending", "", "", 'placement "x": use FirstReady'),
    }


def test_a_table_as_kubectl_has_it(url: str) -> None:
    lines = invoke(url).stdout.splitlines()
    assert lines[0].split() == ["NAMESPACE", "POD", "STATE", "CLUSTER", "NODE", "WAITS", "FOR", "AGE"]
    assert [line.split()[:3] for line in lines[1:3]] == [[NS, "alone", "Pending"], [NS, "bound", "Pending"]]
    bare = [line.split()[:-1] for line in lines[1:]]  # they are older by now
    assert [line.split()[:-1] for line in invoke(url, "--no-headers").stdout.splitlines()] == bare
    assert [line.split()[:-1] for line in invoke(url, "-A").stdout.splitlines()[1:]] == bare
    wide = invoke(url, "-o", "wide").stdout.splitlines()
    assert wide[0].split()[-6:] == ["SINCE", "(UTC)", "EPOCH", "CANDIDATE", "PODGROUP", "TARGETS"]
    (bound,) = (line for line in wide if " bound " in line)
    assert "a, b" in bound
    assert "bound-" in bound


def test_names_and_fields_for_programs(url: str) -> None:
    names = invoke(url, "-o", "name").stdout.split()
    assert names[0] == f"pod/{NS}/alone"
    assert len(names) == 6
    for name in names:
        told = CliRunner().invoke(cli, ["--database-url", url, "why", name], catch_exceptions=False)
        assert told.exit_code == 0, told.output
    head, *lines = invoke(url, "-o", "csv").stdout.splitlines()
    assert head.split(",")[:6] == ["namespace", "name", "state", "cluster", "node", "since"]
    assert len(lines) == 6
    ordered = invoke(url, "--sort-by", "state", "-o", "jsonpath={.items[*].state}").stdout.split()
    assert ordered == sorted(ordered)
    assert rows(url)["nowhere"]["targets"] == {
        "a": "candidate finds no node: 0/3 nodes",
        "b": "candidate is refused: not here",
    }


def test_only_those_of_a_cluster_and_a_namespace(url: str) -> None:
    assert list(rows(url, "--cluster", "b")) == ["bound", "left", "nowhere", "permitted"]
    assert len(rows(url, "-n", NS)) == 6
    assert len(rows(url, "-n", NS, "--cluster", "a")) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-n", "x"], "No candidates found in namespace x."),
        (["-n", NS[:-1]], f"No candidates found in namespace {NS[:-1]}. Did you mean {NS}?"),
        (["--cluster", "zz"], "No candidates found on cluster zz."),
        (["-n", NS, "--cluster", "aa"], f"No candidates found in namespace {NS} on cluster aa. Did you mean a?"),
        (["--cluster", "ab"], "No candidates found on cluster ab. Did you mean b or a?"),
    ],
)
def test_nothing_is_said_to_be_nothing(url: str, arguments: list[str], said: str) -> None:
    told = invoke(url, *arguments)
    assert told.stderr.strip() == said
    assert told.stdout.split()[0] == "NAMESPACE"
    assert invoke(url, *arguments, "-o", "json").stdout.strip() == "[]"


def test_an_empty_log_says_so(database_url: str) -> None:
    told = invoke(database_url)
    assert told.stderr.strip() == "No candidates found: the log main is empty."


def test_a_field_that_is_not_there_is_named(url: str) -> None:
    given = ["--database-url", url, "candidates", "list", "--sort-by", "nodes"]
    told = CliRunner().invoke(cli, given)
    assert told.exit_code == 2
    assert "did you mean node?" in told.output


def test_a_tab_offers_namespaces_and_clusters(url: str) -> None:
    def offered(words: str, incomplete: str) -> list[str]:
        asked = {"COMP_WORDS": f"controlplane {words} {incomplete}", "COMP_CWORD": str(len(words.split()) + 1)}
        given = {"_CONTROLPLANE_COMPLETE": "bash_complete", "CONTROLPLANE_DATABASE_URL": url, **asked}
        told = CliRunner().invoke(cli, [], env=given, prog_name="controlplane")
        return [line.partition(",")[2] for line in told.output.split()]

    assert offered("candidates list -n", NS[:2]) == [NS]
    assert {"a", "b"} <= set(offered("candidates list --cluster", ""))
    assert offered("candidates", "l") == ["list"]


async def test_a_target_that_is_away_and_a_pod_of_that_name_before(database_url: str) -> None:
    told = Told("a", "b").asked().pod_gone().settle().candidate_gone("a").candidate_gone("b").settle()
    first = len(told.rows)
    told.lose("b").pod("web", uid="web#2").settle()
    (one,) = rows(await kept(database_url, told)).values()
    assert one["waits_for"] == "a has not answered; b cannot be reached"
    asked = ["--database-url", database_url, "events", "-o", "json", "--type", "SourcePodObserved"]
    seen_at = json.loads(CliRunner().invoke(cli, asked).stdout)
    assert one["since"] == next(event["at"] for event in seen_at if event["position"] > first)


@pytest.mark.parametrize(
    ("phase", "state", "waits_for"),
    [
        ("Pending", "Pending", "its delegate to start"),
        ("Running", "Running", ""),
        ("Unknown", "Running", ""),
        ("Succeeded", "Finished", ""),
    ],
)
async def test_it_runs_when_its_delegate_does(database_url: str, phase: str, state: str, waits_for: str) -> None:
    told = Told("a").bound("a").status("a", phase=phase).settle()
    (one,) = rows(await kept(database_url, told)).values()
    assert (one["state"], one["cluster"], one["waits_for"]) == (state, "a", waits_for)


async def test_a_gang_says_what_was_decided_about_it(database_url: str) -> None:
    told = Told("a").gang("one", "two").settle()
    told.says(seen.CandidateUnschedulable, "a", "one", why="NoNode", message="0/3 nodes").settle()
    found = rows(await kept(database_url, told))
    assert found["one"]["group"] == found["two"]["group"] == "gang"
    assert found["one"]["waits_for"].startswith("PodGroup gang: ")
    assert found["one"]["waits_for"].endswith("; a: candidate finds no node: 0/3 nodes")


async def test_of_the_podgroup_of_such_pods_it_is_said_where_it_stands(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await kept(database_url, Told("a").gang("one", "two").settle())
    for verb in ("why", "describe", "timeline"):
        assert run(["--database-url", database_url, verb, f"podgroup/{NS}/gang"]) == 5
        assert f"`controlplane candidates list -n {NS}`, with what the group waits for" in capsys.readouterr().err


async def test_targets_that_say_the_same_are_named_together(database_url: str) -> None:
    told = Told("a", "b").asked()
    for cluster in ("a", "b"):
        told.says(seen.CandidateRefused, cluster, "web", why="NotInvited", message="not here")
    told.settle()
    (one,) = rows(await kept(database_url, told)).values()
    assert one["waits_for"] == "a and b: candidate is refused: not here"
    story = json.loads(
        CliRunner().invoke(cli, ["--database-url", database_url, "timeline", f"pod/{NS}/web", "-o", "json"]).stdout
    )
    shown = next(moment for moment in story["moments"] if moment["type"] == "StatusShown")
    assert shown["what"] == "pod's status is to be Pending: 0/2 clusters have it: a and b: not here"
    assert shown["why"] == "no target has a node for it"  # and not once more what is said already
