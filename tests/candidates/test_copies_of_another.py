"""Two source clusters with one name (`candidates.cluster`) share a namespace of a target: neither alters nor removes
what follows the other's pods, and what a version before has made is nobody else's by that.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import CONFIG_MAPS, FOLLOWED, SOURCE_LABEL, SOURCE_UID, live_ref
from controlplane.controllers.candidates.references import decide as follow
from controlplane.controllers.candidates.references.decide import FOLLOWED_VERSION, NamedObject
from controlplane.controllers.candidates.references.events import CopyDecided
from controlplane.controllers.candidates.source.events import CandidateWriteFailed
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, cluster_stream
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS, Json, Kind, meta
from controlplane.log.event import Event
from controlplane.runtime.controller import ObjectChange
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.kinds.base import DEFAULT_KINDS, ServedKind
from tests.candidates.stage import NS
from tests.candidates.test_copies_there import AT, THERE, Placed

SETTINGS = NamedObject("ConfigMap", "settings")
KINDS = (*DEFAULT_KINDS, ServedKind(PERSISTENT_VOLUME_CLAIMS))


class Target:
    """The API server of a target."""

    def __init__(self) -> None:
        uids = itertools.count(1)
        self.store = Store("east", kinds=KINDS, now=lambda: datetime.now(UTC), new_uid=lambda: f"uid-{next(uids)}")
        self.store.create(NAMESPACES, {"metadata": {"name": NS}})

    def data(self, kind: Kind = CONFIG_MAPS) -> dict[str, Any]:
        """What the copies there hold, by name."""
        return {one.name: one.obj.get("data") or one.obj.get("spec") for one in self.store.records(kind, NS)}

    def notes(self, name: str = "settings", kind: Kind = CONFIG_MAPS) -> dict[str, str]:
        found: dict[str, str] = meta(self.store.get(kind, NS, name))["annotations"]
        return found


class Source(Placed):
    """A source whose cluster is known by `identity`, and which has objects of its own. One that does not know its
    cluster writes what a version before wrote."""

    def __init__(self, identity: str, target: Target) -> None:
        super().__init__()
        self.target, self.objects = target, dict[str, Json]()
        self.told: list[tuple[str, Event, str]] = []
        self.is_known_as(identity)

    def is_known_as(self, identity: str) -> None:
        home = Connection(name=MANAGEMENT, phase="Connected", synced=frozenset({PODS.name}), incarnation=identity)
        self.placing.connections[MANAGEMENT] = home
        self.fold(cluster_stream(MANAGEMENT), ClusterConnected(incarnation=identity, kinds=[]))

    def fold(self, stream: str, event: Event, cluster: str = MANAGEMENT) -> None:
        self.told.append((stream, event, cluster))
        super().fold(stream, event, cluster)

    def upgraded(self, identity: str) -> Source:
        """Return a process that knows its cluster, and has read this log."""
        new = Source("", self.target)
        new.placing.sources, new.objects = self.placing.sources, self.objects
        for stream, event, cluster in self.told:
            new.fold(stream, event, cluster)
        new.is_known_as(identity)
        return new

    def has(self, data: Json, version: str, ref: NamedObject = SETTINGS) -> None:
        """Have an object in the source, with this resourceVersion there."""
        head = {"name": ref.name, "namespace": NS, "resourceVersion": version}
        part = {"spec": data} if ref.kind == "PersistentVolumeClaim" else {"data": data}
        self.objects[live_ref(ref.kind, NS, ref.name)] = {"metadata": head, **part}
        self.named(ref.kind, ref.name, version)

    def look(self) -> None:
        """Show what has our label in the target, and what is gone."""
        there = {}
        for kind in FOLLOWED.values():
            if kind in self.target.store.served:
                there.update({meta(one.obj)["uid"]: (kind, one.obj) for one in self.target.store.records(kind, NS)})
        ours = {uid: one for uid, one in there.items() if meta(one[1]).get("labels", {}).get(SOURCE_LABEL) == "home"}
        for kind in FOLLOWED.values():
            for uid, (namespace, name, version) in self.copies.known("east", kind.name).items():
                if uid not in ours:
                    gone: Json = {"metadata": {"namespace": namespace, "name": name, "uid": uid}}
                    self._shown(kind, gone, version, gone=True)
        for kind, obj in ours.values():
            self._shown(kind, obj, meta(obj)["resourceVersion"])

    def _shown(self, kind: Kind, obj: Json, version: str, *, gone: bool = False) -> None:
        new = self.copies.observe(ObjectChange("east", "", kind, obj, version, gone), AT)
        if new is not None:
            self.fold(new.stream, new.event, "east")

    def act(self) -> list[str]:
        """Decide, and carry out what is open; return the verbs."""
        self.copies.take_dirty()
        for new in self.copies.decide(THERE, AT).events:
            assert isinstance(new.event, Event)
            self.fold(THERE, new.event, "east")
        verbs = []
        bodies = {ref: msgspec.json.encode(obj) for ref, obj in self.objects.items()}
        for write in self.copies.open_writes(THERE):
            request = self.copies.request(write, bodies, AT)
            assert request is not None
            verbs.append(request.verb)
            self._send(request)
        self.look()
        return verbs

    def _send(self, request: Any) -> None:
        store, ref = self.target.store, request.ref
        if request.verb == "create":
            place = {"name": ref.name, "namespace": ref.namespace}
            body = {**request.body, "apiVersion": ref.kind.api_version, "kind": ref.kind.kind}
            try:
                store.create(ref.kind, body | {"metadata": meta(request.body) | place})
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
        elif request.verb == "patch":
            head = {"uid": request.uid, "resourceVersion": request.resource_version}
            body = {**request.body, "metadata": meta(request.body) | head}
            store.patch(ref.kind, NS, ref.name, body, content_type=request.content_type)
        else:
            store.delete(ref.kind, NS, ref.name, uid=request.uid, resource_version=request.resource_version)

    def settle(self) -> None:
        """Look and act until nothing is left to do."""
        for _ in range(6):
            self.look()
            if not self.act():
                return
        raise AssertionError("it writes again and again")

    @property
    def in_the_way(self) -> str:
        return self.copies.obstacles(f"sourcepod/{NS}/web")


def two() -> tuple[Target, Source, Source]:
    """A target with the copy of one source, and a second source with its name."""
    target = Target()
    one, other = Source("one", target), Source("other", target)
    one.pod("web", SETTINGS)
    one.has({"of": "one"}, "57")
    one.settle()
    assert target.data() == {"settings": {"of": "one"}}
    return target, one, other


def test_a_copy_says_which_cluster_made_it() -> None:
    target, _, _ = two()
    assert target.notes() == {FOLLOWED_VERSION: "57", SOURCE_UID: "one"}


def test_what_follows_the_pods_of_another_cluster_with_our_name_is_not_removed() -> None:
    target, _, other = two()
    other.settle()
    assert target.data() == {"settings": {"of": "one"}}


@pytest.mark.parametrize("version", ["912", "57"], ids=["another version", "the same number"])
def test_what_follows_the_pods_of_another_is_not_altered_and_ours_says_what_is_in_the_way(version: str) -> None:
    target, one, other = two()
    other.pod("web", SETTINGS)
    other.has({"of": "other"}, version)
    other.settle()
    one.settle()
    assert target.data() == {"settings": {"of": "one"}}
    assert (one.in_the_way, other.in_the_way) == ("", f"ConfigMap settings: {follow.ANOTHERS}")
    other.pod("web")
    other.settle()
    assert target.data() == {"settings": {"of": "one"}}, "also once no pod of ours names it"
    other.pod("web", SETTINGS)
    other.has({"of": "other"}, version)
    one.pod("web")
    one.settle()
    other.settle()
    assert target.data() == {"settings": {"of": "other"}}, "ours goes there once theirs has gone"
    assert other.in_the_way == ""


def test_a_creation_that_meets_what_another_made_in_the_same_moment_alters_nothing() -> None:
    target, one, other = two()
    other.pod("web", SETTINGS)
    other.has({"of": "other"}, "912")
    assert other.act() == ["create"], "theirs was not shown yet"
    other.settle()
    assert target.data() == {"settings": {"of": "one"}}
    assert other.in_the_way == f"ConfigMap settings: {follow.ANOTHERS}"
    one.settle()
    assert target.notes()[SOURCE_UID] == "one"


def before() -> tuple[Target, Source]:
    """A copy that a version before has made for a pod, and a process of this version that has read its log."""
    target = Target()
    old = Source("", target)
    old.pod("web", SETTINGS)
    old.has({"of": "one"}, "57")
    old.settle()
    assert target.notes() == {FOLLOWED_VERSION: "57"}
    return target, old.upgraded("one")


def test_what_a_version_before_wrote_is_known_by_the_log_that_wrote_it_and_marked_with_its_next_change() -> None:
    target, one = before()
    one.look()
    assert (one.act(), one.in_the_way) == ([], ""), "an upgrade is no reason to write all copies"
    one.has({"of": "one, changed"}, "60")
    one.settle()
    assert target.notes() == {FOLLOWED_VERSION: "60", SOURCE_UID: "one"}
    assert target.data() == {"settings": {"of": "one, changed"}}


def test_what_a_version_before_wrote_goes_with_the_last_pod() -> None:
    target, one = before()
    one.pod("web")
    one.settle()
    assert target.data() == {}


def test_what_a_version_before_wrote_for_another_is_neither_altered_nor_removed() -> None:
    target, one = before()
    other = Source("other", target)
    other.pod("web", SETTINGS)
    other.has({"of": "other"}, "912")
    other.settle()
    assert other.in_the_way == f"ConfigMap settings: {follow.ANOTHERS}"
    other.pod("web")
    other.settle()
    assert target.data() == {"settings": {"of": "one"}}
    assert other.act() == []
    one.pod("web")
    one.settle()
    assert target.data() == {}


def test_a_write_that_was_refused_leaves_what_was_written_before_it_ours() -> None:
    target, one = before()
    one.has({"of": "one, changed"}, "60")
    (decided,) = one.copies.decide(THERE, AT).events
    assert isinstance(decided.event, CopyDecided)
    one.fold(THERE, decided.event, "east")
    no = {"target": decided.event.target, "action": "CopyDecided", "code": 409, "error": "Conflict", "message": "no"}
    one.fold(THERE, CandidateWriteFailed(**no, failures=1, retry_at=AT), "east")
    target.store.patch(CONFIG_MAPS, NS, "settings", {"metadata": {"labels": {"more": "yes"}}})
    one.settle()
    assert target.data() == {"settings": {"of": "one, changed"}}


def test_a_new_log_knows_what_a_version_before_made_of_what_its_object_is_now() -> None:
    target, _ = before()
    new = Source("one", target)
    new.pod("web", SETTINGS)
    new.has({"of": "one"}, "57")
    new.settle()
    assert target.notes()[SOURCE_UID] == "one"
    new.has({"of": "one, changed"}, "60")
    new.settle()
    assert target.data() == {"settings": {"of": "one, changed"}}


def test_a_claim_of_another_is_not_made_larger() -> None:
    target, claim = Target(), NamedObject("PersistentVolumeClaim", "data")
    for identity, size, version in (("one", "1Gi", "57"), ("other", "2Gi", "912")):
        source = Source(identity, target)
        source.pod("web", claim)
        source.has({"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"]}, version, claim)
        source.settle()
    found = target.data(PERSISTENT_VOLUME_CLAIMS)["data"]
    assert found["resources"] == {"requests": {"storage": "1Gi"}}


def test_a_source_cluster_that_was_built_anew_goes_on_with_what_its_log_knows() -> None:
    target, one, _ = two()
    one.is_known_as("built anew")
    one.settle()
    assert one.in_the_way == ""
    one.has({"of": "one, built anew"}, "7")
    one.settle()
    assert target.notes() == {FOLLOWED_VERSION: "7", SOURCE_UID: "built anew"}
    one.is_known_as("built anew once more")
    one.pod("web")
    one.settle()
    assert target.data() == {}


def test_a_source_that_does_not_know_its_cluster_takes_all_with_its_name_for_its_own() -> None:
    target, _, _ = two()
    nobody = Source("", target)
    nobody.settle()
    assert target.data() == {}
