"""Runs one pod's scheduling cycle: which nodes are feasible, which is best, or what preemption would free.

In: a framework, a snapshot, a pod, the nominated pods. Out: a `CycleResult`, with the status of every node and the
scores. Pure: where kube-scheduler picks one of several best nodes by chance, `pick` decides
(kubernetes/kubernetes pkg/scheduler/schedule_one.go, v1.36)."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from controlplane.controllers.scheduling.framework.plugin import CycleState, Nominated, PostFiltered
from controlplane.controllers.scheduling.framework.runtime import Framework, Scores, rivals
from controlplane.controllers.scheduling.framework.status import SUCCESS, Code, NodeStatuses, Status
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Ints, Mask, Snapshot

NO_NOMINATIONS: Nominated = MappingProxyType({})
NO_NODES = "no nodes available to schedule pods"
_FEWEST = 100


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many feasible nodes are looked for: `percentage` of all (0: it adapts to the cluster's size), from the node
    `start` on.
    """

    percentage: int = 100
    start: int = 0

    def enough(self, nodes: int) -> int:
        """Return how many feasible nodes are enough."""
        if nodes < _FEWEST or self.percentage >= 100:
            return nodes
        percentage = self.percentage or max(50 - nodes // 125, 5)
        return max(nodes * percentage // 100, _FEWEST)


ALL_NODES = Sampling()


@dataclass(slots=True)
class CycleResult:
    """How a cycle ended.

    `status`: Success, or why there is no node. `statuses` and `feasible`: of all nodes (rows). `scores` is None where
    at most one node was feasible. `best`: rows that no other beats; `node` the one chosen. `post_filtered` is
    PostFilter's answer. `next_start` is where the next sample begins.
    """

    status: Status
    statuses: NodeStatuses
    feasible: Ints
    state: CycleState
    scores: Scores | None = None
    best: tuple[int, ...] = ()
    node: str = ""
    post_filtered: PostFiltered | None = None
    next_start: int = 0


def schedule(
    framework: Framework,
    snapshot: Snapshot,
    pod: Pod,
    nominated: Nominated = NO_NOMINATIONS,
    sampling: Sampling = ALL_NODES,
    pick: int = 0,
) -> CycleResult:
    """Run one cycle up to the choice of a node; `pick` chooses among equally good ones (modulo their number)."""
    state = CycleState()
    if not len(snapshot):
        nowhere = NodeStatuses(np.empty(0, dtype=np.int32), (SUCCESS,))
        return CycleResult(Status(Code.UNSCHEDULABLE, (NO_NODES,)), nowhere, np.empty(0, dtype=np.int64), state)
    found = feasible(framework, snapshot, pod, state, nominated, sampling)
    if found.status.code is Code.ERROR:
        return found
    if not len(found.feasible):
        found.post_filtered = framework.post_filter(state, pod, snapshot, found.statuses, nominated)
        return found
    row = snapshot.row.get(pod.nominated_node)
    if row is not None and found.statuses.which[row] == 0:
        found.feasible = np.array([row], dtype=np.int64)  # the node that preemption nominated comes first
    choose(framework, snapshot, pod, found)
    if found.best:
        found.node = snapshot.nodes[found.best[pick % len(found.best)]].name
    return found


def feasible(
    framework: Framework,
    snapshot: Snapshot,
    pod: Pod,
    state: CycleState,
    nominated: Nominated = NO_NOMINATIONS,
    sampling: Sampling = ALL_NODES,
) -> CycleResult:
    """Run PreFilter and Filter on all nodes."""
    status, allowed = framework.pre_filter(state, pod, snapshot)
    count = len(snapshot)
    if not status.ok:
        everywhere = NodeStatuses(np.ones(count, dtype=np.int32), (SUCCESS, status))
        told = f"0/{count} nodes are available: {', '.join(status.reasons)}."
        status = status if status.code is Code.ERROR else Status(Code.UNSCHEDULABLE, (told,), status.plugin)
        return CycleResult(status, everywhere, np.empty(0, dtype=np.int64), state, next_start=sampling.start)
    return filtered(framework, snapshot, pod, state, (status, allowed), nominated, sampling)


def filtered(
    framework: Framework,
    snapshot: Snapshot,
    pod: Pod,
    state: CycleState,
    allowed: tuple[Status, frozenset[str] | None],
    nominated: Nominated = NO_NOMINATIONS,
    sampling: Sampling = ALL_NODES,
) -> CycleResult:
    """Run Filter after PreFilter; `allowed` is PreFilter's answer."""
    still = np.ones(len(snapshot), dtype=np.bool_)
    why, nodes = allowed
    if nodes is not None:
        still[:] = False
        still[[snapshot.row[name] for name in nodes if name in snapshot.row]] = True
    found = framework.filter(state, pod, snapshot, still)
    if nominated:
        found = _with_nominated(framework, snapshot, pod, state, still, found, nominated)
    if nodes is not None:
        left_out = why._replace(code=Code.UNRESOLVABLE)
        which = np.where(still, found.which, len(found.statuses)).astype(np.int32)
        found = NodeStatuses(which, (*found.statuses, left_out))
    rows, start = _sample(snapshot, found, still, sampling)
    bad = next((s for s in found.statuses if s.code is Code.ERROR), None)
    status = SUCCESS if len(rows) else Status(Code.UNSCHEDULABLE, (refusal(found),))
    return CycleResult(bad or status, found, rows, state, next_start=start)


def choose(framework: Framework, snapshot: Snapshot, pod: Pod, found: CycleResult) -> None:
    """Score the feasible nodes of a decision and note the best; a single one is not scored."""
    rows = found.feasible
    if len(rows) == 1:
        found.best = (int(rows[0]),)
        return
    status = framework.pre_score(found.state, pod, snapshot, rows)
    if not status.ok:
        found.status = status
        return
    scores = found.scores = framework.score(found.state, pod, snapshot, rows)
    found.best = tuple(rows[scores.total == scores.total.max()].tolist())


def refusal(found: NodeStatuses) -> str:
    """Return why no node is available, as a pod's events say it: each reason with the number of nodes, sorted as
    text.
    """
    counts: dict[str, int] = {}
    numbers, many = np.unique(found.which, return_counts=True)
    for number, count in zip(numbers.tolist(), many.tolist(), strict=True):
        for reason in found.statuses[number].reasons:
            counts[reason] = counts.get(reason, 0) + count
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(found.which)} nodes are available:" + (f" {listed}." if listed else "")


def _sample(snapshot: Snapshot, found: NodeStatuses, still: Mask, sampling: Sampling) -> tuple[Ints, int]:
    passed = found.which == 0
    enough = sampling.enough(int(still.sum()))
    if enough >= int(passed.sum()) and not sampling.start:
        return snapshot.order()[passed[snapshot.order()]], 0
    order = snapshot.order()
    order = np.roll(order, -(sampling.start % max(len(order), 1)))
    at = np.flatnonzero(passed[order])[:enough]
    looked_at = int(at[-1]) + 1 if len(at) == enough and enough else len(order)
    return order[at], (sampling.start + looked_at) % max(len(order), 1)


def _with_nominated(
    framework: Framework,
    snapshot: Snapshot,
    pod: Pod,
    state: CycleState,
    still: Mask,
    found: NodeStatuses,
    nominated: Nominated,
) -> NodeStatuses:
    """Ask again, node by node, where pods are nominated that this one may not displace."""
    which, statuses = found.which, list(found.statuses)
    for name in nominated:
        row = snapshot.row.get(name)
        if row is None or not still[row] or not rivals(pod, name, nominated):
            continue
        status = framework.filter_with_nominated(state, pod, snapshot.info(row), nominated)
        statuses.append(status)
        which[row] = 0 if status.ok else len(statuses) - 1
    return NodeStatuses(which, tuple(statuses))
