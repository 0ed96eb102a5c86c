"""Every event and every reason of a scheduler's own log has its words; so has every event type that there is."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import UTC, datetime

import msgspec

import controlplane
from controlplane.audit.reads import READ
from controlplane.audit.words import what
from controlplane.controllers.candidates.objects import PermitSpec
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target.events import CandidateObserved, Reserved, TargetWrite, Unreserved
from controlplane.controllers.candidates.target.phrases import PHRASES as TARGET_PHRASES
from controlplane.controllers.candidates.target.phrases import REASONS as TARGET_REASONS
from controlplane.controllers.candidates.target.phrases import TARGET_EVENTS, target_because
from controlplane.controllers.candidates.target.phrases import WRITES as TARGET_WRITES
from controlplane.controllers.scheduling.events import (
    NodeReserved,
    PendingPodObserved,
    ReservationDropped,
    SchedulingDecision,
    SchedulingFailed,
    SchedulingWrite,
    Woken,
)
from controlplane.controllers.scheduling.framework.hints import Hints
from controlplane.controllers.scheduling.helps import ANYTHING, HELPS, helped_by
from controlplane.controllers.scheduling.phrases import (
    PHRASES as SCHEDULER_PHRASES,
)
from controlplane.controllers.scheduling.phrases import (
    REASONS as SCHEDULER_REASONS,
)
from controlplane.controllers.scheduling.phrases import (
    SCHEDULER_EVENTS,
    WRITES,
    choice,
    scheduling_because,
    try_words,
    woken_words,
)
from controlplane.controllers.scheduling.queue.queue import CALLED, CHANGED, FLUSHED, OVER
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.log.event import Event
from tests.audit.samples import sample
from tests.support.rows import each


def every_event() -> list[type[Event]]:
    """All event types of the package that are recorded: whatever is a kind of `Event` and has no kinds of its own."""
    for module in pkgutil.walk_packages(controlplane.__path__, "controlplane."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, seen = [], [Event]
    while seen:
        kinds = seen.pop().__subclasses__()
        seen += kinds
        found += [kind for kind in kinds if not kind.__subclasses__() and kind.__module__.startswith("controlplane.")]
    return sorted(set(found), key=lambda kind: kind.__name__)


def test_the_log_can_be_read_whatever_wrote_it() -> None:
    found = every_event()
    assert len(found) > 150
    assert {kind.__name__ for kind in found} - {kind.__name__ for kind in READ} == set()


@each("kind", READ, ids=lambda kind: kind.__name__)
def test_every_event_type_that_there_is_has_words(kind: type[Event]) -> None:
    said = what(sample(kind)) if kind.__name__ != "OwnerResolved" else "its chain is made by hand elsewhere"
    assert said
    assert "\n" not in said
    assert said != kind.__name__


def test_no_event_and_no_reason_is_missing() -> None:
    assert set(SCHEDULER_PHRASES) == set(SCHEDULER_EVENTS)
    assert set(TARGET_PHRASES) == set(TARGET_EVENTS)
    assert set(SCHEDULER_REASONS) == set(SchedulingReason)
    assert set(TARGET_REASONS) == set(TargetReason)


def test_every_write_has_a_name() -> None:
    assert set(WRITES) == {kind.__name__ for kind in SCHEDULER_EVENTS if issubclass(kind, SchedulingWrite)}
    assert set(TARGET_WRITES) == {kind.__name__ for kind in TARGET_EVENTS if issubclass(kind, TargetWrite)}


@each("kind", [k for k in SCHEDULER_EVENTS if issubclass(k, SchedulingDecision)])
@each("reason", SchedulingReason)
def test_a_reason_can_be_said_of_any_decision(kind: type[SchedulingDecision], reason: SchedulingReason) -> None:
    assert scheduling_because(sample(kind, reason=reason))


@each("reason", TargetReason)
def test_a_reason_can_be_said_of_any_candidate(reason: TargetReason) -> None:
    assert target_because(sample(Unreserved, reason=reason, message=""))
    assert target_because(sample(Unreserved, reason=reason, message="why")).endswith(": why")


def test_every_plugin_that_says_what_helps_has_words_for_it() -> None:
    assert set(HELPS) == {*Hints()._tables, "Gang"}


def test_what_helps_is_told_for_each_plugin_and_anything_for_one_of_others() -> None:
    assert helped_by(["NodePorts"]) == "a node comes, or a pod gives a port free (NodePorts)"
    assert helped_by(["VolumeZone", "VolumeBinding"]).endswith("(VolumeBinding, VolumeZone)")
    assert " (NodeAffinity); or " in helped_by(["NodePorts", "NodeAffinity"])
    assert helped_by(["NodePorts", "Mine"]) == ANYTHING
    assert helped_by([]) == ANYTHING


@each(
    ("woken", "said"),
    [
        (Woken(resource="Node", action="Add", name="n3"), "node n3 came"),
        (Woken(resource="Pod", action="AssignedDelete", name="default/a"), "pod default/a left its node"),
        (Woken(resource="Namespace", action="Update"), "a Namespace changed"),
        (FLUSHED, "five minutes were over"),
        (OVER, "its back-off was over"),
        (CHANGED, "it was changed itself"),
    ],
)
def test_what_gave_another_try(woken: Woken, said: str) -> None:
    assert woken_words(woken) == said


def test_a_first_try_is_nothing_to_speak_of() -> None:
    assert try_words(sample(SchedulingFailed, attempt=1, woken=CALLED)) == ""
    assert try_words(sample(SchedulingFailed, attempt=0, woken=None)) == ""
    assert try_words(sample(NodeReserved, attempt=3, woken=None)) == "attempt 3"
    third = try_words(sample(NodeReserved, attempt=3, woken=Woken(resource="Node", action="Update", name="n")))
    assert third == "attempt 3, after node n changed"


def test_why_a_node_was_taken_is_told_by_its_scores() -> None:
    assert (
        choice(464, {"A": 300, "C": 0, "B": 164}, 3)
        == "of 3 feasible nodes none had a higher score (464: A 300, B 164)"
    )
    assert choice(10, {"A": 10}, 1) == "it was the only feasible node (score 10: A 10)"
    assert choice(7, {}, 0) == "no other feasible node had a higher score (7)"
    reserved = sample(Reserved, score=7, scores={"A": 7}, feasible=2)
    assert target_because(reserved) == "of 2 feasible nodes none had a higher score (7: A 7)"


def pending(**fields: object) -> PendingPodObserved:
    return PendingPodObserved(uid="u", resource_version="1", scheduler="controlplane", **fields)  # type: ignore[arg-type]


@each(
    ("fields", "said"),
    [
        ({}, "pod waits for a node"),
        ({"nominated": "n1"}, "pod waits for a node, nominated for node n1"),
        ({"gates": ["a", "b"]}, "pod has scheduling gates: a and b"),
        ({"gates": ["a"], "node": "n1"}, "pod is on node n1"),
        ({"problem": "spec.x: wrong"}, "pod cannot be read: spec.x: wrong"),
        ({"node": "n1", "deleting": True}, "pod is being deleted"),
        ({"node": "n1", "deleting": True, "over": True}, "pod has ended"),
    ],
)
def test_what_a_pod_shows(fields: dict[str, object], said: str) -> None:
    assert what(pending(**fields)) == said


def test_a_reservation_that_is_given_back_says_who_refused() -> None:
    dropped = ReservationDropped(number=1, reason=SchedulingReason.PERMIT_REFUSED, message="too few.", plugin="Gang")
    assert what(dropped) == "the node is given back (Gang)"
    assert scheduling_because(dropped) == "Gang refused: too few"


def test_what_the_source_says_of_its_permit() -> None:
    seen = sample(CandidateObserved, deleting=False, problem="", withdrawn=0, permit=None)
    assert what(seen) == "candidate of pod text/text of text is there"
    for kind, may in {"Bind": "bind", "Preempt": "make room"}.items():
        given = PermitSpec(kind=kind, number=2, reservation=1, until=datetime(2026, 1, 1, 10, tzinfo=UTC))
        seen = msgspec.structs.replace(seen, permit=given)
        assert what(seen) == f"text's permit 2: the candidate may {may} until 10:00:00"
        assert what(msgspec.structs.replace(seen, withdrawn=2)) == "text withdraws its permit 2"
