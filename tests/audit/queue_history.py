"""Workloads that come, wait, run for a while and end, as admission records them: for what is told of waits and of
runs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from tests.quota.admission.scene import NS, START, Scene


class Run(NamedTuple):
    """A Workload that comes `at` seconds after the start, and has quota for `seconds`."""

    at: float
    name: str
    seconds: float
    cpu: str = "1"
    queue: str = "q"
    priority: int = 0


def play(runs: Iterable[Run], until: float, cpu: str = "4", scene: Scene | None = None, **spec: Any) -> Scene:
    """Return the history of some runs in a ClusterQueue `q`, up to a second after the start."""
    found = scene or Scene()
    if scene is None:
        found.queue("q", cpu, **spec)
    coming = sorted(runs)
    lasts = {run.name: run.seconds for run in coming}
    ends: list[tuple[float, str]] = []
    running: set[str] = set()
    while True:
        now = min([*(run.at for run in coming[:1]), *(at for at, _ in ends[:1]), until])
        found.now = START + timedelta(seconds=now)
        if now >= until:
            found.settle()
            return found
        if ends and ends[0][0] <= now:
            found.finish(heapq.heappop(ends)[1])
        else:
            run = coming.pop(0)
            found.workload(run.name, run.queue, run.cpu, priority=run.priority)
        found.settle()
        for key in set(found.controller.index.engine.snapshot.workloads) - running:
            running.add(key)
            name = key.removeprefix(f"{NS}/")
            heapq.heappush(ends, (now + lasts[name], name))
