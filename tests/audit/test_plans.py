"""The views stay usable on a long log, in several partitions: one object's history is found through indexes, by the
planner's own word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support import postgres
from tests.support.rows import each

SEED = """
CREATE OR REPLACE FUNCTION controlplane.partition_size() RETURNS bigint LANGUAGE sql IMMUTABLE RETURN 5000;
ALTER TABLE controlplane.events DETACH PARTITION controlplane.events_1;
ALTER TABLE controlplane.events ATTACH PARTITION controlplane.events_1 FOR VALUES FROM (MINVALUE) TO (5001);
SELECT controlplane.make_room(20000);
INSERT INTO controlplane.log_head (log, position, epoch) VALUES ('main', 20000, 1);
INSERT INTO controlplane.events (log, position, stream, version, type, schema, data, reason, cluster, recorded_at)
SELECT 'main', n, stream, n, type, 1, data, '', 'a', now()
FROM generate_series(1, 20000) n
CROSS JOIN LATERAL (
    SELECT CASE WHEN n / 500 % 20 < 16 THEN 'workload/ns-' || n % 10 || '/job-' || n % 500 || '-0a1b2'
                WHEN n / 500 % 20 < 19 THEN 'job/jobs.batch/ns-' || n % 10 || '/job-' || n % 500
                ELSE 'cluster/c' || n % 5 END AS stream
) s
CROSS JOIN LATERAL (
    SELECT CASE WHEN stream LIKE 'workload/%' THEN
                    (ARRAY['WorkloadObserved', 'NominationDecided', 'CloneObserved', 'WinnerChosen'])[1 + n / 500 % 4]
                WHEN stream LIKE 'job/%' THEN 'JobObserved'
                ELSE (ARRAY['ClusterConnected', 'ClusterLost', 'KindSynced'])[1 + n / 100 % 3] END AS type
) t
CROSS JOIN LATERAL (
    SELECT json_build_object('uid', 'u', 'attempt', 1, 'clusters', json_build_array('a'), 'owner',
                             json_build_object('name', 'job-' || n % 500, 'uid', 'u')) AS data
) d;
INSERT INTO controlplane.streams SELECT log, stream, max(version) FROM controlplane.events GROUP BY log, stream;
ANALYZE controlplane.events; ANALYZE controlplane.streams;
"""
PARTITION = re.compile(r"^events_[0-9]+")
WORKLOAD = "namespace = 'ns-3' AND workload = 'job-103-0a1b2'"
NAMED = "namespace = 'ns-3' AND name = 'job-103-0a1b2'"
QUERIES = {
    "timeline": f"SELECT * FROM audit.workload_timeline WHERE {WORKLOAD} ORDER BY position",
    "timeline of a log": f"SELECT * FROM audit.workload_timeline WHERE log = 'main' AND {WORKLOAD}",
    "placements": f"SELECT * FROM audit.placements WHERE {WORKLOAD}",
    "events by name": "SELECT * FROM audit.events WHERE namespace = 'ns-3' AND name = 'job-103-0a1b2'",
    "events by stream": "SELECT * FROM audit.events WHERE log = 'main' AND stream = 'workload/ns-3/job-103-0a1b2'",
    "events by position": "SELECT * FROM audit.events WHERE log = 'main' AND position > 19900 ORDER BY position LIMIT "
    "100",
    "newest events": "SELECT * FROM audit.events WHERE log = 'main' ORDER BY position DESC LIMIT 100",
    "the head": "SELECT position FROM audit.events WHERE log = 'main' ORDER BY position DESC LIMIT 1",
    "runs": f"SELECT count(*) FROM audit.runs WHERE {NAMED}",
    "phases": f"SELECT * FROM audit.workload_phases WHERE {NAMED}",
    "phases of a log": f"SELECT * FROM audit.workload_phases WHERE log = 'main' AND {NAMED}",
    "placements by name": f"SELECT * FROM audit.placements WHERE {NAMED}",
    "pending reasons": f"SELECT * FROM audit.pending_reasons WHERE {NAMED}",
    "effects": f"SELECT * FROM audit.effects WHERE {NAMED}",
    "outages of a Workload": f"SELECT count(*) FROM audit.outage_workloads WHERE {NAMED}",
    "causes": "SELECT * FROM audit.causes('main', 19999)",
    "a time": "SELECT audit.position_at('main', now())",
    "config changes": "SELECT count(*) FROM audit.config_changes WHERE name = 'c3'",
    "the policy": "SELECT count(*) FROM audit.policy_in_force",
    "streams by name": "SELECT * FROM audit.streams WHERE namespace = 'ns-3' AND name = 'job-103'",
}


@pytest.fixture(scope="module")
def seeded_url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    name = postgres.new_name("plans")
    url = postgres_server.create(name, migrated_template)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in SEED.split(";\n"):
            connection.execute(statement.encode())
    yield url
    postgres_server.drop(name)


def plan_of(url: str, query: str) -> list[dict[str, Any]]:
    """Return the nodes of the plan as it was carried out."""
    with psycopg.connect(url) as connection:
        row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}".encode()).fetchone()
    assert row is not None
    found = row[0] if not isinstance(row[0], str) else json.loads(row[0])
    return [
        {name: PARTITION.sub("events", value) if name.endswith(" Name") else value for name, value in node.items()}
        for node in nodes(found[0]["Plan"])
    ]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


@each("query", QUERIES.values(), ids=QUERIES)
def test_nothing_reads_the_whole_log(seeded_url: str, query: str) -> None:
    found = plan_of(seeded_url, query)
    assert [node for node in found if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "events"] == []
    touched = sum(node["Actual Rows"] * node["Actual Loops"] for node in found if node.get("Relation Name") == "events")
    removed = sum(
        node.get("Rows Removed by Filter", 0) * node["Actual Loops"]
        for node in found
        if node.get("Relation Name") == "events"
    )
    assert touched + removed < 1000


def test_a_history_is_read_through_the_index_of_its_stream(seeded_url: str) -> None:
    used = {node.get("Index Name") for node in plan_of(seeded_url, QUERIES["timeline"])}
    assert {"events_version", "streams_object"} <= used
    used = {node.get("Index Name") for node in plan_of(seeded_url, QUERIES["events by name"])}
    assert {"events_version", "streams_object"} <= used


def test_what_nobody_asks_for_is_not_joined(seeded_url: str) -> None:
    relations = {
        n.get("Relation Name")
        for n in plan_of(seeded_url, "SELECT position, data FROM audit.events WHERE position < 9")
    }
    assert relations == {None, "events"} or relations == {"events"}


def test_connectivity_reads_the_clusters_alone(seeded_url: str) -> None:
    found = plan_of(seeded_url, "SELECT * FROM audit.cluster_connectivity WHERE cluster = 'c3'")
    assert [
        node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "events"
    ] == []
    assert {node.get("Index Name") for node in found} >= {"events_version"}


def test_the_seed_has_something_to_find(seeded_url: str) -> None:
    with psycopg.connect(seeded_url) as connection:
        for name, query in QUERIES.items():
            assert connection.execute(query.encode()).fetchone() is not None, name


def test_an_outage_without_its_counts_looks_for_no_runs(seeded_url: str) -> None:
    found = plan_of(seeded_url, "SELECT since, until FROM audit.outages WHERE cluster = 'c3'")
    never = [node for node in found if node.get("Subplan Name") == "CTE counted"]
    assert [node["Actual Loops"] for node in never] in ([], [0])
