"""`caused_by` of PodGroup ownership: of each decision that can be taken, the one event that it rests on, among much
that changes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterLost,
    KindOff,
    cluster_stream,
)
from controlplane.controllers.podgroups import events
from controlplane.controllers.podgroups.capacity import NODES, Capacity
from controlplane.controllers.podgroups.causes import CAUSES, may_cause
from controlplane.controllers.podgroups.objects import CONFIG_MAPS, GROUP_NAME, MIN_MEMBER, POD_GROUPS, PODS
from controlplane.controllers.podgroups.observe import PROBLEM_NOTE
from controlplane.controllers.podgroups.reasons import PodGroupReason
from controlplane.controllers.podgroups.rules import DEFAULT_DOCUMENT
from controlplane.kube.kinds import Json, meta
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import ObjectChange, WriteRefusal
from controlplane.runtime.facets import ANY
from tests.expected import ExpectsCause
from tests.podgroups.scenes import NS, manifest, pod_manifest, ref
from tests.podgroups.stage import KINDS, Stage
from tests.podgroups.test_capacity import node, pod
from tests.podgroups.test_fleet import DEPLOYMENT, GROUP, NEW_RS, RS, WIDGET, config_map, sized
from tests.support.rows import each

R = PodGroupReason
NIGHTLY = ref("CronJob", "nightly")
BAD = "- kind: 7"
WIDGETS = "podgroup-level-rules:\n- apiversion: example.com/v1\n  kind: Widget\n  adjust-level: 0\n"


class Story(Stage, ExpectsCause):
    """A cluster whose rules are there. `cause` remembers the newest event: what is decided next rests on it."""

    def __init__(self, **policy: Any) -> None:
        super().__init__(**policy)
        self.put(config_map(DEFAULT_DOCUMENT))
        self.settle()

    def web(self, cpu: str = "500m", **notes: str) -> Story:
        self.put(manifest(DEPLOYMENT, spec=sized(cpu), notes=notes))
        self.put(manifest(RS, DEPLOYMENT, spec=sized(cpu)))
        return self

    def member(self, name: str = "p1", phase: str = "", **more: Any) -> Story:
        """See a pod; one that is there already keeps what is noted on it."""
        found = self.objects.get(("v1", "Pod", NS, name))
        obj = found or pod_manifest(RS, name, **more)
        if phase:
            obj = {**obj, "spec": {**obj["spec"], "nodeName": "n1"}, "status": {"phase": phase}}
        self.put(obj)
        return self

    def stuck(self, name: str) -> Story:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        self.put({**self.objects["v1", "Pod", NS, name], "status": {"phase": "Pending", "conditions": [condition]}})
        return self

    def noise(self) -> Story:
        """Another namespace has a group, and what is here is seen again in another version."""
        number = len(self.log)
        other = ref("Job", f"job-{number}")
        self.put(manifest(other, namespace="team-z"))
        self.put(pod_manifest(other, f"other-{number}", namespace="team-z"))
        for obj in [*self.all(PODS), *self.all(POD_GROUPS)]:
            self.put(obj)
        return self

    def group(self) -> Json:
        return self.get(POD_GROUPS, GROUP)

    def foreign(self) -> Story:
        """A group of the name that the Deployment's would have, of somebody else."""
        self.put(
            {
                "apiVersion": POD_GROUPS.api_version,
                "kind": "PodGroup",
                "metadata": {"name": GROUP, "namespace": NS},
                "spec": {"minMember": 1},
            }
        )
        return self

    def lost(self) -> Story:
        self.append(cluster_stream(MANAGEMENT), ClusterLost(reason="ProbeFailed", message="gone"))
        return self

    def back(self) -> Story:
        self.append(cluster_stream(MANAGEMENT), ClusterConnected(kinds=[kind.name for kind in KINDS]))
        return self

    def settled(self, **later: float) -> Story:
        self.settle()
        if later:
            self.later(**later)
        return self


def running(*names: str, members: str = "2") -> Story:
    """A group of a Deployment, of which all is said."""
    story = Story().web(**{MIN_MEMBER: members})
    for name in names:
        story.member(name)
    return story.settled(minutes=1)


def waiting(*names: str, members: str = "1", cpu: int = 0) -> Story:
    """A group that waits for room, or for members."""
    story = Story().web(**{MIN_MEMBER: members})
    for name in names:
        story.member(name)
    story.room(cpu=cpu)
    return story.settled(minutes=1)


def with_room(story: Story) -> Story:
    story.room(cpu=10**12)
    return story


def admitted() -> Story:
    return with_room(waiting("p1")).settled(minutes=1)


def gone(story: Story, name: str) -> Story:
    story.remove(story.get(PODS, name))
    return story


def annotated(story: Story, name: str, notes: dict[str, str | None]) -> Story:
    obj = story.get(PODS, name)
    after = {**(meta(obj).get("annotations") or {}), **notes}
    kept = {key: value for key, value in after.items() if value is not None}
    story.put({**obj, "metadata": {**meta(obj), "annotations": kept}})
    return story


def refusing(story: Story, kind: str) -> Story:
    """The API server says no to the writes to a kind, and then no more."""
    story.refused[f"write {kind}"] = WriteRefusal(500, "No", "not now")
    story.settle()
    del story.refused[f"write {kind}"]
    return story.cause(events.GroupWriteFailed)


def unreadable() -> Story:
    """A pod whose owner has to be read, and for now cannot be."""
    story = Story()
    story.refused["CronJob"] = WriteRefusal(500, "No", "not now")
    story.put(manifest(WIDGET, NIGHTLY), watched=False)
    story.put(manifest(NIGHTLY), watched=False)
    story.put(pod_manifest(WIDGET, "w1"))
    return story.settled()


def readable(story: Story) -> Story:
    del story.refused["CronJob"]
    return story.awaits(events.OwnerRead)


def alone() -> Story:
    story = Story()
    story.put(pod_manifest(name="s1"))
    return story


def grouped_by_hand() -> Story:
    story = Story().web()
    story.put(pod_manifest(RS, "p1", notes={GROUP_NAME: "mine"}))
    return story.settled(minutes=1)


def vanished() -> Story:
    story = running("p1", "p2")
    story.remove(story.group())
    return story


def sized_anew() -> Story:
    story = running("p1")
    story.put(manifest(DEPLOYMENT, spec=sized("500m"), notes={MIN_MEMBER: "5"}))
    return story


def rolled() -> Story:
    story = running("p1", "p2")
    story.put(manifest(DEPLOYMENT, spec=sized("1"), notes={MIN_MEMBER: "2"}))
    story.put(manifest(NEW_RS, DEPLOYMENT, spec=sized("1")))
    return story


def overwritten() -> Story:
    """Somebody else writes another status than ours."""
    story = running("p1")
    story.put({**story.group(), "status": {"phase": "Running", "running": 7}})
    return story


def counted_by_hand() -> Story:
    """A pod that runs is put into a group of others by its annotation."""
    story = Story().foreign().web().member("p1").settled(minutes=1).member("p1", "Running").settled(minutes=1)
    return annotated(story, "p1", {GROUP_NAME: GROUP}).cause()


def ended_early() -> Story:
    """Some run and others find no node; then those that run end, and there is room for all."""
    return with_room(running("p1", "p2", "p3").member("p1", "Running").stuck("p2").settled(minutes=1))


def shared() -> Story:
    """Two groups want the room that is enough for one; the one that has it ends."""
    story = Story().web(cpu="700m", **{MIN_MEMBER: "1"}).member("p1")
    job = ref("Job", "batch")
    story.put(manifest(job))
    story.put(pod_manifest(job, "q1", cpu="700m"))
    story.settled(minutes=1).room(cpu=10**9)
    return gone(story.settled(minutes=1), "q1").awaits(events.GroupStatusDecided)


def ruled(story: Story, document: str) -> Story:
    (known,) = story.all(CONFIG_MAPS)
    story.put({**known, "data": config_map(document)["data"]})
    return story


TABLE: list[tuple[type[Event], str, Callable[[], Story]]] = [
    (events.OwnerResolved, R.RULE_MATCHED, lambda: Story().web().member().cause()),
    (events.OwnerResolved, R.RULE_MATCHED, lambda: Story().lost().web().member().back().cause()),
    (events.OwnerResolved, R.RULE_MATCHED, lambda: annotated(grouped_by_hand(), "p1", {GROUP_NAME: None}).cause()),
    (events.OwnerResolved, R.RULE_MATCHED, lambda: ruled(unreadable(), WIDGETS).cause()),
    (events.OwnerResolved, R.FIRST_OWNER, lambda: readable(unreadable())),
    (events.OwnerResolved, R.NO_OWNER, lambda: alone().cause()),
    (events.MembershipDecided, R.GROUP_EXISTS, lambda: Story().web().member().awaits(events.GroupObserved)),
    (events.MembershipDecided, R.GROUP_EXISTS, lambda: running("p1").member("p2").awaits(events.OwnerResolved)),
    (events.MembershipDecided, R.GROUP_EXISTS, lambda: annotated(running("p1"), "p1", {GROUP_NAME: None}).cause()),
    (events.MembershipDecided, R.GROUP_EXISTS, lambda: refusing(Story().web().member(), "Pod").settled(minutes=5)),
    (events.MemberWarned, R.GROUP_NAME_TAKEN, lambda: Story().foreign().web().member().awaits(events.OwnerResolved)),
    (
        events.MemberWarned,
        R.GROUP_NAME_TAKEN,
        lambda: annotated(Story().foreign().web().member().settled(), "p1", {PROBLEM_NOTE: None}).cause(),
    ),
    (events.GroupCreationDecided, R.MEMBER_WITHOUT_GROUP, lambda: Story().web().member().awaits(events.OwnerResolved)),
    (events.GroupCreationDecided, R.MEMBER_WITHOUT_GROUP, lambda: vanished().cause()),
    (events.GroupCreationDecided, R.MEMBER_WITHOUT_GROUP, lambda: refusing(Story().web().member(), "PodGroup")),
    (events.GroupUpdateDecided, R.MIN_MEMBER_CHANGED, lambda: sized_anew().cause()),
    (events.GroupUpdateDecided, R.TEMPLATE_CHANGED, lambda: rolled().cause()),
    (events.GroupStatusDecided, R.MEMBERS_CHANGED, lambda: running("p1", "p2").member("p1", "Running").cause()),
    (events.GroupStatusDecided, R.MEMBERS_CHANGED, lambda: running("p1").member("p1", "Failed").cause()),
    (events.GroupStatusDecided, R.MEMBERS_CHANGED, lambda: gone(admitted(), "p1").cause()),
    (
        events.GroupStatusDecided,
        R.MEMBERS_CHANGED,
        lambda: running("p1", "p2").member("p1", "Running").settled(minutes=1).stuck("p2").cause(),
    ),
    (events.GroupStatusDecided, R.MEMBERS_CHANGED, lambda: overwritten().cause()),
    (events.GroupStatusDecided, R.MEMBERS_CHANGED, counted_by_hand),
    (events.GroupStatusDecided, R.ROOM_FOUND, lambda: with_room(waiting("p1")).cause()),
    (
        events.GroupStatusDecided,
        R.ROOM_FOUND,
        lambda: waiting("p1", members="2", cpu=10**12).member("p2").awaits(events.OwnerResolved),
    ),
    (events.GroupStatusDecided, R.ROOM_FOUND, lambda: gone(ended_early().settled(minutes=1), "p1").cause()),
    (events.GroupStatusDecided, R.ROOM_FOUND, shared),
    (
        events.GroupStatusDecided,
        R.INQUEUE_EXPIRED,
        lambda: admitted().cause(events.GroupStatusDecided).noise().settled(minutes=11),
    ),
    (events.RulesNoted, R.RULES_REFUSED, lambda: ruled(Story(), BAD).cause()),
    (events.RulesNoted, R.RULES_ACCEPTED, lambda: ruled(ruled(Story(), BAD).settled(), DEFAULT_DOCUMENT).cause()),
]


@each(("decision", "reason", "story"), TABLE, ids=[f"{row[0].__name__}-{row[1]}" for row in TABLE])
def test_it_rests_on(decision: type[Event], reason: str, story: Callable[[], Story]) -> None:
    told = story().noise().settled(minutes=2)
    expected = told.cause_at
    found = [
        one
        for one in told.log[expected:]
        if type(one.event) is decision and one.event.reason == reason and "/team-z/" not in one.stream
    ]
    assert found, [(one.position, one.stream, type(one.event).__name__) for one in told.log]
    assert found[0].caused_by == expected, [
        (one.position, one.stream, type(one.event).__name__, one.caused_by) for one in told.log
    ]
    for one in told.log:
        if isinstance(one.event, events.GroupDecision):
            assert 0 < one.caused_by < one.position
            assert may_cause(told.log[one.caused_by - 1].stream, one.stream), (one, told.log[one.caused_by - 1])


def test_what_a_cluster_has_rests_on_its_nodes_and_pods_in_view() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    capacity, positions = Capacity(), itertools.count(1)

    def fold(event: Event) -> int:
        at = next(positions)
        stream = cluster_stream(MANAGEMENT)
        capacity.fold(Recorded(position=at, stream=stream, version=at, event=event, recorded_at=now))
        return at

    for kind, obj in ((NODES, node()), (PODS, pod("p1"))):
        capacity.observe(ObjectChange(MANAGEMENT, "", kind, obj, "1", False), now)
    kinds = [NODES.name, PODS.name]
    fold(ClusterConnected(kinds=kinds))
    fold(ClusterLost(reason="ProbeFailed", message="gone"))
    expected = fold(ClusterConnected(kinds=kinds))
    fold(KindOff(kind="jobs.batch", reason="NotServed", message="no"))
    (said,) = capacity.decide(events.ROOM_STREAM, now).events
    assert said.caused_by == expected
    assert may_cause(cluster_stream(MANAGEMENT), events.ROOM_STREAM)


def test_every_row_of_the_table_is_told() -> None:
    told = {(decision, reason) for decision, reason, _ in TABLE}
    rows = {(decision, reason) for decision, reasons in CAUSES.items() for reason in reasons if reason != ANY}
    assert rows == told


def test_every_decision_has_a_row() -> None:
    assert {one for one in events.EVENTS if issubclass(one, events.GroupDecision)} | {
        events.RoomObserved
    } == CAUSES.keys()


def test_only_what_may_cause_a_decision_does() -> None:
    assert not may_cause("member/team-a/other", "member/team-a/p1")
    assert not may_cause("podgroup/team-b/g", "member/team-a/p1")
    assert not may_cause("owner/team-b/apps/v1/Deployment/web/u", "podgroup/team-a/g")
    assert not may_cause(events.ROOM_STREAM, "member/team-a/p1")
    assert may_cause("podgroup/team-b/g", "podgroup/team-a/g")
