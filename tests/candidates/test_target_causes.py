"""`caused_by` in a target: of each decision that can be taken, the one event that it rests on, among some that change
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.controllers.candidates.objects import FINALIZER, Origin, PermitSpec
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.causes import CAUSES, may_cause
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.state import AMENDMENT, POD
from controlplane.kube.conditions import Condition
from controlplane.kube.pod_groups import GROUP_NAME
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.controller import Decided
from controlplane.runtime.facets import ANY
from tests.candidates.model.world import START
from tests.candidates.stage import NS
from tests.candidates.test_capabilities import Process
from tests.support.rows import each

R = TargetReason


class Told:
    """A target, told event by event what was seen. Nothing is decided before `settle`."""

    def __init__(self) -> None:
        self.targets = TargetController(TargetPolicy())
        self.targets.ready = True
        self.targets.priority_classes = frozenset()
        self.process = Process(self.targets, events.TARGET_EVENTS)
        self.expected, self._versions = 0, 0
        self._seen: dict[str, events.CandidateObserved] = {}
        self._pod: events.CandidatePodObserved | None = None

    def put(self, stream: str, event: Event) -> Told:
        self.process.append(NewEvent(stream=stream, event=event, cluster=events.HERE))
        return self

    def settle(self) -> Told:
        self.process.settle()
        return self

    def say(self, decided: Decided) -> Told:
        assert self.process.take(decided)
        return self

    def tick(self, seconds: float) -> Told:
        self.process.now += timedelta(seconds=seconds)
        self.targets.touch_all()
        return self

    def cause(self, of: type[Event] = Event) -> Told:
        rows = enumerate(self.process.rows, 1)
        self.expected = [number for number, row in rows if isinstance(row.event, of)][-1]
        return self

    def noise(self) -> Told:
        """See the Candidate and its Pod again, another one that is not invited, and an invitation elsewhere."""
        for name in list(self._seen):
            self.candidate(name)
        if self._pod is not None:
            self.pod(node=self._pod.node)
        return self.invited("elsewhere", namespace="other")

    def _head(self, name: str) -> dict[str, Any]:
        self._versions += 1
        return {"namespace": NS, "name": name, "uid": f"{name}#1", "resource_version": str(self._versions)}

    def invited(self, name: str = "home", **more: Any) -> Told:
        seen = events.InvitationObserved(
            **{**self._head(name), "cluster": "home", "pod_security": "privileged", **more}
        )
        return self.put(f"invitation/{seen.namespace}/{name}", seen)

    def invitation_gone(self) -> Told:
        return self.put(f"invitation/{NS}/home", events.InvitationGone(namespace=NS, name="home", uid="home#1"))

    def candidate(self, name: str = "web", **more: Any) -> Told:
        origin = Origin(cluster="home", namespace=NS, name=name, uid="u", epoch=1)
        made: dict[str, Any] = {"template": "t", "changeable": events.Changeable(), "finalizers": [FINALIZER]}
        first = events.CandidateObserved(**self._head(name), origin=origin, **made)
        before = self._seen.get(name, first)
        changed = {**more, "resource_version": first.resource_version}
        self._seen[name] = msgspec.structs.replace(before, **changed)
        return self.put(f"candidate/{NS}/{name}", self._seen[name])

    def vanished(self, name: str = "web") -> Told:
        self._seen.pop(name)
        return self.put(f"candidate/{NS}/{name}", events.CandidateVanished(namespace=NS, name=name, uid=f"{name}#1"))

    def pod(self, **more: Any) -> Told:
        made = {**self._head("web"), "uid": "pod#1", "owner": "web#1", **more}
        if self._pod is not None:  # the version moves on only with what we do to it
            made["resource_version"] = more.get("resource_version", self._pod.resource_version)
        self._pod = events.CandidatePodObserved(**made)
        return self.put(f"candidate/{NS}/web", self._pod)

    def pod_gone(self) -> Told:
        self._pod = None
        return self.put(f"candidate/{NS}/web", events.CandidatePodGone(namespace=NS, name="web", uid="pod#1"))

    def refused(self, code: int, error: str = "Invalid") -> Told:
        """The API server refuses the Pod."""
        failed = events.TargetWriteFailed(
            target=POD, action="PodMade", code=code, error=error, message="no", failures=1, retry_at=START
        )
        return self.put(f"candidate/{NS}/web", failed)

    def unchanged(self, code: int) -> Told:
        """The API server refuses a change of the Pod."""
        failed = events.TargetWriteFailed(
            target=AMENDMENT, action="PodAmended", code=code, error="Invalid", message="no", failures=1, retry_at=START
        )
        return self.put(f"candidate/{NS}/web", failed)

    # --- short ways --------------------------------------------------------------------------------------------------

    def taken(self) -> Told:
        return self.invited().candidate().settle()

    def made(self) -> Told:
        return self.taken().pod().settle()

    def reserved(self) -> Told:
        return self.made().reserve().settle()

    def reserve(self) -> Told:
        return self.say(self.targets.reserved(f"candidate/{NS}/web", "node", 1, self.process.now))

    def full(self) -> Told:
        return self.say(self.targets.not_schedulable(f"candidate/{NS}/web", "no room", self.process.now))

    def permitted(self, kind: str = "Bind") -> Told:
        until = self.process.now + timedelta(seconds=30)
        return self.candidate(permit=PermitSpec(number=1, reservation=1, kind=kind, until=until))

    def binding(self) -> Told:
        return self.reserved().permitted().settle().bind()

    def bind(self) -> Told:
        return self.say(self.targets.bind(f"candidate/{NS}/web", self.process.now))

    def give_up(self) -> Told:
        return self.say(self.targets.must_unreserve(f"candidate/{NS}/web", R.NODE_GONE))

    def unconfirmed(self) -> Told:
        return self.put(f"candidate/{NS}/web", events.BindFailed(number=1, message="no"))


Story = Callable[[], Told]
TABLE: list[tuple[type[Event], str, Story]] = [
    (events.Admitted, R.INVITED, lambda: Told().invited().candidate().cause()),
    (events.Admitted, R.INVITED, lambda: Told().candidate().settle().invited().cause()),
    (events.Refused, R.POD_TOO_LARGE, lambda: Told().invited().candidate(problem="PodTooLarge").cause()),
    (events.Refused, R.INVALID_POD, lambda: Told().invited().candidate(problem="InvalidPod").cause()),
    (events.Refused, R.FORGED_ANNOTATION, lambda: Told().invited().candidate(problem="ForgedAnnotation").cause()),
    (events.Refused, R.NOT_INVITED, lambda: Told().candidate().cause()),
    (events.Refused, R.NOT_INVITED, lambda: Told().made().invitation_gone().cause()),
    (
        events.Refused,
        R.TOO_MANY_CANDIDATES,
        lambda: Told().invited(most=1).candidate("first").settle().candidate().cause(),
    ),
    (
        events.Refused,
        R.PRIORITY_CLASS_NOT_ALLOWED,
        lambda: Told().invited(priority_classes=["low"]).candidate(priority_class="high").cause(),
    ),
    (events.Refused, R.UNKNOWN_PRIORITY_CLASS, lambda: Told().invited().candidate(priority_class="high").cause()),
    (events.Refused, R.SERVICE_ACCOUNT_NOT_ALLOWED, lambda: Told().invited().candidate(account="admin").cause()),
    (
        events.Refused,
        R.POD_SECURITY,
        lambda: Told().invited(pod_security="baseline").candidate(beyond_baseline="host").cause(),
    ),
    (events.Refused, R.POD_NAME_TAKEN, lambda: Told().taken().refused(409, "Foreign").cause()),
    (events.Refused, R.POD_REFUSED, lambda: Told().taken().refused(422).cause()),
    (events.Refused, R.POD_NOT_CREATED, lambda: Told().taken().refused(403, "Forbidden").cause()),
    (events.FollowingAllowed, R.INVITED, lambda: Told().candidate().settle().invited(follow=["Service"]).cause()),
    (events.FollowingAllowed, R.INVITED, lambda: Told().invited(follow=["Service"]).candidate().cause()),
    (events.PodMade, R.TO_BE_SCHEDULED, lambda: Told().taken().cause(events.Admitted)),
    (events.PodMade, R.TO_BE_SCHEDULED, lambda: Told().made().pod_gone().cause()),
    (events.PodAmended, R.SOURCE_CHANGED, lambda: Told().made().candidate(template="t2").cause()),
    (
        events.PodAmended,
        R.SOURCE_UNMARKED,
        lambda: Told().made().candidate(changeable=events.Changeable(marks={f"annotations/{GROUP_NAME}": "g"})).cause(),
    ),
    (
        events.PodGatesSet,
        R.GATES_CHANGED,
        lambda: (
            Told().binding().pod(node="node").settle().candidate(gates=[Condition(type="g", status="True")]).cause()
        ),
    ),
    (events.PodAmended, R.SCALE_UP_CHANGED, lambda: Told().made().candidate(scale_up=False).cause()),
    (
        events.PodAmended,
        R.SOURCE_CHANGED,
        lambda: (
            Told()
            .binding()
            .candidate(template="t2")
            .settle()
            .pod(node="node", template="t")
            .settle()
            .cause(events.Bound)
        ),
    ),
    (
        events.AmendmentRefused,
        R.POD_REFUSED,
        lambda: Told().made().candidate(template="t2").settle().unchanged(422).cause().settle(),
    ),
    (
        events.AmendmentRefused,
        R.CANNOT_BE_CHANGED,
        lambda: (
            Told().invited().candidate(fixed="f").settle().pod().settle().candidate(template="t2", fixed="g").cause()
        ),
    ),
    (events.PodRemoved, R.DELETED, lambda: Told().made().candidate(deleting=True).cause()),
    (events.PodRemoved, R.DELETED, lambda: Told().made().vanished().cause()),
    (events.PodRemoved, R.NOT_INVITED, lambda: Told().made().invitation_gone().settle().cause(events.Refused)),
    (events.Reserved, R.NODE_FOUND, lambda: Told().made().cause(events.CandidatePodObserved).candidate().reserve()),
    (events.NotSchedulable, R.NO_NODE, lambda: Told().made().cause(events.CandidatePodObserved).candidate().full()),
    (events.PermitSeen, R.PERMITTED, lambda: Told().reserved().permitted().cause()),
    (events.BindStarted, R.PERMITTED, lambda: Told().reserved().permitted().cause().settle().bind()),
    (events.PodFenced, R.FENCED, lambda: Told().binding().candidate(withdrawn=1).cause()),
    (events.PodFenced, R.FENCED, lambda: Told().binding().unconfirmed().cause()),
    (events.PodFenced, R.FENCED, lambda: Told().binding().cause(events.BindStarted).tick(40)),
    (events.Bound, R.PERMITTED, lambda: Told().binding().pod(node="node").cause()),
    (events.Withdrawn, R.WITHDRAWN, lambda: Told().reserved().candidate(withdrawn=1).cause()),
    (
        events.Withdrawn,
        R.WITHDRAWN,
        lambda: Told().binding().candidate(withdrawn=1).settle().pod(resource_version="99").cause(),
    ),
    (events.Unreserved, R.REVOKED, lambda: Told().reserved().candidate(withdrawn=1).cause()),
    (events.Unreserved, R.TIMEOUT, lambda: Told().reserved().cause(events.Reserved).tick(31)),
    (events.Unreserved, R.POD_GONE, lambda: Told().reserved().pod_gone().cause()),
    (events.Unreserved, R.DELETED, lambda: Told().reserved().candidate(deleting=True).cause()),
    (events.Unreserved, R.DELETED, lambda: Told().reserved().invitation_gone().cause()),
    (events.Unreserved, R.NODE_GONE, lambda: Told().reserved().cause(events.Reserved).candidate().give_up()),
    (events.StatusReported, R.REPORT, lambda: Told().made().reserve().cause()),
    (events.StatusReported, R.REPORT, lambda: Told().candidate().settle().cause(events.Refused)),
    (
        events.FinalizerReleased,
        R.POD_STOPPED,
        lambda: Told().made().candidate(deleting=True).settle().pod_gone().cause(),
    ),
]


@each(("decision", "reason", "story"), TABLE, ids=[f"{row[0].__name__}-{row[1]}" for row in TABLE])
def test_it_rests_on(decision: type[Event], reason: str, story: Story) -> None:
    told = story().noise().settle()
    rows = told.process.rows
    found = [
        row.caused_by
        for row in rows[told.expected :]
        if type(row.event) is decision and getattr(row.event, "reason", "") == reason
    ]
    assert found, [type(row.event).__name__ for row in rows]
    assert found[0] == told.expected, [(type(row.event).__name__, row.caused_by) for row in rows]
    for number, row in enumerate(rows, 1):
        if isinstance(row.event, (events.TargetDecision, events.Reserved, events.NotSchedulable, events.Unreserved)):
            assert 0 < row.caused_by < number
            assert may_cause(rows[row.caused_by - 1].stream, row.stream)


def test_every_row_of_the_table_is_told() -> None:
    told = {(decision, reason) for decision, reason, _ in TABLE}
    assert {(one, reason) for one, rows in CAUSES.items() for reason in rows if reason != ANY} <= told
    assert {one for one, rows in CAUSES.items() if ANY in rows} <= {one for one, _ in told}


def test_every_decision_has_a_row() -> None:
    words = {events.Reserved, events.NotSchedulable, events.Unreserved}
    assert {one for one in events.TARGET_EVENTS if issubclass(one, events.TargetDecision)} | words == CAUSES.keys()
