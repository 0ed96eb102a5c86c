"""Both sides as the loop sees them: sightings in, events through a log, requests out, over the model's API servers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATE_SOURCES,
    CANDIDATES,
    PODS,
    SOURCE_LABEL,
)
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source.events import EVENTS, CandidateWriteFailed, PermitGranted
from controlplane.controllers.candidates.source.pods import SourceCandidates
from controlplane.controllers.candidates.source.policy import PlacementPolicy, SourcePolicy, Target
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import HERE, TARGET_EVENTS
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, ClusterLost, cluster_stream
from controlplane.controllers.multikueue.events import EVENTS as MULTIKUEUE_EVENTS
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent, Recorded
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite, WriteRefusal
from tests.candidates.model.api import EMPTY, Api, Refused, Store
from tests.candidates.model.world import START
from tests.candidates.stage import NS, pod

INVITATION = {
    "metadata": {"namespace": NS, "name": "i", "uid": "i", "resourceVersion": "1"},
    "spec": {"cluster": "home", "podSecurity": "baseline"},
}


class Process:
    """A capability over a log of its own, as the loop drives it; only without waiting."""

    def __init__(self, capability: Any, types: Any) -> None:
        self.capability, self.codec = capability, Codec(types)
        self.now, self.bodies = START, dict[str, bytes]()
        self.rows: list[NewEvent] = []
        self.versions: dict[str, int] = {}
        self.seen: dict[tuple[str, str, str], str] = {}
        self.wakes: list[Any] = []

    def append(self, new: NewEvent) -> None:
        self.rows.append(new)
        self.versions[new.stream] = self.versions.get(new.stream, 0) + 1
        self.bodies.update({body.ref: body.text.encode() for body in new.bodies})
        known = type(new.event).__name__ in self.codec.types
        event = self.codec.decode(*self.codec.encode(new.event)) if known else new.event
        self.capability.fold(
            Recorded(
                position=len(self.rows),
                stream=new.stream,
                version=self.versions[new.stream],
                event=event,
                cluster=new.cluster,
                recorded_at=self.now,
            )
        )

    def take(self, decided: Decided) -> bool:
        for new in decided.events:
            assert decided.version == self.versions[new.stream] or new is not decided.events[0]
            self.append(new)
        return bool(decided.events)

    def settle(self) -> None:
        for _ in range(50):
            dirty = self.capability.take_dirty()
            if not dirty:
                return
            for stream in dirty:
                decided = self.capability.decide(stream, self.now)
                self.wakes.append(decided.wake)
                self.take(decided)
        raise AssertionError("it does not come to rest")

    def watch(self, api: Api, cluster: str, kind: Kind, objects: dict[str, Json]) -> None:
        for name, obj in objects.items():
            shown = obj if "resourceVersion" in meta(obj) else api.shown(obj)
            self._see(cluster, kind, name, shown)
        for key in [key for key in self.seen if key[:2] == (cluster, kind.name) and key[2] not in objects]:
            gone = {"metadata": {"namespace": NS, "name": key[2], "uid": self.seen.pop(key)}}
            new = self.capability.observe(ObjectChange(cluster, "", kind, gone, "", True), self.now)
            if new is not None:
                self.append(new)

    def _see(self, cluster: str, kind: Kind, name: str, shown: Json) -> None:
        new = self.capability.observe(
            ObjectChange(cluster, "", kind, shown, meta(shown)["resourceVersion"], False), self.now
        )
        before = [row for row in self.rows if row.source and new is not None and row.source == new.source]
        if new is None or (before and before[-1].mark == new.mark):
            return
        self.seen[cluster, kind.name, name] = meta(shown)["uid"]
        self.append(new)

    def send(self, carry_out: Any, streams: Any) -> None:
        for stream in list(streams):
            for write in self.capability.open_writes(stream):
                assert self.capability.is_open(write)
                needed = {ref: self.bodies[ref] for ref in self.capability.bodies_needed(write)}
                request = self.capability.request(write, needed, self.now)
                if request is None:
                    continue
                try:
                    carry_out(write.cluster, request)
                except Refused as no:
                    self.append(self.capability.failed(write, WriteRefusal(no.code, no.error, "no"), self.now))


class Federation:
    """A source with pods, and targets, each with its own process."""

    def __init__(self, *targets: str, placement: PlacementPolicy | None = None) -> None:
        self.api, self.targets = Api(), targets
        policy = SourcePolicy(cluster="home", namespaces=frozenset({NS}), placement=placement or PlacementPolicy())
        asked = [Target(name=name) for name in targets]
        self.source = Process(SourceCandidates(policy, "test", lambda namespace: asked), EVENTS)
        self.schedulers = {name: Process(TargetController(TargetPolicy()), TARGET_EVENTS) for name in targets}
        self.stores: dict[str, Store] = dict.fromkeys(targets, EMPTY)
        self.home: Store = EMPTY
        self.connect(MANAGEMENT, PODS)
        for name in targets:
            self.connect(name, CANDIDATES)
            process = self.schedulers[name]
            process.capability.ready = True
            process.watch(self.api, HERE, CANDIDATE_SOURCES, {"i": INVITATION})

    def connect(self, name: str, kind: Kind) -> None:
        event = ClusterConnected(kinds=[kind.name])
        self.source.append(NewEvent(stream=cluster_stream(name), event=event, cluster=name))

    def submit(self, name: str, workload: str = "") -> None:
        owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": workload, "controller": True}]}
        made = pod(metadata={"name": name, "uid": f"{name}#1", **(owner if workload else {})})
        self.home = {**self.home, "pods": {**self.home["pods"], name: made}}

    def step(self) -> None:
        source = self.source
        source.watch(self.api, MANAGEMENT, PODS, self.home["pods"])
        for name in self.targets:
            source.watch(self.api, name, CANDIDATES, self.stores[name]["candidates"])
        source.settle()
        source.send(self._from_source, source.capability.sources)
        for name, process in self.schedulers.items():
            process.watch(self.api, HERE, CANDIDATES, self.stores[name]["candidates"])
            process.watch(self.api, HERE, PODS, self.stores[name]["pods"])
            process.settle()
            process.send(lambda _, request, name=name: self._at(name, request), process.capability.candidates)

    def _from_source(self, cluster: str, request: Any) -> None:
        if cluster == MANAGEMENT:
            self.home = self.api.execute(self.home, request)
        else:
            self._at(cluster, request)

    def _at(self, name: str, request: Any) -> None:
        self.stores[name] = self.api.execute(self.stores[name], request)

    def schedule(self, name: str, score: int = 1) -> None:
        process = self.schedulers[name]
        for stream in process.capability.waiting():
            assert process.take(process.capability.reserved(stream, f"node-{name}", score, process.now))
        for stream in list(process.capability.candidates):
            if process.capability.may_bind(stream, process.now):
                assert process.take(process.capability.bind(stream, process.now))

    def run(self, steps: int = 12) -> None:
        for _ in range(steps):
            self.step()
            for name in self.targets:
                self.schedule(name)

    def bound(self) -> list[str]:
        return sorted(
            name for name in self.targets for made in self.stores[name]["pods"].values() if made["spec"].get("nodeName")
        )


def test_a_pod_goes_to_one_target_and_everything_comes_to_rest() -> None:
    world = Federation("a", "b", "c")
    world.submit("web")
    world.run()
    assert len(world.bound()) == 1
    assert sum(len(store["candidates"]) for store in world.stores.values()) == 1
    rows = len(world.source.rows), *(len(process.rows) for process in world.schedulers.values())
    world.run(3)
    assert rows == (len(world.source.rows), *(len(process.rows) for process in world.schedulers.values()))
    (where,) = world.bound()
    taken = world.schedulers[where].capability.taken()
    assert list(taken.values()) == [f"node-{where}"]
    del world.home["pods"]["web"]
    world.home = {**world.home, "pods": {}}
    world.run()
    for name, store in world.stores.items():
        world.stores[name] = {**store, "pods": {}}  # their grace periods are over
    world.run()
    assert all(store["candidates"] == {} for store in world.stores.values())
    assert world.source.capability.sources == {}
    assert all(process.capability.candidates == {} for process in world.schedulers.values())


def test_a_new_process_knows_from_the_log_what_the_old_one_did() -> None:
    world = Federation("a", "b")
    world.submit("web")
    world.run(4)
    old = world.source.capability
    new = SourceCandidates(old.policy, "other", old._targets_of)
    versions: dict[str, int] = {}
    for position, row in enumerate(world.source.rows, 1):
        versions[row.stream] = versions.get(row.stream, 0) + 1
        new.fold(
            Recorded(
                position=position,
                stream=row.stream,
                version=versions[row.stream],
                event=row.event,
                cluster=row.cluster,
                recorded_at=world.source.now,
            )
        )
    assert new.sources == old.sources
    assert [new.open_writes(stream) for stream in new.sources] == [old.open_writes(stream) for stream in old.sources]


@pytest.mark.parametrize("pods", [3, 6])
def test_a_workloads_pods_are_spread_over_the_targets(pods: int) -> None:
    world = Federation("a", "b", "c", placement=PlacementPolicy(max_skew=1))
    for number in range(pods):
        world.submit(f"web-{number}", "rs-1")
    world.run(30)
    assert world.bound() == sorted(["a", "b", "c"] * (pods // 3))


def test_a_target_that_is_lost_is_not_asked_until_it_is_back() -> None:
    world = Federation("a", "b")
    lost = ClusterLost(reason="Unreachable", message="no route")
    world.source.append(NewEvent(stream=cluster_stream("a"), event=lost, cluster="a"))
    world.submit("web")
    world.step()
    assert (len(world.stores["a"]["candidates"]), len(world.stores["b"]["candidates"])) == (0, 1)
    world.connect("a", CANDIDATES)
    world.step()
    assert len(world.stores["a"]["candidates"]) == 1


def test_a_refused_write_is_recorded_and_tried_again_later_each_time() -> None:
    world = Federation("a")
    world.submit("web")
    world.source.watch(world.api, MANAGEMENT, PODS, world.home["pods"])
    world.source.settle()
    capability = world.source.capability

    def at_target() -> list[OpenWrite]:
        return [write for write in capability.open_writes(f"sourcepod/{NS}/web") if write.cluster == "a"]

    for failures, pause in ((1, 1), (2, 2), (3, 4)):
        (write,) = at_target()
        new = capability.failed(write, WriteRefusal(403, "Forbidden", "may not create"), world.source.now)
        assert isinstance(new.event, CandidateWriteFailed)
        assert (new.event.failures, new.event.retry_at) == (failures, world.source.now + timedelta(seconds=pause))
        world.source.append(new)
        world.source.settle()
        assert at_target() == []
        assert world.source.wakes[-1] == new.event.retry_at
        world.source.now = new.event.retry_at
        capability.touch_all()
        world.source.settle()


def test_a_reservation_given_up_lets_another_target_have_it() -> None:
    world = Federation("a", "b")
    world.submit("web")
    for _ in range(3):
        world.step()
    world.schedule("a")
    world.step()
    scheduler = world.schedulers["a"]
    (stream,) = scheduler.capability.candidates
    assert scheduler.take(scheduler.capability.must_unreserve(stream, TargetReason.NODE_GONE))
    assert scheduler.capability.taken() == {}
    world.schedule("b")
    for _ in range(6):
        world.step()
        world.schedule("b")
    assert world.bound() == ["b"]
    granted = [row.event.cluster for row in world.source.rows if isinstance(row.event, PermitGranted)]
    assert granted[-1] == "b"


def test_the_events_of_all_capabilities_have_names_of_their_own() -> None:
    assert Codec((*EVENTS, *TARGET_EVENTS, *MULTIKUEUE_EVENTS)).types


def test_an_object_that_does_not_fit_is_recorded_as_refused_and_the_rest_goes_on() -> None:
    world = Federation("a")
    bad = {"metadata": {"namespace": NS, "name": "x", "uid": "x", "resourceVersion": "5"}, "spec": {"source": "me"}}
    for process, place in ((world.source, "a"), (world.schedulers["a"], HERE)):
        process.watch(world.api, place, CANDIDATES, {"x": bad})
        assert process.rows[-1].stream.startswith("refused/")
        assert process.rows[-1].event.field == "spec.source"  # type: ignore[attr-defined]
    world.submit("web")
    world.run()
    assert world.bound() == ["a"]


def _candidate(name: str) -> Json:
    origin = {"cluster": "home", "namespace": NS, "name": name, "uid": f"{name}#1", "epoch": 1}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = {"namespace": NS, "name": name, "uid": f"candidate-{name}", "labels": {SOURCE_LABEL: "home"}}
    return {"metadata": metadata, "spec": {"source": origin, "template": template}, "status": {}}


def _pod_of(name: str) -> Json:
    metadata = {"namespace": NS, "name": name, "uid": f"pod-{name}", "labels": {CANDIDATE_LABEL: name}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("kind", "obj"),
    [(CANDIDATES, _candidate("web")), (PODS, _pod_of("web")), (CANDIDATE_SOURCES, INVITATION)],
    ids=["candidate", "pod", "invitation"],
)
def test_what_goes_before_its_coming_is_folded_is_not_forgotten(kind: Kind, obj: Json) -> None:
    """The watch shows both in one breath; the first is on its way to the log while the second is looked at."""
    process = Process(TargetController(TargetPolicy()), TARGET_EVENTS)
    seen = process.capability.observe(ObjectChange(HERE, "", kind, obj, "5", False), START)
    went = process.capability.observe(ObjectChange(HERE, "", kind, obj, "6", True), START)
    for new in (seen, went):
        assert new is not None
        process.append(new)
    process.settle()
    assert process.capability.candidates == {}
    assert process.capability.invitations == {}
    assert process.capability.known(kind.name) == {}


def test_a_listing_that_misses_a_pod_names_it_by_its_uid_alone() -> None:
    process = Process(TargetController(TargetPolicy()), TARGET_EVENTS)
    seen = process.capability.observe(ObjectChange(HERE, "", PODS, _pod_of("web"), "5", False), START)
    listed = {"metadata": {"namespace": NS, "name": "web", "uid": "pod-web"}}
    went = process.capability.observe(ObjectChange(HERE, "", PODS, listed, "6", True), START)
    for new in (seen, went):
        assert new is not None
        process.append(new)
    assert process.capability.candidates == {}
    assert process.capability.observe(ObjectChange(HERE, "", PODS, listed, "7", True), START) is None


def test_a_pod_of_nobodys_leaves_no_trace_when_it_goes() -> None:
    """Pods of all sorts share one watch, and a listing names what the other rooms know of too."""
    capability = TargetController(TargetPolicy())
    plain = {"metadata": {"namespace": NS, "name": "web", "uid": "x", "labels": {"app": "web"}}, "spec": {}}
    listed = {"metadata": {"namespace": NS, "name": "web", "uid": "x"}}
    for obj in (plain, listed):
        assert capability.observe(ObjectChange(HERE, "", PODS, obj, "6", True), START) is None
