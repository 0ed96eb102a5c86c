"""`controlplane queues`, as it is typed: LocalQueues and ClusterQueues, where Kueue decides and where this service
does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.__main__ import run
from controlplane.audit.reads import READ
from controlplane.cli import cli
from controlplane.kube import kinds
from tests.audit.database import keep, with_stories
from tests.quota.admission.scene import NS, Scene
from tests.support import postgres


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    yield from with_stories(postgres_server, migrated_template)


def invoke(url: str, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["--database-url", url, "queues", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def plain(url: str, *arguments: str) -> Any:
    return json.loads(invoke(url, *arguments, "-o", "json").stdout)


def test_local_queues_are_those_of_now(url: str) -> None:
    asked = ["--database-url", url, "as-of", "now", "queues", "-o", "json"]
    assert plain(url) == json.loads(CliRunner().invoke(cli, asked).stdout) != []
    head, *rows = invoke(url).stdout.splitlines()
    assert head.split()[:4] == ["NAMESPACE", "QUEUE", "CLUSTERQUEUE", "PENDING"]
    assert len(rows) == len(plain(url))
    assert invoke(url, "-o", "wide").stdout.splitlines()[0].split()[-2:] == ["OTHER", "FINISHED"]


def names_can_be_described(url: str, *flags: str) -> list[str]:
    names = invoke(url, *flags, "-o", "name").stdout.split()
    for name in names:
        told = CliRunner().invoke(cli, ["--database-url", url, "describe", name], catch_exceptions=False)
        assert told.exit_code == 0, told.output
    return names


def test_names_are_those_that_describe_takes(url: str) -> None:
    assert names_can_be_described(url) == ["queue/default/lq", "queue/team-b/lq"]


async def test_a_cluster_queue_that_is_named_and_not_there_or_not_readable_says_so(database_url: str) -> None:
    scene = Scene()
    scene.queue("q", "4")
    scene.queue("odd", "4 cores")
    scene.queue("gone", "1")
    scene.settle()
    scene.delete(kinds.CLUSTER_QUEUES, "gone")
    scene.settle()
    for name in ("q", "odd", "gone"):
        scene.workload(f"w-{name}", name, "9")
    scene.settle()
    await keep(database_url, scene.log, types=READ)
    found = {one["queue"]: one["active"] for one in plain(database_url, "--cluster-queues")}
    assert found["gone"] == "does not exist"
    assert found["odd"].startswith(
        "cannot be read: spec.resourceGroups[0].flavors[default].resources[cpu].nominalQuota"
    )
    assert found["q"].startswith("True")


async def test_cluster_queues_where_this_service_decides(database_url: str) -> None:
    scene = Scene()
    scene.queue("q", "4", cohortName="all", queueingStrategy="StrictFIFO")
    scene.queue("held", "1", stopPolicy="HoldAndDrain")
    scene.queue("gone", "1")
    scene.workload("a", "q", "3")
    scene.settle()
    scene.delete(kinds.LOCAL_QUEUES, "gone", NS)
    scene.delete(kinds.CLUSTER_QUEUES, "gone")
    scene.settle()
    await keep(database_url, scene.log, types=READ)
    found = {one["queue"]: one for one in plain(database_url, "--cluster-queues")}
    assert list(found) == ["held", "q"]
    assert (found["q"]["cohort"], found["q"]["strategy"], found["q"]["stop_policy"]) == ("all", "StrictFIFO", "")
    assert found["q"]["local_queues"] == [f"{NS}/q"]
    assert [(one["nominal"], one["reserved"]) for one in found["q"]["quota"]] == [("4", "3")]
    assert names_can_be_described(database_url, "--cluster-queues") == ["queue/held", "queue/q"]
    assert (found["held"]["stop_policy"], found["held"]["active"].partition(" ")[0]) == ("HoldAndDrain", "False")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--cluster-queues", "-n", "x"], 2, "ClusterQueues have no namespace: leave -n out"),
        (["--sort-by", "pendin"], 2, "did you mean pending?"),
        (["extra"], 2, "unexpected extra argument"),
        (["-n", "defualt"], 0, "No LocalQueues found in namespace defualt. Did you mean default?"),
    ],
)
def test_what_cannot_be_answered_says_why(
    url: str, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--database-url", url, "queues", *arguments]) == code
    assert said in capsys.readouterr().err


def test_an_empty_log_says_so(database_url: str) -> None:
    assert invoke(database_url).stderr.strip() == "No LocalQueues found: the log main is empty."
    told = invoke(database_url, "--cluster-queues", "-o", "json")
    assert (told.stdout.strip(), told.stderr.strip()) == ("[]", "No ClusterQueues found: the log main is empty.")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        *((word, "`controlplane queues` lists LocalQueues") for word in ("queue", "clusterqueues", "lq")),
        ("pods", "`controlplane candidates list` shows the pods that are placed on other clusters"),
    ],
)
def test_words_of_kubectl_lead_to_lists(word: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word]) == 2
    assert said in capsys.readouterr().err


def test_a_local_queue_that_is_not_watched_leads_where_its_workloads_have_quota(url: str) -> None:
    """Where Kueue decides and no webhook is served, no LocalQueue is in the log."""
    assert {one["queue"]: one["cluster_queue"] for one in plain(url)} == {"lq": "cq"}
    (cluster_queue,) = [one for one in plain(url, "--cluster-queues") if one["queue"] == "cq"]
    assert cluster_queue["running"] == sum(one["running"] for one in plain(url)) > 0
