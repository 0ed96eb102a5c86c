"""The views of quota, configuration, settings, actors, causes, labels and clusters tell of any log what its events say,
row by row, as it is computed from them one after the other. All logs are in one database, with the same names."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from controlplane.audit.reads import READ
from controlplane.dst.play import plan_of
from controlplane.log.codec import Codec
from controlplane.log.event import Recorded
from tests.audit import computed, computed_candidates, computed_fleet, computed_placements
from tests.audit.computed import Row, Told, told
from tests.audit.computed_logs import CLUSTERS, Chance, body, policy, template
from tests.audit.database import keep
from tests.audit.test_histories import history
from tests.audit.test_views import query
from tests.interface.logs import recorded, written
from tests.quota.admission.scene import Scene
from tests.support import postgres
from tests.support.deep import deep_but
from tests.support.played import log_of

BODIES = {template(number): body(template(number)) for number in range(5)}
SCENES = ("workloads", "admission")


def chance(number: str) -> list[Recorded]:
    return Chance(int(number), 400).log


def read(name: str) -> list[Recorded]:
    codec = Codec(READ)
    return [recorded(line, codec) for line in written(name)]


def reserved(_: str) -> list[Recorded]:
    """Workloads that get quota from this service, are preempted and finish."""
    scene = Scene()
    for name in ("q", "r"):
        scene.queue(name, "4", cohortName="all", preemption={"reclaimWithinCohort": "Any"})
    for number in range(8):
        scene.pass_time(7)
        scene.workload(f"w{number}", "qr"[number % 2], str(1 + number % 3), priority=number % 4)
        scene.settle()
        if number % 3 == 2:
            scene.finish(f"w{number - 2}")
            scene.settle()
    return scene.log


LOGS: dict[str, tuple[Callable[[str], list[Recorded]], str]] = {
    **{f"chance-{seed}": (chance, str(seed)) for seed in range(40)},
    **{f"dropped-{seed}": (chance, str(seed)) for seed in range(100, 105)},
    **{f"history-{seed}": (lambda number: history(int(number)).recorded, str(seed)) for seed in range(3)},
    "workloads-5": (read, "workloads-5"),
    "workloads-23": (read, "workloads-23"),
    "source-source3": (read, "source-source3"),
    "reserved": (reserved, ""),
    **{
        f"{scene}-{seed}": (lambda name: log_of(plan_of(int(name[1:]), scene=SCENES[int(name[0])], edition=10)), f"{n}{seed}")
        for n, scene in enumerate(SCENES)
        for seed in range(100, 110 - 5 * n)
    },
}  # fmt: skip
QUICK = ("chance-0", "dropped-100", "history-0", "workloads-23", "source-source3", "reserved")


class Database:
    """A database that is given each log when it is first asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._known: dict[str, list[Told]] = {}
        with psycopg.connect(url) as connection:
            for name, stored in BODIES.items():
                row = (name, json.dumps(stored))
                connection.execute("INSERT INTO controlplane.bodies VALUES (decode(%s, 'hex'), %s, now())", row)

    def events(self, log: str) -> list[Told]:
        if log not in self._known:
            make, argument = LOGS[log]
            events = make(argument)
            asyncio.run(keep(self.url, events, log, READ))
            left = self._dropped(log) if log.startswith("dropped") else set()
            self._known[log] = told([one for one in events if one.stream not in left])
        return self._known[log]

    def _dropped(self, log: str) -> set[str]:
        """Take every other stream of Workloads and jobs out of the database, as `log archive --drop` does."""
        with psycopg.connect(self.url) as connection:
            gone = connection.execute(
                "UPDATE controlplane.streams s SET (version, archived_to) = (SELECT max(e.version), max(e.position)"
                " FROM controlplane.events e WHERE e.log = s.log AND e.stream = s.stream)"
                " WHERE s.log = %s AND s.stream ~ '^(workload|job)/' AND hashtext(s.stream) %% 2 = 0 RETURNING s.stream",
                (log,),
            ).fetchall()
            left = {stream for (stream,) in gone}
            connection.execute(
                "DELETE FROM controlplane.events WHERE log = %s AND stream = ANY(%s)", (log, sorted(left))
            )
        return left

    def rows(self, view: str, log: str) -> list[Row]:
        """Return the rows of a view, without the name of the log."""
        self.events(log)
        found = query(self.url, f"SELECT * FROM audit.{view} WHERE log = %s", log)
        return [{column: value for column, value in row.items() if column != "log"} for row in found]


@pytest.fixture(scope="module")
def database(postgres_server: postgres.Server, migrated_template: str) -> Iterator[Database]:
    name = postgres.new_name("computed")
    made = Database(postgres_server.create(name, migrated_template))
    for log in QUICK:
        made.events(log)
    yield made
    postgres_server.drop(name)


every_log = pytest.mark.parametrize("log", deep_but(QUICK, LOGS))


def same(found: Sequence[Row], expected: Sequence[Row]) -> bool:
    """Whether these are the same rows, in any order; says which are not."""

    def counted(rows: Sequence[Row]) -> Counter[str]:
        return Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)

    more, fewer = counted(found) - counted(expected), counted(expected) - counted(found)
    assert (list(more), list(fewer)) == ([], [])
    return True


def joined(rows: Sequence[Row]) -> list[Row]:
    """Put rows together of which one begins where another one ends, and is the same else: who holds something goes on
    to hold it, whatever else of him changes."""
    spans = ("since", "until", "position", "last_position")
    found: list[Row] = []
    open_: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: row["position"]):
        key = tuple(value for column, value in sorted(row.items()) if column not in spans)
        before = open_.get(key)
        if before is not None and before["last_position"] == row["position"]:
            before.update(until=row["until"], last_position=row["last_position"])
        else:
            open_[key] = dict(row)
            found.append(open_[key])
    return found


def without(rows: Sequence[Row], *columns: str) -> list[Row]:
    return [{column: value for column, value in row.items() if column not in columns} for row in rows]


def test_the_logs_have_what_is_to_be_told(database: Database) -> None:
    """Or the tests below would compare nothing."""
    for view in ("quota_ledger", "quota_usage", "config_changes", "actors", "policy_in_force", "job_labels"):
        assert database.rows(view, "chance-0"), view
    assert len(database.rows("quota_ledger", "reserved")) > 5
    assert database.rows("config_changes", "workloads-23")


@every_log
def test_the_ledger_is_the_sum_of_its_entries(database: Database, log: str) -> None:
    same(database.rows("quota_ledger", log), computed.quota_ledger(database.events(log)))


@every_log
def test_quota_is_held_by_whom_the_events_say(database: Database, log: str) -> None:
    rows = without(database.rows("quota_usage", log), "owner")
    for row in rows:
        row["amount"] = None if row["amount"] is None else float(row["amount"])
    expected = computed.quota_usage(database.events(log), BODIES)
    for row in expected:
        row["amount"] = None if row["amount"] is None else float(row["amount"])
    same(joined(rows), joined(expected))


@every_log
def test_configuration_changes_where_its_events_differ(database: Database, log: str) -> None:
    same(database.rows("config_changes", log), computed.config_changes(database.events(log)))


@every_log
def test_settings_are_in_force_until_others_are(database: Database, log: str) -> None:
    rows = database.rows("policy_in_force", log)
    for row in rows:
        row |= {name: value.total_seconds() for name, value in row.items() if isinstance(value, timedelta)}
    same(rows, computed.policy_in_force(database.events(log)))


@every_log
def test_who_is_named_did_it(database: Database, log: str) -> None:
    same(database.rows("actors", log), computed.actors(database.events(log)))


@every_log
def test_labels_are_those_of_the_template_that_was_seen_last(database: Database, log: str) -> None:
    expected = computed.job_labels(database.events(log), BODIES)
    for row in expected:
        row["labels"] = json.loads(json.dumps(row["labels"]).replace("\\u0000", "\\ufffd"))
    same(database.rows("job_labels", log), expected)


@every_log
def test_an_event_rests_on_its_chain_of_causes(database: Database, log: str) -> None:
    events = database.events(log)
    rows = query(
        database.url,
        "SELECT p AS of, c.depth, c.position, c.stream, c.type, c.reason, c.cluster, c.recorded_at AS at"
        " FROM generate_series(1, %s, 7) p CROSS JOIN audit.causes(%s, p) c",
        len(events),
        log,
    )
    by = {one.position: one for one in events}
    expected = [
        {
            "of": of, "depth": depth, "position": position, "stream": by[position].stream, "type": by[position].type,
            "reason": by[position].reason, "cluster": by[position].cluster, "at": by[position].at,
        }
        for of in range(1, len(events) + 1, 7)
        for depth, position in computed.causes(events, of)
    ]  # fmt: skip
    same(rows, expected)


@every_log
def test_connections_have_the_phases_that_were_told(database: Database, log: str) -> None:
    same(database.rows("cluster_connectivity", log), computed_fleet.cluster_connectivity(database.events(log)))


@every_log
def test_a_cluster_is_absent_until_it_is_connected_again(database: Database, log: str) -> None:
    same(database.rows("cluster_absences", log), computed_fleet.cluster_absences(database.events(log)))


@every_log
def test_the_fleet_is_what_was_known_of_it_by_then(database: Database, log: str) -> None:
    events = database.events(log)
    times = sorted(
        {one.at for one in events if one.stream.partition("/")[0] in ("cluster", "multikueueconfig", "service")}
    )
    asked = [events[0].at - timedelta(seconds=1), *times[:: max(1, len(times) // 12)], times[-1]]
    rows = query(
        database.url,
        "SELECT f.*, t AS at FROM unnest(%s::timestamptz[]) t CROSS JOIN audit.fleet_at(%s, t) f",
        asked,
        log,
    )
    same(rows, [{**row, "at": at} for at in asked for row in computed_fleet.fleet_at(events, at)])


@every_log
def test_a_position_is_the_last_one_of_its_time(database: Database, log: str) -> None:
    events = database.events(log)
    times = [one.at for one in events[:: max(1, len(events) // 20)]]
    asked = [events[0].at - timedelta(seconds=1), *times, *(at - timedelta(microseconds=1) for at in times)]
    text = "SELECT t AS at, audit.position_at(%s, t) AS position FROM unnest(%s::timestamptz[]) t"
    for row in query(database.url, text, log, asked):
        found = max((one.position for one in events if one.position <= row["position"]), default=0)
        assert found == max((one.position for one in events if one.at <= row["at"]), default=0)


@every_log
def test_usage_is_what_of_the_runs_lies_in_the_day(database: Database, log: str) -> None:
    """The view rounds to four decimals: what it says may be half of the last one beside the hours."""
    rows = database.rows("usage", log)
    expected = computed_fleet.usage(database.rows("runs", log), database.events(log)[-1].at)
    hours = [_hours(one) for one in (rows, expected)]
    same(rows, expected)
    assert hours[0].keys() == hours[1].keys()
    for place, found in hours[0].items():
        assert found == pytest.approx(hours[1][place], rel=1e-12, abs=0.0000501), place


def _hours(rows: Sequence[Row]) -> dict[tuple[Any, ...], dict[str, float]]:
    """Take the hours out of rows of usage, and return them by what they are of."""
    found = {}
    for row in rows:
        asked = row.pop("resource_hours")
        row["known"] = asked is not None
        hours = {"run hours": row.pop("run_hours"), **(asked or {})}
        place = tuple(row[name] for name in ("namespace", "queue", "cluster", "day"))
        found[place] = {name: float(amount) for name, amount in hours.items()}
    return found


def test_what_was_made_for_another_management_cluster_is_no_run_and_waits_for_nothing(database: Database) -> None:
    """All copies on workers of these logs are of others."""
    log = "chance-0"
    theirs = [one for one in database.events(log) if one.data.get("made_for")]
    assert {one.type for one in theirs} == {"CloneObserved", "RemoteJobObserved"}
    for view in ("runs", "pending_reasons"):
        assert [row for row in database.rows(view, log) if row["cluster"] in CLUSTERS] == []
    assert [row for row in database.rows("workload_phases", log) if row["phase"] == "Running"] == []


@every_log
def test_an_outage_counts_its_workloads(database: Database, log: str) -> None:
    absences, workloads = database.rows("cluster_absences", log), database.rows("outage_workloads", log)
    same(database.rows("outages", log), computed_fleet.outages(absences, workloads))


@every_log
def test_candidates_became_what_was_said_of_them(database: Database, log: str) -> None:
    rows = database.rows("candidates", log)
    for row in rows:
        row["waiting_seconds"] = None if row["waiting_seconds"] is None else float(row["waiting_seconds"])
    expected = computed_candidates.candidates(database.events(log))
    for row in expected:
        row["waiting_seconds"] = None if row["waiting_seconds"] is None else round(row["waiting_seconds"], 3)
    same(rows, expected)


@every_log
def test_an_attempt_is_what_was_decided_and_seen_of_it(database: Database, log: str) -> None:
    same(database.rows("placements", log), computed_placements.placements(database.events(log)))


@every_log
def test_workloads_were_at_a_time_as_their_phases_and_their_clusters_say(database: Database, log: str) -> None:
    events = database.events(log)
    phases, absences = database.rows("workload_phases", log), computed_fleet.cluster_absences(events)
    times = sorted({one.at for one in events})
    asked = [times[0] - timedelta(seconds=1), *times[:: max(1, len(times) // 12)], times[-1]]
    text = "SELECT f.*, t AS at FROM unnest(%s::timestamptz[]) t CROSS JOIN audit.as_of(%s, t) f"
    expected = [{**row, "at": at} for at in asked for row in computed_placements.as_of(phases, absences, at)]
    same(query(database.url, text, asked, log), expected)


@every_log
def test_each_stream_has_its_events(database: Database, log: str) -> None:
    events = database.events(log)
    counts = Counter(one.stream for one in events)
    of: Mapping[str, Told] = {one.stream: one for one in events}
    expected = [
        {
            "stream": stream, "kind": stream.partition("/")[0], "namespace": of[stream].object[0],
            "name": of[stream].object[1], "events": counts[stream], "archived_to": None,
        }
        for stream in counts
    ]  # fmt: skip
    rows = database.rows("streams", log)
    same([row for row in rows if row["archived_to"] is None], expected)
    assert bool([row for row in rows if row["archived_to"]]) == log.startswith("dropped")


def test_every_setting_that_is_recorded_is_a_column(database: Database) -> None:
    columns = {"log", "since", "until", "position"}
    (row,) = query(database.url, "SELECT * FROM audit.policy_in_force LIMIT 1")
    assert set(row) - columns == {name.removesuffix("_seconds") for name in policy().__struct_fields__}
