"""A connection that wobbles, breaks, or is given other credentials: what follows from it, and what does not."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable

import pytest

from controlplane.clusters.pace import Pace
from controlplane.kube.kinds import MULTIKUEUE_CLUSTERS, SECRETS, WORKLOADS
from controlplane.runtime import term
from controlplane.simulation.world import KUEUE_NAMESPACE, secret_name
from tests.outages.stage import RETRY, Stage, check_of, running_on_a, settings
from tests.support.deep import deep_after

Make = Callable[..., Awaitable[Stage]]


def retries(stage: Stage) -> int:
    """How often the Workload of the job was taken from a cluster."""
    return int(check_of(stage.workload() or {}).get("retryCount", 0))


async def test_a_short_flap_evicts_nothing_and_writes_nothing(stage: Make) -> None:
    """A brief watch reconnect evicted healthy workloads (Kueue #12999)."""
    on = await stage("a", "b", settings=settings(lost=0.1))
    on.submit()
    winner = await on.running()
    uid = on.uid(winner)
    await on.quiet(0.7)
    on.forget_counts()
    for _ in range(3):
        on.cut(winner)
        await asyncio.sleep(0.05)
        on.heal(winner)
        await asyncio.sleep(0.2)
    await on.until(lambda: on.worker(winner).server.open_watches == 3, "watches again")
    await on.quiet()
    assert on.writes() == 0
    assert on.said("ClusterLost") == []
    assert (on.running_on(), on.uid(winner), retries(on)) == (winner, uid, 0)
    on.end(winner)
    await on.done()


async def test_a_loss_shorter_than_the_grace_moves_nothing(stage: Make) -> None:
    """A lost connection did not start the grace, and workloads were queued again at once (Kueue #11559)."""
    on = await stage("a", "b", settings=settings(lost=30))
    on.submit()
    winner = await on.running()
    uid = on.uid(winner)
    on.cut(winner)
    await on.until(lambda: on.lost(winner), "lost")
    assert on.running_on() == winner
    on.heal(winner)
    await on.until(lambda: on.active(winner), "back")
    (judged,) = on.said("CopyJudged", winner)
    assert (judged["verdict"], judged["reason"]) == ("Keep", "StillTheWinner")
    assert (on.running_on(), on.uid(winner), retries(on)) == (winner, uid, 0)
    on.end(winner)
    await on.done()


async def test_the_ordinary_end_of_a_watch_loses_no_cluster(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every watch that the server ended in the ordinary way tore the whole cluster down (specs 4.4)."""
    monkeypatch.setattr(term, "Pace", functools.partial(Pace, watch_shortest=1.0, watch_longest=1.0))
    on = await stage("a", "b")
    on.submit()
    winner = await on.running()
    watches = on.worker(winner).server.watches
    opened = watches[WORKLOADS.name]
    position = on.position
    await on.quiet(0.7)
    on.forget_counts()
    await on.until(lambda: watches[WORKLOADS.name] >= opened + 2, "watches that ended")
    assert on.writes() == 0
    assert on.said("ClusterLost") == on.said("ClusterSuspected") == []
    assert not on.query("SELECT 1 FROM controlplane.events WHERE position > %s AND type = 'KindSynced'", position)
    on.end(winner)
    await on.done()


async def test_a_half_open_connection_is_found_by_asking(stage: Make) -> None:
    """One watch that hung froze the dispatch to every cluster for an hour and a half (Kueue #11206)."""
    on = await running_on_a(stage)
    on.worker("a").faults.half_open()
    on.make_room("b")
    on.submit("second")
    await on.running("b", "second")
    await on.until(lambda: on.lost("a"), "lost")
    (lost,) = on.said("ClusterLost", "a")
    assert lost["reason"] == "Unreachable"
    await on.running("b")
    on.heal("a")
    await on.until(lambda: on.clones() == on.jobs() == {"b"}, "the old copy gone")


@pytest.mark.parametrize("how", deep_after(1, ["network", "credentials", "secret"]))
async def test_every_loss_ends_alike_and_says_its_own_reason(stage: Make, how: str) -> None:
    """What followed from a lost worker depended on whether its network or its configuration had failed (Kueue
    #13238).
    """
    on = await running_on_a(stage)
    on.make_room("b")
    if how == "network":
        on.cut("a")
        reason, words = "ClientConnectionFailed", "connection attempts"
    elif how == "credentials":
        on.worker("a").server.token = "another"
        reason, words = "ClientConnectionFailed", "401"
    else:
        on.manager.store.delete(SECRETS, KUEUE_NAMESPACE, secret_name("a"))
        reason, words = "BadKubeConfig", f'Secret "{secret_name("a")}" not found'
    await on.until(lambda: on.lost("a") and on.why("a")[0] == reason and words in on.why("a")[1], "the reason")
    await on.running("b")
    assert RETRY in on.events()
    assert retries(on) == 1
    on.heal("a")
    on.give_kubeconfig("a") if how != "secret" else on.world._connect()
    await on.until(lambda: on.clones() == on.jobs() == {"b"}, "the old copy gone")
    await on.until(lambda: on.active("a"), "active again")


async def test_replaced_credentials_are_taken_over(stage: Make) -> None:
    """A service-account token that expired or was rotated left the cluster unusable (Kueue #9280)."""
    on = await running_on_a(stage, settings=settings(lost=30))
    uid = on.uid("a")
    on.worker("a").server.token = "rotated"
    await on.until(lambda: on.lost("a"), "lost")
    assert on.said("ClusterLost", "a")[0]["reason"] == "Unauthorized"
    on.give_kubeconfig("a", token="rotated")
    await on.until(lambda: on.active("a"), "back")
    assert (on.running_on(), on.uid("a"), retries(on)) == ("a", uid, 0)
    on.end("a")
    await on.done()


@pytest.mark.deep
async def test_credentials_replaced_in_time_lose_nothing(stage: Make) -> None:
    """A kubeconfig that is replaced while it still works costs a reconnect, and no workload its place."""
    on = await running_on_a(stage, settings=settings(lost=30))
    uid, config = on.uid("a"), on.worker("a").server
    old, config.token = config.token, "rotated"
    on.give_kubeconfig("a", token="rotated")
    await on.until(lambda: len(on.said("ClusterConnected", "a")) == 2, "connected anew")
    assert old != config.token
    assert (on.running_on(), on.uid("a"), retries(on)) == ("a", uid, 0)
    on.end("a")
    await on.done()


async def test_a_deleted_cluster_that_is_still_listed_is_given_up(stage: Make) -> None:
    """A MultiKueueCluster deleted while it was listed kept its workloads Ready for ever (Kueue #10428)."""
    on = await running_on_a(stage)
    on.make_room("b")
    on.manager.store.delete(MULTIKUEUE_CLUSTERS, "", "a")
    await on.running("b")
    assert RETRY in on.events()
    assert on.jobs() == {"a", "b"}  # nobody may go there any more; what runs there is the administrator's
    on.end("b")
    await on.until(on.finished, "finished")


@pytest.mark.deep
async def test_a_deleted_cluster_is_given_up_after_a_restart_too(stage: Make) -> None:
    """The grace of a cluster without a MultiKueueCluster began again with each pass and each process (Kueue #10428,
    #13094).
    """
    on = await running_on_a(stage)
    on.make_room("b")
    await on.kill()
    on.manager.store.delete(MULTIKUEUE_CLUSTERS, "", "a")
    await on.up()
    await on.running("b")
    assert RETRY in on.events()


@pytest.mark.deep
async def test_a_cluster_that_hangs_in_its_deletion_is_given_up_after_a_restart(stage: Make) -> None:
    """A finalizer kept the MultiKueueCluster there, and nobody asked any more whether it was lost."""
    on = await running_on_a(stage)
    on.make_room("b")
    await on.kill()
    on.manager.store.patch(MULTIKUEUE_CLUSTERS, "", "a", {"metadata": {"finalizers": ["example.com/slow"]}})
    on.manager.store.delete(MULTIKUEUE_CLUSTERS, "", "a")
    await on.up()
    await on.kill()
    await on.up()
    await on.running("b")
    assert RETRY in on.events()


async def test_a_cluster_taken_out_of_the_config_gives_its_copy_back_first(stage: Make) -> None:
    """A cluster that was dropped from the config ran its copy on beside the new one (specs section 9, 3)."""
    on = await running_on_a(stage)
    on.make_room("b")
    on.route("b")
    await on.running("b")
    assert on.clones() == on.jobs() == {"b"}
    assert on.witness.starts["train"] == ["a", "b"]
    assert on.query(
        "SELECT (SELECT max(position) FROM controlplane.events WHERE type = 'RemoteJobGone' AND cluster = 'a')"
        " < (SELECT min(position) FROM controlplane.events WHERE type = 'JobCreationDecided' AND cluster = 'b')"
    ) == [(True,)]
