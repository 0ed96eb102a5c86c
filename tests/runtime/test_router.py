"""Several capabilities in one loop: each decides as it would alone, and none writes to another's streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.clusters.protocol import Change
from controlplane.controllers.connectivity.local_connection import event_refused
from controlplane.kube.kinds import JOBS, ObjectRef, Request
from controlplane.log.codec import Codec
from controlplane.log.event import Event, NewEvent, Recorded, Unknown
from controlplane.log.memory import MemoryLog, MemoryStore
from controlplane.runtime.bodies import Bodies
from controlplane.runtime.controller import Decided, ObjectChange, OpenRead, OpenWrite, ReadAnswer, WriteRefusal
from controlplane.runtime.hosting import Registration
from controlplane.runtime.recorder import Recorder
from controlplane.runtime.router import ControllerRouter, merged
from tests.runtime.bench import ManualClock
from tests.runtime.errands import lift

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Rain(Event, frozen=True):
    """The weather, which everybody hears of."""

    wet: bool


class AppleSeen(Event, frozen=True):
    name: str


class ApplePicked(Event, frozen=True):
    name: str


class PearSeen(Event, frozen=True):
    name: str


class PearPicked(Event, frozen=True):
    name: str


class Picker:
    """Picks what it has seen, once each, while it is dry. Streams `WORD/NAME`; a write is open from the decision until
    it is seen again.
    """

    def __init__(self, word: str, seen: type[Event], picked: type[Event]) -> None:
        self.word, self._seen, self._picked = word, seen, picked
        self.types: Sequence[type[Event]] = (Rain, seen, picked)
        self.versions: dict[str, int] = {}
        self.ripe: dict[str, int] = {}
        self.open: dict[str, OpenWrite] = {}
        self.wet = False
        self.failures: list[OpenWrite] = []
        self._dirty: dict[str, None] = {}

    def observe(self, sighting: ObjectChange, now: datetime) -> NewEvent | None:
        name = sighting.object["metadata"]["name"]
        if self.word not in sighting.object.get("fruit", (self.word,)):
            return None
        event = self._seen(name=name)  # type: ignore[call-arg]
        return NewEvent(
            stream=f"{self.word}/{name}",
            event=event,
            source=f"{sighting.cluster}/{name}",
            mark=int(sighting.resource_version),
        )

    def fold(self, recorded: Recorded) -> None:
        stream, event = recorded.stream, recorded.event
        if isinstance(event, Rain):
            self.wet = event.wet
            self._dirty.update(dict.fromkeys(self.ripe))
            return
        if isinstance(event, Unknown):
            return
        self.versions[stream] = recorded.version
        if isinstance(event, self._seen):
            self.ripe[stream] = recorded.position
            self.open.pop(stream, None)
        elif isinstance(event, self._picked):
            self.ripe.pop(stream, None)
            self.open[stream] = OpenWrite(stream, stream, "garden", recorded.position, "pick")
        self._dirty[stream] = None

    def take_dirty(self) -> list[str]:
        taken, self._dirty = list(self._dirty), {}
        return taken

    def decide(self, stream: str, now: datetime) -> Decided:
        if self.wet or stream not in self.ripe:
            return Decided(version=self.versions.get(stream, 0))
        event = self._picked(name=stream)  # type: ignore[call-arg]
        return Decided([NewEvent(stream=stream, event=event)], self.versions[stream])

    def open_writes(self, stream: str) -> Sequence[OpenWrite]:
        return [self.open[stream]] if stream in self.open else []

    def is_open(self, write: OpenWrite) -> bool:
        return self.open.get(write.stream) == write

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        return [self.word]

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        return Request("create", ObjectRef(JOBS, self.word, write.stream))

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        return Request("create", ObjectRef(JOBS, self.word, "told"))

    def failed(self, write: OpenWrite, failure: WriteRefusal, now: datetime) -> NewEvent:
        return NewEvent(stream=write.stream, event=self._seen(name=failure.error))  # type: ignore[call-arg]

    def unneeded(self, write: OpenWrite, resource_version: str) -> NewEvent:
        return NewEvent(stream=write.stream, event=self._seen(name=resource_version))  # type: ignore[call-arg]


def apples() -> Picker:
    return Picker("apple", AppleSeen, ApplePicked)


def pears() -> Picker:
    return Picker("pear", PearSeen, PearPicked)


def registration(picker: Picker, *, mark: str = "") -> Registration:
    return Registration(picker.word, picker, frozenset({picker.word}), frozenset({"weather"}), mark)


def both() -> tuple[ControllerRouter, Picker, Picker]:
    a, p = apples(), pears()
    return ControllerRouter([registration(a), registration(p, mark="pear")]), a, p


SEEN: dict[str, type[Event]] = {"apple": AppleSeen, "pear": PearSeen}
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["apple", "pear"]), st.sampled_from("abc")),
        st.tuples(st.just("weather"), st.booleans()),
    ),
    max_size=30,
)


def play(capability: ControllerRouter | Picker, script: Sequence[tuple[str, object]]) -> list[tuple[str, str]]:
    """Fold a script, decide whatever is dirty after each step, and fold what was decided; return the decisions with
    their streams.
    """
    said: list[tuple[str, str]] = []
    versions: dict[str, int] = {}
    position = 0

    def fold(stream: str, event: Event) -> None:
        nonlocal position
        position += 1
        versions[stream] = versions.get(stream, 0) + 1
        capability.fold(
            Recorded(position=position, stream=stream, version=versions[stream], event=event, recorded_at=NOW)
        )

    for word, value in script:
        if word == "weather":
            fold("weather", Rain(wet=bool(value)))
        else:
            fold(f"{word}/{value}", SEEN[word](name=str(value)))  # type: ignore[call-arg]
        for stream in capability.take_dirty():
            decided = capability.decide(stream, NOW)
            assert not decided.events or decided.version == versions[stream]
            for new in decided.events:
                said.append((new.stream, type(new.event).__name__))
                fold(new.stream, new.event)
    return said


@given(steps)
def test_each_decides_in_company_as_it_does_alone(script: list[tuple[str, object]]) -> None:
    together = play(both()[0], script)
    for make in (apples, pears):
        alone = make()
        own = [step for step in script if step[0] in ("weather", alone.word)]
        assert [said for said in together if said[0].startswith(alone.word)] == play(alone, own)


def test_a_sighting_is_recorded_by_each_whom_it_concerns_under_an_identity_of_its_own() -> None:
    router, _, _ = both()
    seen = router.observations(sighting("x", 5), NOW)
    assert [(e.stream, e.source) for e in seen] == [("apple/x", "garden/x"), ("pear/x", "pear:garden/x")]
    one = router.observations(sighting("x", 6, fruit=("pear",)), NOW)
    assert [e.stream for e in one] == ["pear/x"]


async def test_the_recorder_appends_all_of_them_and_the_log_drops_none() -> None:
    router, _, _ = both()
    store, clock = MemoryStore(), ManualClock()
    log = MemoryLog(store, Codec(router.types), clock.now)
    await log.take_epoch("test")
    recorder = Recorder(log, router, Bodies(log), clock, lift, refused=event_refused)
    for _ in range(2):  # the second time both are old news
        await recorder("garden", [Change("added", JOBS, {"metadata": {"name": "x", "uid": "u"}}, "5")])
    assert [recorded.stream for recorded in await log.read(0)] == ["apple/x", "pear/x"]


def sighting(name: str, version: int, **more: object) -> ObjectChange:
    return ObjectChange("garden", "", JOBS, {"metadata": {"name": name}, **more}, str(version), False)


def test_writes_go_to_the_owner_of_their_stream() -> None:
    router, a, p = both()
    play(router, [("apple", "a"), ("pear", "b")])
    [apple], [pear] = router.open_writes("apple/a"), router.open_writes("pear/b")
    assert router.is_open(apple)
    assert router.is_open(pear)
    for write, word in ((apple, "apple"), (pear, "pear")):
        assert router.bodies_needed(write) == [word]
        request, told = router.request(write, {}, NOW), router.announcement(write, NOW)
        assert request is not None
        assert told is not None
        assert (request.ref.namespace, told.ref.name) == (word, "told")
    assert isinstance(router.failed(pear, WriteRefusal(409, "Conflict", ""), NOW).event, PearSeen)
    assert isinstance(router.unneeded(apple, "7").event, AppleSeen)
    p.open.clear()
    assert not router.is_open(pear)
    assert a.open


class Reader(Picker):
    """A picker that has to look before it picks."""

    def open_reads(self, stream: str, now: datetime) -> Sequence[OpenRead]:
        return [OpenRead(stream, "garden", "v1", "ConfigMap", self.word, "ladder")] if stream in self.ripe else []

    def is_wanted(self, read: OpenRead) -> bool:
        return read.stream in self.ripe

    def answered(self, read: OpenRead, answer: ReadAnswer, now: datetime) -> NewEvent:
        return NewEvent(stream=read.stream, event=PearSeen(name=read.name))


def test_reads_are_those_of_the_owner_and_of_nobody_who_does_not_read() -> None:
    a, p = apples(), Reader("pear", PearSeen, PearPicked)
    router = ControllerRouter(
        [registration(a), Registration("pear", p, frozenset({"pear"}), frozenset({"weather"}), "pear", reading=p)]
    )
    play(router, [("weather", True), ("apple", "a"), ("pear", "b")])
    assert router.open_reads("apple/a", NOW) == router.open_reads("plum/x", NOW) == ()
    [read] = router.open_reads("pear/b", NOW)
    assert router.is_wanted(read)
    assert not router.is_wanted(OpenRead("apple/a", "garden", "v1", "ConfigMap", "apple", "ladder"))
    assert router.answered(read, ReadAnswer(not_served=True), NOW).stream == "pear/b"
    p.ripe.clear()
    assert not router.is_wanted(read)


def test_what_nobody_owns_is_left_alone() -> None:
    router, _, _ = both()
    unknown = Recorded(position=1, stream="plum/x", version=1, event=Rain(wet=True), recorded_at=NOW)
    router.fold(unknown)
    assert router.take_dirty() == []
    assert router.decide("plum/x", NOW) == Decided()
    assert router.open_writes("plum/x") == ()


def test_events_that_this_version_does_not_know_reach_their_owner_and_harm_nobody() -> None:
    router, a, p = both()
    router.fold(Recorded(position=1, stream="apple/a", version=1, event=Unknown("AppleFell", 1, "{}"), recorded_at=NOW))
    assert (a.ripe, p.ripe, router.take_dirty()) == ({}, {}, [])


def test_a_controller_cannot_make_another_ones_stream_dirty() -> None:
    router, a, _ = both()
    a._dirty["pear/x"] = None
    assert router.take_dirty() == []


def test_controllers_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match=r'"apple" and "apple" both own streams "apple/…"'):
        ControllerRouter([registration(apples()), registration(apples(), mark="other")])
    with pytest.raises(ValueError, match="give observations the same identities"):
        ControllerRouter([registration(apples()), registration(pears())])

    other = type("Rain", (Event,), {"__module__": "elsewhere"}, frozen=True)
    with pytest.raises(ValueError, match=r"two event types are called Rain: in .* and elsewhere"):
        merged([(Rain,), (other,)])
    assert merged([(Rain, AppleSeen), (Rain,)]) == (Rain, AppleSeen)


# --- events that cannot be folded ------------------------------------------------------------------------------------


class Brittle(Picker):
    """A picker that cannot read some names."""

    def fold(self, recorded: Recorded) -> None:
        if recorded.stream.endswith("/x"):
            raise ValueError("not enough values to unpack")
        super().fold(recorded)


def at(position: int, stream: str, event: Event | Unknown) -> Recorded:
    return Recorded(position=position, stream=stream, version=position, event=event, recorded_at=NOW)


@pytest.mark.parametrize("event", [AppleSeen(name="x"), Unknown("Nobody", 1, b"{}")])
def test_a_stream_whose_event_cannot_be_folded_is_left_alone_and_the_others_go_on(event: Event | Unknown) -> None:
    """The log keeps it for ever: a reader that stopped at it would stop at each start."""
    apples = Brittle("apple", AppleSeen, ApplePicked)
    router = ControllerRouter([Registration("apples", apples, frozenset({"apple"}))])
    router.fold(at(1, "apple/x", event))
    router.fold(at(2, "apple/y", AppleSeen(name="y")))
    apples._dirty["apple/x"] = None
    assert router.take_dirty() == ["apple/y"]
    assert list(router.left_alone) == ["apple/x"]
    assert "position 1" in router.left_alone["apple/x"]
    assert router.decide("apple/y", NOW).events
    assert not router.decide("apple/x", NOW).events
    assert router.open_writes("apple/x") == ()
    assert not router.is_open(OpenWrite(stream="apple/x", target="t", cluster="east", position=1, action="pick"))
