"""Where a candidate stands, by its scheduler's own log."""

from __future__ import annotations

from controlplane.audit.offered import explain_candidate
from controlplane.controllers.candidates.reasons import TargetReason as T
from controlplane.controllers.candidates.target import events as target
from controlplane.controllers.scheduling.explain import UNTRIED
from controlplane.log.event import Event
from tests.audit.scheduled import (
    BINDING,
    GONE_POD,
    OFFERED,
    ON_NODE,
    OWN,
    READ,
    RESERVED,
    TAKEN,
    UNSURE,
    UNTOLD,
    VANISHED,
    candidate,
    failed,
    log,
    permit,
    pod,
    seen,
)
from tests.support.rows import each


@each(
    ("events", "word", "says"),
    [
        ([candidate()], "Pending", "It is there, and it was not looked at yet."),
        (
            [candidate(), target.Refused(reason=T.NOT_INVITED, message="invite it")],
            "Rejected",
            "It is refused: invite it.",
        ),
        (TAKEN[:3], "Pending", "It was taken, and its pod is being made."),
        (
            TAKEN,
            "Pending",
            f"Its pod is there; no cycle has looked for a node for it yet. {UNTRIED}",
        ),
        ([*TAKEN, (OWN, pod(candidate=True, gates=["g"]))], "Pending", "it has scheduling gates: g."),
        (
            [*TAKEN, target.NotSchedulable(message="0/2 nodes.", preemptable=True), (OWN, failed("0/2 nodes."))],
            "Pending",
            (
                "No node: 0/2 nodes. campus hears of it. It is tried again when a node comes or gets room, or a pod "
                "leaves one or asks for less (NodeResourcesFit); and after five minutes in any case. Pods of lower "
                "priority are in its way: they go only if campus permits it to make room."
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
                "Node n1 is held for it (reservation 1), because it was the only feasible node (score 7: A 7). It "
                "waits for the permit of campus; without one the node is given back at 10:05:00."
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
                "It is on node n1, because campus permitted its reservation (permit 3). Here it was the only feasible "
                "node (score 7: A 7). Its pod is Running. It is the candidate of pod physics/sim of campus."
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
