"""What is read of the log is enough: the same states as a replay of all of it, without the Workloads that are over."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from controlplane.audit.description import queue
from controlplane.audit.find import events_of, find, nearest
from controlplane.audit.fleet import load
from controlplane.audit.reads import Filter, LogReader
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import LocalQueueObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.log.event import NewEvent
from tests.audit.script import POLICY, Script, write
from tests.audit.stories import ETL, ODD, QUEUED, SIM, TRAIN, everything
from tests.pages.serving import served


@pytest.fixture
def reader(stories_url: str) -> Iterator[LogReader]:
    with LogReader.connect(stories_url, role="controlplane_reader") as found:
        yield found


def workload(name: str, namespace: str = "default") -> str:
    return f"workload/{namespace}/{name}"


def replayed() -> WorkloadIndex:
    return everything().fleet.index


def timeless(state: WorkloadState) -> WorkloadState:
    """A script and a database have clocks of their own."""
    effects = {key: msgspec.structs.replace(effect, decided_at=None) for key, effect in state.effects.items()}
    told = msgspec.structs.replace(state.told, at=None) if state.told is not None else None
    cloned, repeats = (
        {name: msgspec.structs.replace(one, at=None) for name, one in found.items()}
        for found in (state.cloned, state.repeats)
    )
    state = msgspec.structs.replace(state, cloned=cloned, repeats=repeats)
    return msgspec.structs.replace(
        state, effects=effects, relayed_at=None, told=told, returned=dict.fromkeys(state.returned), orphan_since=None
    )


def test_every_state_is_that_of_a_full_replay(reader: LogReader) -> None:
    whole, found = replayed(), load(reader, POLICY, finished=True)
    assert set(found.workloads) == set(whole.workloads)
    for stream, state in whole.workloads.items():
        assert timeless(found.workloads[stream]) == timeless(state)
    assert found.jobs == whole.jobs
    assert {name: c.phase for name, c in found.connections.items()} == {
        name: c.phase for name, c in whole.connections.items()
    }


def test_finished_workloads_are_not_read(reader: LogReader) -> None:
    streams = set(load(reader, POLICY).workloads)
    assert streams == {workload(ETL), workload(SIM), workload(ODD), workload(QUEUED, "team-b")}
    assert workload(TRAIN) not in reader.live_workloads()


def test_a_namespace_is_read_alone(reader: LogReader) -> None:
    assert set(load(reader, POLICY, "team-b").workloads) == {workload(QUEUED, "team-b")}
    assert load(reader, POLICY, "nobody").workloads == {}


async def test_what_a_finished_or_deleted_workload_left_behind_is_read(database_url: str) -> None:
    script = Script("a", "b")
    kept = script.workload("kept-0a1b2").runs("a", "a", "b").seen({"Finished": ("Succeeded", "")})
    deleted = script.workload("deleted-0a1b2").runs("b", "a", "b").gone()
    over = script.workload("over-0a1b2").runs("a", "a", "b").finishes("a").gone()
    pending = script.workload("pending-0a1b2").job().seen().gone()
    await write(database_url, script.appended)
    with LogReader.connect(database_url) as reader:
        assert set(reader.live_workloads()) == {kept.stream, deleted.stream}
        assert set(load(reader, POLICY).workloads) == {kept.stream, deleted.stream}
        assert over.stream not in reader.live_workloads(finished=True)
        assert pending.stream not in reader.live_workloads(finished=True)


async def test_a_workload_that_a_list_showed_before_the_end_of_the_one_before_is_read(database_url: str) -> None:
    script = Script("a")
    life = script.workload("train-0a1b2").job().seen()
    life.uid = "second"
    life.seen({"QuotaReserved": ("Pending", "no quota")})
    life.uid = "uid-train-0a1b2"
    life.gone()
    await write(database_url, script.appended)
    with LogReader.connect(database_url) as reader:
        assert reader.live_workloads() == [life.stream]
        assert set(load(reader, POLICY).workloads) == {life.stream}


@pytest.mark.parametrize("name", ["train", TRAIN])
def test_a_workload_is_found_by_its_name_and_by_its_jobs(reader: LogReader, name: str) -> None:
    found = find(reader, "default", name)
    assert found is not None
    assert found.streams == [workload(TRAIN), "job/jobs.batch/default/train"]
    told = events_of(reader, found)
    assert [e.position for e in told] == sorted(e.position for e in told)
    assert {e.stream for e in told} == set(found.streams)


def test_what_is_not_there_is_not_found(reader: LogReader) -> None:
    assert find(reader, "default", "nothing") is None
    assert find(reader, "team-b", "train") is None


def test_the_nearest_names_are_offered(reader: LogReader) -> None:
    assert nearest(reader, "default", "trian")[0] == "default/train"
    assert nearest(reader, "team-b", "train") == ["default/train"]
    assert nearest(reader, "team-a", "queued") == ["team-b/queued"]
    assert nearest(reader, "default", "zzz") == []


async def test_the_newest_workload_of_a_job_is_meant_and_the_others_are_named(database_url: str) -> None:
    script = Script("a")
    script.workload("w-1", job="w").job().seen().gone()
    script.workload("w-2", job="w").job().seen()
    await write(database_url, script.appended)
    with LogReader.connect(database_url) as reader:
        found = find(reader, "default", "w")
        assert found is not None
        assert (found.workload, found.others) == ("workload/default/w-2", ["workload/default/w-1"])


def test_events_are_read_in_pieces_and_by_every_filter(reader: LogReader) -> None:
    script = everything()
    every = list(reader.events(Filter()))
    assert [(e.position, e.event, e.stream, e.version, e.caused_by) for e in every] == [
        (e.position, e.event, e.stream, e.version, e.caused_by) for e in script.recorded
    ]
    assert reader.head() == len(every)
    assert [e.position for e in reader.events(Filter(after=10, until=14))] == [11, 12, 13, 14]
    assert [e.position for e in reader.events(Filter(), limit=2)] == [1, 2]
    assert [e.position for e in reader.events(Filter(), limit=2, newest=True)] == [len(every) - 1, len(every)]
    lost = list(reader.events(Filter(cluster="c", types=["ClusterLost", "ClusterConnectFailed"])))
    assert [e.stream for e in lost] == ["cluster/c", "cluster/c"]
    assert list(reader.events(Filter(streams=[]))) == []


def test_another_log_of_the_database_is_another_history(stories_url: str) -> None:
    with LogReader.connect(stories_url, log="other") as reader:
        assert reader.head() == 0
        assert list(reader.events(Filter())) == []
        assert reader.streams("workload") == []


async def test_a_queue_that_leads_elsewhere_now_is_no_queue_of_where_it_led(database_url: str) -> None:
    """It was made again, while a Workload of it has quota of the ClusterQueue to which it led."""
    script = Script("a")
    script.workload("train-0a1b2").runs("a")
    for uid, leads_to in (("first", "cq"), ("second", "cq2")):
        seen = LocalQueueObserved(namespace="default", name="lq", uid=uid, resource_version="1", cluster_queue=leads_to)
        script.put(NewEvent(stream="localqueue/default/lq", event=seen, cluster=MANAGEMENT))
    await write(database_url, script.appended)
    with LogReader.connect(database_url) as reader:
        told = {name: queue(reader, name) for name in ("cq", "cq2")}
    assert {name: one and one.value["local_queues"] for name, one in told.items()} == {"cq": [], "cq2": ["default/lq"]}
    with served(database_url) as client:
        for at in ({}, {"at": "now"}):
            (item,) = client.get("/api/v1/queues", params=at).json()["items"]
            assert (item["queue"], item["cluster_queue"]) == ("lq", "cq2")
