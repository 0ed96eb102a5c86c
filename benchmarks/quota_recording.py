"""Writes into a database what the deterministic simulation records of some Jobs where this service decides about quota,
in a process of its own: `python -m benchmarks.quota_recording URL JOBS`.

In: an empty database and a number of Jobs, which want more quota than there is. Out: the log `main`."""

from __future__ import annotations

import asyncio
import sys

from controlplane.audit.reads import READ
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.run import simulate
from controlplane.dst.scenes.admission.plan import plan_of
from controlplane.dst.scenes.admission.run import AdmissionRun
from tests.audit.database import keep

SEED = 18  # of the seventh edition: three queues that borrow, of which one reclaims; a preemption for every seven Jobs


def main(url: str, jobs: int) -> None:
    """Record."""
    runs: list[AdmissionRun] = []

    def run(plan: Plan) -> AdmissionRun:
        runs.append(AdmissionRun(plan))
        return runs[-1]

    outcome = simulate(plan_of(SEED, edition=7, trouble=0, jobs=jobs), run)
    assert outcome.violation is None, outcome.violation
    asyncio.run(keep(url, runs[0].database.read(0, 1_000_000), types=READ))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
