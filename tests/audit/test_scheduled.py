"""Why a pod is where it is, by a scheduler's own log: what the sentence says at each turn of its way, and what it rests
on.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.audit.local import history_moments
from controlplane.audit.offered import explain_candidate
from controlplane.controllers.candidates.objects import Origin, PermitSpec
from controlplane.controllers.candidates.reasons import TargetReason as T
from controlplane.controllers.candidates.target import events as target
from controlplane.controllers.scheduling import events as s
from controlplane.controllers.scheduling.explain import explain_gang, explain_scheduled
from controlplane.controllers.scheduling.reasons import SchedulingReason as R
from controlplane.log.event import Event, Recorded
from controlplane.runtime.explanation import Explanation
from controlplane.runtime.stories import ObjectHistory

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
LATER = START + timedelta(minutes=5)
OWN, VICTIM, OFFERED, GANG = "pod/default/web", "victim/default/web", "candidate/default/web", "gang/default/train"
WAITING = s.PendingPodObserved(uid="u", resource_version="1", scheduler="controlplane")
HELD = s.NodeReserved(number=1, node="n1", uid="u", score=30, scores={"A": 30}, feasible=2, reason=R.NODE_FOUND)
BIND = s.BindingDecided(number=1, node="n1", uid="u", reason=R.BIND)


def log(*events: Event | tuple[str, Event], stream: str = OWN) -> list[Recorded]:
    """Events of one stream in order, each a second after the one before; with another stream's name before it, of that
    one.
    """
    told, versions = [], dict[str, int]()
    for number, given in enumerate(events):
        name, event = given if isinstance(given, tuple) else (stream, given)
        versions[name] = versions.get(name, 0) + 1
        told.append(
            Recorded(
                position=number + 1,
                stream=name,
                version=versions[name],
                event=event,
                recorded_at=START + timedelta(seconds=number),
            )
        )
    return told


def why(*events: Event | tuple[str, Event]) -> Explanation:
    told = log(*events)
    own = [e for e in told if e.stream == OWN]
    return explain_scheduled(OWN, own, [e for e in told if e.stream != OWN])


def pod(**fields: Any) -> s.PendingPodObserved:
    return s.PendingPodObserved(uid="u", resource_version="2", scheduler="controlplane", **fields)


def failed(message: str = "0/3 nodes are available: 3 Insufficient cpu.", **fields: Any) -> s.SchedulingFailed:
    return s.SchedulingFailed(
        **{"reason": R.UNSCHEDULABLE, "message": message, "plugins": ["NodeResourcesFit"], **fields}
    )


def refused(target_: str, action: str, code: int = 403) -> s.SchedulingWriteFailed:
    return s.SchedulingWriteFailed(
        target=target_, action=action, code=code, error="Forbidden", message="no rights.", failures=1, retry_at=LATER
    )


PERMITS = {"Gang": LATER, "Mine": LATER}
WRITE = s.PluginRequest(
    verb="patch", group="", version="v1", kind="PersistentVolumeClaim", plural="pvc", namespace="a", name="b"
)
FIRST = s.PreBindDecided(number=1, calls=[WRITE], reason=R.PRE_BIND)
CONDITION = s.PodStatusDecided(uid="u", said="Unschedulable", message="m", reason=R.CONDITION_CHANGED)


@pytest.mark.parametrize(
    ("events", "word", "says"),
    [
        ([WAITING], "Pending", "It waits for its turn: no cycle has looked for a node for it yet."),
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
                "No node: 0/3 nodes are available: 3 Insufficient cpu. The cycle that said so first was attempt 4, after node n3"
                " came. It is tried again when a node comes or gets room, or a pod leaves one or asks for less"
                " (NodeResourcesFit); and after five minutes in any case."
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
                "No node: 0/15 nodes are available: 14 Insufficient cpu, 1 node(s) had untolerated taint {a: b}. The nodes:"
                " Insufficient cpu on n1, n2 and 12 more; node(s) had untolerated taint {a: b} on n9. It is tried again when"
                " a node comes"
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
                "It waits for the others of its gang until 10:05:00 and the plugin Mine until 10:05:00; if that does not come,"
                " the node is given back."
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


# --- candidates -------------------------------------------------------------------------------------------------------

ORIGIN = Origin(cluster="campus", namespace="physics", name="sim", uid="s", epoch=1)


def candidate(**fields: Any) -> target.CandidateObserved:
    known = {"namespace": "default", "name": "web", "uid": "c", "resource_version": "1", "template": "t"}
    return target.CandidateObserved(**{**known, "origin": ORIGIN, **fields})


def seen(**fields: Any) -> target.CandidatePodObserved:
    known = {"namespace": "default", "name": "web", "uid": "p", "resource_version": "1", "owner": "c"}
    return target.CandidatePodObserved(**{**known, **fields})


def permit(kind: str = "Bind", reservation: int = 1) -> PermitSpec:
    return PermitSpec(number=3, kind=kind, reservation=reservation, until=LATER)


TAKEN = [candidate(), target.Admitted(reason=T.INVITED), target.PodMade(template="t", reason=T.TO_BE_SCHEDULED), seen()]
RESERVED = target.Reserved(number=1, node="n1", score=7, expires=LATER, scores={"A": 7}, feasible=1)
READ = target.PermitSeen(number=3, reservation=1, until=LATER, reason=T.PERMITTED)
BINDING = target.BindStarted(number=3, node="n1", uid="p", resource_version="1", before=LATER, reason=T.PERMITTED)
ON_NODE = target.Bound(number=3, node="n1", uid="p", reason=T.PERMITTED)
UNSURE = target.BindFailed(number=3, message="500")
GONE_POD = target.CandidatePodGone(namespace="default", name="web", uid="p", resource_version="3")
VANISHED = target.CandidateVanished(namespace="default", name="web", uid="c", resource_version="9")
UNTOLD = target.TargetWriteFailed(
    target=f"{target.HERE}/Candidate",
    action="StatusReported",
    code=403,
    error="Forbidden",
    message="no",
    failures=1,
    retry_at=LATER,
)


@pytest.mark.parametrize(
    ("events", "word", "says"),
    [
        ([candidate()], "Pending", "It is there, and it was not looked at yet."),
        (
            [candidate(), target.Refused(reason=T.NOT_INVITED, message="invite it")],
            "Rejected",
            "It is refused: invite it.",
        ),
        (TAKEN[:3], "Pending", "It was taken, and its pod is being made."),
        (TAKEN, "Pending", "Its pod is there; no cycle has looked for a node for it yet."),
        ([*TAKEN, (OWN, pod(candidate=True, gates=["g"]))], "Pending", "it has scheduling gates: g."),
        (
            [*TAKEN, target.NotSchedulable(message="0/2 nodes.", preemptable=True), (OWN, failed("0/2 nodes."))],
            "Pending",
            (
                "No node: 0/2 nodes. campus hears of it. It is tried again when a node comes or gets room, or a pod leaves one or asks"
                " for less (NodeResourcesFit); and after five minutes in any case. Pods of lower priority are in its way: they go only"
                " if campus permits it to make room."
            ),
        ),
        (
            [*TAKEN, target.NotSchedulable(message="0/2", preemptable=True), candidate(permit=permit("Preempt"))],
            "Pending",
            "campus does, until 10:05:00 (permit 3).",
        ),
        (
            [*TAKEN, RESERVED],
            "Reserved",
            (
                "Node n1 is held for it (reservation 1), because it was the only feasible node (score 7: A 7). It waits for the permit"
                " of campus; without one the node is given back at 10:05:00."
            ),
        ),
        (
            [*TAKEN, RESERVED, candidate(permit=permit(reservation=9))],
            "Reserved",
            "Permit 3 is for reservation 9, and void.",
        ),
        ([*TAKEN, RESERVED, candidate(permit=permit()), READ], "Chosen", "campus permits it until 10:05:00 (permit 3)"),
        ([*TAKEN, RESERVED, READ, BINDING], "Chosen", "It is being bound to node n1 by permit 3"),
        ([*TAKEN, RESERVED, READ, BINDING, UNSURE], "Chosen", "the pod is touched, so that a late one cannot be made."),
        (
            [*TAKEN, RESERVED, READ, BINDING, ON_NODE, seen(node="n1", phase="Running", status="x")],
            "Running",
            (
                "It is on node n1, because campus permitted its reservation (permit 3). Here it was the only feasible node (score 7:"
                " A 7). Its pod is Running. It is the candidate of pod physics/sim of campus."
            ),
        ),
        (
            [*TAKEN, RESERVED, READ, BINDING, ON_NODE, seen(node="n1", phase="Succeeded", status="x")],
            "Finished",
            "Its pod is Succeeded.",
        ),
        (
            [*TAKEN, target.Bound(number=0, node="n2", uid="p", reason=T.PERMITTED)],
            "Running",
            "It is on node n2, and not by a permit of campus: somebody else bound it.",
        ),
        (
            [*TAKEN, RESERVED, READ, BINDING, ON_NODE, GONE_POD],
            "Evicted",
            "its pod is not there any more, though it had not ended",
        ),
        (
            [*TAKEN, RESERVED, target.Unreserved(number=1, reason=T.TIMEOUT)],
            "Pending",
            "Its reservation 1 was given up, because no permit came in time. A node is looked for again.",
        ),
        ([*TAKEN, candidate(deleting=True)], "Deleting", "It is being deleted, and its pod stops first."),
        (
            [*TAKEN, candidate(deleting=True), VANISHED],
            "Deleted",
            "It is gone: it was the candidate of pod physics/sim of campus",
        ),
        (
            [*TAKEN, RESERVED, UNTOLD],
            "Reserved",
            "Its source has not been told: the report to the source was refused (no).",
        ),
    ],
)
def test_what_is_said_of_a_candidate(events: list[Event], word: str, says: str) -> None:
    told = explain_candidate(OFFERED, log(*events, stream=OFFERED))
    assert told.standing.word == word
    assert says in told.sentence
    assert told.events


# --- groups, and stories ----------------------------------------------------------------------------------------------

SHOWN = s.GangObserved(uid="g", resource_version="1", conditions=[{"type": "Unschedulable", "status": "True"}])
JUDGED = s.GangJudged(
    condition="Unschedulable", said="NotEnough", message="2/3 tasks in gang.", reason=R.CONDITION_CHANGED
)


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
