"""`caused_by` of decisions about PipelineRuns: of each that can be taken, the one event that it rests on, among much
that changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterLost,
    KindOff,
    KindSynced,
    cluster_stream,
)
from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.causes import CAUSES, may_cause
from controlplane.controllers.coscheduling.controller import NEEDED
from controlplane.controllers.coscheduling.objects import CONFIG_MAPS
from controlplane.controllers.coscheduling.observations import (
    ClaimDeleted,
    ClaimObserved,
    PlaceholderDeleted,
    TaskPodObserved,
    WorkerRunGone,
)
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.log.event import Event, NewEvent
from controlplane.runtime.controller import WriteRefusal
from controlplane.runtime.facets import ANY
from tests.coscheduling.samples import DONE, NS, claim, run, stateful_set, task, task_pod, template
from tests.coscheduling.scene import Scene, config
from tests.coscheduling.started import RUN, SINGLE, pod
from tests.coscheduling.test_children import child as child_of
from tests.coscheduling.test_unfit import sized, waiting
from tests.coscheduling.test_volumes import volume
from tests.expected import ExpectsCause
from tests.support.rows import each

R = CoschedulingReason
TAINT = {"key": "broken", "effect": "NoSchedule"}


class Story(Scene, ExpectsCause):
    """A cluster with a run. `cause` remembers the newest event: what is decided next rests on it."""

    def __init__(self, flag: str = "pipelineruns", **policy: Any) -> None:
        super().__init__(flag, **policy)

    def run(self, *workspaces: Any, **more: Any) -> Story:
        self.put(run(*(workspaces or (template("a"),)), tasks=[task("t", "a")], **more))
        return self

    def settled(self) -> Story:
        self.settle()
        return self

    def later(self, **span: float) -> Story:
        self.now += timedelta(**span)
        return self.settled()

    def noise(self) -> Story:
        """A pod of another task and a node that nobody is on come up; what is here is seen again in another version."""
        number = len(self.log)
        self.put({"kind": "Node", "metadata": {"name": f"other-{number}"}, "spec": {"unschedulable": True}})
        self.put(task_pod(f"other-{number}", "affinity-assistant-other", node="n2"))
        for obj in [*self.of("Pod"), *self.of("StatefulSet"), *self.of("PersistentVolumeClaim")]:
            self.put(obj)
        if ("PipelineRun", NS, RUN) in self.objects:
            self.change("PipelineRun", NS, RUN)
        return self

    def lost(self) -> Story:
        self._connection(ClusterLost(reason="ProbeFailed", message="gone"))
        return self

    def back(self) -> Story:
        self._connection(ClusterConnected(kinds=[*NEEDED, CONFIG_MAPS.name]))
        return self

    def flags_off(self) -> Story:
        self._connection(KindOff(kind=CONFIG_MAPS.name, reason="Forbidden", message="no"))
        return self

    def flags_on(self) -> Story:
        self._connection(KindSynced(kind=CONFIG_MAPS.name, count=1, resource_version="1"))
        return self

    def _connection(self, event: Event) -> None:
        self.append(NewEvent(stream=cluster_stream(MANAGEMENT), event=event))

    def over(self) -> Story:
        self.change("PipelineRun", NS, RUN, status=DONE)
        return self

    def removed(self, kind: str, name: str) -> Story:
        self.drop(kind, NS, name)
        return self

    def passes(self, count: int) -> Story:
        """Let some passes decide and write, with nobody else doing anything."""
        for _ in range(count):
            self.decide()
            self.carry_out()
        return self


def started(mode: str = "pipelineruns", *workspaces: Any, **more: Any) -> Story:
    return Story(mode).run(*workspaces, **more).settled()


def cordoned(story: Story, **spec: Any) -> Story:
    story.change("Node", "", pod(story)["spec"]["nodeName"], spec=spec)
    return story


def full(story: Story) -> Story:
    story.put(task_pod("t", SINGLE, complaint="0/2 nodes are available: 1 Too many pods."))
    return story


def adopted() -> Story:
    """A run that is over when it is first seen, and has a placeholder: that is seen last."""
    story = Story().run(status=DONE)
    placeholder = stateful_set(SINGLE)
    placeholder["spec"]["template"]["metadata"] = {"labels": placeholder["metadata"]["labels"]}
    story.put(placeholder)
    return story


def refusing(mode: str, kind: str, failure: WriteRefusal) -> Story:
    """The API server says no to a creation, once."""
    story = Story(mode).run()
    story.refuse["create", kind] = failure
    story.passes(2)
    story.refuse.clear()
    return story.cause(events.CoschedulingFailed)


def possible_after_all() -> Story:
    """A claim that was refused is made, of which the run says that it cannot be."""
    story = refusing("workspaces", "PersistentVolumeClaim", WriteRefusal(422, "Invalid", "too small")).settled()
    return story.later(minutes=10).cause(ClaimObserved)


def taken() -> Story:
    """A placeholder of the run's name is there, which is nobody's."""
    story = Story().run()
    story.passes(1)
    left = stateful_set(SINGLE)
    left["spec"]["template"]["metadata"] = {"labels": left["metadata"]["labels"]}
    del left["metadata"]["ownerReferences"]
    story.put(left)
    return story.cause()


def recreated() -> Story:
    """Another run of the same name is there."""
    story = started()
    again = run(template("a"), tasks=[task("t", "a")], uid="uid-again")
    story.put(again)
    return story


def released(mode: str = "pipelineruns", **more: Any) -> Story:
    """A run is over, and all but its claims is gone; they are being deleted, with a finalizer on them."""
    story = started(mode, **more).over()
    while not story.events(events.ClaimRemovalDecided):
        story.decide()
        story.carry_out()
    return story.cause(ClaimObserved)


def flags(story: Story, **data: str) -> Story:
    story.put(config("feature-flags", **data))
    return story


def begins_late(field: str, value: str) -> Story:
    """A run that waits, or is somebody else's, and is not any longer."""
    story = Story()
    obj = run(template("a"), tasks=[task("t", "a")])
    story.put({**obj, "spec": {**obj["spec"], field: value}})
    story.settle()
    story.put(obj)
    return story


def leaving(story: Story) -> Story:
    """A run is being deleted, and something else keeps it."""
    obj = copy.deepcopy(story.objects["PipelineRun", NS, RUN])
    obj["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["chains.tekton.dev"]}
    story.put(obj)
    return story


def two_claims() -> Story:
    story = Story("workspaces")
    story.put(run(template("a"), claim("b", "data"), tasks=[task("t", "a", "b")]))
    return story


def without(story: Story, kind: str) -> Story:
    """Somebody else deletes what was made for a run."""
    (name,) = story.names(kind)
    return story.removed(kind, name)


def child() -> Story:
    """A run that is a task of an isolated one, seen before that one's mode is decided."""
    story = Story("isolate-pipelinerun").run()
    story.put(child_of(claim("a", "data")))
    return story.awaits(events.ModePinned)


def apart() -> Story:
    """Two existing claims, in two zones; the second is seen last."""
    story = Story()
    story.put(volume("p1", "data", "z1"))
    story.put(run(claim("a", "data"), claim("b", "cache"), tasks=[task("t", "a")]))
    story.passes(1)
    story.put(volume("p2", "cache", "z2"))
    return story.cause()


def unfit(cpu: str = "4") -> Story:
    """A task asks for more than a node of its placeholder has; the node, or another one, has changed before."""
    story = started()
    sized(story)
    sized(story, cpu, names=("n2",))
    waiting(story, cpu="9", settled=False)
    story.cause(TaskPodObserved).settle()
    return story.later(minutes=10)


CLEANUP = {"annotations": {"tekton.dev/auto-cleanup-pvc": "true"}}
TABLE: list[tuple[type[Event], str, Callable[[], Story]]] = [
    (events.ClusterChosen, R.SEEN_HERE, lambda: Story().run().cause()),
    (events.ClusterChosen, R.SEEN_HERE, lambda: Story().lost().run().back().cause()),
    (events.ClusterChosen, R.SEEN_HERE, lambda: begins_late("status", "PipelineRunPending").cause()),
    (events.ClusterChosen, R.SEEN_HERE, lambda: begins_late("managedBy", "kueue.x-k8s.io/multikueue").cause()),
    (events.ModePinned, R.RUN_STARTED, lambda: Story().run().cause()),
    (events.ModePinned, R.RUN_STARTED, lambda: Story().flags_off().run().settled().flags_on().cause()),
    (events.ModePinned, R.RUN_STARTED, lambda: adopted().cause()),
    (events.ModePinned, R.PARENT_IS_ISOLATED, child),
    (events.RunCompleted, R.RUN_FINISHED, lambda: started().over().cause()),
    (events.RunCompleted, R.RUN_FINISHED, lambda: adopted().cause()),
    (events.RunCompleted, R.RUN_DELETED, lambda: started().removed("PipelineRun", RUN).cause(WorkerRunGone)),
    (events.RunCompleted, R.RUN_DELETED, lambda: leaving(started()).cause()),
    (events.AttemptFenced, R.RECREATED, lambda: recreated().cause()),
    (events.RunRefused, R.SEVERAL_CLAIMS, lambda: two_claims().awaits(events.ModePinned)),
    (
        events.RunRefused,
        R.BAD_INPUT,
        lambda: refusing("workspaces", "PersistentVolumeClaim", WriteRefusal(422, "Invalid", "too small")),
    ),
    (events.RunRefused, R.BAD_INPUT, taken),
    (
        events.RefusalWithdrawn,
        R.NOTHING_IN_THE_WAY,
        lambda: without(taken().settled(), "StatefulSet").cause(PlaceholderDeleted),
    ),
    (events.RunRefused, R.VOLUMES_APART, apart),
    (events.RefusalWithdrawn, R.NOTHING_IN_THE_WAY, possible_after_all),
    (events.UnfitTaskTold, R.TASK_NEVER_FITS, unfit),
    (events.TaskEndDecided, R.TASK_NEVER_FITS, unfit),
    (events.PlaceholderEvicted, R.TASK_EXCLUDED, lambda: unfit("16")),
    (events.ClaimCreationDecided, R.CLAIM_FROM_TEMPLATE, lambda: Story("workspaces").run().awaits(events.ModePinned)),
    (
        events.ClaimCreationDecided,
        R.CLAIM_FROM_TEMPLATE,
        lambda: without(started("workspaces"), "PersistentVolumeClaim").cause(ClaimDeleted),
    ),
    (events.PlaceholderCreationDecided, R.ONE_PER_RUN, lambda: Story().run().awaits(events.ModePinned)),
    (
        events.PlaceholderCreationDecided,
        R.ONE_PER_RUN,
        lambda: without(started(), "StatefulSet").cause(PlaceholderDeleted),
    ),
    (
        events.PlaceholderCreationDecided,
        R.ONE_PER_RUN,
        lambda: refusing("pipelineruns", "StatefulSet", WriteRefusal(500, "No", "not now")).noise().later(minutes=10),
    ),
    (
        events.PlaceholderCreationDecided,
        R.WORKSPACE_HAS_A_CLAIM,
        lambda: Story("workspaces").run().awaits(events.ModePinned),
    ),
    (events.PlaceholderEvicted, R.NODE_CORDONED, lambda: cordoned(started(), unschedulable=True).cause()),
    (events.PlaceholderEvicted, R.TAINT_NOT_TOLERATED, lambda: cordoned(started(), taints=[TAINT]).cause()),
    (events.PlaceholderEvicted, R.POD_LIMIT, lambda: full(started()).cause()),
    (events.PlaceholderRemovalDecided, R.ATTEMPT_OVER, lambda: started().over().awaits(events.RunCompleted)),
    (events.ClaimRemovalDecided, R.TEMPLATE_CLAIM, lambda: started().over().awaits(PlaceholderDeleted)),
    (
        events.ClaimRemovalDecided,
        R.AUTO_CLEANUP,
        lambda: started("workspaces", **CLEANUP).over().awaits(PlaceholderDeleted),
    ),
    (events.ClaimReleaseDecided, R.TEMPLATE_CLAIM, released),
    (events.ClaimReleaseDecided, R.AUTO_CLEANUP, lambda: released("workspaces", **CLEANUP)),
    (events.FlagsRefused, R.BAD_FLAGS, lambda: flags(Story(), coschedule="all").cause()),
    (
        events.FlagsRefused,
        R.BAD_FLAGS,
        lambda: flags(flags(Story(), coschedule="all").settled(), coschedule="none").cause(),
    ),
]


@each(("decision", "reason", "story"), TABLE, ids=[f"{row[0].__name__}-{row[1]}" for row in TABLE])
def test_it_rests_on(decision: type[Event], reason: str, story: Callable[[], Story]) -> None:
    told = story().noise().settled()
    expected = told.cause_at
    listed = [(one.position, one.stream, type(one.event).__name__, one.caused_by) for one in told.log]
    found = [one for one in told.log[expected:] if type(one.event) is decision and one.event.reason == reason]
    assert found, listed
    assert found[0].caused_by == expected, listed
    for one in told.log:
        if isinstance(one.event, events.CoschedulingDecision):
            assert 0 < one.caused_by < one.position
            assert may_cause(told.log[one.caused_by - 1].stream, one.stream), listed


def test_every_row_of_the_table_is_told() -> None:
    told = {(decision, reason) for decision, reason, _ in TABLE}
    assert {(one, reason) for one, reasons in CAUSES.items() for reason in reasons if reason != ANY} == told


def test_every_decision_has_a_row() -> None:
    written = {one for one in events.EVENTS if issubclass(one, events.CoschedulingDecision)}
    assert written == CAUSES.keys()


def test_only_what_may_cause_a_decision_does() -> None:
    assert not may_cause("pipelinerun/other/parent", "pipelinerun/ci/my-pipelinerun")
    assert may_cause("pipelinerun/ci/parent", "pipelinerun/ci/my-pipelinerun")
    assert may_cause("volume/pv", "pipelinerun/ci/my-pipelinerun")
    assert not may_cause("node/n1", "coscheduling/flags")
    assert may_cause("node/n1", "pipelinerun/ci/my-pipelinerun")
