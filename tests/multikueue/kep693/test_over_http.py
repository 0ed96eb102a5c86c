"""KEP-693's list over HTTP: a service on PostgreSQL between simulated API servers, judged by their objects and by what
they were asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from controlplane.kube.kinds import JOBS, MULTIKUEUE_CLUSTERS, WORKLOADS, meta
from tests.multikueue.kep693.live import Live, quick_settings, trouble, without_queues
from tests.multikueue.kep693.rig import NS, ORIGIN, PREBUILT, STATUS_INTERVAL, check_of, condition, user_job
from tests.support.deep import deep_after

Make = Callable[..., Awaitable[Live]]
MOST_REQUESTS = 16  # of one Workload's whole life, over all clusters, with three workers


async def finish(stage: Live, cluster: str, **end: Any) -> None:
    """End the job where it runs, and wait until Kueue and we have drawn every consequence."""
    stage.end(cluster, **end)
    await stage.until(stage.finished, "Finished")
    await stage.until(lambda: not stage.clones() and not stage.jobs(), "clean workers")


async def test_created_across_several_clusters_and_admitted_in_one(live: Make) -> None:
    stage = await live("a", "b", "c", roomy=())
    stage.submit()
    await stage.until(lambda: stage.clones() == {"a", "b", "c"}, "clones")
    local = stage.workload()
    assert local is not None
    assert local["status"]["nominatedClusterNames"] == ["a", "b", "c"]
    assert not stage.jobs()
    for cluster in stage.world.workers.values():
        clone = stage.workload(cluster)
        assert clone is not None
        assert clone["spec"] == local["spec"]
        labels = {k: v for k, v in meta(local).get("labels", {}).items() if k != "kueue.x-k8s.io/job-uid"}
        assert meta(clone)["labels"] == {**labels, ORIGIN: "multikueue"}
        assert "ownerReferences" not in meta(clone)
    stage.make_room("b")
    await stage.until(lambda: stage.running_on() == "b", "running on b")
    await stage.until(lambda: stage.clones() == {"b"}, "losers gone")
    assert stage.jobs() == {"b"}
    local, job = stage.workload(), stage.job(stage.worker("b"))
    assert local is not None
    assert job is not None
    assert (check_of(local)["state"], check_of(local)["message"]) == ("Ready", 'The workload was admitted on "b"')
    assert local["status"]["clusterName"] == "b"
    assert not local["status"].get("nominatedClusterNames")
    assert (meta(job)["labels"][ORIGIN], meta(job)["annotations"][PREBUILT]) == ("multikueue", meta(local)["name"])
    assert not job["spec"].get("managedBy")
    await finish(stage, "b")
    assert [stage.count(name, "create", WORKLOADS) for name in "abc"] == [1, 1, 1]
    assert [stage.count(name, "create", JOBS) for name in "abc"] == [0, 1, 0]
    assert stage.gets() == 0
    assert stage.total() <= MOST_REQUESTS, {n: dict(c.server.counts) for n, c in stage.world.clusters.items()}


async def test_admitted_at_the_same_time_by_two(live: Make) -> None:
    stage = await live("a", "b", "c", roomy=("a", "b"))
    stage.submit()
    winner = await stage.until(stage.running_on, "running")
    assert winner in ("a", "b")
    await stage.until(lambda: stage.clones() == {winner}, "losers gone")
    assert stage.jobs() == {winner}
    assert sum(stage.count(name, "create", JOBS) for name in "abc") == 1
    await finish(stage, winner)
    assert stage.gets() == 0
    assert stage.total() <= MOST_REQUESTS


async def test_rejected_by_a_cluster(live: Make) -> None:
    stage = await live("a", "b", roomy=())
    stage.submit()
    await stage.until(lambda: stage.clones() == {"a", "b"}, "clones")
    name = meta(stage.workload() or {})["name"]
    stage.worker("a").kueue.deactivate(NS, name)
    await stage.until(lambda: stage.clones() == {"b"}, "the rejected copy gone")
    await stage.until(lambda: (stage.workload() or {})["status"].get("nominatedClusterNames") == ["b"], "nomination")
    stage.make_room("a")
    stage.make_room("b")
    await stage.until(lambda: stage.running_on() == "b", "running on b")
    assert stage.count("a", "create", WORKLOADS) == 1
    assert stage.count("a", "create", JOBS) == 0
    local = stage.workload()
    assert local is not None
    assert not condition(local, "Evicted")
    await finish(stage, "b")


async def test_worker_without_the_namespace(live: Make) -> None:
    stage = await live("a", "b", "c", roomy=("b",), namespaces={"": ("team",), "a": ()})
    stage.submit(namespace="team")
    await stage.until(lambda: stage.running_on(namespace="team") == "b", "running on b")
    await stage.until(lambda: stage.clones(namespace="team") == {"b"}, "losers gone")
    clusters, _ = stage.manager.store.list(MULTIKUEUE_CLUSTERS)
    assert all(condition(cluster, "Active") for cluster in clusters)
    assert stage.count("a", "create", WORKLOADS) <= 2


async def test_worker_without_the_local_or_cluster_queue(live: Make) -> None:
    stage = await live("a", "b", "c")
    without_queues(stage, local="a", cluster="b")
    stage.submit()
    await stage.until(lambda: stage.running_on() == "c", "running on c")
    await stage.until(lambda: stage.clones() == {"c"}, "losers gone")
    await finish(stage, "c")
    assert sum(stage.count(name, "create", JOBS) for name in "ab") == 0
    assert stage.gets() == 0


@pytest.mark.parametrize("kind", deep_after(1, ["cut", "half-open"]))
async def test_worker_unresponsive(live: Make, kind: str) -> None:
    stage = await live("a", "b", "c", roomy=("b",))
    with trouble(stage, "a", kind):
        stage.submit()
        await stage.until(lambda: stage.running_on() == "b", "running on b")
        stage.submit("second")
        await stage.until(lambda: stage.running_on(name="second") == "b", "the second running on b")
        stage.end("b")
        await stage.until(stage.finished, "Finished")
        await stage.until(lambda: not condition(stage.manager.store.get(MULTIKUEUE_CLUSTERS, "", "a"), "Active"))
    await stage.until(lambda: condition(stage.manager.store.get(MULTIKUEUE_CLUSTERS, "", "a"), "Active"), "a back")
    await stage.until(lambda: not stage.clones(), "nothing left of the first")
    await stage.until(lambda: stage.clones(name="second") == {"b"}, "nothing left of the second but the winner")
    assert stage.count("a", "create", JOBS) == 0


async def test_worker_lost_for_longer_than_its_grace(live: Make) -> None:
    settings = quick_settings(worker_lost_timeout=timedelta(milliseconds=300))
    stage = await live("a", "b", roomy=("a",), settings=settings)
    stage.submit()
    await stage.until(lambda: stage.running_on() == "a", "running on a")
    with trouble(stage, "a", "cut"):
        stage.make_room("b")
        await stage.until(lambda: stage.running_on() == "b", "running on b")
        assert 'Admitting remote lost, Previously: "Ready"' in stage.events()
        local = stage.workload()
        assert local is not None
        assert check_of(local)["retryCount"] == 1
    await stage.until(lambda: stage.clones() == stage.jobs() == {"b"}, "the old copy gone")
    assert stage.running_on() == "b"


async def test_worker_deletes_the_job(live: Make) -> None:
    stage = await live("a", "b", roomy=("a",))
    stage.submit()
    await stage.until(lambda: stage.running_on() == "a", "running on a")
    first = meta(stage.job(stage.worker("a")) or {})["uid"]
    stage.worker("a").store.delete(JOBS, NS, "train")

    def again() -> bool:
        job = stage.job(stage.worker("a"))
        return job is not None and meta(job)["uid"] != first and stage.running_on() == "a"

    await stage.until(again, "running again")
    assert 'Admitting remote no longer exists, Previously: "Ready"' in stage.events()
    local = stage.workload()
    assert local is not None
    assert check_of(local)["retryCount"] == 1
    assert not stage.finished()
    await finish(stage, "a")


async def test_job_finishes(live: Make) -> None:
    stage = await live("a", "b", "c")
    stage.submit()
    winner = await stage.until(stage.running_on, "running")
    await stage.until(lambda: (stage.job() or {})["status"].get("active") == 1, "the status here")
    await finish(stage, winner)
    local, job = stage.workload(), stage.job()
    assert local is not None
    assert job is not None
    assert (job["status"]["succeeded"], job["status"].get("active", 0)) == (1, 0)
    assert condition(job, "Complete")
    finished = condition(local, "Finished")
    assert finished is not None
    assert finished["reason"] == "Succeeded"
    assert stage.gets() == 0
    assert stage.total() <= MOST_REQUESTS
    before = stage.total()
    await asyncio.sleep(0.5)
    assert stage.total() == before  # quiet when nothing changes


async def test_job_finishes_with_an_error(live: Make) -> None:
    stage = await live("a", "b")
    stage.submit()
    winner = await stage.until(stage.running_on, "running")
    await finish(stage, winner, success=False)
    job = stage.job()
    failed = condition(job, "Failed")
    assert job is not None
    assert failed is not None
    assert (failed["reason"], job["status"]["failed"]) == ("BackoffLimitExceeded", 1)
    finished = stage.finished()
    assert finished is not None
    assert finished["reason"] == "Failed"
    assert finished["message"] == "Job has reached the specified backoff limit"


async def test_status_changes_frequently(live: Make) -> None:
    stage = await live("a", "b", roomy=("a",))
    stage.submit()
    await stage.until(lambda: stage.running_on() == "a", "running on a")
    await stage.until(lambda: (stage.job() or {})["status"].get("active") == 1, "the status here")
    before = stage.count("management", "patch", JOBS, "status")
    changes, began = 100, time.monotonic()
    for failed in range(1, changes + 1):
        stage.say("a", {"failed": failed})
        await asyncio.sleep(0.01)
    await stage.until(lambda: (stage.job() or {})["status"].get("failed") == changes, "the last status here")
    remote, local = stage.job(stage.worker("a")), stage.job()
    assert remote is not None
    assert local is not None
    assert local["status"] == remote["status"]
    # As many intervals as have passed, and one at each end: a bound on the rate, however slow the machine is.
    most = (time.monotonic() - began) / STATUS_INTERVAL.total_seconds() + 2
    assert stage.count("management", "patch", JOBS, "status") - before <= most


async def test_a_foreign_job_of_the_same_name_is_untouched(live: Make) -> None:
    stage = await live("a", "b", roomy=("a",))
    foreign = user_job()
    foreign["metadata"] |= {"labels": {"team": "theirs"}}
    foreign["spec"].pop("managedBy")
    stage.worker("a").store.create(JOBS, foreign)
    theirs = stage.job(stage.worker("a"))
    assert theirs is not None
    stage.submit()
    await stage.until(lambda: stage.count("a", "create", JOBS) == 1, "an attempt on a")
    stage.make_room("b")
    await stage.until(lambda: stage.running_on() == "b", "running on b")
    await stage.until(lambda: stage.clones() == {"b"}, "the clone on a gone")
    stage.end("b")
    await stage.until(stage.finished, "Finished")
    await stage.until(lambda: not stage.clones() and stage.jobs() == {"a"}, "clean workers")
    after = stage.job(stage.worker("a"))
    assert after is not None
    assert (meta(after)["uid"], after["spec"], meta(after)["labels"]) == (
        meta(theirs)["uid"],
        theirs["spec"],
        meta(theirs)["labels"],
    )
    assert stage.count("a", "delete", JOBS) == 0
    assert stage.count("a", "create", JOBS) == 1  # once is enough to know
    assert stage.gets() == 1  # to see whose it is
