"""A cluster that stays away for longer than its grace: what its workloads do meanwhile, and what becomes of the copies
when it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from controlplane.app import operate
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.kube.kinds import CLUSTER_QUEUES, JOBS, WORKLOADS
from controlplane.log.connect import Database
from tests.outages.stage import NS, RETRY, ROLE, Stage, back, check_of, condition, running_on_a, settings
from tests.support.deep import deep_after, deep_but

Make = Callable[..., Awaitable[Stage]]


async def taken_from(on: Stage, cluster: str, *, kill: bool = False) -> None:
    """A job runs on a cluster, which is cut off until the job is queued again; nobody else has room."""
    on.submit()
    await on.running(cluster)
    on.cut(cluster)
    if kill:
        await on.until(lambda: on.lost(cluster), "lost")
        await on.kill()
        await on.up()
    await on.until(lambda: RETRY in on.events(), "Retry")
    await on.until(lambda: not condition(on.workload(), "Admitted"), "queued again")


def reserves(on: Stage) -> bool:
    return condition(on.workload(), "QuotaReserved") is not None


def results(on: Stage) -> set[str]:
    """The clusters whose result was taken over: by the last status, after which Kueue finishes the Workload, or by
    finishing it.
    """
    relayed = {data["source"] for data in on.said("StatusRelayDecided", reason="FinalStatus")}
    return relayed | {data["source"] for data in on.said("FinishDecided")}


def starved(on: Stage, cpu: str) -> None:
    """Give the management cluster's queue so much quota."""
    queue = on.manager.store.get(CLUSTER_QUEUES, "", "cluster-queue")
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu
    on.manager.store.update(CLUSTER_QUEUES, queue)


@pytest.mark.parametrize("restart", deep_but(("restart",), ["", "restart"]))
async def test_at_least_once_runs_elsewhere_and_removes_what_returns(stage: Make, restart: str) -> None:
    """A worker that came back kept its copy, and the one that ran was deleted in its stead (specs section 9, 1; Karmada
    #2769).
    """
    on = await stage("a", "b", roomy=("a",))
    seen: list[str] = []
    on.manager.store.subscribe(
        lambda event: seen.append(_shape(event.object)) if event.kind in (WORKLOADS, JOBS) else None
    )
    on.submit()
    await on.running("a")
    await on.until(lambda: (on.job() or {})["status"].get("active") == 1, "the status here")
    on.cut("a")
    if restart:
        await on.until(lambda: on.lost("a"), "lost")
        await on.kill()
        await on.up()
    await on.until(lambda: RETRY in on.events(), "Retry")
    on.make_room("b")
    await on.running("b")
    # Evicted by Kueue for our Retry, the mirrored status brought to rest, the quota given back, and reserved anew.
    (evicted, rests, released) = (seen.index(word) for word in ("evicted", "rests", "released"))
    assert evicted < rests < released
    (attempt,) = on.said("NominationDecided", attempt=2)[:1]
    assert attempt["clusters"] == ["b"]
    await back(on, restart)
    await on.until(lambda: on.clones() == on.jobs() == {"b"}, "the old copy gone")
    (judged,) = on.said("CopyJudged", "a")
    assert (judged["verdict"], judged["reason"]) == ("Remove", "AnotherClusterWon")
    assert on.running_on() == "b"
    on.end("b")
    await on.done()
    assert on.witness.starts["train"] == ["a", "b"]
    assert results(on) == {"b"}


def _shape(obj: dict[str, object]) -> str:
    """One word for what a change of the manager's Workload or Job brought."""
    status = obj.get("status") or {}
    assert isinstance(status, dict)
    if obj["kind"] == "Job":
        return "rests" if ("active" in status and not status["active"]) or not status.get("active", 1) else ""
    states = {entry["type"]: entry["status"] for entry in status.get("conditions") or ()}
    if states.get("Evicted") != "True":
        return ""
    return "evicted" if states.get("QuotaReserved") == "True" else "released"


async def test_never_twice_waits_however_long(stage: Make) -> None:
    """No option made sure that a job never ran in two places at once (Karmada #5251)."""
    on = await running_on_a(stage, settings=settings(lost=0.2, execution_policy="never-twice"))
    uid = on.uid("a")
    on.make_room("b")
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    on.forget_counts()
    await on.quiet(1.0)
    assert RETRY not in on.events()
    assert (on.running_on(), on.clones(), check_of(on.workload() or {})["state"]) == ("a", {"a"}, "Ready")
    await on.kill()
    await on.up()
    await on.quiet(0.5)
    assert RETRY not in on.events()
    on.heal("a")
    await on.until(lambda: on.active("a"), "back")
    assert on.uid("a") == uid
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]


async def test_a_job_may_ask_for_never_twice_by_itself(stage: Make) -> None:
    """Of two jobs on one lost cluster, only the one that may be run twice is queued again."""
    on = await stage("a", "b", roomy=("a",), settings=settings(lost=0.2))
    on.submit("careful", **{"controlplane/execution-policy": "never-twice"})
    on.submit("hasty")
    await on.running("a", "careful")
    await on.running("a", "hasty")
    on.make_room("b")
    on.cut("a")
    await on.running("b", "hasty")
    await on.quiet(0.3)
    assert on.running_on(name="careful") == "a"
    on.heal("a")
    await on.until(lambda: on.jobs(name="hasty") == {"b"}, "the hasty one's old copy gone")
    assert on.jobs(name="careful") == {"a"}


async def test_a_forgotten_cluster_gives_its_workloads_back(stage: Make) -> None:
    """Under never-twice it is an operator who says that a cluster is dead."""
    wanted = settings(lost=0.2, execution_policy="never-twice")
    on = await running_on_a(stage, settings=wanted)
    on.make_room("b")
    with pytest.raises(operate.NotAllowed, match="not lost"):
        await operate.forget(Database(on.url, ROLE), "main", policy_of(wanted), "a", "me")
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    assert await operate.forget(Database(on.url, ROLE), "main", policy_of(wanted), "a", "me") == 1
    await on.running("b")
    assert RETRY in on.events()
    on.heal("a")
    await on.until(lambda: on.clones() == on.jobs() == {"b"}, "the old copy gone")


@pytest.mark.parametrize("restart", deep_but(("restart",), ["", "restart"]))
async def test_a_job_that_finished_during_the_outage_counts_once(stage: Make, restart: str) -> None:
    """What had finished unseen was run again, or its successor deleted half-way (specs section 9, 1; Karmada #5150)."""
    on = await stage("a", "b", roomy=("a",))
    await taken_from(on, "a")
    on.end("a")
    await back(on, restart)
    await on.done()
    assert on.witness.starts["train"] == ["a"]
    assert results(on) == {"a"}
    assert ((on.job() or {})["status"]["succeeded"], on.said("JobCreationDecided", "b")) == (1, [])


@pytest.mark.deep
async def test_a_finished_copy_beats_one_that_runs(stage: Make) -> None:
    """A result is a result: the second run of the same job is stopped, and Finished is said once."""
    on = await stage("a", "b", roomy=("a",))
    await taken_from(on, "a")
    on.end("a")
    on.make_room("b")
    await on.running("b")
    on.heal("a")
    await on.done()
    assert results(on) == {"a"}
    assert not on.witness.running


@pytest.mark.parametrize("restart", deep_but(("restart",), ["", "restart"]))
async def test_a_workload_that_still_waits_is_adopted_by_its_copy(stage: Make, restart: str) -> None:
    """A lost cluster's return restarted jobs that had never stopped (Karmada #1640)."""
    on = await stage("a", "b", roomy=("a",))
    await taken_from(on, "a", kill=bool(restart))
    uid, started = on.uid("a"), on.remote_job("a")["status"]["startTime"]
    await on.until(lambda: reserves(on), "quota")
    on.heal("a")
    await on.running("a")
    assert (on.uid("a"), on.remote_job("a")["status"]["startTime"]) == (uid, started)
    (judged,) = on.said("CopyJudged", "a")
    assert (judged["verdict"], judged["reason"]) == ("Adopt", "Readmitted")
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]


async def test_a_copy_waits_a_while_for_quota(stage: Make) -> None:
    """Its Workload has no quota yet when the cluster is back: the copy runs on for the re-admission grace, and is
    adopted in it.
    """
    on = await running_on_a(stage)
    uid = on.uid("a")
    starved(on, "0")
    on.cut("a")
    await on.until(lambda: RETRY in on.events(), "Retry")
    await on.until(lambda: not reserves(on), "queued again")
    on.heal("a")
    await on.until(lambda: on.said("CopyJudged", "a", verdict="Wait"), "the verdict")
    assert on.jobs() == {"a"}
    starved(on, "100")
    await on.running("a")
    assert on.uid("a") == uid
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]


@pytest.mark.deep
async def test_a_copy_does_not_wait_for_quota_for_ever(stage: Make) -> None:
    """When the re-admission grace is over the copy goes: nothing runs that the queue has not let in."""
    on = await running_on_a(stage, settings=settings(readmission_grace=_seconds(0.5)))
    starved(on, "0")
    on.cut("a")
    await on.until(lambda: RETRY in on.events(), "Retry")
    await on.until(lambda: not reserves(on), "queued again")
    on.heal("a")
    await on.until(lambda: not on.clones() and not on.jobs(), "the copy gone")
    assert [judged["verdict"] for judged in on.said("CopyJudged", "a")] == ["Wait", "Remove"]


@pytest.mark.deep
async def test_a_failover_can_be_read_afterwards(stage: Make) -> None:
    """Where a job had been, and why it left, was nowhere to be seen (Karmada #5251, #4969)."""
    on = await stage("a", "b", roomy=("a",))
    await taken_from(on, "a")
    on.make_room("b")
    await on.running("b")
    placements = on.query("SELECT attempt, cluster FROM audit.placements ORDER BY attempt")
    assert placements == [(1, "a"), (2, "b")]
    why = on.query(
        "SELECT reason FROM controlplane.events WHERE type = 'CheckStateDecided' AND stream LIKE 'workload/%%' ORDER "
        "BY position"
    )
    assert [reason for (reason,) in why] == ["AdmittedOnWorker", "RemoteLost", "AdmittedOnWorker"]
    assert check_of(on.workload() or {})["retryCount"] == 1


@pytest.mark.parametrize("how", deep_after(1, ["out of sync", "deleted"]))
async def test_a_spoilt_remote_workload_never_holds_quota(stage: Make, how: str) -> None:
    """A remote Workload that was OutOfSync or deleted wedged its Workload, quota and all (Kueue #14521, #15682,
    #9670).
    """
    on = await running_on_a(stage)
    on.make_room("b")
    name = str((on.workload() or {})["metadata"]["name"])
    if how == "deleted":
        on.worker("a").store.patch(WORKLOADS, NS, name, {"metadata": {"finalizers": None}})
        on.worker("a").store.delete(WORKLOADS, NS, name)
    else:
        on.worker("a").store.patch(JOBS, NS, "train", {"spec": {"parallelism": 3, "completions": 3}})
    await on.until(lambda: len(on.said("NominationDecided")) == 2, "a second attempt")
    winner = await on.running()
    await on.until(lambda: on.jobs() == {winner}, "one copy")
    on.end(winner)
    await on.done()


def _seconds(seconds: float) -> object:
    from datetime import timedelta

    return timedelta(seconds=seconds)


@pytest.mark.deep
async def test_two_lost_clusters_have_a_clock_each(stage: Make) -> None:
    """The time since a loss belongs to the cluster, not to each workload on it (Kueue #12999), and outlives the process
    (#13094).
    """
    on = await stage("a", "b", "c", roomy=("a",), settings=settings(lost=5.0))
    on.submit("first")
    await on.running("a", "first")
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    lost_at = on.query("SELECT min(recorded_at) FROM controlplane.events WHERE type = 'ClusterLost'")[0][0]
    await asyncio.sleep(4.0)
    await on.kill()
    await on.up()
    on.make_room("c")
    await on.running("c", "first")
    ((retried,),) = on.query(
        "SELECT recorded_at FROM controlplane.events WHERE type = 'CheckStateDecided' AND reason = 'RemoteLost'"
    )
    # The clock ran on over the restart: had it begun again there, this would be four seconds more at least.
    (restarted,) = on.query("SELECT max(recorded_at) FROM controlplane.events WHERE type = 'ServiceStarted'")[0]
    assert lost_at + timedelta(seconds=5) <= retried < restarted + timedelta(seconds=5)
