"""Quota automation of the whole service, between simulated clusters: the sum, a lost worker, a restart, and where it is
off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from controlplane.kube.kinds import CLUSTER_QUEUES, EVENTS, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS
from tests.outages.stage import Stage, condition, settings

Make = Callable[..., Awaitable[Stage]]
CONDITION = "MultiKueueManagerQuotaAutomation"


def automate(on: Stage, management: str = "Automated") -> None:
    on.manager.store.patch(MULTIKUEUE_CONFIGS, "", "multikueue", {"spec": {"quotaManagement": management}})


def quota(on: Stage) -> str:
    queue = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    (resource,) = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    return str(resource["nominalQuota"])


def shown(on: Stage) -> bool:
    return condition(on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue"), CONDITION) is not None


async def test_the_quota_follows_the_workers_and_jobs_run_in_it(stage: Make) -> None:
    on = await stage("a", "b", "c", roomy=("a",), settings=settings(lost=3600, quota_automation="yes"))
    on.make_room("b", "7")
    on.make_room("c", "3")
    automate(on)
    await on.until(lambda: quota(on) == "110", "the sum")
    await on.until(lambda: shown(on), "the condition")
    on.make_room("c", "4")
    await on.until(lambda: quota(on) == "111", "a change of one worker")
    on.submit()
    await on.running()
    on.cut("c")
    await on.until(lambda: on.lost("c"), "lost")
    await on.kill()
    await on.up(ready=False)
    on.make_room("b", "8")
    await on.until(lambda: quota(on) == "112", "the lost one's last share counts")
    on.manager.store.delete(MULTIKUEUE_CLUSTERS, "", "c")
    await on.until(lambda: quota(on) == "108", "the removed one's does not")
    on.heal("c")
    automate(on, "Manual")
    await on.until(lambda: on.said("QuotaConditionDecided", condition_reason="NotRequested"), "not requested")
    await on.quiet(0.5)
    assert quota(on) == "108"
    on.end(on.running_on() or "a")
    await on.done()


async def test_who_edits_the_quota_meanwhile_is_not_overwritten_unseen(stage: Make) -> None:
    """A second flavor is the user's: automation says that it cannot go on, and touches nothing."""
    on = await stage("a", "b", settings=settings(quota_automation="yes"))
    automate(on)
    await on.until(lambda: quota(on) == "200", "the sum")
    queue = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    flavors = queue["spec"]["resourceGroups"][0]["flavors"]
    flavors.append({**flavors[0], "name": "spot"})
    on.manager.store.update(CLUSTER_QUEUES, queue)
    on.make_room("a", "1")
    await on.until(lambda: on.said("QuotaConditionDecided", condition_reason="UnsupportedConfiguration"), "said")
    await on.quiet(0.5)
    after = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    assert after["spec"]["resourceGroups"][0]["flavors"] == flavors


async def test_where_it_is_off_the_config_is_told_so(stage: Make) -> None:
    on = await stage("a", "b")
    before = quota(on)
    automate(on)
    said = await on.until(
        lambda: [one for one in on.manager.store.list(EVENTS)[0] if one["reason"] == "QuotaAutomationOff"], "a warning"
    )
    assert said[0]["regarding"]["kind"] == "MultiKueueConfig"
    assert "multikueue.quotaAutomation is off" in said[0]["note"]
    await on.quiet(0.5)
    assert quota(on) == before
    assert not shown(on)
