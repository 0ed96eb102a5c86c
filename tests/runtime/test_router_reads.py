"""Reads among router controllers: the room that owns a stream answers for it, and the others are not asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from controlplane.controllers.podgroups.capacity import Capacity
from controlplane.controllers.podgroups.events import RoomObserved
from controlplane.controllers.podgroups.phases import ClusterCapacity as Sums
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import OpenRead, ReadAnswer
from controlplane.runtime.hosting import Registration
from controlplane.runtime.router import ControllerRouter

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READ = OpenRead("owner/a", "@management", "v1", "Thing", "ns", "t")


class Reader(Capacity):
    def open_reads(self, stream: str, now: datetime) -> Sequence[OpenRead]:
        return [READ] if stream == "member/a" else []

    def is_wanted(self, read: OpenRead) -> bool:
        return read == READ

    def answered(self, read: OpenRead, answer: ReadAnswer, now: datetime) -> NewEvent:
        return NewEvent(stream=read.stream, event=RoomObserved(room=Sums()))


def controllers(*, reads: bool) -> ControllerRouter:
    reader = Reader()
    first = Registration("first", reader, frozenset({"member", "owner"}), reading=reader if reads else None)
    return ControllerRouter([first, Registration("second", Capacity(), frozenset({"node"}), identities="second")])


def test_reads_go_to_the_owner_of_the_stream() -> None:
    router = controllers(reads=True)
    assert router.reads
    assert list(router.open_reads("member/a", NOW)) == [READ]
    assert list(router.open_reads("node/a", NOW)) == list(router.open_reads("nobody/a", NOW)) == []
    assert router.is_wanted(READ)
    assert router.answered(READ, ReadAnswer(not_served=True), NOW).stream == "owner/a"


def test_controllers_that_read_nothing_need_nobody_who_reads() -> None:
    router = controllers(reads=False)
    assert not router.reads
    assert list(router.open_reads("member/a", NOW)) == []
