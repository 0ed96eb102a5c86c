"""A target that goes back to a backup: what its Candidates say then is old, and nobody is permitted for the sake of
it.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES, FINALIZER, PODS, Origin
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.references.events import CopyGone, CopyObserved
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.delegate_status import restarts_of
from controlplane.controllers.candidates.source.events import (
    CandidateRequested,
    DelegateLost,
    PermitGranted,
    RevokeAcked,
)
from controlplane.controllers.candidates.source.observations import CandidateWaiting
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, NEVER_TWICE, SourcePolicy
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import (
    CandidateObserved,
    CandidatePodObserved,
    FinalizerReleased,
    PodRemoved,
)
from controlplane.controllers.connectivity.events import ClusterConnected, ClusterRestored, KindSynced
from controlplane.kube.kinds import SERVICES, Kind
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange
from tests.candidates.stage import NS, Stage, pod

AT = datetime(2026, 1, 1, tzinfo=UTC)
POLICIES = pytest.mark.parametrize("policy", [AT_LEAST_ONCE, NEVER_TWICE])


def bound(stage: Stage) -> list[str]:
    return [
        name for name in stage.names for made in stage.stores[name]["pods"].values() if made["spec"].get("nodeName")
    ]


def lost(stage: Stage) -> list[DelegateLost]:
    return [event for event in stage.decided if isinstance(event, DelegateLost)]


@POLICIES
def test_a_delegate_whose_candidate_says_again_what_it_said_before_is_not_lost(policy: str) -> None:
    """The backup is from between the binding and its report: the Pod runs, and the Candidate says that it is
    reserved.
    """
    stage = Stage("a", "b", execution_policy=policy).permitted("a")
    stage.reserve("b")
    stage.target_look("a")
    assert stage.bind("a")
    stage.target_send("a")
    backup = stage.stores["a"]
    stage.target_turn("a")
    stage.look()
    assert stage.state.delegate == stage.only("a")
    stage.stores["a"] = backup
    stage.look()
    assert not lost(stage)
    stage.settle()
    assert not lost(stage)
    assert bound(stage) == ["a"]
    assert stage.there("b") == []


@POLICIES
def test_a_delegate_that_is_on_no_node_any_more_is_missing(policy: str) -> None:
    """The backup is from before the binding: its Pod waits for a node that nobody gives it, so it is placed anew."""
    stage = Stage("a", "b", execution_policy=policy).permitted("a")
    stage.reserve("b")
    backup = stage.stores["a"]
    stage.target_turn("a")
    assert stage.bind("a")
    stage.target_turn("a")
    stage.look()
    stage.stores["a"] = backup
    stage.settle()
    assert [event.reason for event in lost(stage)] == [CandidateReason.POD_MISSING]
    stage.reserve("b")
    stage.settle()
    assert stage.bind("b")
    stage.settle()
    assert bound(stage) == ["b"]
    assert stage.there("a") == []


@POLICIES
def test_a_delegate_that_a_scheduler_without_its_log_tries_anew_is_missing(policy: str) -> None:
    """Its Pod was deleted while nobody knew of it."""
    stage = Stage("a", execution_policy=policy).delegated("a")
    stage.settle()
    stage.sides["a"] = {}
    stage.stores["a"] = {**stage.stores["a"], "pods": {}}
    stage.target_turn("a")
    stage.look()
    assert not lost(stage)
    stage.reserve("a")
    stage.settle()
    assert [event.reason for event in lost(stage)] == [CandidateReason.POD_MISSING]
    stage.reserve("a")
    stage.settle()
    assert stage.bind("a")
    stage.settle()
    assert bound(stage) == ["a"]


def test_a_pod_that_is_back_on_its_node_is_not_missing() -> None:
    stage = Stage("a").delegated("a")
    backup = stage.stores["a"]
    stage.stores["a"] = {**backup, "pods": {}}
    stage.target_look("a")
    assert stage.sides["a"][stage.only("a")].missing
    stage.stores["a"] = backup
    stage.target_turn("a")
    assert not stage.sides["a"][stage.only("a")].missing
    stage.settle()
    assert not lost(stage)


def test_a_pod_of_another_life_does_not_stand_for_the_one_that_was_bound() -> None:
    stage = Stage("a").delegated("a")
    key = stage.only("a")
    made = stage.stores["a"]["pods"][key]
    other = {**made, "metadata": {**made["metadata"], "uid": "earlier"}}
    stage.stores["a"] = {**stage.stores["a"], "pods": {key: other}}
    stage.target_look("a")
    assert stage.sides["a"][key].missing


@POLICIES
def test_a_word_from_before_the_reservation_ends_no_permit(policy: str) -> None:
    """The binding may still be on its way: the Candidate says that nothing is reserved because it has forgotten."""
    stage = Stage("a", "b", execution_policy=policy).ask()
    backup = stage.stores["a"]
    stage.reserve("a")
    stage.look()
    stage.send()
    stage.target_look("a")
    assert stage.bind("a")
    binding = [request for request in stage.target_requests("a") if request.subresource == "binding"]
    stage.reserve("b")
    stage.stores["a"] = backup
    stage.look()
    assert not [event for event in stage.decided if isinstance(event, RevokeAcked)]
    assert len([event for event in stage.decided if isinstance(event, PermitGranted) and event.cluster == "b"]) == 0
    assert binding


def test_an_old_permit_is_void_for_a_scheduler_that_has_forgotten_its_reservation() -> None:
    """The candidate was done with and its stream is closed: of what was reserved only the Candidate itself tells."""
    stage = Stage("a", "b").permitted("a")
    backup = stage.stores["a"]
    stage.stores["a"] = {**backup, "candidates": {}, "pods": {}}
    stage.target_turn("a")
    assert stage.sides["a"] == {}
    stage.stores["a"] = backup
    stage.target_turn("a")
    stage.reserve("a")
    assert not stage.bind("a")


@POLICIES
def test_what_a_backup_revives_is_waited_for(policy: str) -> None:
    """It was missing, and runs again: whoever comes next waits until it has stopped."""
    stage = Stage("a", "b", execution_policy=policy).delegated("a")
    backup = stage.stores["a"]
    stage.lose_pod("a")
    stage.look()
    assert [event.reason for event in lost(stage)] == [CandidateReason.POD_MISSING]
    stage.stores["a"] = backup
    stage.look()
    stage.send()
    stage.target_turn("b")
    stage.reserve("b")
    stage.see("b")
    granted = [event for event in stage.decide() if isinstance(event, PermitGranted)]
    assert not granted
    stage.settle().lose_pod("a")
    stage.settle()
    assert stage.state.permit is not None
    assert stage.state.permit.cluster == "b"


def test_a_pod_that_is_back_with_what_it_showed_is_not_shown_as_if_it_began() -> None:
    """The source's own cluster went back, to a pod that was deleted since: nothing of it is known any more but what it
    says itself.
    """
    stage = Stage("a")
    ran = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 2}]}
    stage.home = {**stage.home, "pods": {"web": pod(status=ran)}}
    stage.ask()
    stage.full("a")
    stage.settle()
    assert stage.said().startswith("0/1 clusters have it")
    assert stage.phase() == "Running"
    stage.reserve("a")
    stage.settle()
    assert stage.bind("a")
    stage.settle()
    stage.run("a", "Pending")
    stage.settle()
    assert stage.phase() == "Running"
    stage.run("a", restarts=1)
    stage.settle()
    assert restarts_of(stage.home["pods"]["web"]["status"]) == {"c": 3}


def test_copies_that_a_backup_brings_back_are_looked_for() -> None:
    """All of them had gone, so nobody watched them any more."""
    copies = ReferenceController(SourceController(SourcePolicy(cluster="home"), "me"))
    head = {"namespace": NS, "name": "settings", "uid": "c-1", "resource_version": "5", "kind": "ConfigMap"}
    said: list[tuple[str, Event]] = [
        (f"copies/east/{NS}", CopyObserved(**head, mark="home")),
        (f"copies/east/{NS}", CopyGone(**head)),
        (f"copies/west/{NS}", CopyObserved(**head, mark="home")),
        (f"copies/west/{NS}", CopyGone(**head)),
    ]
    for position, (stream, event) in enumerate(said, start=1):
        copies.fold(recorded(position, stream, event))
    assert copies.watched() == {}
    copies.watch_changed = False
    copies.fold(recorded(5, "cluster/east", ClusterRestored(message="", restores=1)))
    assert copies.watched() == {"east": {NS}}
    assert copies.watch_changed


def test_a_copy_that_the_log_never_asked_for_is_seen_to_be_gone() -> None:
    """The log went back to before it was decided on; of what went while nobody looked, a list shows the name alone."""
    copies = ReferenceController(SourceController(SourcePolicy(cluster="home"), "me"))
    head = {"namespace": NS, "name": "settings", "uid": "c-1", "resource_version": "5", "kind": "Service"}
    copies.fold(recorded(1, f"copies/east/{NS}", CopyObserved(**head, mark="home")))
    stone = {"metadata": {"namespace": NS, "name": "settings", "uid": "c-1"}}
    new = copies.observe(ObjectChange("east", "inc", SERVICES, stone, "9", True), datetime(2026, 1, 1, tzinfo=UTC))
    assert new is not None
    assert isinstance(new.event, CopyGone)


@pytest.mark.parametrize("asked", [False, True])
def test_copies_of_a_candidate_that_the_log_never_asked_for_are_looked_for(asked: bool) -> None:
    """The log went back to before it, and its pod with it, so that nobody names what had followed it."""
    source = SourceController(SourcePolicy(cluster="home"), "me")
    copies = ReferenceController(source)
    origin = Origin(cluster="home", namespace=NS, name="web", uid="web#1", epoch=1)
    head = {"namespace": NS, "name": "web-1", "uid": "c#1", "resource_version": "5"}
    request = CandidateRequested(
        cluster="east",
        candidate="web-1",
        uid="web#1",
        epoch=1,
        template="",
        reason=CandidateReason.TARGET_OF_EPOCH,
    )
    said: list[Event] = [*([request] if asked else []), CandidateWaiting(**head, origin=origin, follows=["Service"])]
    for position, event in enumerate(said, start=1):
        for controller in (source, copies):
            controller.fold(msgspec.structs.replace(recorded(position, f"sourcepod/{NS}/web", event), cluster="east"))
    assert copies.watched() == ({} if asked else {"east": {NS}})
    assert (SERVICES in copies.kinds("east", NS)) is not asked


def recorded(position: int, stream: str, event: Event) -> Recorded:
    return Recorded(
        position=position,
        stream=stream,
        version=position,
        event=event,
        cluster=stream.split("/")[1],
        recorded_at=AT,
    )


def test_nothing_is_decided_between_the_lists_of_a_cluster_that_went_back() -> None:
    """The Candidate is back before its Pod, as lists come: whether that has stopped is known when both are listed."""
    targets = TargetController(TargetPolicy())
    targets.ready = True
    origin = Origin(cluster="home", namespace=NS, name="web", uid="web#1", epoch=1)
    head = {"namespace": NS, "name": "c", "uid": "c#1", "resource_version": "5"}
    back = CandidateObserved(**head, deleting=True, origin=origin, template="", finalizers=[FINALIZER])
    made = CandidatePodObserved(namespace=NS, name="c", uid="p#1", resource_version="6", owner="c#1", node="n")
    stream = f"candidate/{NS}/c"
    targets.fold(recorded(1, "cluster/@management", ClusterRestored(message="", restores=1)))
    targets.fold(recorded(2, stream, back))
    assert list(targets.decide(stream, AT).events) == []
    for position, kind in enumerate((CANDIDATES, CANDIDATE_SOURCES), start=3):
        targets.fold(recorded(position, "cluster/@management", synced(kind)))
    assert list(targets.decide(stream, AT).events) == []
    targets.fold(recorded(5, stream, made))
    targets.take_dirty()
    targets.fold(recorded(6, "cluster/@management", synced(PODS)))
    assert targets.take_dirty() == [stream]
    assert [type(new.event) for new in targets.decide(stream, AT).events] == [PodRemoved]


def test_a_new_connection_has_listed_what_it_says() -> None:
    targets = TargetController(TargetPolicy())
    targets.ready = True
    stream = f"candidate/{NS}/c"
    origin = Origin(cluster="home", namespace=NS, name="web", uid="web#1", epoch=1)
    going = CandidateObserved(
        namespace=NS,
        name="c",
        uid="c#1",
        resource_version="5",
        deleting=True,
        origin=origin,
        template="",
        finalizers=[FINALIZER],
    )
    targets.fold(recorded(1, "cluster/@management", ClusterRestored(message="", restores=1)))
    targets.fold(recorded(2, stream, going))
    kinds = [kind.name for kind in (PODS, CANDIDATES, CANDIDATE_SOURCES)]
    targets.fold(recorded(3, "cluster/@management", ClusterConnected(incarnation="", server_version="", kinds=kinds)))
    assert [type(new.event) for new in targets.decide(stream, AT).events] == [FinalizerReleased]


def synced(kind: Kind) -> KindSynced:
    return KindSynced(kind=kind.name, count=1, resource_version="9", gap="")
