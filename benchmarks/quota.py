"""How many workloads a second the quota engine decides on, with many pending in many ClusterQueues.

ClusterQueues are in a Cohort tree of two levels, with workloads that have quota already; who is preempted leaves after
the cycle. "own quota": nobody borrows, and lower priorities of the same ClusterQueue are preempted. "borrowing": what
others do not use is borrowed, and reclaimed from anywhere in the tree; it begins with half of the ClusterQueues in need
of that. A decision is one head of a ClusterQueue that a cycle tried; seconds are the processor's. Reading is measured
apart."""

from __future__ import annotations

import argparse
import random
import resource
import time
import tracemalloc
from collections import Counter
from dataclasses import replace

from benchmarks.machine import show
from controlplane.controllers.quota.engine import parse_queues, parse_workloads
from controlplane.controllers.quota.engine.cycle import decide
from controlplane.controllers.quota.engine.decisions import Admit, Preempt
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.controllers.quota.engine.state import State
from controlplane.kube.kinds import Json

COHORTS = 20
RESERVED_A_QUEUE = 8
NOW = 1_800_000_000.0


async def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    kinds = [("own quota", False, False), ("own quota, fair sharing", False, True), ("borrowing", True, False)]
    rows = [
        [f"{pending:,}, {name}", *measure(pending, args.queues, args.quota_cycles, borrows=borrows, fair=fair)]
        for pending in args.pending
        for name, borrows, fair in kinds
    ]
    columns = [
        "pending",
        "decisions/s",
        "p50 cycle ms",
        "cycles",
        "admitted",
        "preempted",
        "read/s",
        "change us",
        "kB each",
    ]
    title = f"quota: {args.queues:,} ClusterQueues in {COHORTS} Cohorts of one tree, {args.quota_cycles} cycles at most"
    show(title, columns, rows)
    print(f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def measure(pending: int, queues: int, most: int, *, borrows: bool, fair: bool) -> list[object]:
    """Return the figures of one fleet."""
    chance = random.Random(pending)
    state, reserved = fleet(queues, chance, borrows=borrows, fair=fair)
    objects = [workload(f"w{n}", n % queues, chance) for n in range(pending)]
    started = time.process_time()
    read = [parse_workloads.workload(obj) for obj in objects]
    reading = time.process_time() - started
    del objects
    tracemalloc.start()
    for found in read:
        state.put_workload(found, NOW)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    counts, seconds = cycles(state, most)
    change = change_of_one(state, reserved)
    deciding = sum(seconds)
    return [
        counts["decided"] / deciding,
        sorted(seconds)[len(seconds) // 2] * 1000,
        len(seconds),
        counts["admitted"],
        counts["preempted"],
        pending / reading,
        change * 1e6,
        memory / pending / 1024,
    ]


def cycles(state: State, most: int) -> tuple[Counter[str], list[float]]:
    """Run cycles until nothing moves; return what was decided, and the seconds of each with taking it into account."""
    counts: Counter[str] = Counter()
    seconds: list[float] = []
    for number in range(most):
        now = NOW + number
        started = time.process_time()
        decisions = decide(state, now)
        state.apply(decisions, now)
        seconds.append(time.process_time() - started)
        counts["decided"] += len(decisions)
        counts["admitted"] += (admitted := sum(isinstance(one, Admit) for one in decisions))
        victims = {victim.workload for one in decisions if isinstance(one, Preempt) for victim in one.victims}
        counts["preempted"] += len(victims)
        for key in victims:
            if (info := state.snapshot.workloads.get(key)) is not None:
                state.put_workload(replace(info.workload, admission=None, reserved_at=None), now)
        if not admitted and not victims:
            break
    return counts, seconds


def change_of_one(state: State, reserved: list[str]) -> float:
    """Return the seconds that it takes to note that one workload has finished."""
    keys = [key for key in reserved if key in state.snapshot.workloads][:100]
    started = time.process_time()
    for key in keys:
        state.snapshot.drop_workload(key)
    return (time.process_time() - started) / max(1, len(keys))


def fleet(queues: int, chance: random.Random, *, borrows: bool, fair: bool) -> tuple[State, list[str]]:
    """Return a fleet with reserved workloads, and their keys."""
    state = State(EngineSettings(fair_sharing=fair))
    state.put_namespace("ns", {}, NOW)
    for name in ("on-demand", "spot"):
        state.put_flavor(parse_queues.resource_flavor({"metadata": {"name": name}, "spec": {}}), NOW)
    state.put_cohort(parse_queues.cohort({"metadata": {"name": "root"}, "spec": {}}), NOW)
    for n in range(COHORTS):
        state.put_cohort(parse_queues.cohort({"metadata": {"name": f"c{n}"}, "spec": {"parentName": "root"}}), NOW)
    for n in range(queues):
        state.put_cluster_queue(parse_queues.cluster_queue(_queue(n, borrows)), NOW)
        spec = {"metadata": {"namespace": "ns", "name": f"lq{n}"}, "spec": {"clusterQueue": f"q{n}"}}
        state.put_local_queue(parse_queues.local_queue(spec))
    keys = []
    for n in range(queues * RESERVED_A_QUEUE):
        obj = workload(f"r{n}", n % queues, chance)
        obj["status"] = _reserved(n % queues, obj)
        state.put_workload(parse_workloads.workload(obj), NOW)
        keys.append(f"ns/r{n}")
    return state, keys


def _queue(n: int, borrows: bool) -> Json:
    amounts = {"cpu": "24" if borrows else "32", "memory": "80Gi" if borrows else "110Gi"}
    limit = {} if borrows else {"borrowingLimit": "0"}
    resources = [{"name": name, "nominalQuota": amount, **limit} for name, amount in amounts.items()]
    flavors = [{"name": name, "resources": resources} for name in ("on-demand", "spot")]
    spec: Json = {
        "cohortName": f"c{n % COHORTS}",
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}],
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any" if borrows else "Never"},
    }
    return {"metadata": {"name": f"q{n}"}, "spec": spec}


def workload(name: str, queue: int, chance: random.Random) -> Json:
    """Return a workload that waits."""
    requests = {"cpu": str(chance.randint(1, 4)), "memory": f"{chance.randint(1, 8)}Gi"}
    pod = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    at = f"2026-01-{chance.randint(1, 28):02}T{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}Z"
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": at, "generation": 1},
        "spec": {
            "queueName": f"lq{queue}",
            "priority": chance.randrange(5),
            "podSets": [{"name": "main", "count": chance.randint(1, 3), "template": {"spec": pod}}],
        },
    }


def _reserved(queue: int, obj: Json) -> Json:
    wanted = obj["spec"]["podSets"][0]
    asked, count = wanted["template"]["spec"]["containers"][0]["resources"]["requests"], wanted["count"]
    flavor = "spot" if int(obj["metadata"]["name"][1:]) % 2 else "on-demand"
    given = {
        "name": "main",
        "count": count,
        "flavors": dict.fromkeys(asked, flavor),
        "resourceUsage": {"cpu": str(int(asked["cpu"]) * count), "memory": f"{int(asked['memory'][:-2]) * count}Gi"},
    }
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": obj["metadata"]["creationTimestamp"]}
    return {"admission": {"clusterQueue": f"q{queue}", "podSetAssignments": [given]}, "conditions": [reserved]}
