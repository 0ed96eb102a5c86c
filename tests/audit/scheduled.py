"""What a scheduler's log has of a pod."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.candidates.objects import Origin, PermitSpec
from controlplane.controllers.candidates.reasons import TargetReason as T
from controlplane.controllers.candidates.target import events as target
from controlplane.controllers.scheduling import events as s
from controlplane.controllers.scheduling.explain import explain_scheduled
from controlplane.controllers.scheduling.reasons import SchedulingReason as R
from controlplane.log.event import Event, Recorded
from controlplane.runtime.explanation import Explanation

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


SHOWN = s.GangObserved(uid="g", resource_version="1", conditions=[{"type": "Unschedulable", "status": "True"}])
JUDGED = s.GangJudged(
    condition="Unschedulable", said="NotEnough", message="2/3 tasks in gang.", reason=R.CONDITION_CHANGED
)


# --- candidates ---

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
