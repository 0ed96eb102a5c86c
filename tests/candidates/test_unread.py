"""Which objects are there and cannot be read: the fold of the refusals, and what a target decides beside them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NoReturn

import msgspec
import pytest

from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATE_SOURCES,
    CANDIDATE_TARGETS,
    CANDIDATES,
    FINALIZER,
    PODS,
    SCHEDULER_NAME,
    SOURCE_LABEL,
    TEMPLATE,
    candidate_name,
)
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.candidates.source.unread import concerns
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import (
    Admitted,
    Bound,
    FinalizerReleased,
    PodFenced,
    PodMade,
    PodRemoved,
    Refused,
    StatusReported,
    TargetWriteFailed,
)
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import Json, Kind
from controlplane.log.event import Event, NewEvent, Recorded
from controlplane.runtime.controller import ObjectChange
from tests.candidates.test_lost_log import refusal
from tests.support.rows import each

AT = datetime(2026, 1, 1, tzinfo=UTC)
NAME = candidate_name("web", "campus", "web#1", 1, "east")


def candidate(**status: Any) -> Json:
    origin = {"cluster": "campus", "namespace": "team", "name": "web", "uid": "web#1", "epoch": 1}
    head = {
        "namespace": "team",
        "name": NAME,
        "uid": "c-1",
        "labels": {SOURCE_LABEL: "campus"},
        "finalizers": [FINALIZER],
    }
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": head, "spec": {"source": origin, "template": template}, "status": status}


def source_pod(**status: Any) -> Json:
    spec = {"schedulerName": SCHEDULER_NAME, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"namespace": "team", "name": "web", "uid": "web#1"}, "spec": spec, "status": status}


class Seen:
    """A controller that is shown objects, and folds what it makes of them."""

    def __init__(self, controller: SourceController | TargetController) -> None:
        self.controller, self.position = controller, 0

    def show(self, cluster: str, kind: Kind, obj: Json, *, gone: bool = False) -> NewEvent | None:
        self.position += 1
        shown = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.position)}}
        new = self.controller.observe(ObjectChange(cluster, "", kind, shown, str(self.position), gone), AT)
        if new is not None:
            self.fold(new.stream, new.event, cluster)
        return new

    def fold(self, stream: str, event: Event, cluster: str) -> None:
        self.position += 1
        self.controller.fold(
            Recorded(
                position=self.position,
                stream=stream,
                version=self.position,
                event=event,
                cluster=cluster,
                recorded_at=AT,
            )
        )


def source() -> tuple[Seen, SourceController]:
    controller = SourceController(SourcePolicy(cluster="campus", namespaces=frozenset({"team"})), "me")
    return Seen(controller), controller


# --- the source ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["read", "gone"])
def test_a_candidate_that_cannot_be_read_is_there_until_it_is_read_or_goes(end: str) -> None:
    seen, controller = source()
    seen.show("east", CANDIDATES, candidate(message=5))
    assert list(controller.known("east", CANDIDATES.name)) == ["c-1"]
    assert list(controller.unread.candidates(controller_state(controller))) == ["east"]
    seen.show("east", CANDIDATES, candidate(), gone=end == "gone")
    assert not controller.unread.candidates(controller_state(controller))
    assert list(controller.known("east", CANDIDATES.name)) == ([] if end == "gone" else ["c-1"])


def controller_state(controller: SourceController) -> SourceState:
    return controller.sources.get("sourcepod/team/web") or SourceState.initial("sourcepod/team/web")


def test_one_that_was_read_before_holds_nothing_up() -> None:
    seen, controller = source()
    seen.show("east", CANDIDATES, candidate())
    seen.show("east", CANDIDATES, candidate(message=5))
    assert not controller.unread.candidates(controller_state(controller))


@pytest.mark.parametrize("end", ["read", "gone"])
def test_a_source_pod_that_cannot_be_read_is_there_until_it_is_read_or_goes(end: str) -> None:
    seen, controller = source()
    seen.show(MANAGEMENT, PODS, source_pod(conditions="none"))
    found = controller.unread.pod("team", "web")
    assert found is not None
    assert found.field == "status.conditions"
    assert list(controller.known(MANAGEMENT, PODS.name)) == ["web#1"]
    seen.show(MANAGEMENT, PODS, source_pod(), gone=end == "gone")
    assert controller.unread.pod("team", "web") is None


def test_while_a_target_of_a_namespace_cannot_be_read_every_cluster_is_looked_at() -> None:
    """A delegate may be there of which a log that was lost does not know."""
    seen, controller = source()
    for name in ("east", "west"):
        seen.fold(f"cluster/{name}", refusal("other", "x"), name)
    target = {
        "metadata": {"namespace": "team", "name": "east", "uid": "t-1"},
        "spec": {"cluster": "east", "tier": "first"},
    }
    controller.connections |= {name: connection(name) for name in ("east", "west")}
    controller.watch_changed = False
    seen.show(MANAGEMENT, CANDIDATE_TARGETS, target)
    assert controller.watch_changed
    assert controller.watched() == {"east": {"team"}, "west": {"team"}}
    assert list(controller.known(MANAGEMENT, CANDIDATE_TARGETS.name)) == ["t-1"]
    seen.show(MANAGEMENT, CANDIDATE_TARGETS, {**target, "spec": {"cluster": "east"}})
    assert controller.watched() == {"east": {"team"}}


def connection(name: str) -> Connection:
    return Connection(name=name, phase="Connected")


@each(
    ("pod", "name", "of"),
    [
        ("web", NAME, True),
        ("web", NAME.replace("web", "other"), True),  # what it says of its pod counts
        ("other", NAME, False),
        ("", NAME, True),
        ("", candidate_name("Web", "campus", "u", 3, "west"), True),
        ("", candidate_name("web-2", "campus", "u", 3, "west"), False),
    ],
)
def test_whose_a_candidate_is_that_cannot_be_read(pod: str, name: str, of: bool) -> None:
    found = refusal(CANDIDATES.name, name)
    assert concerns(msgspec.structs.replace(found, pod=pod), found.namespace, "web") is of


# --- a target --------------------------------------------------------------------------------------------------------


def target() -> tuple[Seen, TargetController]:
    controller = TargetController(TargetPolicy())
    controller.ready = True
    return Seen(controller), controller


def made(node: str = "", **annotations: Any) -> Json:
    owner = {"apiVersion": CANDIDATES.api_version, "kind": "Candidate", "name": NAME, "uid": "c-1", "controller": True}
    head = {
        "namespace": "team",
        "name": NAME,
        "uid": "p-1",
        "labels": {CANDIDATE_LABEL: NAME},
        "ownerReferences": [owner],
    }
    spec = {"containers": [], **({"nodeName": node} if node else {})}
    return {
        "metadata": {**head, "annotations": annotations},
        "spec": spec,
        "status": {"phase": "Running" if node else "Pending"},
    }


def invitation(most: Any = 0) -> Json:
    spec = {"cluster": "campus", "podSecurity": "baseline", "maxCandidates": most}
    return {"metadata": {"namespace": "team", "name": "campus", "uid": "i-1"}, "spec": spec}


def decided(controller: TargetController) -> list[type[Event]]:
    return [type(new.event) for new in controller.decide(f"candidate/team/{NAME}", AT).events]


BOUND = {"phase": "Bound", "boundBy": 3, "reservation": {"number": 1, "node": "n"}, "sequence": 4}


def test_the_pod_of_a_candidate_that_was_never_read_is_not_removed() -> None:
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATE_SOURCES, invitation())
    seen.show(MANAGEMENT, PODS, made("n"))
    assert decided(controller) == [PodRemoved]
    seen.show(MANAGEMENT, CANDIDATES, candidate(message=5))
    assert decided(controller) == []
    seen.show(MANAGEMENT, CANDIDATES, candidate(), gone=True)
    assert decided(controller) == [PodRemoved]


@pytest.mark.parametrize("deleting", [False, True])
def test_a_pod_that_was_never_read_may_run(deleting: bool) -> None:
    """None is made beside it, nothing is reported, and its Candidate is not let go before it is."""
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATE_SOURCES, invitation())
    seen.show(MANAGEMENT, PODS, made("n", **{TEMPLATE: 5}))
    shown = candidate(**BOUND)
    if deleting:
        shown["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen.show(MANAGEMENT, CANDIDATES, shown)
    assert decided(controller) == ([PodRemoved] if deleting else [])
    seen.show(MANAGEMENT, PODS, made("n"), gone=True)
    assert decided(controller)[-1:] == ([FinalizerReleased] if deleting else decided(controller)[-1:])
    assert FinalizerReleased in decided(controller) or not deleting


def test_a_pod_that_cannot_be_read_and_is_not_ours_keeps_no_candidate() -> None:
    seen, controller = target()
    seen.show(MANAGEMENT, PODS, made("n", **{TEMPLATE: 5}))
    shown = candidate(**BOUND)
    shown["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen.show(MANAGEMENT, CANDIDATES, shown)
    stream = f"candidate/team/{NAME}"
    (new,) = controller.decide(stream, AT).events
    seen.fold(stream, new.event, MANAGEMENT)
    failed = TargetWriteFailed(
        target=new.event.target,
        action="PodRemoved",
        code=0,
        error="Foreign",
        message="no label",
        failures=1,
        retry_at=AT,
    )  # type: ignore[attr-defined]
    seen.fold(stream, failed, MANAGEMENT)
    assert decided(controller) == [FinalizerReleased]


def test_while_no_invitation_can_be_read_what_runs_is_not_refused() -> None:
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATE_SOURCES, invitation("many"))
    seen.show(MANAGEMENT, PODS, made("n"))
    seen.show(MANAGEMENT, CANDIDATES, candidate(**BOUND))
    stream = f"candidate/team/{NAME}"
    (new,) = controller.decide(stream, AT).events
    assert isinstance(new.event, Bound)
    assert new.event.number == 3


def test_who_is_not_there_yet_is_told_which_invitation_cannot_be_read() -> None:
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATE_SOURCES, invitation("many"))
    seen.show(MANAGEMENT, CANDIDATES, candidate())
    (new,) = controller.decide(f"candidate/team/{NAME}", AT).events
    assert isinstance(new.event, Refused)
    assert new.event.reason == TargetReason.NOT_INVITED
    assert new.event.message == (
        'CandidateSource "campus" of namespace "team" cannot be read: mend spec.maxCandidates: expected an integer, '
        "found str"
    )
    seen.show(MANAGEMENT, CANDIDATE_SOURCES, invitation())
    assert Refused not in decided(controller)


@pytest.mark.parametrize("first", ["pod", "candidate"])
def test_a_status_that_a_lost_log_does_not_know_is_told_under_a_higher_number(first: str) -> None:
    """The source shows none of a lower one."""
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATE_SOURCES, invitation())
    things = [(PODS, made("n")), (CANDIDATES, candidate(**BOUND))]
    for kind, obj in things if first == "pod" else reversed(things):
        seen.show(MANAGEMENT, kind, obj)
    stream = f"candidate/team/{NAME}"
    reported = []
    for _ in range(5):
        for new in controller.decide(stream, AT).events:
            seen.fold(stream, new.event, MANAGEMENT)
            if isinstance(new.event, StatusReported):
                reported.append(new.event.reported.sequence)
            assert not isinstance(new.event, PodMade)
    assert reported == [5]


def test_a_binding_that_a_lost_log_does_not_know_is_fenced_before_anything_is_said() -> None:
    """It may be on its way: the Candidate has a permit for what it says is reserved."""
    seen, controller = target()
    seen.show(MANAGEMENT, CANDIDATE_SOURCES, invitation())
    shown = candidate(phase="Reserved", reservation={"number": 2, "node": "n"})
    shown["spec"]["permit"] = {"number": 1, "kind": "Bind", "reservation": 2, "until": "2026-01-01T00:00:30Z"}
    seen.show(MANAGEMENT, CANDIDATES, shown)
    seen.show(MANAGEMENT, PODS, made())
    stream = f"candidate/team/{NAME}"
    for expected in (Admitted, PodFenced):
        assert not controller.waiting()
        new = controller.decide(stream, AT).events[0]
        assert isinstance(new.event, expected)
        seen.fold(stream, new.event, MANAGEMENT)
    assert not controller.waiting()
    seen.show(MANAGEMENT, PODS, made())
    assert controller.waiting() == [stream]


class Unseen(dict[Any, Any]):
    """Refusals that nobody may look through."""

    def items(self) -> NoReturn:
        raise AssertionError("all refusals are looked at")

    values = items


def test_who_is_decided_about_does_not_look_at_all_that_cannot_be_read() -> None:
    """A cluster that shows thousands of such objects would slow everybody down."""
    (seen, controller), (there, targets) = source(), target()
    for held in (controller.unread, targets.unread):
        held._refusals = Unseen()
    seen.show("east", CANDIDATES, candidate(message=5))
    assert list(controller.unread.candidates(controller_state(controller))) == ["east"]
    assert controller.unread.targets() == set()
    there.show(MANAGEMENT, CANDIDATES, candidate(message=5))
    assert targets.unread.candidate("team", NAME) is not None
    assert targets.unread.candidate("team", "other") is None
    assert targets.unread.invitations("team") == []


def test_nothing_is_kept_of_a_source_pod_that_could_not_be_read_and_is_gone() -> None:
    seen, controller = source()
    seen.show(MANAGEMENT, PODS, source_pod(conditions="none"))
    seen.show(MANAGEMENT, PODS, source_pod(), gone=True)
    assert not controller._observer._coming
