"""A LeaderWorkerSet in the midst of trouble: replicas are evicted, clusters lost and found again, and writes carried
out in any order. There is one copy of it at any time, and once the trouble is over all replicas are where it is.
"""

from __future__ import annotations

import random

import pytest

from controlplane.controllers.multikueue import events
from controlplane.kube.kinds import WORKLOADS
from controlplane.log.event import Event
from tests.multikueue.test_leaderworkersets import KIND, RUNS, Sets
from tests.support.deep import deep_after

CLUSTERS, REPLICAS = ("a", "b", "c"), 3
ACTIONS = (
    "decide",
    "decide",
    "decide",
    "write",
    "write",
    "write",
    "admit",
    "admit",
    "evict",
    "requeue",
    "lose",
    "tick",
)


class Walk:
    """What there is on the clusters, and what was decided and is not written yet."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.scene = Sets(*CLUSTERS, replicas=REPLICAS, execution_policy="never-twice")
        self.open: list[tuple[int, events.WorkloadWrite]] = []
        self.copies: set[str] = set()
        self.clones: set[tuple[str, int]] = set()
        self.lost: set[str] = set()
        self.created = 0

    # --- what may happen ---

    def step(self, action: str) -> None:
        index = self.random.randrange(REPLICAS)
        getattr(self, action)(index)
        assert len(self.copies) <= 1, f"two copies: {sorted(self.copies)}"

    def decide(self, index: int) -> None:
        for decision in self.scene.at(index).decide():
            if isinstance(decision, events.RemovalDecided) and decision.of == "Job":
                assert not self.placed(decision.cluster, but=index), "a replica that is placed there loses its copy"
            if isinstance(decision, events.WorkloadWrite):
                self.open.append((index, decision))

    def placed(self, cluster: str, but: int) -> list[int]:
        """The other replicas that are on a cluster, by what the management cluster says."""
        found = []
        for index in (one for one in range(REPLICAS) if one != but):
            local = self.scene.at(index).state.local
            assert local is not None
            if local.cluster_name == cluster and local.is_true("QuotaReserved") and not local.is_true("Evicted"):
                found.append(index)
        return found

    def write(self, _: int) -> None:
        """Carry out one write that is open still; one to a cluster that is away waits."""
        todo = [one for one in self.open if one[1].cluster not in self.lost]
        if not todo:
            return
        index, decision = self.random.choice(todo)
        self.open.remove((index, decision))
        effect = self.scene.at(index).state.effects.get(decision.target)
        if effect is not None and effect.decision == decision:
            self.carry_out(index, decision)

    def admit(self, index: int) -> None:
        here = [one for one in sorted(self.clones) if one[1] == index and one[0] not in self.lost]
        if here:
            cluster, _ = self.random.choice(here)
            clone = self.scene.at(index).state.remote(cluster).clone
            if clone is not None and clone.active:
                self.scene.clone(cluster, RUNS)

    def evict(self, index: int) -> None:
        local = self.scene.at(index).state.local
        assert local is not None
        if local.is_true("QuotaReserved") and self.random.random() < 0.3:
            self.scene.workload({"Evicted": "Preempted", "Admitted": False}, check="Pending", cluster_name="")

    def requeue(self, index: int) -> None:
        """Kueue takes the quota of what was evicted, and gives it quota again later."""
        local = self.scene.at(index).state.local
        assert local is not None
        if local.is_true("Evicted") and local.is_true("QuotaReserved"):
            self.scene.workload({"QuotaReserved": False})
        elif not local.is_true("QuotaReserved"):
            self.scene.workload({"QuotaReserved": True, "Evicted": False})

    def lose(self, _: int) -> None:
        cluster = self.random.choice(CLUSTERS)
        if cluster in self.lost:
            self.find(cluster)
        elif self.random.random() < 0.3:
            self.lost.add(cluster)
            self.scene.lose(cluster)

    def tick(self, _: int) -> None:
        self.scene.tick(minutes=self.random.choice((1, 20)))

    def find(self, cluster: str) -> None:
        self.lost.discard(cluster)
        self.scene.connect(cluster, (WORKLOADS, KIND))

    # --- what comes of a write ---

    def carry_out(self, index: int, decision: Event) -> None:
        scene = self.scene.at(index)
        match decision:
            case events.NominationDecided():
                scene.workload(nominated=decision.clusters)
            case events.CloneDecided():
                self.clones.add((decision.cluster, index))
                scene.clone(
                    decision.cluster, {"Admitted": False, "QuotaReserved": False, "Evicted": False}, active=True
                )
            case events.JobCreationDecided():
                self.created += 1
                self.copies.add(decision.cluster)
                scene.copy(decision.cluster)
            case events.CheckStateDecided(state="Ready"):
                scene.workload({"Admitted": True}, check="Ready", cluster_name=decision.winner, nominated=[])
            case events.CheckStateDecided():
                scene.workload({"Evicted": "AdmissionCheck", "Admitted": False}, check="Pending", cluster_name="")
            case events.NamesClearDecided():
                scene.workload(cluster_name="", nominated=[])
            case events.DeactivationDecided():
                over = {"DeactivationTarget": "EvictedOnManagerCluster", "Evicted": "Deactivated"}
                scene.clone(decision.cluster, {**over, "Admitted": False, "QuotaReserved": False}, active=False)
            case events.RemovalDecided(of="Job"):
                self.copies.discard(decision.cluster)
                scene.copy_gone(decision.cluster)
            case events.RemovalDecided():
                self.clones.discard((decision.cluster, index))
                scene.clone_gone(decision.cluster)
            case _:
                raise AssertionError(f"nobody carries out {decision}")

    # --- and the end ---

    def settle(self) -> None:
        """No more trouble: everything that is decided is written, and every copy that may be is admitted."""
        for cluster in sorted(self.lost):
            self.find(cluster)
        for _ in range(60):
            before = self.scene.position
            for index in range(REPLICAS):
                self.decide(index)
                local = self.scene.state.local
                assert local is not None
                if local.is_true("Evicted") or not local.is_true("QuotaReserved"):
                    self.requeue(index)
            while self.open:
                self.write(0)
                assert len(self.copies) <= 1
            for cluster, index in sorted(self.clones):
                clone = self.scene.at(index).state.remote(cluster).clone
                if clone is not None and clone.active and not clone.is_true("Admitted"):
                    self.scene.clone(cluster, RUNS)
            self.scene.tick(minutes=6)
            if self.scene.position == before:
                return
        raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("seed", deep_after(20, range(1500)))
def test_there_is_one_copy_at_any_time_and_all_replicas_come_to_it(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(200):
        walk.step(walk.random.choice(ACTIONS))
    walk.settle()
    placed = {walk.scene.at(index).state.local.cluster_name for index in range(REPLICAS)}  # type: ignore[union-attr]
    assert placed == walk.copies
    assert len(placed) == 1
    assert placed != {""}
    assert walk.clones == {(cluster, index) for cluster in placed for index in range(REPLICAS)}


def test_the_walks_go_where_there_is_something_to_see() -> None:
    made = []
    for seed in range(20):
        walk = Walk(seed)
        for _ in range(200):
            walk.step(walk.random.choice(ACTIONS))
        made.append(walk.created)
    assert max(made) > 1, "some copies were made again, elsewhere or in the same place"
