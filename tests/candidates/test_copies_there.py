"""What is to be done about copies, looked at object by object, is what it is when all of them are looked at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NoReturn

from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.references.decide import Following, KnownCopy, NamedObject, follow
from controlplane.controllers.candidates.references.events import CopyGone, CopyObserved, NamedMissing, NamedObserved
from controlplane.controllers.candidates.source.candidate import Candidate
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.observations import SourcePodObserved
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import PODS, SECRETS
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from tests.candidates.stage import NS

AT = datetime(2026, 1, 1, tzinfo=UTC)
THERE = f"copies/east/{NS}"
KINDS = ("Secret", "ConfigMap")


class Placed:
    """A controller, and the pods that are placed in one target."""

    def __init__(self) -> None:
        self.placing = SourceController(SourcePolicy(cluster="home", namespaces=frozenset({NS})), "me")
        home = Connection(name=MANAGEMENT, phase="Connected", synced=frozenset({PODS.name}))
        self.placing.connections[MANAGEMENT] = home
        self.copies, self.position = ReferenceController(self.placing), 0

    def fold(self, stream: str, event: Event, cluster: str = MANAGEMENT) -> None:
        self.position += 1
        at: dict[str, Any] = {"position": self.position, "version": self.position, "recorded_at": AT}
        self.copies.fold(Recorded(stream=stream, event=event, cluster=cluster, **at))

    def pod(self, name: str, *refs: NamedObject) -> None:
        """Place a pod that names these; none: it is gone."""
        stream, head = f"sourcepod/{NS}/{name}", {"namespace": NS, "name": name, "uid": name, "resource_version": "1"}
        pod = SourcePodObserved(**head, template="t", references=list(refs))
        known = {name: Candidate(cluster="east", uid=name, epoch=1, may_run=True)}
        state = SourceState(namespace=NS, name=name, pod=pod, uid=name, epoch=1, candidates=known)
        self.placing.sources.pop(stream, None)
        if refs:
            self.placing.sources[stream] = state
        self.fold(stream, pod)

    def named(self, kind: str, name: str, version: str) -> None:
        stream, of = f"named/{kind}/{NS}/{name}", {"kind": kind, "namespace": NS, "name": name}
        seen = NamedObserved(**of, uid=f"{kind}{name}", resource_version=version)
        self.fold(stream, seen if version else NamedMissing(**of, message="there is none"))

    def copy(self, kind: str, name: str, version: str, mark: str = "home") -> None:
        of: dict[str, Any] = {"kind": kind, "namespace": NS, "name": name, "uid": name, "resource_version": "1"}
        seen = CopyObserved(**of, mark=mark, followed=version) if version else CopyGone(**of)
        self.fold(THERE, seen, "east")

    def by_all(self) -> Following:
        """Return what follows when all is looked at."""
        copies, where = self.copies, self.copies._where.values()
        unseen = {(r.kind, r.name) for refs in where for r in refs[THERE] if (r.kind, NS, r.name) not in copies.named}
        needed = {r for refs in where for r in refs[THERE] if (r.kind, r.name) not in unseen}
        here = [KnownCopy(o.kind, o.name, o.uid, o.resource_version) for o in copies.named.values() if o is not None]
        there = [
            KnownCopy(c.kind, c.name, c.uid, c.resource_version, c.mark, c.followed)
            for c in copies._at(THERE).copies.values()
            if (c.kind, c.name) not in unseen
        ]
        return follow(needed, here, there, "home", in_view=True)


names, versions, kinds = st.sampled_from("abc"), st.sampled_from(["", "1", "2"]), st.sampled_from(KINDS)
refs = st.builds(NamedObject, kinds, names, st.booleans())
STEPS = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from("xyz"), st.lists(refs, max_size=4)),
    st.tuples(st.just("named"), kinds, names, versions),
    st.tuples(st.just("copy"), kinds, names, versions, st.sampled_from(["home", "other"])),
    st.tuples(st.just("look")),
)


@given(st.lists(STEPS, max_size=25))
def test_object_by_object_and_all_at_once_are_the_same(steps: list[tuple[Any, ...]]) -> None:
    placed = Placed()
    for what, *said in steps:
        match what:
            case "pod":
                placed.pod(said[0], *said[1])
            case "named":
                placed.named(*said)
            case "copy":
                placed.copy(*said)
        if what == "look":
            assert placed.copies._objects.following(THERE) == placed.by_all()
    assert placed.copies._objects.following(THERE) == placed.by_all()
    for name in "xyz":
        placed.pod(name)
    for kind in KINDS:
        for name in "abc":
            placed.copy(kind, name, "")
    assert placed.copies._objects.following(THERE) == Following()
    kept = (placed.copies._objects._needed, placed.copies._objects._found, placed.copies._objects._stale)
    assert kept == ({}, {}, {}), "nothing is kept of what is gone"
    facets = placed.copies._facets
    assert (placed.copies.named, placed.copies._missing, facets._named, facets._positions) == ({}, {}, {}, {})


class Unseen(dict[tuple[str, str, str], Any]):
    """Named objects that nobody may look through."""

    def values(self) -> NoReturn:
        raise AssertionError("all objects are looked at")


def test_an_event_about_one_object_costs_no_look_at_all_of_them() -> None:
    """A thousand pods of a namespace, each with a Secret of its own, took a minute."""
    placed = Placed()
    placed.copies.named = Unseen()
    for name in ("one", "two"):
        placed.pod(name, NamedObject("Secret", name))
        placed.named("Secret", name, "1")
        placed.copies.take_dirty()
        (decided,) = placed.copies.decide(THERE, AT).events
        assert decided.event.target == f"Secret/{name}"  # type: ignore[union-attr]
        placed.fold(THERE, decided.event, "east")  # type: ignore[arg-type]
        placed.copy("Secret", name, "1")
    assert placed.copies.obstacles(f"sourcepod/{NS}/one") == ""


def test_what_is_in_the_way_of_one_pod_is_no_news_to_the_others() -> None:
    placed = Placed()
    for name in ("one", "two"):
        placed.pod(name, NamedObject("Secret", name))
    placed.copies.take_dirty()
    placed.placing.take_dirty()
    placed.named("Secret", "one", "")
    placed.copies.take_dirty()
    assert placed.placing.take_dirty() == [f"sourcepod/{NS}/one"]
    assert "Secret one" in placed.copies.obstacles(f"sourcepod/{NS}/one")


def test_what_nobody_names_is_forgotten_when_its_last_copy_is_gone() -> None:
    placed, ref = Placed(), NamedObject("Secret", "s")
    placed.pod("one", ref)
    placed.named("Secret", "s", "1")
    placed.copy("Secret", "s", "1")
    placed.pod("one")
    assert list(placed.copies.named) == [("Secret", NS, "s")]  # its copy is to be removed, and rests on what was seen
    (new,) = placed.copies.decide(THERE, AT).events
    placed.fold(THERE, new.event, "east")
    placed.copy("Secret", "s", "")
    assert placed.copies.named == {}
    placed.named("Secret", "s", "2")  # its watch had shown that before it ended
    assert placed.copies.named == {}


def shown(version: str) -> ObjectChange:
    head = {"namespace": NS, "name": "s", "uid": "s-1", "resourceVersion": version}
    return ObjectChange(MANAGEMENT, "", SECRETS, {"metadata": head, "type": "Opaque"}, version, gone=False)


def test_what_was_forgotten_is_recorded_again_when_it_is_shown_again() -> None:
    """The log takes one version of an object once: it would not take the very version that was forgotten."""
    placed = Placed()
    placed.pod("one", NamedObject("Secret", "s"))
    first = placed.copies.observe(shown("1"), AT)
    assert first is not None
    assert first.source == ""
    placed.fold(first.stream, first.event)
    placed.pod("one")
    placed.pod("two", NamedObject("Secret", "s"))
    again = placed.copies.observe(shown("1"), AT)
    assert again is not None
    assert (again.source, again.event) == ("", first.event)
    placed.fold(again.stream, again.event)
    known = placed.copies.observe(shown("2"), AT)
    assert known is not None
    assert known.source != ""
