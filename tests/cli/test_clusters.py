"""`controlplane clusters`: the list with its outages, and what an operator may say about lost clusters."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.__main__ import run
from controlplane.app.hosted import TYPES
from controlplane.audit.absence import Absence
from controlplane.audit.clusters_now import grace_cell
from controlplane.cli import cli
from controlplane.cli.clusters import whoami
from controlplane.controllers.connectivity.events import (
    FLEET_STREAM,
    ClusterForgotten,
    ClusterRestored,
    KindOff,
    MassOutageAccepted,
    MassOutageBegan,
    cluster_stream,
)
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.hosting import in_force
from controlplane.log.event import NewEvent
from controlplane.settings import Settings
from tests.audit.database import with_stories
from tests.audit.script import START, Script, at, write
from tests.candidates.stage import Stage
from tests.support import postgres


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    yield from with_stories(postgres_server, migrated_template)


def invoke(url: str, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["--database-url", url, "clusters", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def asked(url: str, *arguments: str) -> Any:
    value = json.loads(invoke(url, *arguments, "-o", "json").stdout)
    assert yaml.safe_load(invoke(url, *arguments, "-o", "yaml").stdout).keys() == value.keys()
    return value


def by_name(url: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in asked(url)["clusters"]}


def fails(capsys: pytest.CaptureFixture[str], url: str, *arguments: str) -> tuple[int, str]:
    code = run(["--database-url", url, "clusters", *arguments])
    told = capsys.readouterr()
    assert told.out == ""
    return code, told.err


def placed(script: Script, *policies: str, on: str = "a") -> None:
    """Let a Workload for each execution policy run on a cluster."""
    for number, policy in enumerate(policies):
        life = script.workload(f"{on}{number}-0a1b2")
        life.job(execution_policy=policy)
        life.runs(on, *script.fleet.index.clusters)


def put(url: str, events: list[NewEvent]) -> None:
    # The verbs run a loop of their own, so the tests run none.
    asyncio.run(write(url, events, types=TYPES))


def outage(url: str, *policies: str, away: str = "ab", of: str = "abc") -> Script:
    """Write a log in which Workloads run on a, and clusters are away: with two of three, a mass outage."""
    script = Script(*of)
    placed(script, *policies)
    for name in away:
        script.lose(name)
    if len(away) > len(of) / 2:
        script.put(NewEvent(stream=FLEET_STREAM, event=MassOutageBegan(away=list(away), of=len(of))))
    put(url, script.appended)
    return script


# --- the list --------------------------------------------------------------------------------------------------------


def test_the_list(url: str) -> None:
    head, home, a, b, c = invoke(url).stdout.splitlines()
    assert head.split() == [
        "NAME",
        "STATE",
        "SINCE",
        "(UTC)",
        "GRACE",
        "OWED",
        "RUNNING",
        "OPEN",
        "WRITES",
        "IDENTITY",
        "SERVER",
        "REASON",
    ]
    assert (home.split()[:2], home.split()[4:]) == (["management", "Connected"], ["0", "0", "i-home", "v1.35.0"])
    assert (a.split()[:2], a.split()[4:]) == (["a", "Connected"], ["0", "0", "i-a", "v1.35.0"])
    assert b.split()[4:] == ["1", "0", "i-b", "v1.35.0"]
    # What ran on c was queued again: nobody stays, one copy is owed.
    assert c.split()[:2] == ["c", "Lost"]
    assert c.split()[-6:] == ["1", "1", "0", "i-c", "v1.35.0", "Unreachable"]


def test_the_list_for_programs(url: str) -> None:
    found = asked(url)
    assert found["mass_outage"] is None
    assert [one["name"] for one in found["clusters"]] == ["@management", "a", "b", "c"]
    c = by_name(url)["c"]
    assert " ".join(c) == (
        "name state since lost_since grace grace_ends_at stays stays_for_ever forgotten owed running copies unknown_copies"
        " open_writes reason message server_version incarnation restores kinds_off"
    )
    assert (c["state"], c["message"], c["copies"], c["owed"], c["stays"]) == ("Lost", "connection refused", 1, 1, 0)
    assert c["lost_since"] is not None
    assert by_name(url)["a"]["lost_since"] is None


def test_a_grace_is_that_of_the_service(database_url: str) -> None:
    script = Script("a", "b")
    placed(script, "")
    script.lose("a")
    said = in_force(MultiKueuePolicy(adapters={}, execution_policy="never-twice"), Settings())
    script.put(NewEvent(stream="service", event=said))
    put(database_url, script.appended)
    assert by_name(database_url)["a"]["grace"] == "never"
    refused = run(["--database-url", database_url, "clusters", "forget", "a"])
    assert refused == 2
    assert "does not say" not in invoke(database_url).stderr


def test_where_the_log_says_no_policy_the_readers_own_is_shown_and_that_is_said(url: str) -> None:
    assert "The log does not say by which settings it is led" in invoke(url).stderr
    assert asked(url)["policy"]["worker_lost_timeout"] == "15m"


def test_open_writes_are_counted_where_they_go(database_url: str) -> None:
    script = Script("a", "b")
    script.workload("w-0a1b2").job().seen({"QuotaReserved": True}).decide().seen(nominated=["a", "b"]).decide()
    put(database_url, script.appended)
    assert {name: one["open_writes"] for name, one in by_name(database_url).items()} == {
        "@management": 0,
        "a": 1,
        "b": 1,
    }


def test_a_cluster_that_answers_and_does_not_serve_a_kind_is_told(database_url: str) -> None:
    script = Script("a", "b")
    off = KindOff(kind="workloads.kueue.x-k8s.io", reason="NotServed", message="not installed there")
    script.put(NewEvent(stream=cluster_stream("a"), event=off, cluster="a"))
    put(database_url, script.appended)
    _, _, a, b = invoke(database_url).stdout.splitlines()
    assert (a[:1], a.endswith("kinds off: workloads"), "kinds off" in b) == ("a", True, False)


def test_an_empty_log_is_no_failure(database_url: str) -> None:
    assert len(invoke(database_url).stdout.splitlines()) == 1
    found = asked(database_url)
    assert (found.keys(), found["mass_outage"], found["clusters"]) == ({"mass_outage", "policy", "clusters"}, None, [])
    assert "does not say" not in invoke(database_url).stderr


@pytest.mark.parametrize(
    ("policies", "grace", "stays", "for_ever"),
    [([""], "left", 1, 0), (["never-twice"], "never", 1, 1), (["", "never-twice"], "left", 2, 1), ([], "left", 0, 0)],
)
def test_the_grace_is_that_of_the_policies(
    database_url: str, policies: list[str], grace: str, stays: int, for_ever: int
) -> None:
    outage(database_url, *policies, away="a")
    a = by_name(database_url)["a"]
    assert (a["grace"], a["stays"], a["stays_for_ever"]) == (grace, stays, for_ever)
    assert (a["grace_ends_at"] is None) == (grace == "never")


@pytest.mark.parametrize(
    ("absence", "cell"),
    [
        (Absence(ends=START + timedelta(minutes=12, seconds=30)), "12m30s"),
        (Absence(ends=START), "over"),
        (Absence(stays=2, never=2), "never"),
        (Absence(ends=START + timedelta(minutes=1), stays=3, never=2), "1m0s, never for 2"),
        (Absence(ends=START - timedelta(minutes=1), stays=3, never=1), "over, never for 1"),
    ],
)
def test_the_grace_in_words(absence: Absence, cell: str) -> None:
    grace = "never" if absence.ends is None else "over" if absence.ends <= START else "left"
    one = {"grace": grace, "grace_ends_at": absence.ends, "stays_for_ever": absence.never}
    assert grace_cell(one, START) == cell


def test_a_grace_that_is_over(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTROLPLANE_MULTIKUEUE_WORKER_LOST_TIMEOUT", "1us")
    outage(database_url, "", away="a")
    assert by_name(database_url)["a"]["grace"] == "over"
    assert " over " in invoke(database_url).stdout


def test_a_restored_cluster_lives_again(database_url: str) -> None:
    script = Script("a")
    script.put(at("a", ClusterRestored(message="went back", restores=1)))
    put(database_url, script.appended)
    assert by_name(database_url)["a"]["restores"] == 1
    assert "i-a+1" in invoke(database_url).stdout


def test_a_mass_outage_is_above_the_table(database_url: str) -> None:
    script = outage(database_url, "")
    first, head, *_ = invoke(database_url).stdout.splitlines()
    assert first.startswith("Mass outage since ")
    assert "UTC: 2 of 3 clusters are away (a, b). Nothing is taken from them; `controlplane" in first
    assert first.endswith("; `controlplane clusters accept-outage` if they are really gone.")
    assert head.startswith("NAME")
    found = asked(database_url)["mass_outage"]
    assert found.pop("since") is not None
    assert found == {"away": ["a", "b"], "of": 3, "holds": True, "accepted_by": ""}
    accepted = NewEvent(stream=FLEET_STREAM, event=MassOutageAccepted(by="jane"))
    put(database_url, script.put(accepted).appended[-1:])
    assert "Accepted by jane" in invoke(database_url).stdout.splitlines()[0]
    assert asked(database_url)["mass_outage"]["holds"] is False


# --- forget ----------------------------------------------------------------------------------------------------------


def test_forget_says_what_it_would_do(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    outage(database_url, "", "never-twice", away="a")
    code, told = fails(capsys, database_url, "forget", "a")
    assert code == 2
    assert "nothing was done" in told
    assert "2 Workloads again that stay with it" in told
    assert "--i-know" in told
    assert by_name(database_url)["a"]["forgotten"] is False


def test_forget(database_url: str) -> None:
    outage(database_url, "", "never-twice", away="a")
    told = invoke(database_url, "forget", "a", "--i-know", "--by", "jane").stdout
    assert told == 'Cluster "a" is given up until it connects again; it has copies of 2 Workloads.\n'
    a = by_name(database_url)["a"]
    assert (a["forgotten"], a["grace"], a["stays_for_ever"]) == (True, "over", 0)
    (event,) = events(database_url, "ClusterForgotten")
    assert (event["stream"], event["data"]) == ("cluster/a", {"by": "jane"})


@pytest.mark.parametrize(
    ("stage", "pods"),
    [(Stage("a", "b").delegated("a"), 1), (Stage("a", "b").permitted("a"), 1), (Stage("a", "b").delegated("b"), 0)],
    ids=["is there", "may be there", "is elsewhere"],
)
def test_forget_says_which_pods_of_ours_are_there(
    capsys: pytest.CaptureFixture[str], database_url: str, stage: Stage, pods: int
) -> None:
    outage(database_url, away="a")
    put(database_url, stage.appended)
    _, told = fails(capsys, database_url, "forget", "a")
    assert ("and place 1 pod anew that is there or may be" in told) == bool(pods)
    told = invoke(database_url, "forget", "a", "--i-know").stdout
    assert told == 'Cluster "a" is given up until it connects again; it has copies of 0 Workloads' + (
        ", and 1 pod is there or may be.\n" if pods else ".\n"
    )


def test_forget_for_programs(database_url: str) -> None:
    outage(database_url, "never-twice", away="a")
    found = json.loads(invoke(database_url, "forget", "a", "--i-know", "-o", "json").stdout)
    assert found == {"cluster": "a", "copies": 1, "pods": 0}
    (event,) = events(database_url, "ClusterForgotten")
    assert event["data"] == {"by": whoami()}


def test_a_cluster_that_is_forgotten_already(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    script = outage(database_url, "", away="a")
    put(database_url, script.put(at("a", ClusterForgotten(by="jane"))).appended[-1:])
    for more in ([], ["--i-know"]):
        code, told = fails(capsys, database_url, "forget", "a", *more)
        assert (code, "is forgotten already, until it connects again" in told) == (1, True)


@pytest.mark.parametrize("more", [[], ["--i-know"]], ids=["asks", "knows"])
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("nobody", 5, 'the log knows no cluster "nobody": it knows a, b, c'),
        ("@management", 5, "it knows a, b, c"),
        ("b", 1, 'cluster "b" is connected, not lost'),
    ],
)
def test_what_cannot_be_forgotten(
    capsys: pytest.CaptureFixture[str], database_url: str, name: str, code: int, words: str, more: list[str]
) -> None:
    outage(database_url, "", away="a")
    found, told = fails(capsys, database_url, "forget", name, *more)
    assert (found, words in told) == (code, True)
    assert events(database_url, "ClusterForgotten") == []


# --- accept-outage ---------------------------------------------------------------------------------------------------


def test_accept_outage_says_what_it_would_do(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    outage(database_url, "", "never-twice")
    code, told = fails(capsys, database_url, "accept-outage")
    assert code == 2
    # The one under never-twice stays all the same.
    assert "this would let 1 Workload be queued again" in told
    assert "(a, b)" in told
    assert asked(database_url)["mass_outage"]["holds"] is True


def test_accept_outage(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    outage(database_url, "")
    told = invoke(database_url, "accept-outage", "--i-know", "--by", "jane").stdout
    assert told == "The mass outage is accepted: Workloads of 2 clusters are queued again as their graces end.\n"
    assert asked(database_url)["mass_outage"]["accepted_by"] == "jane"
    for more in ([], ["--i-know"]):
        code, told = fails(capsys, database_url, "accept-outage", *more)
        assert (code, "was accepted by jane already" in told) == (1, True)


@pytest.mark.parametrize("more", [[], ["--i-know"]], ids=["asks", "knows"])
def test_where_there_is_no_mass_outage(capsys: pytest.CaptureFixture[str], database_url: str, more: list[str]) -> None:
    outage(database_url, "", away="a")
    code, told = fails(capsys, database_url, "accept-outage", *more)
    assert (code, told.splitlines()[-1]) == (1, "Error: there is no mass outage to accept")


# --- both ------------------------------------------------------------------------------------------------------------


def events(url: str, kind: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, ["--database-url", url, "events", "--type", kind, "-o", "json"])
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    "verb", [["forget", "a", "--i-know"], ["accept-outage", "--i-know"], ["forget", "a"]], ids=" ".join
)
def test_a_database_that_is_away(capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    code, told = fails(capsys, "postgresql://nobody:secret@127.0.0.1:1/none", *verb)
    assert code == 4
    assert "secret" not in told


@pytest.mark.parametrize(
    "verb", [["forget", "a", "--i-know"], ["accept-outage", "--i-know"], ["forget", "a"]], ids=" ".join
)
def test_a_database_without_the_schema(
    capsys: pytest.CaptureFixture[str], empty_database_url: str, verb: list[str]
) -> None:
    code, told = fails(capsys, empty_database_url, *verb)
    assert code == 4
    assert "run `controlplane db upgrade`" in told


def test_a_reader_may_look_and_not_say(
    capsys: pytest.CaptureFixture[str], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage(database_url, "", away="a")
    monkeypatch.setenv("CONTROLPLANE_DATABASE_ROLE", "controlplane_reader")
    assert invoke(database_url).stdout
    code, told = fails(capsys, database_url, "forget", "a", "--i-know")
    assert code == 4
    assert "the database refuses" in told


def test_the_service_s_rights_are_enough(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outage(database_url, "")
    monkeypatch.setenv("CONTROLPLANE_DATABASE_ROLE", "controlplane_service")
    assert invoke(database_url, "forget", "a", "--i-know").stdout
    assert invoke(database_url, "accept-outage", "--i-know").stdout


def test_who_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "jane")
    assert whoami() == "jane"

    def nobody() -> str:
        raise OSError("no username")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert whoami().startswith("uid ")
