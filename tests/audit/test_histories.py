"""Whatever happens to a Workload and its clusters: the intervals of one Workload follow one another, in `audit.runs`,
`audit.workload_phases`, `audit.pending_reasons`, `audit.placements` and `audit.quota_usage`; and an answer for the
fleet is that of the view before, which read a cluster's whole history for each time of each Workload."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from random import Random
from typing import Any

import psycopg
import pytest

from controlplane.controllers.multikueue import observations
from tests.audit.database import keep
from tests.audit.script import Life, Script
from tests.audit.test_views import query
from tests.log.migrating import migrate
from tests.support import postgres
from tests.support.deep import examples

CLUSTERS = ("a", "b", "c")
Row = dict[str, Any]
Step = Callable[[Script, Life, str, set[str]], None]


def history(seed: int, steps: Sequence[Step] = ()) -> Script:
    """A few Workloads on three clusters, to which one thing after the other happens, by chance."""
    chance, script = Random(seed), Script(*CLUSTERS)
    lives = [script.workload(f"w{number}-0a1b2") for number in range(3)]
    away: set[str] = set()
    for life in lives:
        if chance.random() < 0.7:
            life.runs(chance.choice(CLUSTERS), *CLUSTERS)
        else:
            life.offered(*CLUSTERS)
    for _ in range(40):
        chance.choice(steps or STEPS)(script, chance.choice(lives), chance.choice(CLUSTERS), away)
    return script


def _connection(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    if cluster in away:
        away.discard(cluster)
        script.connect(cluster)
    else:
        away.add(cluster)
        script.lose(cluster)


def _copy_of_job(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    if cluster not in away:
        life.remote_job(cluster, status=script.rv(), suspended=_even(script), inactive=_even(script, 2))


def _copy_of_job_gone(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    life.remote_job_gone(cluster)


def _another_job(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    """A new list shows another job of the name, and says after that that the one before is gone."""
    before, life.job_uid = life.job_uid, f"uid-{script.rv()}"
    life.remote_job(cluster, status=script.rv(), inactive=False)
    after, life.job_uid = life.job_uid, before
    life.remote_job_gone(cluster)
    life.job_uid = after


def _recreated(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    gone = observations.WorkloadGone(namespace=life.namespace, name=life.name, uid=life.uid)
    if _even(script):
        life.put(gone)
    life.conditions.clear()
    life.local = {}
    life.uid = f"uid-{life.name}-{script.rv()}"
    life.seen({"QuotaReserved": ("Pending", "the queue is full")})
    if script.recorded[-2].event is not gone:
        life.put(gone)


def _quota(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    life.again().decide() if _even(script) else life.drained()


def _placed(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    life.clone(cluster, {"QuotaReserved": True}).clone(cluster, {"Admitted": True}).decide()
    life.seen({"Admitted": True}, check="Ready", cluster_name=cluster, nominated=[]).decide()


def _check(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    life.seen(check=("Pending", "Retry", "Rejected", "Ready")[len(script.recorded) % 4]).decide()


def _finished(script: Script, life: Life, cluster: str, away: set[str]) -> None:
    if len(script.recorded) % 4 == 0:
        life.finishes(cluster)


def _even(script: Script, of: int = 1) -> bool:
    return len(script.recorded) // of % 2 == 0


STEPS: tuple[Step, ...] = (
    _connection,
    _connection,
    _copy_of_job,
    _copy_of_job,
    _copy_of_job_gone,
    _another_job,
    _recreated,
    _quota,
    _placed,
    _placed,
    _check,
    _finished,
)


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with a log for each history, `seed-N`."""
    name = postgres.new_name("histories")
    made = postgres_server.create(name, migrated_template)
    for seed in range(SEEDS):
        asyncio.run(keep(made, history(seed).recorded, f"seed-{seed}"))
    yield made
    postgres_server.drop(name)


SEEDS = examples(6, 60)


def grouped(url: str, statement: str, *by: str) -> Iterator[list[Row]]:
    """Yield the rows of each key, in the order in which they begin."""
    found: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in query(url, f"{statement} ORDER BY log, position"):
        found[tuple(row[column] for column in by)].append(row)
    assert found, statement
    yield from found.values()


def ordered(rows: list[Row]) -> list[tuple[datetime, datetime | None]]:
    """Return the intervals of rows after looking that each ends no earlier than it begins, and before the next."""
    spans = [(row["since"], row["until"]) for row in rows]
    for (since, until), after in zip(spans, [*spans[1:], (None, None)], strict=True):
        assert until is None or since <= until, rows
        assert after[0] is None or (until is not None and until <= after[0]), rows
    return spans


@pytest.mark.generated
def test_phases_follow_one_another_without_holes(url: str) -> None:
    for rows in grouped(url, "SELECT * FROM audit.workload_phases", "log", "name"):
        spans = ordered(rows)
        assert [until for _, until in spans] == [*(since for since, _ in spans[1:]), None]


@pytest.mark.generated
def test_phases_begin_when_the_workload_is_seen_and_end_with_what_it_is(url: str) -> None:
    for seed in range(SEEDS):
        script = history(seed)
        for stream, state in script.fleet.index.workloads.items():
            rows = query(
                url,
                "SELECT since, phase FROM audit.workload_phases WHERE log = %s AND name = %s ORDER BY position",
                f"seed-{seed}",
                stream.rpartition("/")[2],
            )
            first = next(
                one.recorded_at
                for one in script.recorded
                if one.stream == stream and isinstance(one.event, observations.WorkloadObserved)
            )
            assert rows[0]["since"] == first
            assert (rows[-1]["phase"] == "Deleted") == state.gone, (seed, stream)


@pytest.mark.generated
def test_runs_of_a_job_on_a_cluster_do_not_overlap(url: str) -> None:
    for rows in grouped(url, "SELECT * FROM audit.runs", "log", "name", "cluster"):
        ordered(rows)
        assert [row["last_position"] for row in rows[:-1] if row["last_position"] is None] == []


@pytest.mark.generated
def test_runs_that_are_said_not_to_overlap_do_not(url: str) -> None:
    for rows in grouped(url, "SELECT * FROM audit.runs WHERE NOT overlapped_unseen", "log", "name"):
        ordered(rows)


@pytest.mark.generated
def test_a_workload_waits_for_one_thing_at_a_time_in_each_place(url: str) -> None:
    for rows in grouped(url, "SELECT * FROM audit.pending_reasons", "log", "name", "cluster"):
        ordered(rows)


@pytest.mark.generated
def test_what_waits_is_what_its_phase_is(url: str) -> None:
    """Of each phase in which a Workload waits its intervals are all of it: they add up to it."""
    waits = "'Pending', 'Inactive', 'Reserved', 'Nominated', 'Chosen', 'Retry', 'Rejected', 'Evicted'"
    lasted = "sum(coalesce(x.until, '2027-01-01') - x.since)"
    rows = query(
        url,
        f"SELECT p.log, p.name, {lasted.replace('x.', 'p.')} AS lasted, (SELECT {lasted} FROM audit.pending_reasons x "
        "WHERE x.log = p.log AND x.name = p.name AND x.cluster = '@management'   AND x.waits_for !~ ' to (come "
        f"back|start its job)$') AS waited FROM audit.workload_phases p WHERE p.phase IN ({waits}) GROUP BY p.log, "
        "p.name",
    )
    assert rows
    assert [row for row in rows if row["lasted"] != row["waited"]] == []


@pytest.mark.generated
def test_attempts_follow_one_another(url: str) -> None:
    for rows in grouped(url, "SELECT * FROM audit.placements WHERE since IS NOT NULL", "log", "name"):
        rows.sort(key=lambda row: row["since"])
        assert [row["attempt"] for row in rows] == sorted(row["attempt"] for row in rows)
        assert all(row["submitted_at"] is not None for row in rows)
        assert all(row["until"] is None or row["since"] <= row["until"] for row in rows)
        assert [row for row in rows[:-1] if row["until"] is None] == []


@pytest.mark.generated
def test_quota_is_held_once(url: str) -> None:
    for rows in grouped(url, "SELECT * FROM audit.quota_usage", "log", "name", "resource", "flavor"):
        ordered(rows)


@pytest.mark.generated
def test_what_waits_for_a_cluster_waits_through_its_absence(url: str) -> None:
    rows = query(
        url,
        "SELECT p.*, a.reason AS lost_for, a.since AS lost_at, a.until AS back_at FROM audit.pending_reasons p"
        " LEFT JOIN audit.cluster_absences a ON a.log = p.log AND p.waits_for = a.cluster || ' to come back'"
        "  AND p.position >= a.position AND p.position < coalesce(a.last_position, 1000000)"
        " WHERE p.waits_for ~ ' to come back$'",
    )
    assert rows
    for row in rows:
        assert row["reason"] == row["lost_for"]
        assert row["since"] >= row["lost_at"]
        assert row["back_at"] is None or (row["until"] is not None and row["until"] <= row["back_at"])


# --- the views before ------------------------------------------------------------------------------------------------

EVERY = {
    "cluster_absences": "SELECT * FROM audit.cluster_absences",
    "outage_workloads": "SELECT * FROM audit.outage_workloads",
    "outages": "SELECT * FROM audit.outages",
    # of an absence in the midst of which it begins to wait, the view before said what was tried last
    "pending_reasons": "SELECT log, namespace, name, queue, owner, cluster, attempt, since, until, waits_for, position,"
    " CASE WHEN waits_for !~ ' to come back$' THEN reason END AS reason,"
    " CASE WHEN waits_for !~ ' to come back$' THEN message END AS message"
    " FROM audit.pending_reasons",
    "workload_phases": "SELECT * FROM audit.workload_phases",
    "runs": "SELECT * FROM audit.runs",
    "placements": "SELECT * FROM audit.placements",
    "quota_usage": "SELECT * FROM audit.quota_usage",
    "fleet_at": "SELECT f.* FROM generate_series(0, 300, 30) s,"
    " audit.fleet_at('seed-1', '2026-01-01Z'::timestamptz + s * interval '1 second') f",
}


def without_others(seed: int) -> Script:
    """A history in which a name is that of one object after the other: of that the views before told the same."""
    return history(seed, [step for step in STEPS if step not in (_another_job, _recreated)])


@pytest.mark.generated
def test_every_row_is_that_of_the_views_before(empty_database_url: str) -> None:
    url = empty_database_url
    migrate(url, "0022")
    for seed in range(examples(3, 30)):
        asyncio.run(keep(url, without_others(seed).recorded, f"seed-{seed}"))
    with psycopg.connect(url) as connection:
        for name, statement in EVERY.items():
            connection.execute(f"CREATE TABLE public.{name} AS {statement}".encode())
    migrate(url, "0025")  # the next one tells of a copy that was seen before its cluster was chosen
    for name, statement in EVERY.items():
        before, after = f"SELECT * FROM public.{name}", statement
        for one, other in ((before, after), (after, before)):
            assert query(url, f"SELECT * FROM ({one} EXCEPT ALL {other}) x") == [], name
    assert query(url, "SELECT count(*) AS rows FROM public.outage_workloads")[0]["rows"] > 0
