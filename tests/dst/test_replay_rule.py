"""What a process holds is held against a second fold of the log, after every batch, and only where something has
changed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controlplane.controllers.connectivity.events import ClusterConnected, cluster_stream
from controlplane.controllers.multikueue.events import ConditionDecided
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import ClusterQueueObserved, MultiKueueClusterObserved
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.workloads.replay import RULE, ReplayRules, difference, parts
from controlplane.dst.play import play
from controlplane.dst.scenes.workloads.processes import POLICY
from controlplane.log.event import Event, Recorded
from tests.dst.plans import plan, step

AT = datetime(2026, 1, 1, tzinfo=UTC)
QUEUE = ClusterQueueObserved(namespace="", name="q", uid="u1", resource_version="5", generation=1)
CLUSTER = MultiKueueClusterObserved(
    namespace="", name="w1", uid="u2", resource_version="6", generation=1, location="w1-kubeconfig"
)
CONDITION = ConditionDecided(
    of="MultiKueueCluster",
    status="True",
    condition_reason="Active",
    message="",
    generation=1,
    resource_version="6",
    reason=WorkloadReason.CONDITION_CHANGED,
)
EVENTS: list[tuple[str, str, Event]] = [
    ("clusterqueue/q", "@management", QUEUE),
    (cluster_stream("w1"), "@management", CLUSTER),
    (cluster_stream("w1"), "@management", CONDITION),
    (cluster_stream("w1"), "w1", ClusterConnected(kinds=[])),
]


class Pair:
    """The log's index, a process', and the rule between them."""

    def __init__(self) -> None:
        self.trace = Trace(VirtualLoop("replay"))  # type: ignore[abstract]
        self.log, self.process = WorkloadIndex(POLICY), WorkloadIndex(POLICY)
        self.rule = ReplayRules(self.trace, self.log)
        self.position = 0

    def fold(self, *indices: WorkloadIndex) -> None:
        stream, cluster, event = EVENTS[self.position]
        self.position += 1
        recorded = Recorded(
            position=self.position,
            stream=stream,
            version=self.position,
            event=event,
            cluster=cluster,
            caused_by=0,
            trace="",
            observed_at=AT,
            recorded_at=AT,
        )
        for index in indices:
            index.fold(recorded)

    def look(self) -> bool:
        self.rule.folded("replica-1#1", self.process)
        return self.trace.violation is None


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_two_folds_of_one_log_agree_after_every_event(pair: Pair) -> None:
    for _ in EVENTS:
        pair.fold(pair.log, pair.process)
        assert pair.look()
        assert difference(pair.process, pair.log) == ""
    assert pair.rule.batches == len(EVENTS)


def test_a_process_that_is_behind_is_looked_at_when_it_has_caught_up(pair: Pair) -> None:
    pair.fold(pair.log, pair.process)
    pair.fold(pair.log)
    assert pair.look()
    assert pair.rule.batches == 0


def test_a_process_that_begins_again_is_looked_at_anew(pair: Pair) -> None:
    pair.fold(pair.log, pair.process)
    assert pair.look()
    pair.process = WorkloadIndex(POLICY)
    pair.position = 0
    pair.fold(pair.process)
    assert pair.look()
    changed_queue(pair.process)
    assert not pair.look()


def changed_queue(index: WorkloadIndex) -> None:
    index.queues["q"] = msgspec.structs.replace(index.queues["q"], resource_version="7")


def lost_cluster(index: WorkloadIndex) -> None:
    del index.clusters["w1"]


def forgotten_write(index: WorkloadIndex) -> None:
    index.slots._slots.clear()


def other_version(index: WorkloadIndex) -> None:
    index.newest._versions.setdefault("@management", {})["clusterqueues.kueue.x-k8s.io"] = 99


def another_copy(index: WorkloadIndex) -> None:
    index._remote_jobs["w1", "u9"] = "workload/default/a"


@pytest.mark.parametrize("spoil", [changed_queue, lost_cluster, forgotten_write, other_version, another_copy])
@pytest.mark.parametrize("whose", ["process", "log"])
def test_whatever_differs_is_seen_with_the_next_batch(pair: Pair, spoil: Any, whose: str) -> None:
    for _ in EVENTS[:-1]:
        pair.fold(pair.log, pair.process)
        assert pair.look()
    spoil(getattr(pair, whose))
    pair.fold(pair.log, pair.process)
    assert not pair.look()
    assert pair.trace.violation is not None
    assert pair.trace.violation.rule == RULE
    assert difference(pair.process, pair.log)


def test_nothing_that_is_state_is_left_out() -> None:
    names = {name.partition(".")[0] for name, _ in parts(WorkloadIndex(POLICY))}
    assert set(vars(WorkloadIndex(POLICY))) - names == {
        "policy",
        "requeues",
        "changed_clusters",
        "_dirty",
        "_rested",
        "_looked_through",
    }


def test_every_batch_of_a_run_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    original = ReplayRules.folded

    def folded(self: ReplayRules, process: str, index: WorkloadIndex) -> None:
        before = self.batches
        original(self, process, index)
        seen.append((index.position, self.batches - before))

    monkeypatch.setattr(ReplayRules, "folded", folded)
    play(plan(step(5, "submit", "job-1", 20, 1), step(40, "submit", "job-2", 20, 1), replicas=2))
    assert len(seen) > 50
    assert all(compared == 1 for _, compared in seen)
