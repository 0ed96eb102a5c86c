"""One pod's cycle: samples, nominations, choices, and what is said when no node is left."""

from __future__ import annotations

import pytest

from controlplane.controllers.scheduling.cycle import Sampling, schedule
from controlplane.controllers.scheduling.framework.configuration import default_framework
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    FilterPlugin,
    PermitAnswer,
    PermitPlugin,
    Plugin,
    QueuedPod,
    ReservePlugin,
    ScorePlugin,
)
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import SUCCESS, Code, Status, unschedulable
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.kinds import Json
from tests.scheduler.objects import ZONE, a_node, a_pod
from tests.support.rows import each

FRAMEWORK = default_framework()


def cluster(count: int, *pods: Pod) -> Snapshot:
    return Snapshot([a_node(f"n{at}", {ZONE: f"z{at % 3}"}) for at in range(count)], pods)


def test_one_feasible_node_is_not_scored() -> None:
    found = schedule(FRAMEWORK, cluster(1), a_pod("new"))
    assert (found.node, found.scores, found.best) == ("n0", None, (0,))


def test_pick_chooses_among_the_best() -> None:
    nodes = [schedule(FRAMEWORK, cluster(3), a_pod("new"), pick=pick).node for pick in range(4)]
    assert nodes == ["n0", "n1", "n2", "n0"]


def test_no_node_at_all() -> None:
    found = schedule(FRAMEWORK, cluster(0), a_pod("new"))
    assert (found.node, found.status.code) == ("", Code.UNSCHEDULABLE)


def test_the_refusal_counts_reasons() -> None:
    snapshot = cluster(3)
    snapshot.put_node(a_node("n1", taints=[{"key": "k", "effect": "NoSchedule"}]))
    found = schedule(FRAMEWORK, snapshot, a_pod("new", requests={"cpu": "9", "memory": "9Gi"}))
    told = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu, 2 Insufficient memory."
    assert found.status.reasons == (told,)


def test_a_pod_that_prefilter_refuses_is_told_once() -> None:
    conflict = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n0", "n1")]
    terms = {"nodeSelectorTerms": [{"matchFields": conflict}]}
    pod = a_pod("new", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    found = schedule(FRAMEWORK, cluster(2), pod)
    assert found.status.reasons == ("0/2 nodes are available: pod affinity terms conflict.",)
    assert {found.statuses.of(row).plugin for row in range(2)} == {"NodeAffinity"}


def pinned(*names: str) -> Pod:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return a_pod("new", affinity={"nodeAffinity": required})


def test_nodes_that_prefilter_leaves_out_are_not_asked() -> None:
    found = schedule(FRAMEWORK, cluster(3), pinned("n1", "gone"))
    assert found.node == "n1"
    left_out = Status(Code.UNRESOLVABLE, ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), "NodeAffinity")
    assert [found.statuses.of(row) for row in range(3)] == [left_out, SUCCESS, left_out]


@each(
    ("nodes", "percentage", "enough"),
    [
        (99, 5, 99),
        (100, 0, 100),
        (1000, 0, 420),
        (5000, 0, 500),
        (6250, 0, 312),
        (10000, 0, 500),
        (1000, 5, 100),
        (1000, 100, 1000),
    ],
)
def test_how_many_nodes_are_enough(nodes: int, percentage: int, enough: int) -> None:
    assert Sampling(percentage).enough(nodes) == enough


def test_a_sample_goes_round_and_sees_every_zone() -> None:
    snapshot = cluster(300)
    first = schedule(FRAMEWORK, snapshot, a_pod("new"), sampling=Sampling(40))
    assert len(first.feasible) == 120
    assert first.next_start == 120
    assert {snapshot.nodes[row].labels[ZONE] for row in first.feasible[:3].tolist()} == {"z0", "z1", "z2"}
    second = schedule(FRAMEWORK, snapshot, a_pod("new"), sampling=Sampling(40, start=240))
    assert second.next_start == 60
    assert set(first.feasible[:60].tolist()) <= set(second.feasible.tolist())


def test_nominated_pods_take_room_from_those_they_outrank() -> None:
    nominated = {"n0": [a_pod("first", requests={"cpu": "3"}, priority=5)]}
    small, urgent = a_pod("new", requests={"cpu": "2"}, priority=5), a_pod("new", requests={"cpu": "2"}, priority=6)
    assert schedule(FRAMEWORK, cluster(1), small, nominated).node == ""
    assert schedule(FRAMEWORK, cluster(1), urgent, nominated).node == "n0"
    assert schedule(FRAMEWORK, cluster(2), small, nominated).node == "n1"


def test_a_node_must_do_with_the_nominated_pods_and_without() -> None:
    """The pod needs the company of app=a; a pod that is only nominated is not company yet."""
    wish = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
    pod = a_pod("new", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [wish]}})
    nominated = {"n0": [a_pod("first", {"app": "a"})]}
    assert schedule(FRAMEWORK, cluster(1), pod, nominated).node == ""


def test_the_nominated_node_comes_first() -> None:
    busy = a_pod("there", on="n1", requests={"cpu": "1"})
    pod = a_pod("new", requests={"cpu": "1"}, status={"nominatedNodeName": "n1"})
    found = schedule(FRAMEWORK, cluster(2, busy), pod)
    assert (found.node, found.scores) == ("n1", None)
    full = a_pod("there", on="n1", requests={"cpu": "4"})
    assert schedule(FRAMEWORK, cluster(2, full), pod).node == "n0"


class OnlyEven(FilterPlugin, ScorePlugin):
    """A plugin as others write one: node by node only."""

    name = "OnlyEven"

    def filter(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        return SUCCESS if int(info.node.name[1:]) % 2 == 0 else unschedulable("odd")

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        return min(100, 10 * int(info.node.name[1:]))


def test_a_plugin_that_knows_single_nodes_only() -> None:
    points: dict[str, list[Plugin]] = {"filter": [OnlyEven()], "score": [OnlyEven()]}
    found = schedule(Framework("mine", points, {"OnlyEven": 2}), cluster(6), a_pod("new"))
    assert found.node == "n4"
    assert found.scores is not None
    assert found.scores.total.tolist() == [0, 40, 80]
    assert found.statuses.of(1) == Status(Code.UNSCHEDULABLE, ("odd",), "OnlyEven")


class TooGood(ScorePlugin):
    name = "TooGood"

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        return 101


def test_scores_stay_within_bounds() -> None:
    with pytest.raises(ValueError, match="TooGood"):
        schedule(Framework("mine", {"score": [TooGood()]}), cluster(2), a_pod("new"))


class StreamController(ReservePlugin, PermitPlugin):
    """Writes down who was called, and may refuse."""

    def __init__(self, name: str, calls: list[str], refuses: bool = False, waits: float = 0.0) -> None:
        super().__init__()
        self.name = name  # type: ignore[misc]
        self.calls, self.refuses, self.waits = calls, refuses, waits

    def reserve(self, state: CycleState, pod: Pod, node: str) -> Status:
        self.calls.append(f"reserve {self.name}")
        return unschedulable("no") if self.refuses else SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
        self.calls.append(f"unreserve {self.name}")

    def permit(self, state: CycleState, pod: Pod, node: str) -> PermitAnswer:
        if self.refuses:
            return PermitAnswer(unschedulable("denied"))
        return PermitAnswer(Status(Code.WAIT), self.waits) if self.waits else PermitAnswer()


def test_a_failed_reserve_unreserves_everything_backwards() -> None:
    calls: list[str] = []
    books: list[Plugin] = [
        StreamController("a", calls),
        StreamController("b", calls, refuses=True),
        StreamController("c", calls),
    ]
    status = Framework("mine", {"reserve": books}).reserve(CycleState(), a_pod("new"), "n")
    assert status == Status(Code.UNSCHEDULABLE, ("no",), "b")
    assert calls == ["reserve a", "reserve b", "unreserve c", "unreserve b", "unreserve a"]


def test_permits_are_collected_and_bounded() -> None:
    books: list[Plugin] = [
        StreamController("a", [], waits=30),
        StreamController("b", []),
        StreamController("c", [], waits=3600),
    ]
    status, waits = Framework("mine", {"permit": books}).permit(CycleState(), a_pod("new"), "n")
    assert (status.code, waits) == (Code.WAIT, {"a": 30, "c": 900})
    refusing: list[Plugin] = [*books, StreamController("d", [], refuses=True)]
    assert Framework("mine", {"permit": refusing}).permit(CycleState(), a_pod("new"), "n")[0].code is Code.UNSCHEDULABLE


def test_the_queue_is_sorted_by_priority_then_by_age() -> None:
    queue = [
        QueuedPod(a_pod("a", priority=1), 2),
        QueuedPod(a_pod("b", priority=5), 3),
        QueuedPod(a_pod("c", priority=1), 1),
    ]
    assert [queued.pod.name for queued in sorted(queue, key=FRAMEWORK.sort_key)] == ["b", "c", "a"]


def test_gated_pods_stay_outside() -> None:
    assert FRAMEWORK.pre_enqueue(a_pod("new")).ok
    status = FRAMEWORK.pre_enqueue(a_pod("new", schedulingGates=[{"name": "x"}]))
    assert status == Status(Code.UNRESOLVABLE, ("waiting for scheduling gates: [x]",), "SchedulingGates")


def test_the_binding_is_a_request() -> None:
    writes = FRAMEWORK.bind(CycleState(), a_pod("new"), "n1")
    (request,) = writes.requests
    assert (request.verb, request.subresource, str(request.ref)) == ("create", "binding", "Pod default/new")
    target: Json = request.body["target"]
    assert target == {"kind": "Node", "name": "n1"}
    assert request.body["metadata"]["uid"] == "uid-new"
