"""Fleets in which much goes otherwise than planned: outages, evictions, deletions, killed leaders, stopped queues."""

from __future__ import annotations

from controlplane.dst.engine.drawing import numbered
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.steps import Step
from tests.dst.plans import step

JOBS = [step(round(5 + 4.13 * n, 3), "submit", f"job-{n}", 30 + n % 7 * 15.3, 1 + n % 2) for n in range(24)]
"""Twenty-four Jobs of one or two CPUs for a fleet that has twelve: some wait from the eighth on."""
LATER = step(500, "cut", "w3")
"""The log goes on until then."""


def fleet(*steps: Step, traits: tuple[str, ...] = (), replicas: int = 1) -> Plan:
    """Return a plan of these steps beside the Jobs."""
    found = tuple(numbered(sorted([*JOBS, *steps], key=lambda one: one.at)))
    return Plan(1, {"management": 12, "w1": 6, "w2": 3, "w3": 3}, replicas, found, len(found), traits=traits)


def _each(kind: str, first: float, gap: float, wheres: list[str], seconds: float = 0.0) -> list[Step]:
    return [step(round(first + gap * n, 3), kind, where, seconds, n) for n, where in enumerate(wheres)]


_WORKERS = [f"w{1 + n % 3}" for n in range(8)]
_EVEN = [f"job-{2 * n}" for n in range(8)]
CHURNED = {
    "a cluster is lost": fleet(step(40, "partition", "w1", 300), step(50.5, "refuse", "w2", 260), LATER),
    "a cluster is given up": fleet(step(40, "partition", "w1", 200), step(60, "forget", "w1", 60), LATER),
    "workers evict": fleet(*_each("preempt-copy", 30, 17.7, _WORKERS)),
    "workers deactivate": fleet(*_each("deactivate-copy", 30, 17.7, _WORKERS[:6])),
    "users deactivate": fleet(*_each("suspend", 30, 13.3, _EVEN, 20)),
    "a queue is drained": fleet(step(60, "drain-queue", "", 20), step(120, "drain-queue", "", 10)),
    "priorities change": fleet(*_each("priority", 20, 9.3, [f"job-{2 * n + 1}" for n in range(10)])),
    "copies are deleted": fleet(
        *(step(30 + 13.1 * n, ("delete-clone", "delete-copy")[n % 2], _WORKERS[n], 0, n) for n in range(8))
    ),
    "a store is put back": fleet(step(50, "rebuild", "w1"), step(70, "restore", "w2", 30)),
    "the leader is killed": fleet(
        step(30, "crash", "replica-1", 12), step(90, "crash", "replica-1", 30), step(130, "absence", "", 25)
    ),
    "one of two is killed": fleet(
        step(30, "crash", "replica-1", 12), step(90, "crash", "replica-2", 30), step(130, "pause", "replica-1", 15),
        replicas=2,
    ),
    "clusters are taken away": fleet(step(40, "unlist-cluster", "w1", 60), step(70, "delete-cluster", "w2", 30)),
    "urgent ones preempt": fleet(*_each("submit-urgent", 20, 15, [f"job-u-{n}" for n in range(4)], 40), traits=("gates",)),
    "a few at a time": fleet(step(60, "partition", "w1", 30), step(70, "preempt", "job-8"), traits=("incremental",)),
    "all of it": fleet(
        *(step(171 + 4.13 * n, "submit", f"job-{n}", 30 + n % 7 * 15.3, 1 + n % 2) for n in range(40, 50)),
        step(40, "cut", "w1"), step(60, "partition", "w2", 20), step(90, "partition", "w1", 250),
        step(30, "preempt-copy", "w1", 0, 3), step(45, "preempt", "job-3"), step(100, "suspend", "job-15", 20),
        step(51, "delete-job", "job-2"), step(56, "submit", "job-2", 33, 1), step(77, "priority", "job-16", 0, 30),
        step(110, "crash", "replica-1", 12), step(140, "absence", "", 20), LATER,
    ),
}  # fmt: skip
"""Of which every placement is played as it was."""
NOT_SIMULATED = {
    "elastic": fleet(
        *(step(10 + 20 * n, "submit-elastic", f"job-el-{n}", 60, 1) for n in range(4)),
        *(step(25 + 20 * n, "resize", f"job-el-{n}", 0, 2) for n in range(4)),
    ),
    "groups": fleet(
        *_each("submit-group", 10, 20, [f"job-group-{n}" for n in range(4)], 60), traits=("kind:Pod", "webhook")
    ),
}
"""Some of whose Workloads take room only."""
