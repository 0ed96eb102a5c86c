"""A ClusterQueue's status changes with every Workload: it is recorded when what is decided on changes, and not taken
for known wrongly.
"""

from __future__ import annotations

import msgspec

from controlplane.controllers.multikueue.observations import ClusterQueueGone, ClusterQueueObserved
from controlplane.kube.kinds import CLUSTER_QUEUES, Json
from controlplane.log.event import NewEvent
from controlplane.runtime.controller import ObjectChange
from tests.multikueue.observed import HOME
from tests.multikueue.scene import START, Scene


def queue(version: int, policy: str = "", uid: str = "uid-cq") -> Json:
    annotations = {"controlplane/execution-policy": policy} if policy else {}
    metadata = {"name": "cq", "uid": uid, "resourceVersion": str(version), "annotations": annotations}
    return {"metadata": metadata, "spec": {}, "status": {"reservingWorkloads": version}}


class Watched:
    """A fleet that is shown ClusterQueues; `lag` keeps what is recorded from being folded, as a busy log does."""

    def __init__(self) -> None:
        self.scene = Scene("a")
        self.life = "inc"
        self.waiting: list[NewEvent] = []
        self.lag = False

    def show(self, obj: Json, *, gone: bool = False) -> NewEvent | None:
        version = str(obj["metadata"]["resourceVersion"])
        new = self.scene.fleet.observe(ObjectChange(HOME, self.life, CLUSTER_QUEUES, obj, version, gone), START)
        if new is not None:
            self.waiting.append(new)
        if not self.lag:
            self.fold()
        return new

    def fold(self) -> None:
        for new in self.waiting:
            self.scene.fold(new.stream, new.event)
        self.waiting = []

    def policy(self) -> str:
        return self.scene.fleet.index.queues["cq"].execution_policy


def test_what_changes_nothing_is_recorded_once() -> None:
    watched = Watched()
    found = [watched.show(queue(version)) for version in range(1, 200)]
    assert sum(one is not None for one in found) == 1


def test_each_policy_is_recorded() -> None:
    watched = Watched()
    found = [watched.show(queue(at, policy)) for at, policy in enumerate(["", "never-twice", "never-twice", ""], 1)]
    assert [one is not None for one in found] == [True, True, False, True]
    assert watched.policy() == ""


def test_a_log_that_is_behind_does_not_make_a_change_look_old() -> None:
    watched = Watched()
    watched.show(queue(1))
    watched.lag = True
    assert watched.show(queue(2, "never-twice")) is not None
    assert watched.show(queue(3)) is not None  # as the log still says: but not what was recorded last
    watched.fold()
    assert watched.policy() == ""


def test_what_the_log_refused_is_offered_again() -> None:
    watched = Watched()
    watched.show(queue(1))
    watched.lag = True
    watched.show(queue(2, "never-twice"))
    watched.waiting = []  # the database would not have it
    watched.lag = False
    assert watched.show(queue(3, "never-twice")) is not None
    assert watched.policy() == "never-twice"


def test_another_life_of_the_cluster_and_another_queue_of_the_name_are_news() -> None:
    watched = Watched()
    watched.show(queue(7))
    watched.life = "inc+1"
    assert watched.show(queue(5)) is not None
    assert watched.show(queue(6)) is None
    assert watched.show(queue(8, uid="uid-other")) is not None


def test_one_that_was_deleted_and_made_again_is_news() -> None:
    watched = Watched()
    watched.show(queue(1))
    gone = watched.show(queue(2), gone=True)
    assert gone is not None
    assert isinstance(gone.event, ClusterQueueGone)
    again = watched.show(queue(3))
    assert again is not None
    assert isinstance(again.event, ClusterQueueObserved)


def test_a_process_that_starts_records_each_queue_once() -> None:
    first = Watched()
    said = first.show(queue(1))
    assert said is not None
    second = Watched()
    second.scene.fold(said.stream, said.event)
    assert second.show(queue(2)) is not None
    assert second.show(queue(3)) is None
    assert msgspec.structs.asdict(second.scene.fleet.index.queues["cq"])["resource_version"] == "2"
