"""A registered plugin that fails by an exception fails what it was asked, and ends nothing."""

from __future__ import annotations

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    PostBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
    ScorePlugin,
)
from controlplane.controllers.scheduling.framework.status import SUCCESS, Status
from controlplane.controllers.scheduling.snapshot.node_info import NodeInfo
from controlplane.controllers.scheduling.snapshot.objects import Pod
from tests.scheduling.bench import PROFILE, Bench, ready
from tests.scheduling.test_loop import lose_node_of


class Breaks(PreEnqueuePlugin, ReservePlugin, PostBindPlugin, ScorePlugin):
    """Fails wherever it is asked or told."""

    name = "Breaks"

    def pre_enqueue(self, pod: Pod) -> Status:
        raise RuntimeError("broken plugin")

    def reserve(self, state: CycleState, pod: Pod, node: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
        raise RuntimeError("broken plugin")

    def post_bind(self, state: CycleState, pod: Pod, node: str) -> None:
        raise RuntimeError("broken plugin")

    def score(self, state: CycleState, pod: Pod, info: NodeInfo) -> int:
        raise RuntimeError("broken plugin")


def broken(*points: str) -> tuple[Bench, list[Exception]]:
    bench, heard = ready("n"), list[Exception]()
    bench.loop.faults.heard = heard.append
    for point in points:
        bench.loop.frameworks[PROFILE].points[point] = [*bench.loop.frameworks[PROFILE].points[point], Breaks()]
    return bench, heard


def test_a_plugin_that_fails_where_it_is_only_told_ends_nothing() -> None:
    bench, heard = broken("reserve", "postBind", "score")
    bench.pod("p")
    bench.settle(1)
    assert bench.on("p") == "n"
    assert len(heard) == 2, "the score of an only node, and PostBind"
    lose_node_of(bench, "q", "n")
    assert bench.view.claims == {}
    assert len(heard) > 2, "Unreserve"


def test_a_plugin_that_fails_when_it_is_asked_for_the_queue_keeps_one_pod_outside() -> None:
    bench, heard = broken("preEnqueue")
    bench.pod("p")
    bench.turn()
    assert [str(error) for error in heard[:1]] == ["broken plugin"]
    assert bench.recorded(events.NodeReserved) == []
    bench.loop.frameworks[PROFILE].points["preEnqueue"].pop()
    bench.pod("q")
    bench.settle(1)
    assert bench.on("q") == "n"
