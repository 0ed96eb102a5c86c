"""The views over intervals tell what the pure code tells of the same events: runs, phases, writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest

from controlplane.audit.runs_seen import overlaps, runs
from controlplane.audit.standing import standing
from controlplane.controllers.connectivity.events import ServiceStarted
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.log.codec import Codec
from controlplane.log.event import Recorded
from controlplane.log.folding import Folding
from tests.audit import stories
from tests.audit.database import keep
from tests.audit.script import POLICY, Life, Script
from tests.audit.test_views import query
from tests.interface.logs import host_of, recorded, written
from tests.support import postgres
from tests.support.deep import deep_but


def told(*stories_: Callable[[Script], Life]) -> list[Recorded]:
    script = Script("a", "b", "c")
    for story in stories_:
        story(script)
    return script.recorded


def read(name: str) -> list[Recorded]:
    codec = Codec(host_of(name).types)
    return [recorded(line, codec) for line in written(name)]


LOGS: dict[str, Callable[[], list[Recorded]]] = {
    "main": lambda: stories.everything().recorded,
    "short": lambda: told(stories.short_lost),
    "still": lambda: told(lambda script: stories.short_lost(script, still_runs=True)),
    "workloads-5": lambda: read("workloads-5"),
    "workloads-23": lambda: read("workloads-23"),
}


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with each of the logs."""
    name = postgres.new_name("intervals")
    made = postgres_server.create(name, migrated_template)
    for log, events in LOGS.items():
        asyncio.run(keep(made, events(), log, host_of("workloads-5").types))
    yield made
    postgres_server.drop(name)


def workloads(events: Sequence[Recorded]) -> dict[str, str]:
    """Return the streams of Workloads, each with the UID of the first that had its name."""
    found: dict[str, str] = {}
    for one in events:
        if isinstance(one.event, WorkloadObserved):
            found.setdefault(one.stream, one.event.uid)
    return found


def name_of(stream: str) -> tuple[str, str]:
    _, namespace, name = stream.split("/")
    return namespace, name


def seen_runs(events: Sequence[Recorded], stream: str, uid: str) -> Iterator[tuple[Any, ...]]:
    """Yield the runs that were seen; one that a change of the leader put out of view ends when its end was seen."""
    found = runs(POLICY, events, stream, uid)
    for run in found:
        ended = run.ended
        if ended is not None and isinstance(ended.event, ServiceStarted):
            (ended,) = (other.ended for other in found if other.began is ended and other.cluster == run.cluster)
        if run.seen:
            yield run.cluster, run.uid, run.began.recorded_at, ended.recorded_at if ended else None


@pytest.mark.parametrize("log", deep_but(("main",), LOGS))
def test_runs_are_those_of_the_pure_code(url: str, log: str) -> None:
    events = LOGS[log]()
    for stream, uid in workloads(events).items():
        rows = query(
            url,
            "SELECT cluster, job_uid, since, coalesce(unseen_since, until) AS until FROM audit.runs"
            " WHERE log = %s AND namespace = %s AND name = %s ORDER BY position",
            log,
            *name_of(stream),
        )
        assert [tuple(row.values()) for row in rows] == list(seen_runs(events, stream, uid)), stream


@pytest.mark.parametrize("log", deep_but(("main",), LOGS))
def test_what_overlaps_overlaps_in_the_pure_code(url: str, log: str) -> None:
    events = LOGS[log]()
    found = {
        stream: [one for one in overlaps(runs(POLICY, events, stream, uid), events[-1].recorded_at) if one.seen]
        for stream, uid in workloads(events).items()
    }
    rows = query(
        url, "SELECT DISTINCT namespace, name, twice FROM audit.runs WHERE log = %s AND overlapped ORDER BY 1, 2", log
    )
    expected = sorted((*name_of(stream), both[0].lasted) for stream, both in found.items() if both)
    assert [tuple(row.values()) for row in rows] == expected
    assert bool(rows) == (log == "still")


def words(events: Sequence[Recorded]) -> Iterator[tuple[str, datetime, str]]:
    """Yield how far each Workload had come after each commit with events of its stream."""
    index = WorkloadIndex(POLICY)
    folding = Folding(index.fold)
    found: dict[tuple[str, datetime], str] = {}
    for one in events:
        folding(one)
        state = index.workloads.get(one.stream)
        if state is not None and (state.local is not None or state.gone):
            found[one.stream, one.recorded_at] = standing(state, index.context(state), one.recorded_at).word
    for (stream, at), word in found.items():
        yield stream, at, word


@pytest.mark.parametrize("log", deep_but(("main",), LOGS))
def test_phases_are_the_words_of_the_pure_code(url: str, log: str) -> None:
    """Where a cluster is lost, the phase is what it was: that the cluster is lost is another view's."""
    told = list(words(LOGS[log]()))
    assert told
    for stream, at, word in told:
        (row,) = query(
            url,
            "SELECT phase FROM audit.workload_phases WHERE log = %s AND namespace = %s AND name = %s"
            " AND since <= %s AND (until > %s OR until IS NULL)",
            log,
            *name_of(stream),
            at,
            at,
        )
        assert row["phase"] == word or word == "Lost", (stream, at)


@pytest.mark.parametrize("log", deep_but(("main",), LOGS))
def test_writes_end_where_the_fold_closes_them(url: str, log: str) -> None:
    router = host_of("workloads-5")
    ends: dict[int, int | None] = {}
    streams: set[str] = set()
    for one in LOGS[log]():
        router.fold(one)
        streams.add(one.stream)
        now = {write.position for stream in streams for write in router.open_writes(stream)}
        ends |= {position: one.position for position, end in ends.items() if end is None and position not in now}
        ends |= {position: None for position in now if position not in ends}
    rows = query(url, "SELECT position, last_position, outcome FROM audit.effects WHERE log = %s", log)
    assert {row["position"]: row["last_position"] for row in rows} == ends
    assert {row["outcome"] for row in rows if row["last_position"] is None} <= {"open"}
