"""A Workload that cannot be dispatched, between our writes and those of Kueue's core, which deactivates it and resets
its check.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.kube.kinds import CLUSTER_QUEUES, JOBS, WORKLOADS, Json
from tests.multikueue.kep693.rig import user_job
from tests.outages.stage import NS, Stage, condition

Make = Callable[..., Awaitable[Stage]]


def check(workload: Json | None) -> Json:
    """Our check's entry, once there is one."""
    return next(iter(((workload or {}).get("status") or {}).get("admissionChecks") or ()), {})


def rests(on: Stage) -> bool:
    """Whether it is rejected for good: deactivated, without quota, and its check says why."""
    workload = on.workload() or {}
    stopped = workload.get("spec", {}).get("active") is False and not condition(workload, "QuotaReserved")
    return bool(stopped and condition(workload, "Evicted") and check(workload).get("state") == "Rejected")


async def reserved(on: Stage, job: Json) -> None:
    """Submit a job while no process runs, so that it has its quota before anybody can reject it."""
    await on.kill()
    on.manager.store.create(JOBS, job)
    await on.until(lambda: condition(on.workload(), "QuotaReserved") and check(on.workload()), "quota")
    await on.up()


async def test_the_rejection_outlives_the_reset_of_its_check(stage: Make) -> None:
    """Core evicted the Workload and put the check back to Pending; for want of quota nobody rejected it again, and
    nobody read why.
    """
    on = await stage("a")
    job = user_job("train", NS)
    job["spec"].pop("managedBy")
    states: list[str] = []
    on.manager.store.subscribe(
        lambda event: states.append(check(event.object).get("state", "")) if event.kind == WORKLOADS else None
    )
    await reserved(on, job)
    await on.until(lambda: rests(on), "rejected for good")
    wanted = 'The owner is not managed by Kueue: Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not ""'
    assert check(on.workload())["message"].startswith(wanted)
    turns = [state for state, before in zip(states, ["", *states], strict=False) if state != before]
    assert turns == ["Pending", "Rejected", "Pending", "Rejected"], "core has reset it in between"
    await on.quiet()
    on.forget_counts()
    await on.quiet()
    assert (on.writes(), on.left()) == (0, [])


async def test_what_is_mended_while_it_waits_for_quota_runs(stage: Make) -> None:
    """Kueue's scheduler passes over a Workload with a rejected check, for ever."""
    on = await stage("a")
    on.manager.store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "Hold"}})
    on.submit(**{EXECUTION_POLICY: "perhaps"})
    await on.until(lambda: check(on.workload()).get("state") == "Rejected", "rejected")
    on.manager.store.patch(CLUSTER_QUEUES, "", "cluster-queue", {"spec": {"stopPolicy": "None"}})
    await on.quiet()
    assert not condition(on.workload(), "QuotaReserved")
    on.manager.store.patch(JOBS, NS, "train", {"metadata": {"annotations": {EXECUTION_POLICY: "never-twice"}}})
    await on.running("a")
