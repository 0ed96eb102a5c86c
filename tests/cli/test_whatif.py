"""`whatif` as it is typed: what it prints, its exit codes, and a sentence for what it cannot do."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.__main__ import run
from controlplane.audit.archived import archived_to
from controlplane.audit.reads import READ, LogReader
from controlplane.cli import cli
from controlplane.controllers.multikueue.events import WinnerChosen
from controlplane.dst.play import plan_of
from controlplane.log.archive.dropping import Ended
from tests.audit.database import keep
from tests.audit.queue_history import Run, play
from tests.cli.test_audit_verbs import fails
from tests.dst.plans import plan, step
from tests.log.archived import archive, connected, dropped
from tests.log.migrating import partition_size
from tests.support import postgres
from tests.whatif.logs import played
from tests.whatif.quota_logs import cluster_queue, cohort
from tests.whatif.test_quota import BORROWS

QUEUED = plan(*(step(5 + 1.37 * n, "submit", f"job-{n}", 20 + n % 7 * 5.3, 1) for n in range(30)))
"""Thirty Jobs of one CPU for a fleet that has twelve."""


@pytest.fixture(scope="module")
def urls(postgres_server: postgres.Server, migrated_template: str) -> Iterator[dict[str, str]]:
    """Databases: one with the log of thirty Jobs; one with that of a seed that is full of trouble; and one of a fleet
    where the service decides about quota."""
    names = ("queued", "trouble", "teams")
    made = {name: postgres_server.create(postgres.new_name(name), migrated_template) for name in names}
    try:
        asyncio.run(keep(made["queued"], played(QUEUED)))
        asyncio.run(keep(made["trouble"], played(plan_of(9)), types=READ))
        asyncio.run(keep(made["teams"], played(BORROWS), types=READ))
        yield made
    finally:
        for url in made.values():
            postgres_server.drop(url.rpartition("/")[2].partition("?")[0])


@pytest.fixture(scope="module")
def url(urls: dict[str, str]) -> str:
    return urls["queued"]


def invoke(url: str, *arguments: str) -> Result:
    typed = ["--database-url", url, "whatif", *arguments]
    return CliRunner().invoke(cli, typed, catch_exceptions=False, standalone_mode=False)


def asked(url: str, *arguments: str) -> tuple[int, Any]:
    result = invoke(url, *arguments, "-o", "json")
    return result.return_value, json.loads(result.stdout)


def file(folder: Path, text: str) -> str:
    (folder / "given.yaml").write_text(text)
    return str(folder / "given.yaml")


FIGURES = [
    "arrived", "started", "waiting", "finished", "wait_p50", "wait_p95", "wait_max", "wait_total", "utilisation",
    "run_hours", "moves", "lost_hours", "clusters", "preemptions", "queues",
]  # fmt: skip


def test_as_it_was(url: str) -> None:
    code, found = asked(url)
    assert code == 0
    assert list(found) == [
        "log", "from", "to", "bounded", "changes", "capacities", "not_simulated", "placements", "reproduced",
        "recorded", "played", "alternative", "queues", "quota", "settings_changed",
    ]  # fmt: skip
    assert (found["changes"], found["alternative"], found["reproduced"], found["not_simulated"]) == ([], None, True, {})
    assert found["placements"] == {"recorded": 30, "agree": 30, "share": 1.0, "differ": []}
    assert list(found["recorded"]) == list(found["played"]) == FIGURES
    assert found["recorded"]["moves"] == found["played"]["moves"] == 0
    assert found["queues"] == {"cluster-queue": "capacity"}
    assert found["settings_changed"] == []
    assert found["quota"] == {"recorded": 0, "agree": 0, "share": 1.0, "differ": []}
    given = {name: one["given"] for name, one in found["recorded"]["queues"].items()}
    assert given == {"cluster-queue": 30}


def test_without_a_cluster(url: str) -> None:
    code, found = asked(url, "--without", "w1")
    assert code == 0
    assert found["changes"] == ["without w1"]
    assert found["alternative"]["clusters"].get("w1", {"placed": 0})["placed"] == 0
    assert found["alternative"]["wait_total"] > found["played"]["wait_total"]


def test_with_another_cluster(url: str, tmp_path: Path) -> None:
    text = "name: w4\ncapacity: {workloads: 12}\nlabels: {zone: d}\nadmissionSeconds: 0.5\n"
    code, found = asked(url, "--add-cluster", file(tmp_path, text))
    assert (code, found["changes"]) == (0, ["with w4"])
    assert found["alternative"]["clusters"]["w4"]["placed"] > 0
    assert found["alternative"]["wait_total"] < found["played"]["wait_total"]


def test_with_other_quotas(url: str, tmp_path: Path) -> None:
    text = "clusters: {w1: {workloads: 60}}\nclusterQueues: {cluster-queue: {workloads: 100}}\n"
    found = asked(url, "--quota", file(tmp_path, text))[1]
    assert found["alternative"]["wait_total"] < found["played"]["wait_total"]


def documents(*objects: Any) -> str:
    return "---\n".join(yaml.safe_dump(one) for one in objects)


def test_where_the_log_knows_the_queues_the_engine_decides(urls: dict[str, str]) -> None:
    code, found = asked(urls["teams"])
    assert code == 0
    assert found["queues"] == {"cluster-queue": "engine", "queue-b": "engine"}
    assert found["quota"] == {"recorded": 3, "agree": 3, "share": 1.0, "differ": []}
    said = invoke(urls["teams"]).stdout
    assert (
        "Quota: 3 of 3 decisions of the engine agree (100.0%).\nQuota of cluster-queue, queue-b: by the engine.\n"
        in said
    )


def test_the_settings_of_the_service_count_whoever_asks(urls: dict[str, str], tmp_path: Path) -> None:
    """Without CPUs nobody would wait for quota as it was."""
    (tmp_path / "settings.yaml").write_text("quota: {resources: {excludeResourcePrefixes: [cpu]}}\n")
    given = file(tmp_path, documents(cluster_queue("queue-b", 3)))
    settings = ["--config", str(tmp_path / "settings.yaml")]
    assert run(["--database-url", urls["teams"], *settings, "whatif", "--quota", given]) == 0


def test_decisions_about_quota_that_were_others_are_told_and_nothing_is_shown(
    urls: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.whatif.agreement.ENOUGH", 1.01)  # more than any log agrees
    given = file(tmp_path, documents(cluster_queue("queue-b", 3)))
    assert run(["--database-url", urls["teams"], "whatif", "--quota", given]) == 1
    assert "of the decisions about quota were played again as they were" in capsys.readouterr().err


def test_with_other_objects_of_kueues_api(urls: dict[str, str], tmp_path: Path) -> None:
    lends = cluster_queue("queue-b", 3, preemption={"reclaimWithinCohort": "Any"})
    given = file(tmp_path, documents(cluster_queue("cluster-queue", 3), lends, cohort("spare", 4)))
    code, found = asked(urls["teams"], "--quota", given)
    assert (code, found["changes"]) == (0, [f"with the quotas of {given}"])
    assert (found["played"]["preemptions"], found["alternative"]["preemptions"]) == (0, 1)
    assert found["alternative"]["queues"]["cluster-queue"]["preemptions"] == 1


def test_a_capacity_beside_objects(urls: dict[str, str], tmp_path: Path) -> None:
    text = "clusterQueues: {cluster-queue: {cpu: 2}}\n---\n" + documents(cluster_queue("queue-b", 0))
    found = asked(urls["teams"], "--quota", file(tmp_path, text))[1]
    assert found["alternative"]["waiting"] == 2


BAD_NAME = {**cluster_queue("b", 1), "metadata": {}}
BAD_SPEC = cluster_queue("queue-b", 1, stopPolicy=7)
BAD_QUANTITY = cluster_queue("queue-b", 1)
BAD_QUANTITY["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "many"
OTHER_FLAVOR = cluster_queue("queue-b", 1)
OTHER_FLAVOR["spec"]["resourceGroups"][0]["flavors"][0]["name"] = "gpus"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (documents({**cluster_queue("b", 1), "kind": "Job"}), 2, ('document 1: kind: "Job" cannot be given: write one '
            'of Clus')),
        (documents({**cohort("b", 1), "apiVersion": "kueue.x-k8s.io/v1beta1"}), 2, "write kueue.x-k8s.io/v1beta2"),
        (documents(BAD_NAME), 2, "metadata.name: the ClusterQueue has no name: write that of the one whose place it"),
        (documents(cohort("a", 1), BAD_SPEC), 2, "document 2: ClusterQueue queue-b: spec.stopPolicy: expected"),
        (documents(cohort("a", 1), cluster_queue("queue-b", 1, stopPolicy="Foo")), 2, (
            'document 2: ClusterQueue queue-b: spec.stopPolicy: "Foo" is none of its words: write one of None, Hold, Hol')),
        (documents(cluster_queue("queue-b", 1, preemption={"withinClusterQueue": "Any"})), 2, "of Never, LowerPriority"),
        (documents({**cohort("a", 1), "spec": {"parentName": "a"}}), 2, "spec.parentName: a is the Cohort itself: name"),
        (documents(BAD_QUANTITY), 2, ("ClusterQueue queue-b: "
            "spec.resourceGroups[0].flavors[default-flavor].resources[cpu]")),
        (documents(cohort("a", 1), cohort("a", 2)), 2, "Cohort a is given twice: give it once"),
        (documents(OTHER_FLAVOR), 2, "there is no ResourceFlavor gpus: give it in the file too"),
        ("clusterQueues: {queue-b: {memory: 1Gi}}", 2, "queue-b.memory: the ClusterQueue has no quota of it: give the"),
        ("clusterQueues: {queue: {cpu: 1}}", 5, "the log knows no ClusterQueue queue; did you mean queue-b"),
    ],
)  # fmt: skip
def test_an_object_that_cannot_be_given_is_one_sentence(
    urls: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, code: int, said: str
) -> None:
    found, told = fails(capsys, urls["teams"], "whatif", "--quota", file(tmp_path, text))
    assert (found, said in told, len(told.splitlines())) == (code, True, 1), told


def test_objects_mean_nothing_to_a_log_that_does_not_know_the_queues(
    url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = file(tmp_path, documents(cluster_queue("cluster-queue", 3)))
    code, told = fails(capsys, url, "whatif", "--quota", given)
    assert (code, "ClusterQueue cluster-queue: the log does not say what its queues are" in told) == (2, True), told


def test_with_another_dispatcher(url: str) -> None:
    for name in ("all-at-once", "incremental", "scored"):
        code, found = asked(url, "--dispatcher", name)
        assert (code, found["changes"]) == (0, [f"dispatched {name}"])
        assert found["alternative"]["started"] == 30


def test_by_other_settings(url: str, tmp_path: Path) -> None:
    text = "multikueue: {dispatcherName: kueue.x-k8s.io/multikueue-dispatcher-incremental, stepSize: 1}\n"
    found = asked(url, "--policy", file(tmp_path, text))[1]
    assert found["changes"] == [f"by the settings of {tmp_path}/given.yaml"]
    # A cluster more is asked every five minutes alone.
    assert found["alternative"]["wait_total"] > found["played"]["wait_total"]


def test_the_table(url: str) -> None:
    lines = invoke(url, "--without", "w1").stdout.splitlines()
    assert lines[0].startswith("The log main from 2026-01-01 00:00:00 to ")
    assert lines[1] == "Played again as it was: 30 of 30 placements agree (100.0%)."
    assert lines[2] == "What if: without w1."
    assert re.split("  +", lines[4].strip()) == ["RECORDED", "PLAYED AGAIN", "WHAT IF"]
    named = {line.split("  ")[0] for line in lines[5:16]}
    assert {"wait, median", "wait, 95th percentile", "wait, longest", "utilisation", "moves", "lost hours"} <= named
    assert any(line.startswith("w3 ") for line in lines)


def test_a_part(url: str) -> None:
    whole = asked(url)[1]
    position = 250  # nothing is on its way
    found = asked(url, "--from", str(position + 1))[1]
    assert whole["from"] < found["from"] < found["to"] == whole["to"]
    assert found["placements"]["recorded"] < 30
    assert found["reproduced"]


def test_what_was_committed_at_one_moment_belongs_together(url: str) -> None:
    """A time that begins amid a batch has not lost the rest of it."""
    events = played(QUEUED)
    amid = [
        one.position
        for one, following in itertools.pairwise(events)
        if one.recorded_at == following.recorded_at and isinstance(following.event, WinnerChosen)
    ]
    for position in amid[3:12:4]:
        found = asked(url, "--from", str(position + 1))[1]
        assert found["placements"]["differ"] == []
        assert found["placements"]["share"] == 1.0


def test_the_output_is_the_same_each_time(url: str) -> None:
    def digest() -> str:
        return hashlib.sha256(invoke(url, "--without", "w2", "-o", "json").stdout.encode()).hexdigest()

    assert digest() == digest()


def test_a_past_that_cannot_be_played_again_is_compared_with_nothing(
    urls: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = asked(urls["trouble"])
    assert (code, found["reproduced"], found["alternative"]) == (1, False, None)
    assert run(["--database-url", urls["trouble"], "whatif", "--without", "w1", "-o", "json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["alternative"] is None
    assert "of the placements were played again as they were: what is found for the change would mean" in told.err
    code, found = asked(urls["trouble"], "--without", "w1", "--anyway")
    assert code == 1
    assert found["alternative"] is not None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--from", "soon"], 2, '--from: "soon" is neither a time nor a position'),
        (["--from", "20", "--to", "10"], 2, "nothing is between --from 20 and --to 10"),
        (["--without", "w11"], 5, "--without: the log knows no cluster w11; did you mean w1"),
        (["--without", "paris"], 5, "--without: the log knows no cluster paris; did you mean w1 or w2 or w3?"),
        (["--quota", "no.yaml"], 2, "--quota: no.yaml cannot be read: No such file or directory"),
        (["--policy", "no.yaml"], 3, "no.yaml"),
        (["--log", "nobody"], 5, "the log nobody has no events"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    url: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    found, text = fails(capsys, url, "whatif", *arguments)
    assert (found, said in text, len(text.splitlines())) == (code, True, 1), text


W4 = "name: w4\ncapacity: {cpu: 1}\n"


def test_a_cluster_is_added_once(url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    twice = ["--add-cluster", file(tmp_path, W4)] * 2
    code, told = fails(capsys, url, "whatif", *twice)
    assert (code, "--add-cluster: the cluster w4 is given twice: give it once" in told) == (2, True), told


@pytest.mark.parametrize(
    ("option", "text", "code", "said"),
    [
        ("--add-cluster", "name: [", 2, "is not YAML: while parsing"),
        ("--add-cluster", "{name: w4, capacity: {cpu: !!int }}", 2, "is not YAML: "),
        ("--add-cluster", "name: " + "[" * 3000, 2, "is nested too deep to be read"),
        ("--quota", "clusters: " + "[" * 3000, 2, "is nested too deep to be read"),
        ("--add-cluster", "name: w4", 2, "missing required field `capacity`: write something such as {name: north-2"),
        ("--add-cluster", "{name: w4, capacity: {}, size: 4}", 2, "unknown field `size`"),
        (
            "--add-cluster",
            "{name: w4, capacity: {cpu: many}}",
            2,
            'capacity.cpu: "many" is no quantity: write one such',
        ),
        ("--add-cluster", "{name: w4, capacity: {cpu: -1}}", 2, 'capacity.cpu: "-1" is no quantity'),
        ("--add-cluster", "{name: w4, capacity: {cpu: 1}, admissionSeconds: -2}", 2, "admissionSeconds: -2 is no time"),
        ("--add-cluster", "{name: '@management', capacity: {cpu: 1}}", 2, 'name: "@management" is no name'),
        ("--add-cluster", "{name: w1, capacity: {cpu: 1}}", 2, "there is a cluster w1 already: use --quota"),
        ("--add-cluster", "{name: W 4, capacity: {cpu: 1}}", 2, 'name: "W 4" is no name of a MultiKueueCluster'),
        (
            "--add-cluster",
            "{name: w4, capacity: {worklods: 1}}",
            2,
            "--add-cluster: w4: capacity: no Workload of the log asks for worklods; did you mean workloads?",
        ),
        (
            "--quota",
            "clusters: {w1: {nvidia.com/gpu: 8}}",
            2,
            "--quota: clusters.w1: no Workload of the log asks for nvidia.com/gpu; they ask for ",
        ),
        ("--quota", "{}", 2, "it has no quota: write clusters: {north: {cpu: 64}}"),
        ("--quota", "clusters: {w9: {cpu: 1}}", 5, "--quota: the log knows no cluster w9; did you mean"),
        (
            "--quota",
            "clusterQueues: {queue: {cpu: 1}}",
            5,
            "the log knows no ClusterQueue queue; did you mean cluster-q",
        ),
        ("--quota", "- a", 2, "Expected `object`, got `array`: write something such as"),
        ("--policy", "multikueue: {stepSize: none}", 3, "multikueue.stepSize"),
        ("--policy", "multikueue: {dispatcherName: example.com/x}", 2, "nominated by example.com/x, which is no part"),
        ("--policy", "{run: {controllers: [candidates]}, candidates: {cluster: home}}", 2, "no Workloads are disp"),
        ("--add-cluster", "{name: w4, capacity: {}}", 2, "capacity: it names no resource: write one such as {cpu: 64}"),
        ("--add-cluster", f"{W4}---\n{W4}", 2, "it has 2 documents: give each cluster in a file of its own"),
        ("--quota", "clusters: {w1: {}}", 2, "clusters.w1: it names no resource: write one such as {cpu: 64}"),
        ("--quota", "clusters: {w1: {cpu: 1}}\n---\nclusters: {w1: {cpu: 2}}\n", 2, "clusters.w1 is given twice: give"),
        ("--quota", "clusterQueues: {a/b: {cpu: 1}}", 2, 'clusterQueues: "a/b" is no name: write that of one'),
        (
            "--quota",
            "clusters: {w2: {cpu: 1, memory: 1, cpu: 2}}\n",
            2,
            "given.yaml has the field clusters.w2.cpu twice",
        ),
        ("--quota", "kind: [1]", 2, "cannot be given: write one of ClusterQueue, Cohort, ResourceFlavor"),
    ],
)
def test_a_file_that_does_not_say_what_it_should_is_one_sentence(
    url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, text: str, code: int, said: str
) -> None:
    found, told = fails(capsys, url, "whatif", option, file(tmp_path, text))
    assert (found, said in told) == (code, True), told
    assert code == 3 or len(told.splitlines()) == 1


async def test_without_clusters_there_is_no_table_of_clusters(database_url: str) -> None:
    await keep(database_url, play([Run(1, "a", 5), Run(2, "b", 5)], 60).log, types=READ)
    said = CliRunner().invoke(cli, ["--database-url", database_url, "whatif", "--anyway"]).stdout
    assert "preemptions" in said
    assert "CLUSTER" not in said


def test_a_time_begins_after_what_was_archived(database_url: str, tmp_path: Path) -> None:
    """The last event before it is in an archive alone."""
    partition_size(database_url, 100)
    events = played(QUEUED)
    last = {one.stream: one.position for one in events if one.stream.startswith("workload/")}
    end = next(position for position in sorted(last.values()) if position > 500)
    for part in (events[:end], events[end:]):  # an archive ends with a batch
        asyncio.run(keep(database_url, part, types=READ))
    with connected(database_url) as owner:
        archive(owner, tmp_path)
        reader = LogReader(owner, "main")
        assert dropped(owner, tmp_path, Ended(1 << 40, frozenset({"workload"}), lambda stream: True)).events
        gone = archived_to(reader)
        assert not reader.rows("SELECT FROM audit.events WHERE position = %(gone)s", gone=gone)
    code, found = asked(database_url, "--from", str(gone + 1), "--anyway")
    assert code in (0, 1)
    assert found["from"] < found["to"]
