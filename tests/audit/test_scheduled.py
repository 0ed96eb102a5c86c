"""Why a pod is where it is, by a scheduler's own log: what the sentence says at each turn of its way, and what it rests
on.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.audit.local import history_moments
from controlplane.controllers.scheduling import events as s
from controlplane.controllers.scheduling.explain import UNTRIED, explain_gang
from controlplane.controllers.scheduling.reasons import SchedulingReason as R
from controlplane.log.event import Event
from controlplane.runtime.stories import ObjectHistory
from tests.audit.scheduled import (
    BIND,
    CONDITION,
    FIRST,
    GANG,
    HELD,
    JUDGED,
    OWN,
    PERMITS,
    SHOWN,
    VICTIM,
    WAITING,
    failed,
    log,
    pod,
    refused,
    why,
)
from tests.support.rows import each


@each(
    ("events", "word", "says"),
    [
        (
            [WAITING],
            "Pending",
            f"It waits for its turn: no cycle has looked for a node for it yet. {UNTRIED}",
        ),
        ([pod(gates=["a", "b"])], "Pending", "It is not tried, because it has scheduling gates: a and b."),
        ([pod(problem="pod.spec.x: wrong")], "Pending", "It cannot be scheduled: pod.spec.x: wrong."),
        ([pod(deleting=True)], "Deleting", "It is being deleted, and no node is looked for any more."),
        ([pod(over=True)], "Finished", "It has ended."),
        ([pod(node="n9")], "Running", "It is on node n9. This scheduler did not put it there."),
        ([WAITING, s.PendingPodGone(uid="u")], "Deleted", "It is gone."),
        (
            [WAITING, HELD, BIND, s.PendingPodGone(uid="u")],
            "Deleted",
            "It is gone; its last node was n1.",
        ),
        (
            [WAITING, failed(attempt=4, woken=s.Woken(resource="Node", action="Add", name="n3"))],
            "Pending",
            (
                "No node: 0/3 nodes are available: 3 Insufficient cpu. The cycle that said so first was attempt 4, "
                "after node n3 came. It is tried again when a node comes or gets room, or a pod leaves one or asks "
                "for less (NodeResourcesFit); and after five minutes in any case."
            ),
        ),
        (
            [
                WAITING,
                failed(
                    "0/15 nodes are available: 14 Insufficient cpu, 1 node(s) had untolerated taint {a: b}.",
                    nodes={"Insufficient cpu": ["n1", "n2"], "node(s) had untolerated taint {a: b}": ["n9"]},
                ),
            ],
            "Pending",
            (
                "No node: 0/15 nodes are available: 14 Insufficient cpu, 1 node(s) had untolerated taint {a: b}. The "
                "nodes: Insufficient cpu on n1, n2 and 12 more; node(s) had untolerated taint {a: b} on n9. It is "
                "tried again when a node comes"
            ),
        ),
        (
            [WAITING, failed("boom", reason=R.SCHEDULER_ERROR, plugins=[])],
            "Pending",
            "It met an error: boom. It is tried again after its back-off.",
        ),
        (
            [
                WAITING,
                failed("the PodGroup that the pod names is not there", reason=R.SCHEDULING_GATED, plugins=["Gang"]),
            ],
            "Pending",
            "It is kept outside: the PodGroup that the pod names is not there. It is tried as soon as that has changed.",
        ),
        (
            [WAITING, failed(), CONDITION, refused(f"{s.HERE}/Status", "PodStatusDecided")],
            "Pending",
            "The pod does not say so: the pod's condition was refused (no rights.).",
        ),
        (
            [WAITING, HELD, s.ReservationDropped(number=1, reason=R.NODE_GONE)],
            "Pending",
            "Its node was given back, because the node was deleted. It is tried again after its back-off.",
        ),
        (
            [WAITING, HELD],
            "Chosen",
            "Node n1 is held for it, because of 2 feasible nodes none had a higher score (30: A 30). It is being bound.",
        ),
        (
            [WAITING, s.NodeReserved(number=1, node="n1", uid="u", score=3, waits=PERMITS, reason=R.NODE_FOUND)],
            "Chosen",
            (
                "It waits for the others of its gang until 10:05:00 and the plugin Mine until 10:05:00; if that does "
                "not come, the node is given back."
            ),
        ),
        (
            [WAITING, HELD, FIRST],
            "Chosen",
            "Before the binding 0 of 1 writes are there; awaited: patch PersistentVolumeClaim a/b.",
        ),
        (
            [WAITING, HELD, BIND, refused(f"{s.HERE}/Binding", "BindingDecided", 500)],
            "Chosen",
            "The API server did not confirm the binding (500 Forbidden: no rights); the node stays held",
        ),
        (
            [WAITING, HELD, BIND, pod(node="n1")],
            "Running",
            "It is on node n1, because of 2 feasible nodes none had a higher score (30: A 30).",
        ),
    ],
)
def test_what_the_sentence_says(events: list[Event], word: str, says: str) -> None:
    told = why(*events)
    assert told.standing.word == word
    assert says in told.sentence
    assert told.sentence.endswith(".")
    assert ".." not in told.sentence
    assert told.events


def victim(name: str = "low", **fields: Any) -> tuple[str, s.VictimChosen]:
    chosen = s.VictimChosen(
        uid=f"u-{name}", node="n1", preemptor="default/web", preemptor_uid="u", scheduler="c", reason=R.LOWER_PRIORITY
    )
    return f"victim/default/{name}", chosen


def test_who_goes_for_a_pod_is_named_with_how_far_that_is() -> None:
    gone = s.VictimSeen(uid="u-old", resource_version="2", terminating=True)
    told = why(WAITING, failed(nominated="n1"), victim("low"), victim("old"), ("victim/default/old", gone))
    assert (
        "Room is made for it on node n1, by preemption. For it go pod default/low (priority is lower; chosen)"
        in told.sentence
    )
    assert "pod default/old (on its way out)" in told.sentence
    assert told.standing.waits_for == "its victims on node n1 to go"
    assert [type(e.event).__name__ for e in told.events] == ["SchedulingFailed", "VictimChosen", "VictimChosen"]


def test_a_node_on_which_room_was_made_was_taken_for_that() -> None:
    told = why(WAITING, failed(nominated="n1"), victim("low"), HELD, BIND, pod(node="n1"))
    assert "because room had been made for it there, by preemption." in told.sentence
    elsewhere = why(WAITING, failed(nominated="n2"), victim("low"), HELD, BIND, pod(node="n1"))
    assert "none had a higher score" in elsewhere.sentence


def evicted(uid: str = "u") -> tuple[str, s.VictimChosen]:
    return VICTIM, s.VictimChosen(
        uid=uid, node="n1", preemptor="default/high", preemptor_uid="h", scheduler="c", reason=R.LOWER_PRIORITY
    )


def test_a_pod_that_is_evicted_says_for_whom() -> None:
    told = why(WAITING, HELD, BIND, pod(node="n1"), evicted())
    assert told.standing.word == "Evicted"
    assert told.sentence == (
        "It is being evicted from node n1, because pod default/high has a higher priority and needs its place."
    )
    gone = why(WAITING, HELD, BIND, pod(node="n1"), evicted(), (VICTIM, s.VictimGone(uid="u")))
    assert gone.standing.word == "Deleted"
    assert gone.sentence.startswith("It is gone: it was evicted from node n1, because pod default/high")
    other = why(WAITING, HELD, BIND, pod(node="n1"), evicted("another pod of this name, before"))
    assert other.standing.word == "Running"


def test_a_pod_of_another_scheduler_that_was_evicted_has_a_story() -> None:
    told = why(evicted(), (VICTIM, s.VictimGone(uid="u")))
    assert told.sentence.startswith("It is gone: it was evicted from node n1")


@pytest.mark.parametrize(
    ("events", "word", "says"),
    [
        ([s.GangObserved(uid="g", resource_version="1")], "Pending", "None of its members was tried yet."),
        ([SHOWN, JUDGED], "Pending", "It is Unschedulable: 2/3 tasks in gang. It shows Unschedulable."),
        (
            [SHOWN, JUDGED, refused(f"{s.HERE}/Condition", "GangConditionDecided")],
            "Pending",
            "the write was refused (no rights.).",
        ),
        (
            [SHOWN, s.GangJudged(condition="Scheduled", said="Ready", message="3/3 ready", reason=R.CONDITION_CHANGED)],
            "Running",
            "It is Scheduled: 3/3 ready.",
        ),
        ([SHOWN, JUDGED, s.GangGone(uid="g")], "Deleted", "It is gone."),
    ],
)
def test_how_a_group_stands(events: list[Event], word: str, says: str) -> None:
    told = explain_gang(GANG, log(*events, stream=GANG))
    assert told.standing.word == word
    assert says in told.sentence


def test_a_second_reservation_of_the_same_node_is_news() -> None:
    dropped = s.ReservationDropped(number=1, reason=R.PERMIT_TIMEOUT, plugin="Gang")
    events = log(WAITING, failed(), CONDITION, failed(), HELD, dropped, HELD, BIND)
    told = history_moments(ObjectHistory("scheduled", OWN, events))
    kept = [moment.type for moment in told if moment.noteworthy]
    assert kept.count("NodeReserved") == 2
    assert kept.count("SchedulingFailed") == 1
    assert "PodStatusDecided" not in kept


def test_a_moment_of_another_pod_names_it() -> None:
    told = log(WAITING, failed(nominated="n1"), victim("low"))
    moments = history_moments(ObjectHistory("scheduled", OWN, told[:2], (), told[2:]))
    assert moments[-1].what == "default/low: pod is to go from node n1, for pod default/web"
    assert moments[-1].why == "pod default/web has a higher priority and needs its place"


def test_a_lost_race_is_no_news_but_a_conflict_of_a_binding_is() -> None:
    status, binding = (refused("t", action, 409) for action in ("PodStatusDecided", "BindingDecided"))
    told = history_moments(ObjectHistory("scheduled", OWN, log(WAITING, status, binding)))
    assert [moment.noteworthy for moment in told] == [True, False, True]
