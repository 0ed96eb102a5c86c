"""The dispatcher that scores clusters, with a real process between simulated clusters: jobs go where the rules say, and
the log says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from controlplane.controllers.multikueue.nominate import SCORED
from controlplane.kube.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS, WORKLOADS
from controlplane.settings import Settings
from controlplane.settings.scoring import Scoring
from tests.outages.stage import Stage, settings

LABELS = {"a": {"region": "eu", "cost": "3"}, "b": {"region": "eu", "cost": "1"}, "c": {"region": "us", "cost": "2"}}


def scored(**rules: object) -> Settings:
    """One cluster is asked at a time, by these rules."""
    return settings(dispatcher_name=SCORED, step_size=1, scoring=Scoring(**rules))


def label(on: Stage) -> None:
    for name, labels in LABELS.items():
        on.manager.store.patch(MULTIKUEUE_CLUSTERS, "", name, {"metadata": {"labels": labels}})


def places(on: Stage) -> Counter[str]:
    found = on.manager.store.list(WORKLOADS)[0]
    return Counter(one["status"].get("clusterName", "") for one in found)


async def test_jobs_go_to_the_cheapest_and_a_job_may_say_where_not(stage: Callable[..., Awaitable[Stage]]) -> None:
    on = await stage("a", "b", "c", settings=scored(cost_label="cost", latency_weight=0, rejection_weight=0))
    label(on)
    await on.until(lambda: len(on.said("MultiKueueClusterObserved")) >= 6, "labels in the log")
    on.submit("cheap")
    on.submit("abroad", **{"controlplane/cluster-selector": "region!=eu"})
    await on.until(lambda: places(on) == Counter("bc"), "both placed")
    found = {tuple(one["cluster"] for one in each["clusters"]): each for each in on.said("ClustersScored")}
    assert set(found) == {("b", "c", "a"), ("c",)}
    assert found["c",]["left_out"].keys() == {"a", "b"}
    assert [one["facts"]["cost"] for one in found["b", "c", "a"]["clusters"]] == ["1", "2", "3"]
    assert {tuple(each["clusters"]) for each in on.said("NominationDecided")} == {("b",), ("c",)}


async def test_jobs_of_a_queue_are_spread_over_regions(stage: Callable[..., Awaitable[Stage]]) -> None:
    spread = {"spread_label": "region", "spread_when_unsatisfiable": "DoNotSchedule"}
    on = await stage("a", "b", "c", settings=scored(cost_label="cost", **spread))
    label(on)
    await on.until(lambda: len(on.said("MultiKueueClusterObserved")) >= 6, "labels in the log")
    for number in range(6):
        on.submit(f"job-{number}", **{"simulation.controlplane/duration": "30s"})
    await on.until(lambda: places(on).total() == 6 and "" not in places(on), "all placed")
    assert places(on)["c"] == 3, "as many abroad as in both clusters of the other region"


async def test_a_job_goes_where_its_quota_is_free_and_one_watch_tells_who_else_asks(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """Quota automation watches the same queues, and reads other fields of them."""
    wanted = settings(
        dispatcher_name=SCORED,
        step_size=1,
        scoring=Scoring(flavors_weight=1, latency_weight=0, rejection_weight=0),
        quota_automation="yes",
    )
    on = await stage("a", "b", roomy=("b",), settings=wanted)
    await on.until(lambda: on.said("WorkerClusterQueueObserved", "a") and on.said("WorkerQuotaObserved", "a"), "queues")
    on.submit("train")
    assert await on.running() == "b"
    (scores,) = on.said("ClustersScored")
    assert [(one["cluster"], one["rules"]["flavors"]) for one in scores["clusters"]] == [("b", 100), ("a", 0)]
    assert scores["clusters"][1]["facts"]["flavors"] == "0 cpu free in default-flavor, 1 asked"

    def left() -> str:
        return str(on.said("WorkerClusterQueueObserved", "b")[-1]["groups"][0]["flavors"][0]["free"]["cpu"])

    await on.until(lambda: left() == "99", "what it took to be seen")


@pytest.mark.deep
async def test_a_worker_that_does_not_show_its_queues_is_neither_preferred_nor_left_out(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    wanted = settings(
        dispatcher_name=SCORED, step_size=1, scoring=Scoring(flavors_weight=1, latency_weight=0, rejection_weight=0)
    )
    on = await stage("a", "b", roomy=("b",), settings=wanted)
    hidden = [kind.name for kind in (CLUSTER_QUEUES, LOCAL_QUEUES)]
    on.worker("a").faults.storm(403, resources=hidden)
    await on.kill()
    await on.up()
    on.submit("train")
    assert await on.running() == "b"
    (scores,) = on.said("ClustersScored")
    known = {one["cluster"]: (one["score"], one["facts"]["flavors"]) for one in scores["clusters"]}
    assert known == {"a": (50, "not known"), "b": (100, "free in cluster-queue")}
