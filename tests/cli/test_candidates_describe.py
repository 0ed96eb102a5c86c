"""`controlplane candidates describe`, as it is typed: what is said of one pod on its way to other clusters."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.__main__ import run
from controlplane.cli import cli
from controlplane.controllers.candidates.source import observations as seen
from tests.candidates.stage import NS
from tests.candidates.told import Told
from tests.cli.test_candidates_list import _written, kept
from tests.support import postgres


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> str:
    import asyncio

    return asyncio.run(_written(postgres_server, migrated_template))


def invoke(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--database-url", url, "candidates", "describe", *arguments])


def plain(url: str, *arguments: str) -> Any:
    told = invoke(url, *arguments, "-o", "json")
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


def of_clusters(one: Any) -> dict[str, tuple[str, str, str]]:
    return {each["cluster"]: (each["state"], each["node"], each["message"]) for each in one["candidates"]}


def test_each_target_says_what_it_said_and_since_when(url: str) -> None:
    one = plain(url, f"{NS}/nowhere")
    assert of_clusters(one) == {
        "a": ("Unschedulable", "", "candidate finds no node: 0/3 nodes"),
        "b": ("Refused", "", "candidate is refused: not here"),
    }
    assert [each["reason"] for each in one["candidates"]] == ["NoNode", "NotInvited"]
    assert all(each["since"] and each["epoch"] == 1 and each["reachable"] for each in one["candidates"])
    assert one["state"] == "Pending"
    assert one["sentence"].startswith("No cluster has it yet: ")
    assert one["waits_for"] == "a: candidate finds no node: 0/3 nodes; b: candidate is refused: not here"
    assert one["epoch_since"] is not None
    assert one["permit"] is None


def test_a_permit_and_a_delegate(url: str) -> None:
    permitted = plain(url, f"{NS}/permitted")
    assert (permitted["permit"]["cluster"], permitted["permit"]["kind"], permitted["permit"]["revoking"]) == (
        "a",
        "Bind",
        False,
    )
    assert of_clusters(permitted)["a"] == ("Permitted", "n", of_clusters(permitted)["a"][2])
    bound = plain(url, f"{NS}/bound")
    assert (bound["cluster"], bound["node"], bound["permit"]) == ("a", "n", None)
    assert bound["candidate"].startswith("bound-")
    assert of_clusters(bound)["a"][0] == "Bound"


def test_as_people_read_it(url: str) -> None:
    lines = invoke(url, "permitted", "-n", NS).stdout.splitlines()
    head = {label: value.strip() for label, _, value in (line.partition(":") for line in lines) if value}
    assert (head["Name"], head["Namespace"], head["State"], head["Cluster"]) == ("permitted", NS, "Pending", "a")
    assert head["Permit"].startswith("number 1: a may bind it until ")
    assert head["Waits For"] == "a to bind it"
    assert "Targets:" in lines
    titles = next(line for line in lines if line.strip().startswith("Cluster  State"))
    assert titles.split() == ["Cluster", "State", "Candidate", "Epoch", "Node", "Score", "Permit", "Since", "Says"]
    assert "Events:" in lines
    assert "Events:" not in invoke(url, f"{NS}/permitted", "--show-events", "false").stdout


@pytest.mark.parametrize("name", [f"{NS}/bound", f"pod/{NS}/bound", f"candidate/{NS}/bound"])
def test_the_ways_to_write_a_name(url: str, name: str) -> None:
    assert plain(url, name) == plain(url, "bound", "-n", NS)


def test_several_at_once_and_as_yaml(url: str) -> None:
    assert [one["name"] for one in plain(url, f"{NS}/bound", f"{NS}/wrong")] == ["bound", "wrong"]
    told = yaml.safe_load(invoke(url, f"{NS}/wrong", "-o", "yaml").stdout)
    assert (told["name"], told["waits_for"]) == ("wrong", 'placement "x": use FirstReady')


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([f"{NS}/boundd"], 5, f"did you mean {NS}/bound?"),
        (["other/bound"], 5, f"did you mean {NS}/bound?"),
        ([f"{NS}/bound-0a1b2c3d"], 5, f"did you mean {NS}/bound?"),
        ([f"{NS}/xyz"], 5, "only pods with the schedulerName of candidates.schedulerName are placed on other clusters"),
        (["bound"], 2, "write NAMESPACE/NAME, or NAME with -n NAMESPACE"),
        (["x", "-n", ""], 2, "write NAMESPACE/NAME"),
        ([], 2, "Missing argument"),
    ],
)
def test_a_name_that_is_none(
    url: str, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--database-url", url, "candidates", "describe", *arguments]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err


def test_an_empty_log_says_so(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--database-url", database_url, "candidates", "describe", f"{NS}/web"]) == 5
    assert "the log main is empty" in capsys.readouterr().err


def test_a_tab_offers_the_pods(url: str) -> None:
    asked = {"COMP_WORDS": f"controlplane candidates describe {NS}/b", "COMP_CWORD": "3"}
    given = {"_CONTROLPLANE_COMPLETE": "bash_complete", "CONTROLPLANE_DATABASE_URL": url, **asked}
    told = CliRunner().invoke(cli, [], env=given, prog_name="controlplane")
    assert [line.partition(",")[2] for line in told.output.split()] == [f"{NS}/bound"]


async def test_a_target_that_is_away_says_what_it_said_last(database_url: str) -> None:
    told = Told("a", "b").asked()
    told.says(seen.CandidateUnschedulable, "a", "web", why="NoNode", message="0/3 nodes").lose("a").settle()
    one = plain(await kept(database_url, told), f"{NS}/web")
    (a,) = (each for each in one["candidates"] if each["cluster"] == "a")
    assert (a["state"], a["reachable"]) == ("Unschedulable", False)
    assert a["message"].endswith("0/3 nodes; the cluster cannot be reached, so this is what it said last")


async def test_a_target_that_was_never_asked(database_url: str) -> None:
    one = plain(await kept(database_url, Told("a").lose("a").pod("web").settle()), f"{NS}/web")
    assert [(each["cluster"], each["reachable"]) for each in one["candidates"]] == [("a", False)]


async def test_a_candidate_that_was_removed_says_why(database_url: str) -> None:
    told = Told("a", "b").asked().reserves("a").settle().binds("a").settle().candidate_gone("b").settle()
    one = plain(await kept(database_url, told), f"{NS}/web")
    (b,) = (each for each in one["candidates"] if each["cluster"] == "b")
    assert (b["state"], b["reason"]) == ("Gone", "AnotherTargetWon")
    assert b["message"] == "removed, because another target than b got the pod"
    assert b["since"]


async def test_since_is_when_it_began_to_say_so(database_url: str) -> None:
    told = Told("a").asked()
    for _ in range(3):
        told.says(seen.CandidateUnschedulable, "a", "web", why="NoNode", message="0/3 nodes").settle()
    one = plain(await kept(database_url, told), f"{NS}/web")
    asked = ["--database-url", database_url, "events", "-o", "json", "--type", "CandidateUnschedulable"]
    events = json.loads(CliRunner().invoke(cli, asked).stdout)
    assert one["candidates"][0]["since"] == min(event["at"] for event in events)
