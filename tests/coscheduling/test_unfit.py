"""A task that can never run beside the others of its run: it is told from one that only waits, and it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.controllers.coscheduling import events, observations
from controlplane.controllers.coscheduling.placement.gates import NodeCapacity
from controlplane.controllers.coscheduling.placement.unfit import PodNeeds, why_never
from controlplane.controllers.coscheduling.state import RunState, fold
from controlplane.kube.quantities import nanos
from controlplane.kube.tolerations import Taint
from controlplane.log.event import Recorded
from tests.coscheduling.samples import NS, Json, owner, task_pod
from tests.coscheduling.scene import Scene
from tests.coscheduling.started import RUN, SINGLE, pod, started

COMPLAINT = "0/2 nodes are available: 2 Insufficient cpu."
TASK_RUN = f"{RUN}-t"
PATIENCE = timedelta(minutes=10)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def sized(scene: Scene, cpu: str = "4", *, names: tuple[str, ...] = ("n1", "n2"), **labels: str) -> None:
    for name in names:
        allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        shown = {"kubernetes.io/hostname": name, **labels}
        scene.change("Node", "", name, metadata={"labels": shown}, status={"allocatable": allocatable})


def waiting(scene: Scene, cpu: str = "1", *, settled: bool = True, **spec: Any) -> None:
    """A task of the run, whose pod the scheduler finds no node for."""
    metadata = {"name": TASK_RUN, "namespace": NS, "uid": "uid-task-run", "ownerReferences": [owner()]}
    metadata |= {"labels": {"tekton.dev/pipelineTask": "t"}, "annotations": {}}
    scene.put({"kind": "TaskRun", "metadata": metadata, "spec": {}})
    found = task_pod("t-pod", SINGLE, complaint=COMPLAINT)
    found["metadata"]["labels"]["tekton.dev/taskRun"] = TASK_RUN
    found["spec"] = {"containers": [{"name": "step", "resources": {"requests": {"cpu": cpu}}}], **spec}
    scene.put(found)
    if settled:
        scene.settle()


def ended(scene: Scene) -> list[events.TaskEndDecided]:
    return scene.events(events.TaskEndDecided)


def condition(scene: Scene) -> Json:
    (found,) = scene.objects["PipelineRun", NS, RUN]["status"]["conditions"]
    return dict(found)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"cpu": "4"}, "it asks for cpu 4, and node n1 has 4 in all, 50m of it for the placeholder"),
        ({"nodeSelector": {"disk": "ssd"}}, "its node selector or affinity does not take node n1"),
    ],
)
def test_it_ends_and_the_run_says_why(more: dict[str, Any], why: str) -> None:
    scene = started()
    sized(scene)
    waiting(scene, **more)
    assert ended(scene) == [], "a node may be changed"
    scene.now += PATIENCE
    scene.settle()
    (told,) = ended(scene)
    task_run = scene.objects["TaskRun", NS, TASK_RUN]
    assert task_run["spec"] == {"status": "TaskRunCancelled", "statusMessage": told.message}
    assert told.message.startswith('task "t" can never run beside the others of its run: its pod t-pod')
    assert why in told.message
    found = condition(scene)
    assert (found["type"], found["status"], found["reason"]) == ("Coscheduled", "False", "TaskNeverFits")
    assert found["message"] == told.message
    requests = len(scene.requests)
    scene.now += 10 * PATIENCE
    scene.settle()
    assert len(scene.requests) == requests, "it is said once"


def test_a_node_that_lost_something_for_a_moment_ends_nothing() -> None:
    """What has waited for long, for room, is not ended by a device plugin that starts anew."""
    scene = started()
    sized(scene)
    waiting(scene, cpu="3")
    scene.now += 10 * PATIENCE
    scene.settle()
    sized(scene, "1")
    scene.settle()
    assert ended(scene) == []
    scene.now += PATIENCE / 2
    sized(scene)
    scene.settle()
    scene.now += 10 * PATIENCE
    scene.settle()
    assert ended(scene) == []


def test_another_process_goes_on_with_the_same_wait() -> None:
    scene = started()
    sized(scene)
    waiting(scene, cpu="9")
    scene.now += PATIENCE / 2
    scene.restart()
    scene.settle()
    assert ended(scene) == []
    scene.now += PATIENCE / 2
    scene.settle()
    assert len(ended(scene)) == 1


def test_a_pod_that_only_waits_for_others_goes_on_waiting() -> None:
    scene = started()
    sized(scene)
    waiting(scene, cpu="3")
    scene.now += 100 * PATIENCE
    scene.settle()
    assert ended(scene) == []


@pytest.mark.parametrize("known", [False, True])
def test_what_nobody_knows_of_nodes_ends_nothing(known: bool) -> None:
    scene = started()
    if known:
        sized(scene, names=("n1",))
    waiting(scene, cpu="9")
    scene.now += PATIENCE
    scene.settle()
    assert ended(scene) == []


def test_where_another_node_would_do_the_placeholder_moves_ever_more_rarely() -> None:
    scene = started()
    sized(scene)
    sized(scene, "16", names=("n2",))
    waiting(scene, cpu="9")
    (moved,) = scene.events(events.PlaceholderEvicted)
    assert (moved.reason, moved.node) == ("TaskExcluded", "n1")
    scene.now += PATIENCE
    scene.settle()
    assert pod(scene_without_tasks(scene))["spec"]["nodeName"] == "n1", "the scene's scheduler takes the first again"
    assert ended(scene) == []


def scene_without_tasks(scene: Scene) -> Scene:
    scene.objects.pop(("Pod", NS, "t-pod"))
    return scene


def test_the_placeholder_stays_while_a_pod_of_the_run_is_there() -> None:
    scene = started()
    sized(scene)
    sized(scene, "16", names=("n2",))
    scene.put(task_pod("other", SINGLE, node="n1", phase="Running"))
    waiting(scene, cpu="9")
    scene.now += PATIENCE
    scene.settle()
    assert scene.events(events.PlaceholderEvicted) == ended(scene) == []


def test_a_node_that_a_volume_does_not_reach_would_not_do() -> None:
    scene = started()
    sized(scene, zone="a")
    sized(scene, "16", names=("n2",), zone="b")
    (claim,) = scene.names("PersistentVolumeClaim")
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    scene.put(
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "pv"},
            "spec": {
                "claimRef": {"namespace": NS, "name": claim},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
            "status": {"phase": "Bound"},
        }
    )
    waiting(scene, cpu="9")
    scene.now += PATIENCE
    scene.settle()
    assert scene.events(events.PlaceholderEvicted) == []
    assert len(ended(scene)) == 1


def test_where_nodes_come_and_go_it_waits() -> None:
    scene = Scene("pipelineruns", patience=None)
    other = started()
    for obj in other.objects.values():
        scene.put(obj)
    sized(scene)
    waiting(scene, cpu="9")
    scene.now += PATIENCE
    scene.settle()
    assert ended(scene) == []


@pytest.mark.parametrize(
    ("taint", "why"),
    [
        ("gpu", "it does not tolerate the taint gpu:NoSchedule of node n"),
        ("node.kubernetes.io/not-ready", ""),
    ],
)
def test_a_taint_that_a_cluster_sets_by_itself_passes(taint: str, why: str) -> None:
    node = NodeCapacity(name="n", taints=(Taint(taint, "", "NoSchedule"),), cordoned=True, free={"cpu": nanos("4")})
    assert why_never(node, PodNeeds(requests={"cpu": nanos("1")})) == why


def test_a_task_that_is_seen_before_its_run_is_known_once_the_run_is_seen() -> None:
    """Each kind has a watch of its own."""
    stream, head = f"pipelinerun/{NS}/{RUN}", {"namespace": NS, "resource_version": "1"}
    task = observations.TaskBound(**head, name=TASK_RUN, uid="uid-task-run", owner="uid-run", task="t")
    seen = Recorded(position=1, stream=stream, version=1, event=task, cluster="here", recorded_at=AT)
    state = fold(RunState.initial(stream), seen)
    assert not state.settled
    gone = observations.TaskGone(namespace=NS, name=TASK_RUN, uid="uid-task-run")
    ended = Recorded(position=2, stream=stream, version=2, event=gone, cluster="here", recorded_at=AT)
    assert fold(state, ended).settled
