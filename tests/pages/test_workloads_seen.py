"""Read backwards in pieces of any size, the Workloads that a log has seen are the same."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import pytest

from controlplane.audit.reads import READ, LogReader
from controlplane.controllers.multikueue.observations import CloneObserved, WorkloadGone, WorkloadObserved
from controlplane.log.event import NewEvent, Recorded
from controlplane.pages.rows import LastSeen
from controlplane.pages.workloads_seen import Seen, workloads_seen
from tests.audit.samples import sample
from tests.audit.script import START, write
from tests.docs.fleet_story import story


def expected(reader: LogReader, head: int) -> dict[str, Seen]:
    """What the events say, one after the other."""
    known: dict[str, Seen] = {}
    uids: dict[str, str] = {}
    for recorded in reader.rows(
        "SELECT stream, type, position, recorded_at, data FROM audit.events WHERE log = %(log)s"
        " AND stream LIKE 'workload/%%' AND position <= %(head)s ORDER BY position",
        head=head,
    ):
        stream, at, data = recorded["stream"], recorded["recorded_at"], recorded["data"]
        before = known.get(stream)
        since = before.since if before is not None else at
        if recorded["type"] == WorkloadObserved.__name__:
            owner, uids[stream] = data.get("owner") or {}, data["uid"]
            over = [one for one in data.get("conditions", ()) if one["type"] == "Finished" and one["status"] == "True"]
            known[stream] = Seen(
                stream, since, recorded["position"], at, data.get("queue_name", ""), data.get("cluster_queue", ""),
                data.get("cluster_name", ""), owner.get("kind", ""), owner.get("name", ""),
                over[0]["reason"] if over else None, None, None,
            )  # fmt: skip
        elif recorded["type"] == WorkloadGone.__name__ and before is not None and data["uid"] == uids[stream]:
            known[stream] = before._replace(gone=recorded["position"], gone_at=at)
    return known


def never_seen(reader: LogReader, head: int, seen: Collection[str]) -> list[str]:
    """The other streams of Workloads."""
    rows = reader.rows(
        "SELECT DISTINCT stream FROM audit.events WHERE log = %(log)s AND stream LIKE 'workload/%%'"
        " AND position <= %(head)s",
        head=head,
    )
    return sorted(row["stream"] for row in rows if row["stream"] not in seen)


async def test_pieces_of_any_size_say_the_same(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [msgspec.structs.replace(one, caused_by=0) for one in story().appended]
    # A Workload that is gone comes again under its name, and goes again.
    first, seen = next((one, one.event) for one in events if isinstance(one.event, WorkloadObserved))
    another = msgspec.structs.replace(seen, uid="another")
    gone, end = (WorkloadGone(uid=one.uid, namespace=seen.namespace, name=seen.name) for one in (seen, another))
    events += [NewEvent(stream=first.stream, event=event) for event in (gone, seen, gone)]
    # And again: a list shows it before it says that the one before is gone; that is told once more at the end.
    events += [NewEvent(stream=first.stream, event=event) for event in (seen, another, gone, end, gone)]
    # Of some there are copies alone.
    copy = CloneObserved(namespace="default", name="theirs", uid="c", resource_version="1", spec_key="k", unmarked=True)
    places = (0, 40, len(events))
    for number, place in enumerate(places):
        stream, event = f"workload/default/theirs-{number}", msgspec.structs.replace(copy, name=f"theirs-{number}")
        events.insert(place, NewEvent(stream=stream, event=event, cluster="a"))
    await write(database_url, events, types=READ)
    with LogReader.connect(database_url) as reader:
        for head in (*range(len(events) - 5, len(events) + 1), 150):
            wanted = expected(reader, head)
            for size in (3, 40, 200_000):
                monkeypatch.setattr("controlplane.pages.workloads_seen._PIECE", size)
                unseen: list[str] = []
                found = [seen for piece in workloads_seen(reader, head, unseen) for seen in piece]
                assert len(found) == len(wanted)
                assert sorted(unseen) == never_seen(reader, head, wanted)
                assert {seen.stream: seen for seen in found} == wanted


def test_the_end_of_another_one_of_the_name_is_no_change_of_this_one() -> None:
    first = sample(WorkloadObserved)
    events = [first, msgspec.structs.replace(first, uid="second"), sample(WorkloadGone, uid=first.uid)]
    last = LastSeen()
    for number, event in enumerate(events, start=1):
        stream = f"workload/{first.namespace}/{first.name}"
        last.take(Recorded(position=number, stream=stream, version=number, event=event, recorded_at=START))
    assert [one.position for one in last.touched.values()] == [2]
