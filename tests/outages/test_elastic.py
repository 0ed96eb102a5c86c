"""An elastic job is made larger and smaller while it runs, through the death of the process and the loss of its worker:
there is one job, and it is of the size that was asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from controlplane.job_kinds.base import merged
from controlplane.job_kinds.batch_job import BatchJob
from controlplane.kube.kinds import JOBS, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, PREBUILT, QUEUE_LABEL
from tests.job_kinds.rows import ROWS
from tests.multikueue.kep693.rig import NS
from tests.outages.stage import Stage, condition, settings

ELASTIC = {"kueue.x-k8s.io/elastic-job": "true", "simulation.controlplane/duration": "1h"}


def train() -> Json:
    spec = merged(ROWS["batch/job"].spec | {"parallelism": 1, "completions": 10}, BatchJob().delegated(MULTIKUEUE))
    metadata = {"namespace": NS, "name": "train", "labels": {QUEUE_LABEL: "user-queue"}, "annotations": ELASTIC}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


class Elastic:
    """The job `train`, on the stage."""

    def __init__(self, on: Stage) -> None:
        self._on = on

    def resize(self, parallelism: int) -> None:
        self._on.manager.store.patch(JOBS, NS, "train", {"spec": {"parallelism": parallelism}})

    def copies(self) -> list[tuple[str, Json]]:
        """The copies of the job, by cluster."""
        found = []
        for name, each in self._on.world.workers.items():
            jobs = each.store.list(JOBS)[0]
            found += [(name, one) for one in jobs if ORIGIN_LABEL in (meta(one).get("labels") or {})]
        return found

    def slice(self) -> Json | None:
        """The one Workload of the job that is not over and holds quota."""
        live = [one for one in self._on.manager.store.list(WORKLOADS)[0] if not condition(one, "Finished")]
        held = [one for one in live if condition(one, "Admitted")]
        return held[0] if len(held) == len(live) == 1 else None

    def sized(self, parallelism: int) -> str:
        """The UID of the only copy, once it has this size, and it and the slice of this size are each other's."""
        current, copies = self.slice(), self.copies()
        if current is None or len(copies) != 1:
            return ""
        ((where, copy),) = copies
        clone = next(
            (
                one
                for one in self._on.worker(where).store.list(WORKLOADS)[0]
                if meta(one)["name"] == meta(current)["name"]
            ),
            None,
        )
        matches = (
            copy["spec"]["parallelism"] == parallelism
            and not copy["spec"]["suspend"]
            and current["spec"]["podSets"][0]["count"] == parallelism
            and clone is not None
            and clone["spec"]["podSets"][0]["count"] == parallelism
            and meta(copy)["annotations"][PREBUILT] == meta(current)["name"]
        )
        return str(meta(copy)["uid"]) if matches else ""


async def grown(on: Stage) -> tuple[Elastic, str]:
    """A job that runs with three pods after it was submitted with one."""
    job = Elastic(on)
    on.manager.store.create(JOBS, train())
    first = await on.until(lambda: job.sized(1), "running")
    job.resize(3)
    assert await on.until(lambda: job.sized(3), "larger") == first
    return job, str(first)


async def test_it_becomes_larger_and_smaller_and_stays_one_job(stage: Callable[..., Awaitable[Stage]]) -> None:
    on = await stage("a", "b", settings=settings())
    job, uid = await grown(on)
    (bound,) = on.said("SpecUpdateDecided", reason="SliceAdmitted")
    assert bound["resized"]
    job.resize(2)
    assert await on.until(lambda: job.sized(2), "smaller") == uid
    assert len(on.said("JobCreationDecided")) == 1
    on.manager.store.delete(JOBS, NS, "train")
    await on.until(lambda: not job.copies() and on.left() == [], "nothing left")


@pytest.mark.deep
async def test_it_becomes_larger_while_no_process_is_there(stage: Callable[..., Awaitable[Stage]]) -> None:
    on = await stage("a", "b", settings=settings())
    job, uid = await grown(on)
    await on.kill()
    job.resize(4)
    await on.up()
    assert await on.until(lambda: job.sized(4), "larger") == uid
    assert len(on.said("JobCreationDecided")) == 1


@pytest.mark.deep
async def test_one_whose_worker_is_lost_before_it_became_larger_runs_elsewhere_and_once(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    on = await stage("a", "b", settings=settings(lost=1.0))
    job, uid = await grown(on)
    ((where, _),) = job.copies()
    on.cut(where)
    await on.until(lambda: on.lost(where), "lost")
    job.resize(4)
    other = "b" if where == "a" else "a"
    await on.until(lambda: other in dict(job.copies()), "elsewhere")
    on.heal(where)
    again = await on.until(lambda: job.sized(4), "one job, as large as it was asked to be")
    assert again != uid
