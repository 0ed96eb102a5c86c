"""A PipelineRun is dispatched whole to a worker that can take it, over HTTP: left out with a reason, run, relayed, lost, fenced."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from controlplane.kube import meta
from tests.coscheduling.e2e.fleet import RUN, Fleet, existing

Make = Callable[..., Awaitable[Fleet]]


@pytest.fixture
async def fleet(database_url: str, tmp_path: Path, quick: None) -> AsyncIterator[Make]:
    """Make the stage; `await fleet(lambda it: it.claim("b"), "a", "b")` prepares it before the service starts."""
    made: list[Fleet] = []

    async def make(*workers: str, **more: object) -> Fleet:
        made.append(Fleet(database_url, tmp_path, *workers, **more))
        await made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.stop()


async def test_a_run_goes_whole_to_the_worker_that_has_its_claim(fleet: Make) -> None:
    it = await fleet("a", "b")
    it.claim("b")
    it.submit_run(existing("src", "data"))
    await it.until(lambda: it.started("b"), "the run on b")
    assert it.copies() == {"b"}
    judged = it.said("ClustersJudged")[-1]["clusters"]
    assert judged["a"]["reason"] == "ClaimMissing"
    assert "reason" not in judged["b"]
    assert [one["clusters"] for one in it.said("NominationDecided")] == [["b"]]
    said = "Not offered to a: there is no claim default/data"
    assert said in it.notes() or it.check_message() == 'The workload was admitted on "b"'
    await it.until(lambda: it.succeeded(), "the result on the management cluster")
    assert it.tasks("b") == ["build-one", "build-two"] or it.copies() == set()
    hub, workload = it.run(), it.workload_of_run()
    assert hub is not None and workload is not None
    assert hub["spec"]["managedBy"]
    assert hub["status"]["startTime"] and hub["status"]["completionTime"]
    await it.until(lambda: it.copies() == set(), "nothing left")
    await it.until(lambda: it.left() == [], "no Workload left")
