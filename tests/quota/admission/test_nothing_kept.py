"""What is gone is not kept, and what comes by the hundred is folded in steps that grow with its number."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.kube import kinds
from controlplane.log.event import NewEvent
from tests.quota.admission.scene import NS, Scene
from tests.support import folded
from tests.support.rows import each

LIMITS = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}
_ORDER = (kinds.LIMIT_RANGES, kinds.NAMESPACES, kinds.LOCAL_QUEUES, kinds.WORKLOADS)
HISTORY = ("places.", "labels.")
"""What is known of objects that are gone, on purpose and within bounds."""


def sizes(scene: Scene) -> dict[str, int]:
    found = dict(folded.everything(scene.controller))
    return {path: len(one) for path, one in found.items() if isinstance(one, Collection) and not isinstance(one, str)}


def have_one(scene: Scene, namespace: str, queue: str) -> None:
    """Have a namespace with a LimitRange, and a Workload in a LocalQueue there that leads to a ClusterQueue."""
    container = {"name": "c", "resources": {"requests": {"memory": "1"}}}
    spec = {
        "queueName": "local",
        "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job"}
    scene.put(kinds.NAMESPACES, namespace)
    scene.put(kinds.LIMIT_RANGES, "defaults", namespace, spec=LIMITS)
    scene.put(kinds.LOCAL_QUEUES, "local", namespace, spec={"clusterQueue": queue})
    scene.put(kinds.WORKLOADS, "job", namespace, spec=spec, metadata={"ownerReferences": [owner]})


def test_nothing_is_kept_of_what_is_gone() -> None:
    scene = Scene(past_usage=AdmissionFairSharing(600, 100))
    scene.settle()
    kept, before = set(scene.objects), sizes(scene)
    for number in range(3):
        spec = {"cohortName": f"cohort-{number}", "namespaceSelector": {}}
        scene.put(kinds.CLUSTER_QUEUES, f"q{number}", spec={**spec, "resourceGroups": []})
        have_one(scene, f"namespace-{number}", f"q{number}")
        have_one(scene, f"elsewhere-{number}", "not-there")
    scene.settle()
    for place in reversed([one for one in scene.objects if one not in kept]):
        scene.drop(place)
        scene.settle()
    scene.now += timedelta(days=1)
    scene.settle()
    after = sizes(scene)
    grown = {path: size for path, size in after.items() if size > before.get(path, 0) and not path.startswith(HISTORY)}
    assert grown == {}


@each("kind", [kinds.WORKLOADS, kinds.LOCAL_QUEUES, kinds.CLUSTER_QUEUES])
def test_the_outcome_of_a_write_that_is_recorded_after_the_end_of_its_object_leaves_nothing(kind: Any) -> None:
    scene = Scene()
    scene.queue("q")
    scene.workload("w", "q")
    scene.decide()
    (write,) = [one for one in scene.open_writes() if one.stream.split("/")[1] == kind.name.split(".")[0][:-1]][:1]
    place = next(one for one in scene.objects if one[0] == kind)
    scene.drop(place)
    failed = events.AdmissionWriteFailed(
        target=write.target, action=write.action, code=404, error="NotFound", message="", failures=1, retry_at=scene.now
    )
    scene.record(NewEvent(stream=write.stream, event=failed))
    scene.settle()
    assert write.stream not in scene.controller.index.objects
    assert set(scene.controller.index.workloads) <= {"team/w"} - ({"team/w"} if kind == kinds.WORKLOADS else set())


def steps(what: Callable[[], None]) -> int:
    """Return how many calls of Python's own functions something takes: what loops over many calls for each of them."""
    counted: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, argument: counted.update([event]))
    try:
        what()
    finally:
        sys.setprofile(None)
    return counted.total()


def test_what_many_namespaces_have_is_folded_in_steps_that_grow_with_their_number() -> None:
    def fold_all(number: int) -> int:
        scene = Scene()
        scene.put(kinds.CLUSTER_QUEUES, "q", spec={"namespaceSelector": {}, "resourceGroups": []})
        shown: list[Any] = []
        scene.show = lambda kind, obj, gone=False: shown.append((kind, obj))  # type: ignore[assignment,misc]
        for one in range(number):
            have_one(scene, f"namespace-{one}", "q")
        del scene.show  # type: ignore[attr-defined]
        # Workloads first, and what gives them defaults last: whatever comes in which order.
        shown.sort(key=lambda one: -_ORDER.index(one[0]))

        def show_all() -> None:
            for kind, obj in shown:
                scene.show(kind, obj)

        return steps(show_all)

    few, many = fold_all(20), fold_all(200)
    assert many < 12 * few


def test_a_queue_of_many_workloads_is_counted_when_that_is_written() -> None:
    """Each change of a Workload asks what its queues are to say."""

    def ask(workloads: int) -> int:
        scene = Scene(past_usage=AdmissionFairSharing(600, 300))
        scene.queue("q", "1000")
        for number in range(workloads):
            scene.workload(f"w{number}", "q")
        scene.settle(10 * workloads)
        scene.pass_time(2)
        scene.workload("another", "q")
        scene.settle()
        streams = ("admission/clusterqueue/q", f"admission/localqueue/{NS}/q")
        return steps(lambda: [scene.controller.decide(stream, scene.now) for stream in streams])

    assert ask(200) < 2 * ask(20)


def test_what_a_queue_says_of_its_state_is_not_waited_for() -> None:
    scene = Scene()
    scene.queue("q")
    scene.workload("w", "q")
    scene.settle()
    scene.delete(kinds.RESOURCE_FLAVORS, "default")
    scene.drop((kinds.RESOURCE_FLAVORS, "", "default"))
    scene.settle()
    (active,) = scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["status"]["conditions"]
    (local,) = scene.objects[kinds.LOCAL_QUEUES, NS, "q"]["status"]["conditions"]
    assert (active["status"], active["reason"]) == ("False", "FlavorNotFound")
    assert (local["status"], local["reason"]) == ("False", "ClusterQueueIsInactive")
