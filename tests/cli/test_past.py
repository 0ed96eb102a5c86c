"""The fleet at a time, and the hours that were used, as they are typed: `as-of` and `usage`."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from controlplane.audit.past import BY, GROUPS
from controlplane.audit.reads import READ
from controlplane.cli import usage as usage_verb
from controlplane.controllers.multikueue.observations import LocalQueueGone, LocalQueueObserved
from controlplane.log import schema
from controlplane.log.event import NewEvent
from controlplane.runtime.explanation import WORDS
from tests.audit.database import keep
from tests.audit.script import Script
from tests.audit.test_views import query
from tests.cli.processes import finished
from tests.cli.test_audit_verbs import asked, fails, invoke
from tests.quota.admission.scene import NS, Scene
from tests.support.deep import examples
from tests.support.rows import each

AT = "2026-01-01 13:00"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_phase_has_one_column_of_queues() -> None:
    phases = [phase for of in GROUPS.values() for phase in of]
    assert len(phases) == len(set(phases))
    assert set(phases) == set(WORDS) - {"Deleted"}


def test_the_words_of_the_help_are_those_there_are() -> None:
    assert usage_verb.BY == BY


def test_workloads_as_they_were(fleet_url: str) -> None:
    found = asked(fleet_url, "as-of", AT, "workloads")
    assert [(one["name"], one["phase"], one["cluster"]) for one in found] == [
        ("job-safe-0a1b2", "Lost", "north"),
        ("job-train-0a1b2", "Finished", "west"),
        ("job-etl-0a1b2", "Running", "west"),
        ("job-fit-0a1b2", "Finished", "west"),
        ("job-sim-0a1b2", "Lost", "north"),
    ]
    assert {one["namespace"] for one in asked(fleet_url, "as-of", AT, "workloads", "-n", "team-a")} == {"team-a"}
    assert asked(fleet_url, "as-of", AT, "workloads", "-A") == found


@pytest.mark.generated
def test_they_agree_with_why(fleet_url: str) -> None:
    """`why --at` folds events, `as-of` asks SQL: two ways to the same answer."""
    moments = (AT, "2026-01-01 08:05", "2026-01-01 09:10", "2026-01-01 12:00", "2026-01-01 14:00", "2026-01-02 12:00")
    for at in moments[: examples(2, 6)]:
        for one in asked(fleet_url, "as-of", at, "workloads"):
            told = asked(fleet_url, "why", f"{one['namespace']}/{one['name']}", "--at", at)
            assert told["state"] == one["phase"], (at, one["name"])


def test_clusters_as_they_were(fleet_url: str) -> None:
    found = {one["cluster"]: one for one in asked(fleet_url, "as-of", AT, "clusters")}
    assert {name: one["phase"] for name, one in found.items()} == {
        "@management": "Connected",
        "east": "Connected",
        "north": "Lost",
        "west": "Connected",
    }
    assert (found["north"]["location"], found["north"]["configs"]) == ("north-new", ["config"])
    text = invoke(fleet_url, "as-of", AT, "clusters").stdout.splitlines()
    assert text[0].split() == ["CLUSTER", "PHASE", "FOR", "REASON"]
    wide = invoke(fleet_url, "as-of", AT, "clusters", "-o", "wide").stdout.splitlines()
    assert "no route to host" in wide[3]
    assert "SINCE (UTC)" in wide[0]
    local = invoke(fleet_url, "as-of", AT, "workloads", "-o", "wide", "--local-time").stdout
    assert "SINCE (LOCAL TIME)" in local.splitlines()[0]


def test_queues_as_they_were(fleet_url: str) -> None:
    found = {one["queue"]: one for one in asked(fleet_url, "as-of", AT, "queues")}
    assert {name: (one["running"], one["lost"], one["finished"]) for name, one in found.items()} == {
        "team-a-queue": (0, 1, 1),
        "team-b-queue": (1, 1, 1),
    }
    for queue in found.values():
        whole = [one for one in asked(fleet_url, "as-of", AT, "workloads") if one["queue"] == queue["queue"]]
        assert sum(queue[name] for name in GROUPS) == len(whole)


async def test_a_queue_without_workloads(database_url: str) -> None:
    script = Script("a")
    head = {"namespace": "default", "name": "lq", "uid": "lq"}
    seen = LocalQueueObserved(**head, resource_version="1", cluster_queue="cq")
    script.put(NewEvent(stream="localqueue/default/lq", event=seen))
    then = script.now
    script.put(NewEvent(stream="localqueue/default/lq", event=LocalQueueGone(**head)))
    await keep(database_url, script.recorded)
    (one,) = asked(database_url, "as-of", then.isoformat(), "queues")
    assert (one["queue"], one["cluster_queue"], one["running"]) == ("lq", "cq", 0)
    assert asked(database_url, "as-of", script.now.isoformat(), "queues") == []


async def test_where_this_service_decides_on_quota_queues_lead_somewhere(database_url: str) -> None:
    """Also those of which no Workload had quota, and that nobody else watches."""
    scene = Scene()
    scene.queue("cq", "10", stopPolicy="Hold")
    scene.settle()
    await keep(database_url, scene.log, types=READ)
    (one,) = asked(database_url, "as-of", scene.now.isoformat(), "queues")
    assert (one["namespace"], one["queue"], one["cluster_queue"]) == (NS, "cq", "cq")
    described = asked(database_url, "describe", "cq/cq")
    assert described["local_queues"] == [f"{NS}/cq"]
    assert described["active"] == "False (Stopped: Can't admit new workloads: is stopped)"
    (cpu,) = described["quota"]
    assert (cpu["flavor"], cpu["resource"], cpu["nominal"], cpu["reserved"]) == ("default", "cpu", "10", "0")
    assert asked(database_url, "describe", f"lq/{NS}/cq")["cluster_queue"] == "cq"


@pytest.mark.parametrize("kind", ["workloads", "clusters", "queues"])
def test_csv_has_the_fields_of_json(fleet_url: str, kind: str) -> None:
    objects = asked(fleet_url, "as-of", AT, kind)
    lines = rows(invoke(fleet_url, "as-of", AT, kind, "-o", "csv").stdout)
    assert [list(line) for line in lines] == [list(one) for one in objects]
    for line, one in zip(lines, objects, strict=True):
        for name, value in one.items():
            plain = json.dumps(value, separators=(",", ":")) if isinstance(value, (list, dict)) else value
            assert line[name].removeprefix("'") == ("" if plain is None else str(plain))


def test_the_form_before_the_verb_counts(fleet_url: str) -> None:
    assert json.loads(invoke(fleet_url, "-o", "json", "as-of", AT, "queues").stdout)
    assert invoke(fleet_url, "-o", "json", "as-of", AT, "queues", "-o", "table").stdout.startswith("NAMESPACE")


def test_nothing_is_said_to_be_nothing(fleet_url: str) -> None:
    told = invoke(fleet_url, "as-of", AT, "workloads", "-n", "team").stderr
    assert (
        told == "There were no workloads in namespace team at 2026-01-01 13:00:00 UTC. Did you mean team-b or team-a?\n"
    )


# --- usage ------------------------------------------------------------------------------------------------------------


def test_hours_by_namespace_are_those_of_the_view(fleet_url: str) -> None:
    found = {one["namespace"]: one for one in asked(fleet_url, "usage")}
    rows_ = query(fleet_url, "SELECT namespace, sum(run_hours) AS hours FROM audit.usage GROUP BY 1")
    assert {name: one["run_hours"] for name, one in found.items()} == {
        row["namespace"]: float(row["hours"]) for row in rows_
    }
    assert found["team-a"]["resource_hours"]["nvidia.com/gpu"] == pytest.approx(12.4022)
    assert "runs" not in found["team-a"]


def sums(url: str) -> tuple[float, float]:
    """All run hours, and all core hours."""
    whole = "SELECT sum(run_hours) AS hours, sum((resource_hours ->> 'cpu')::numeric) AS cores FROM audit.usage"
    (row,) = query(url, whole)
    return float(row["hours"]), float(row["cores"])


@each("by", ["namespace", "queue", "cluster", "day", "day,cluster", "cluster,queue,namespace,day"])
def test_however_they_are_added_up_they_are_the_same(fleet_url: str, by: str) -> None:
    found = asked(fleet_url, "usage", "--by", by)
    assert list(found[0])[: len(by.split(","))] == by.split(",")
    hours, cores = sums(fleet_url)
    assert sum(one["run_hours"] for one in found) == pytest.approx(hours)
    assert sum(one["resource_hours"].get("cpu", 0) for one in found) == pytest.approx(cores)


def test_days(fleet_url: str) -> None:
    assert asked(fleet_url, "usage", "--since", "2026-01-02", "--by", "day")[0]["day"] == "2026-01-02"
    first = asked(fleet_url, "usage", "--until", "2026-01-02", "--by", "day")
    assert [(one["day"], one["runs"]) for one in first] == [("2026-01-01", 7)]
    assert asked(fleet_url, "usage", "--since", "2027-01-01") == []
    assert "Nothing of that ran in that time." in invoke(fleet_url, "usage", "--since", "2027-01-01").stderr


def test_hours_on_a_cluster_or_of_a_queue(fleet_url: str) -> None:
    by_cluster = {one["cluster"]: one["run_hours"] for one in asked(fleet_url, "usage", "--by", "cluster")}
    for name, hours in by_cluster.items():
        (one,) = asked(fleet_url, "usage", "--by", "cluster", "--cluster", name)
        assert (one["cluster"], one["run_hours"]) == (name, hours)
    assert len(by_cluster) > 1
    by_queue = {one["queue"]: one["run_hours"] for one in asked(fleet_url, "usage", "--by", "queue")}
    for queue in ("team-b-queue", "team-b/team-b-queue"):
        (one,) = asked(fleet_url, "usage", "--by", "queue", "--queue", queue)
        assert one["run_hours"] == by_queue["team-b-queue"]
    assert asked(fleet_url, "usage", "--queue", "team-a/team-b-queue") == []
    nothing = invoke(fleet_url, "usage", "--cluster", "nort")
    assert nothing.stderr == "Nothing of that ran in that time. Did you mean north?\n"


def test_workloads_on_a_cluster_or_of_a_queue_as_they_were(fleet_url: str) -> None:
    every = asked(fleet_url, "as-of", AT, "workloads")
    north = asked(fleet_url, "as-of", AT, "workloads", "--cluster", "north")
    assert 0 < len(north) < len(every)
    assert north == [one for one in every if one["cluster"] == "north"]
    queue = asked(fleet_url, "as-of", AT, "workloads", "--queue", "team-b/team-b-queue")
    assert queue == [one for one in every if one["queue"] == "team-b-queue"]
    nothing = invoke(fleet_url, "as-of", AT, "workloads", "--cluster", "nort").stderr
    assert nothing == "There were no workloads on cluster nort at 2026-01-01 13:00:00 UTC. Did you mean north?\n"


def test_the_table_has_a_sum(fleet_url: str) -> None:
    lines = invoke(fleet_url, "usage", "--by", "namespace", "--by", "day").stdout.splitlines()
    assert lines[0].split("  ")[0] == "NAMESPACE"
    hours, cores = sums(fleet_url)
    assert lines[-1].split() == ["total", f"{hours:.2f}", f"{cores:.2f}", "198.44", "12.40"]
    alone = invoke(fleet_url, "usage", "-n", "team-b").stdout.splitlines()
    assert [line.split()[0] for line in alone] == ["NAMESPACE", "team-b"]


def test_csv_has_a_column_for_each_resource(fleet_url: str) -> None:
    lines = rows(invoke(fleet_url, "usage", "-o", "csv").stdout)
    assert [line["namespace"] for line in lines] == ["team-a", "team-b"]
    assert float(lines[0]["nvidia.com/gpu_hours"]) == pytest.approx(12.4022)
    assert lines[1]["nvidia.com/gpu_hours"] == ""


async def test_hours_of_which_nothing_is_known(database_url: str) -> None:
    script = Script("a")
    script.workload("w-0a1b2").runs("a")
    await keep(database_url, script.recorded)
    (one,) = asked(database_url, "usage")
    assert (one["unknown_hours"], one["resource_hours"]) == (one["run_hours"], {})


# --- what cannot be answered ------------------------------------------------------------------------------------------

BAD: list[tuple[list[str], int, str]] = [
    (["as-of", "noon", "workloads"], 2, 'TIME: "noon" is not a time'),
    (["as-of", AT, "workload"], 2, "is not one of"),
    (["as-of", AT, "workloads", "-n", "a", "-A"], 2, "exclude each other"),
    (["as-of", AT, "clusters", "-n", "a"], 2, "clusters have no namespace"),
    (["as-of", AT, "queues", "--cluster", "north"], 2, "are about workloads, not about queues"),
    (["as-of", "2999-01-01", "clusters"], 2, "is to come"),
    (["as-of", "2025-01-01", "clusters"], 5, "it begins at 2026-01-01 00:00:01 UTC"),
    (["usage", "--by", "nam"], 2, "did you mean namespace?"),
    (["usage", "--by", "namespace,flavour"], 2, "there are namespace, queue, cluster, day"),
    (["usage", "--since", "2026-01-02", "--until", "2026-01-02"], 2, "nothing is between"),
    (["usage", "--since", "2026-01-02 13:00"], 2, "hours are kept by day"),
    (["usage", "--since", "6h"], 2, "hours are kept by day"),
    (["usage", "--until", "soon"], 2, '--until: "soon" is not a time'),
]


@pytest.mark.parametrize(
    ("arguments", "code", "says"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str], fleet_url: str, arguments: list[str], code: int, says: str
) -> None:
    found, told = fails(capsys, fleet_url, *arguments)
    assert (found, says in told) == (code, True), told


VERBS: list[list[str]] = [
    ["as-of", "1h", "workloads"],
    ["as-of", "1h", "clusters"],
    ["as-of", "1h", "queues"],
    ["usage"],
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_an_older_schema_and_no_schema(
    capsys: pytest.CaptureFixture[str], empty_database_url: str, verb: list[str]
) -> None:
    code, told = fails(capsys, empty_database_url, *verb)
    assert (code, "run `controlplane db upgrade`" in told) == (4, True)


OLDER = [
    *(["as-of", "1h", kind] for kind in ("workloads", "clusters", "queues")),
    ["usage"],
    ["why", "default/w", "--at", "1h"],
    ["timeline", "queue", "default/lq"],
]


def test_a_schema_from_before_these_views(capsys: pytest.CaptureFixture[str], empty_database_url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.migrations()))
    with create_engine(schema.sqlalchemy_url(empty_database_url), poolclass=NullPool).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0008")
    for verb in OLDER:
        code, told = fails(capsys, empty_database_url, *verb)
        assert (code, "run `controlplane db upgrade`" in told) == (4, True), (verb, told)


def test_an_empty_log(capsys: pytest.CaptureFixture[str], database_url: str) -> None:
    code, told = fails(capsys, database_url, "as-of", "1h", "workloads")
    assert (code, "the log main is empty" in told) == (5, True)
    assert asked(database_url, "usage") == []
    assert "Nothing ran: the log main is empty." in invoke(database_url, "usage").stderr


@pytest.mark.parametrize("verb", [["as-of", AT, "workloads", "-o", "wide"], ["usage"]], ids=" ".join)
def test_the_program_itself(fleet_url: str, verb: list[str]) -> None:
    """A reader's rights are enough."""
    given: dict[str, Any] = {"database_url": fleet_url, "database_role": "controlplane_reader"}
    ended = finished(*verb, **given)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("NAMESPACE")


@pytest.mark.parametrize("verb", [["as-of", AT, "workloads"], ["events", "--limit", "5"], ["usage"]])
def test_the_servers_spelling_of_times_does_not_matter(fleet_url: str, verb: list[str]) -> None:
    options = "options=-c%20DateStyle%3DGerman%20-c%20IntervalStyle%3Diso_8601"
    elsewhere = f"{fleet_url}{'&' if '?' in fleet_url else '?'}{options}"
    assert invoke(elsewhere, *verb, "-o", "json").stdout == invoke(fleet_url, *verb, "-o", "json").stdout != ""
