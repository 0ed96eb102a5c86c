"""The views tell of what simulated clusters went through what the pure code tells of the same events: how far each
Workload was, which writes were open; and their intervals fit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pytest

from controlplane.audit.standing import standing
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import RemovalDecided, WorkloadWrite
from controlplane.dst.engine.run import simulate
from controlplane.dst.play import plan_of
from controlplane.dst.scenes.admission.run import AdmissionRun
from controlplane.dst.scenes.workloads.run import WorkloadRun, of_others
from controlplane.log.event import Event, Recorded
from tests.audit.database import keep
from tests.audit.test_histories import grouped, ordered
from tests.audit.test_views import query
from tests.support import postgres
from tests.support.deep import deep_after

RUNS: Mapping[str, type[WorkloadRun]] = {"workloads": WorkloadRun, "admission": AdmissionRun}
# Slices whose job ran before, or whose cluster's name was taken away; groups whose first pods are replaced.
SEEDS = [
    "workloads-13", "admission-17", "workloads-12", "workloads-46", "workloads-55", "admission-4", "admission-15",
    "admission-8", *(f"workloads-{seed}" for seed in range(100, 116)),
]  # fmt: skip
OVER = ("Finished", "Deleted")


class Played(NamedTuple):
    """The events of the log of a run, and by what they are folded."""

    events: Sequence[Recorded]
    types: list[type[Event]]
    policy: MultiKueuePolicy


def played(name: str) -> Played:
    scene, _, seed = name.partition("-")
    kept: list[Played] = []

    class Run(RUNS[scene]):  # type: ignore[misc]
        def close(self) -> None:
            events = list(self.database.read(0, 10**9))
            kept.append(Played(events, list(self.database.codec.types.values()), self.policy))
            super().close()

    assert simulate(plan_of(int(seed), scene=scene, edition=10), Run).violation is None
    return kept[0]


@pytest.fixture(scope="module", params=deep_after(2, SEEDS))
def found(
    request: pytest.FixtureRequest, postgres_server: postgres.Server, migrated_template: str
) -> Iterator[tuple[str, Played]]:
    """A database with the log of a run, and its events."""
    run, name = played(request.param), postgres.new_name("simulated")
    url = postgres_server.create(name, migrated_template)
    asyncio.run(keep(url, run.events, types=run.types))
    yield url, run
    postgres_server.drop(name)


def at(rows: Sequence[dict[str, Any]], when: datetime) -> dict[str, Any]:
    (row,) = [row for row in rows if row["since"] <= when and (row["until"] is None or row["until"] > when)]
    return row


def is_of_a_set(event: object) -> bool:
    return isinstance(event, RemovalDecided) and event.of == "Job" and event.kind.startswith("leaderworkersets.")


def test_phases_are_the_words_of_the_pure_code(found: tuple[str, Played]) -> None:
    """Of a check that is not ours the pure code says nothing, and of an outage the phase does not."""
    url, run = found
    index = MultiKueueController(run.policy, "told").index
    told: dict[tuple[str, datetime], tuple[str, str]] = {}
    for one in run.events:
        if not of_others(one.stream):
            index.fold(one)
            state = index.workloads.get(one.stream)
            if state is not None and state.local is not None:
                stands = standing(state, index.context(state), one.recorded_at)
                told[one.stream, one.recorded_at] = stands.word, stands.cluster
            else:
                told.pop((one.stream, one.recorded_at), None)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in query(url, "SELECT * FROM audit.workload_phases"):
        rows.setdefault(f"workload/{row['namespace']}/{row['name']}", []).append(row)
    assert told
    for (stream, when), (word, cluster) in told.items():
        row = at(rows[stream], when)
        if word not in ("Lost", "Reserved") and row["phase"] not in ("Retry", "Rejected"):
            assert row["phase"] == word, (stream, when)
            assert word not in ("Chosen", "Admitted", "Running") or row["cluster"] == (cluster or None), (stream, when)


def test_writes_end_where_the_fold_closes_them(found: tuple[str, Played]) -> None:
    """Those to pods of a group beside the first are left out, and the removal of a copy that several Workloads share:
    the fold lets go of it with its Workload, and it ends with the copy."""
    url, run = found
    controller = MultiKueueController(run.policy, "told")
    ends: dict[int, int | None] = {}
    open_now: dict[str, set[int]] = {}
    beside = {one.position for one in run.events if getattr(one.event, "member", "") or is_of_a_set(one.event)}
    for one in run.events:
        if of_others(one.stream):
            continue
        controller.fold(one)
        for stream in {one.stream, *(stream for stream, writes in open_now.items() if writes)}:
            writes = {write.position for write in controller.open_writes(stream)} - beside
            ends |= dict.fromkeys(open_now.get(stream, set()) - writes, one.position)
            ends |= dict.fromkeys(writes - ends.keys(), None)
            open_now[stream] = writes
    rows = {row["position"]: row for row in query(url, "SELECT * FROM audit.effects")}
    assert {position: rows[position]["last_position"] for position in ends} == ends
    decided = {one.position for one in run.events if isinstance(one.event, WorkloadWrite)} - beside
    assert {*rows} & decided == {*ends} | {p for p, row in rows.items() if row["outcome"] == "replaced"} & decided


def test_intervals_follow_one_another_and_end_with_the_workload(found: tuple[str, Played]) -> None:
    url, _ = found
    over = {
        (row["namespace"], row["name"])
        for row in query(url, "SELECT * FROM audit.workload_phases WHERE until IS NULL")
        if row["phase"] in OVER
    }
    for view, by in (("workload_phases", ()), ("pending_reasons", ("cluster",)), ("runs", ("cluster", "job_uid"))):
        for rows in grouped(url, f"SELECT * FROM audit.{view}", "log", "namespace", "name", *by):
            ordered(rows)
    for view in ("runs", "pending_reasons", "effects", "quota_usage"):
        left = query(url, f"SELECT namespace, name FROM audit.{view} WHERE until IS NULL")
        assert [row for row in left if (row["namespace"], row["name"]) in over] == [], view


def test_a_workload_that_does_not_run_waits_for_something(found: tuple[str, Played]) -> None:
    """One that is admitted without being dispatched waits for nothing."""
    url, _ = found
    rows = query(
        url,
        "SELECT p.name, p.phase, p.since, p.until, w.since AS begun, w.until AS ended FROM audit.workload_phases p"
        " LEFT JOIN LATERAL (SELECT min(w.since) AS since, CASE WHEN bool_and(w.until IS NOT NULL) THEN max(w.until) END"
        " AS until FROM audit.pending_reasons w WHERE (w.log, w.namespace, w.name) = (p.log, p.namespace, p.name)"
        " AND w.cluster = '@management' AND w.since >= p.since AND (w.until <= p.until OR p.until IS NULL)) w ON true"
        " WHERE p.phase NOT IN ('Running', 'Finished', 'Deleted', 'Deleting')"
        " AND NOT (p.phase = 'Admitted' AND p.cluster IS NULL)",
    )
    assert rows
    assert [row for row in rows if (row["since"], row["until"]) != (row["begun"], row["ended"])] == []
