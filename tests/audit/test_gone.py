"""`why` of what is gone, layer by layer: that it is, and what was known of it last."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.audit.offered import explain_candidate
from controlplane.controllers.candidates.objects import Origin
from controlplane.controllers.candidates.reasons import CandidateReason, TargetReason
from controlplane.controllers.candidates.source import events as source
from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.candidates.source.explain import explain_pod
from controlplane.controllers.candidates.target import events as target
from controlplane.controllers.podgroups import events as groups
from controlplane.controllers.podgroups.explain import explain_group, explain_member
from controlplane.controllers.scheduling import events as scheduling
from controlplane.controllers.scheduling.explain import explain_gang, explain_scheduled
from controlplane.log.event import Event, Recorded
from controlplane.runtime.explanation import LAST_KNOWN, Explanation, ending
from tests.audit.samples import sample
from tests.audit.scheduled import BIND, GANG, HELD, JUDGED, OFFERED, OWN, SHOWN, START, WAITING, log

SOURCE, MEMBER, GROUP = "sourcepod/default/web", "member/default/web", "podgroup/default/web-group"
HEAD = {"namespace": "default", "uid": "u", "resource_version": "1"}
ORIGIN = Origin(cluster="home", namespace="default", name="web", uid="u", epoch=1)
POD = seen.SourcePodObserved(**HEAD, name="web", template="aa")
ELECTED = source.Elected(uid="u", epoch=1, targets=["a", "b"], reason=CandidateReason.OPTED_IN)
CANDIDATE: dict[str, Any] = {**HEAD, "name": "web-1", "uid": "c", "origin": ORIGIN}


def source_log(*events: Event | tuple[str, Event]) -> list[Recorded]:
    """As `log`, with the cluster before an event that is of one."""
    told = []
    for number, given in enumerate(events):
        cluster, event = given if isinstance(given, tuple) else ("@management", given)
        at = START + timedelta(seconds=number)
        told.append(
            Recorded(
                position=number + 1, stream=SOURCE, version=number + 1, event=event, cluster=cluster, recorded_at=at
            )
        )
    return told


def requested(cluster: str) -> source.CandidateRequested:
    return source.CandidateRequested(
        cluster=cluster, candidate="web-1", uid="u", epoch=1, template="aa", reason=CandidateReason.TARGET_OF_EPOCH
    )


def placed(phase: str = "Running") -> list[Event | tuple[str, Event]]:
    granted = source.PermitGranted(
        cluster="a", candidate="web-1", epoch=1, number=1, kind="Bind", reservation=1, until=START,
        reason=CandidateReason.FIRST_READY,
    )  # fmt: skip
    status = {"node": "n1", "pod": "p", "bound_by": 1, "sequence": 1, "pod_status": "bb", "pod_phase": phase}
    return [
        POD,
        ELECTED,
        ("a", requested("a")),
        ("a", seen.CandidateReserved(**CANDIDATE, node="n1", reservation=1)),
        ("a", granted),
        ("a", seen.DelegateStatus(**CANDIDATE, **status, reservation=1)),
    ]


DELETING = seen.SourcePodObserved(**HEAD, name="web", template="aa", deleting=True)
GONE = seen.SourceDeleted(namespace="default", name="web", uid="u")
CANDIDATE_GONE = ("a", seen.CandidateGone(namespace="default", name="web-1", uid="c"))


def pod(*events: Event | tuple[str, Event]) -> Explanation:
    return explain_pod(source_log(*events), {})


def test_a_pod_that_was_placed() -> None:
    told = pod(*placed(), DELETING, CANDIDATE_GONE, GONE)
    assert told.standing.word == "Deleted"
    assert told.sentence.startswith(f"It is gone, and nothing is left of it anywhere. {LAST_KNOWN} It is on node n1 of")
    assert [type(e.event).__name__ for e in told.events] == ["PermitGranted", "DelegateStatus", "SourceDeleted"]


def test_a_pod_that_is_there_and_cannot_be_read() -> None:
    """The log was lost: of the pod it has the candidate that runs, and why the pod cannot be read."""
    head = {"kind": "pods", "namespace": "default", "name": "web", "uid": "u", "resource_version": "1"}
    why = "status.conditions[].reason: expected a string, found int"
    refused = seen.CandidateObservationRefused(**head, field="status.conditions[].reason", error=why, object="")
    (unread,) = source_log(refused)
    told = explain_pod(source_log(*placed()[-1:]), {}, (), unread)
    assert (told.standing.word, told.standing.cluster) == ("Running", "a")
    assert told.sentence == f"It is there and cannot be read ({why}): what there is of it is left as it is."


def test_a_pod_that_was_never_placed() -> None:
    told = pod(POD, ELECTED, ("a", requested("a")), GONE)
    assert f"{LAST_KNOWN} No cluster has it yet" in told.sentence


@pytest.mark.parametrize(("phase", "word"), [("Running", "Running"), ("Succeeded", "Finished"), ("Failed", "Finished")])
def test_a_pod_that_has_ended_says_so(phase: str, word: str) -> None:
    told = pod(*placed(phase))
    assert (told.standing.word, told.standing.cluster) == (word, "a")
    assert ("It has ended" in told.sentence) == (word == "Finished")


def test_a_pod_that_came_again_tells_of_itself() -> None:
    again = seen.SourcePodObserved(**{**HEAD, "uid": "u2"}, name="web", template="aa")
    assert LAST_KNOWN not in pod(*placed(), CANDIDATE_GONE, GONE, again).sentence


def test_a_member_of_a_group_and_its_group() -> None:
    facts = sample(groups.PodFacts, namespace="default", name="web", uid="u", group_name="web-group")
    member = groups.MemberObserved(uid="u", resource_version="1", facts=facts, stage="Bound")
    own = log(member, groups.MemberGone(uid="u"), stream=MEMBER)
    told = explain_member(own, [])
    assert told.standing.word == "Deleted"
    assert (
        told.sentence
        == f"It is gone. {LAST_KNOWN} It names its group itself: PodGroup web-group. The group is not there yet."
    )
    group = groups.GroupObserved(
        uid="g", resource_version="1", namespace="default", name="web-group", min_member=2, phase="Running", running=2
    )
    told = explain_group(log(group, groups.GroupGone(uid="g"), stream=GROUP), [])
    assert told.standing.word == "Deleted"
    assert f"It is gone. {LAST_KNOWN} It is Running" in told.sentence
    assert "2 run" in told.sentence


def test_what_the_log_of_a_scheduler_has() -> None:
    told = explain_gang(GANG, log(SHOWN, JUDGED, scheduling.GangGone(uid="g"), stream=GANG))
    assert told.sentence.startswith(f"It is gone. {LAST_KNOWN} It is Unschedulable: 2/3 tasks in gang.")
    told = explain_scheduled(OWN, log(WAITING, HELD, BIND, scheduling.PendingPodGone(uid="u")), [])
    assert told.sentence.startswith(f"It is gone; its last node was n1. {LAST_KNOWN}")
    assert "n1" in told.sentence.partition(LAST_KNOWN)[2]
    offered = sample(target.CandidateObserved, **{**CANDIDATE, "deleting": False})
    refused = sample(target.Refused, message="not invited", reason=TargetReason.NOT_INVITED)
    gone = target.CandidateVanished(namespace="default", name="web-1", uid="c")
    told = explain_candidate(OFFERED, log(offered, refused, gone, stream=OFFERED))
    assert told.standing.word == "Deleted"
    assert f"{LAST_KNOWN} It is refused: not invited." in told.sentence


def test_where_an_end_begins() -> None:
    events = source_log(*placed(), DELETING, CANDIDATE_GONE, GONE)
    assert ending(events, seen.SourceDeleted) == 6
    assert ending(events[:-1], seen.SourceDeleted) == 0
    assert ending(events[-1:], seen.SourceDeleted) == 0
    assert ending([], seen.SourceDeleted) == 0
