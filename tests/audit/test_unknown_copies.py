"""An elastic job that waits for a copy which nobody knows: after the log went back, say, and its Workload is gone."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from controlplane.audit.answer import answer
from controlplane.audit.find import find
from controlplane.audit.reads import LogReader
from controlplane.audit.words import type_of
from controlplane.runtime.explanation import Explanation
from tests.audit.database import keep
from tests.audit.script import POLICY, Script

RUNS = {"QuotaReserved": True, "Admitted": True}
STRAY = "the job on a to go that runs for default/job-train-stray, a Workload that nobody knows"


async def told(url: str, interval: timedelta | None, *, elastic: bool = True) -> Explanation:
    script = Script("a", "b")
    script.workload("job-train-stray", job="train").clone("a", RUNS).remote_job("a", suspended=False, inactive=False)
    script.workload("job-other-stray", job="other").clone("a", RUNS).remote_job("a", suspended=False, inactive=False)
    life = script.workload("job-train-next", job="train").job().seen({"QuotaReserved": True}, elastic=elastic)
    await keep(url, script.recorded)
    with LogReader.connect(url) as reader:
        found = find(reader, life.namespace, life.name)
        assert found is not None
        return answer(reader, msgspec.structs.replace(POLICY, gc_interval=interval), found, script.now)


async def test_it_is_named_where_nobody_removes_it(database_url: str) -> None:
    said = await told(database_url, None)
    assert said.standing.waits_for == f"{STRAY}, which nobody removes: multikueue.gcInterval is 0"
    assert said.sentence == f"It has quota and waits for {said.standing.waits_for}."
    assert [(type_of(one), one.stream) for one in said.events if one.cluster == "a"] == [
        ("RemoteJobObserved", "workload/default/job-train-stray")
    ]


async def test_it_is_said_when_it_is_removed(database_url: str) -> None:
    said = await told(database_url, timedelta(minutes=1))
    assert said.standing.waits_for == f"{STRAY}, at 2026-01-01T00:01:09Z"


async def test_a_job_that_is_not_elastic_does_not_wait_for_it(database_url: str) -> None:
    said = await told(database_url, None, elastic=False)
    assert STRAY not in said.sentence
    assert said.standing.waits_for == "its nomination"


@pytest.mark.parametrize("ends", ["job", "workload"])
async def test_what_is_gone_or_known_is_not_waited_for(database_url: str, ends: str) -> None:
    script = Script("a", "b")
    stray = script.workload("job-train-stray", job="train").clone("a", RUNS).remote_job("a", suspended=False)
    if ends == "job":
        stray.remote_job_gone("a")
    else:
        stray.seen({"QuotaReserved": True}, elastic=True)
    life = script.workload("job-train-next", job="train").job().seen({"QuotaReserved": True}, elastic=True)
    await keep(database_url, script.recorded)
    with LogReader.connect(database_url) as reader:
        found = find(reader, life.namespace, life.name)
        assert found is not None
        assert "a Workload that nobody knows" not in answer(reader, POLICY, found, script.now).sentence


async def test_as_of_a_time_at_which_nobody_knew_it_yet(database_url: str) -> None:
    script = Script("a", "b")
    stray = script.workload("job-train-stray", job="train").clone("a", RUNS).remote_job("a", suspended=False)
    life = script.workload("job-train-next", job="train").job().seen({"QuotaReserved": True}, elastic=True)
    then = script.now
    stray.seen({"QuotaReserved": True}, elastic=True)
    await keep(database_url, script.recorded)
    with LogReader.connect(database_url) as reader:
        reader.read_at(then)
        found = find(reader, life.namespace, life.name)
        assert found is not None
        assert STRAY in answer(reader, msgspec.structs.replace(POLICY, gc_interval=None), found, then).sentence
