"""KEP-693's list against mocked worker clients: the real loop, recorder and executors over a log in memory, judged by
the requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controlplane.clusters.protocol import ApiError, Foreign, Unreachable
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.events import (
    ClusterRefused,
    EffectFailed,
    FinishDecided,
    StatusRelayDecided,
    WinnerChosen,
    WorkloadDecision,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.kube.kinds import EVENTS, JOBS, WORKLOADS, Json, Request
from tests.multikueue.kep693.mocked import Mocked
from tests.multikueue.kep693.rig import JOB, NS, ORIGIN, PREBUILT, WL, until, user_job

Make = Callable[..., Awaitable[Mocked]]
ADMITTED: dict[str, Any] = {"conditions": {"QuotaReserved": True, "Admitted": True}}


async def offered(stage: Mocked) -> None:
    """Submitted, nominated, and the clones that could be made are there."""
    await stage.submit()
    await stage.nominated()


def places(requests: list[Request]) -> list[str]:
    return [f"{request.ref.kind.kind} {request.ref.name}" for request in requests]


def finishes(status: Json) -> bool:
    return any(condition["type"] == "Finished" for condition in status.get("conditions", []))


def work(stage: Mocked) -> int:
    """How many requests there were about Workloads and jobs."""
    return sum(r.ref.kind in (WORKLOADS, JOBS) for port in stage.ports.values() for r in port.requests)


async def test_created_across_several_clusters_and_admitted_in_one(mocked: Make) -> None:
    stage = await mocked("a", "b", "c")
    await stage.submit()
    assert [status["nominatedClusterNames"] for status in stage.statuses()] == [["a", "b", "c"]]
    for name in "abc":
        (created,) = stage.ports[name].requests
        assert (created.verb, created.ref.name, created.ref.namespace) == ("create", WL, NS)
        assert created.body["metadata"]["labels"] == {ORIGIN: "multikueue"}
        await stage.clone(name)
    await stage.clone("b", **ADMITTED)
    assert not any(stage.ports[name].asked("delete", WORKLOADS) for name in "abc")  # nothing is chosen
    await stage.nominated()
    assert [places(stage.ports[name].asked("delete", WORKLOADS)) for name in "abc"] == [
        [f"Workload {WL}"],
        [],
        [f"Workload {WL}"],
    ]
    await stage.gone("a", WORKLOADS)
    await stage.gone("c", WORKLOADS)
    (job,) = stage.ports["b"].asked("create", JOBS)
    assert job.body["metadata"]["annotations"][PREBUILT] == WL
    assert "managedBy" not in job.body["spec"]
    assert len(stage.statuses()) == 1  # the job before Ready
    await stage.remote_job("b")
    ready = stage.statuses()[-1]
    (check,) = ready["admissionChecks"]
    assert (check["state"], check["message"]) == ("Ready", 'The workload was admitted on "b"')
    assert ready["clusterName"] == "b"
    assert "nominatedClusterNames" not in ready
    notes = [request.body["note"] for request in stage.manager.asked("create", EVENTS)]
    assert notes == ['The workload was admitted on "b"']
    assert all(isinstance(event.reason, WorkloadReason) for event in await stage.events(WorkloadDecision))


async def test_admitted_at_the_same_time_by_two(mocked: Make) -> None:
    stage = await mocked("a", "b")
    await offered(stage)
    await stage.clone("a")
    await stage.clone("b", conditions={"Admitted": ("Admitted", "", "2026-01-01T00:00:05Z")})
    await stage.clone("a", conditions={"Admitted": ("Admitted", "", "2026-01-01T00:00:05Z")})
    (chosen,) = await stage.events(WinnerChosen)
    assert chosen.cluster == "b"
    (once,) = stage.ports["a"].asked("delete", WORKLOADS)  # once, although the clone changed meanwhile
    assert once.uid
    assert not once.resource_version
    await stage.gone("a", WORKLOADS)
    assert len(stage.ports["b"].asked("create", JOBS)) == 1
    assert stage.ports["a"].asked("create", JOBS) == []


async def test_both_admissions_seen_at_once_are_decided_by_the_clusters_clocks(mocked: Make) -> None:
    stage = await mocked("a", "b")
    await offered(stage)
    await stage.clone("a")
    await stage.lose("a")
    await stage.lose("b")
    for name, second in (("b", 7), ("a", 3)):
        await stage.clone(name, conditions={"Admitted": ("Admitted", "", f"2026-01-01T00:00:0{second}Z")})
    await stage.connect("b")
    (chosen,) = await stage.events(WinnerChosen)
    assert chosen.cluster == "b"  # what cannot be reached cannot win
    await stage.connect("a")
    assert len(await stage.events(WinnerChosen)) == 1
    assert places(stage.ports["a"].asked("delete", WORKLOADS)) == [f"Workload {WL}"]
    assert stage.ports["a"].asked("create", JOBS) == []


async def test_rejected_by_a_cluster(mocked: Make) -> None:
    stage = await mocked("a", "b")
    await offered(stage)
    await stage.clone("b")
    spec = {**stage.ports["a"].asked("create", WORKLOADS)[0].body["spec"], "active": False}
    await stage.clone("a", spec=spec, conditions={"Evicted": ("Deactivated", "no such flavor here")})
    (refused,) = await stage.events(ClusterRefused)
    assert (refused.cluster, refused.message, refused.reason) == (
        "a",
        "no such flavor here",
        WorkloadReason.REJECTED_BY_WORKER,
    )
    assert places(stage.ports["a"].asked("delete", WORKLOADS)) == [f"Workload {WL}"]
    assert stage.statuses()[-1]["nominatedClusterNames"] == ["b"]
    await stage.gone("a", WORKLOADS)
    await stage.nominated()
    assert len(stage.ports["a"].asked("create", WORKLOADS)) == 1
    await stage.clone("b", **ADMITTED)
    assert len(stage.ports["b"].asked("create", JOBS)) == 1


async def test_worker_without_the_namespace(mocked: Make) -> None:
    stage = await mocked("a", "b")
    missing = ApiError(404, "NotFound", 'namespaces "default" not found')
    stage.ports["a"].answers("create", WORKLOADS, missing, always=True)
    await offered(stage)
    await stage.clone("b", **ADMITTED)
    assert len(stage.ports["b"].asked("create", JOBS)) == 1
    (failed,) = await stage.events(EffectFailed)
    assert (failed.code, failed.error, failed.message) == (404, "NotFound", 'namespaces "default" not found')
    assert len(stage.ports["a"].requests) == 1
    assert stage.ports["a"].asked("create", JOBS) == []


async def test_a_missing_namespace_is_asked_for_less_and_less_often(mocked: Make) -> None:
    stage = await mocked("a")
    missing = ApiError(404, "NotFound", 'namespaces "default" not found')
    stage.ports["a"].answers("create", WORKLOADS, missing, missing, missing, missing)
    await offered(stage)
    tries = [len(stage.ports["a"].requests)]
    for seconds in (1, 2, 4, 8):
        await stage.pass_time(seconds - 0.5)
        assert len(stage.ports["a"].requests) == tries[-1]
        await stage.pass_time(0.6)
        tries.append(len(stage.ports["a"].requests))
    assert tries == [1, 2, 3, 4, 5]
    await stage.clone("a", **ADMITTED)
    assert len(stage.ports["a"].asked("create", JOBS)) == 1


async def test_worker_without_the_local_or_cluster_queue(mocked: Make) -> None:
    stage = await mocked("a", "b", "c")
    await offered(stage)
    inadmissible: dict[str, Any] = {"QuotaReserved": False}
    await stage.clone("a", conditions=inadmissible)
    await stage.clone("b", conditions=inadmissible)
    await stage.clone("c", **ADMITTED)
    assert places(stage.ports["a"].asked("delete", WORKLOADS)) == [f"Workload {WL}"]
    assert places(stage.ports["b"].asked("delete", WORKLOADS)) == [f"Workload {WL}"]
    await stage.gone("a", WORKLOADS)
    await stage.gone("b", WORKLOADS)
    assert [len(stage.ports[name].asked("create", JOBS)) for name in "abc"] == [0, 0, 1]


@pytest.mark.parametrize("silent", [True, False], ids=["never answers", "refuses the connection"])
async def test_worker_unresponsive(mocked: Make, silent: bool) -> None:
    stage = await mocked("a", "b")
    stage.ports["a"].silent = silent
    if not silent:
        stage.ports["a"].answers("create", WORKLOADS, Unreachable("connection refused"), always=True)
    await offered(stage)
    await stage.clone("b", **ADMITTED)
    assert len(stage.ports["b"].asked("create", JOBS)) == 1
    await stage.remote_job("b")
    assert stage.statuses()[-1]["clusterName"] == "b"
    assert await stage.events(EffectFailed) == []  # no answer says nothing in the log


async def test_an_executed_call_whose_reply_was_lost_is_settled_by_the_watch(mocked: Make) -> None:
    stage = await mocked("a")
    stage.ports["a"].answers("create", WORKLOADS, Unreachable("connection reset"))
    await offered(stage)
    await stage.clone("a")
    await stage.pass_time(60)
    assert len(stage.ports["a"].asked("create", WORKLOADS)) == 1


async def test_a_worker_lost_for_longer_than_its_grace(mocked: Make) -> None:
    stage = await mocked("a", "b")
    await stage.running("a")
    await stage.lose("a")
    before = len(stage.statuses())
    await stage.pass_time(14 * 60)
    assert len(stage.statuses()) == before
    await stage.pass_time(61)
    (check,) = stage.statuses()[-1]["admissionChecks"]
    assert (check["state"], check["message"]) == ("Retry", 'Admitting remote lost, Previously: "Ready"')
    assert stage.ports["a"].asked("delete", JOBS) == []


async def test_worker_deletes_the_job(mocked: Make) -> None:
    stage = await mocked("a", "b")
    await stage.running("a")
    await stage.gone("a", JOBS)
    (check,) = stage.statuses()[-1]["admissionChecks"]
    assert (check["state"], check["message"]) == ("Retry", 'Admitting remote no longer exists, Previously: "Ready"')
    assert len(stage.ports["a"].asked("create", JOBS)) == 1  # not made again behind Kueue's back
    assert await stage.events(FinishDecided) == []


async def test_job_finishes(mocked: Make) -> None:
    stage = await mocked("a", "b")
    await stage.running("a")
    await stage.pass_time(2)
    await stage.show(MANAGEMENT, JOBS, JOB, {"status": {"active": 1, "ready": 0, "startTime": "T"}}, NS)
    done: Json = {"succeeded": 1, "startTime": "T", "conditions": [{"type": "Complete", "status": "True"}]}
    await stage.remote_job("a", done, suspend=False)
    await stage.clone("a", conditions={"Finished": ("Succeeded", "Job finished successfully")})
    assert stage.job_statuses()[-1]["succeeded"] == 1
    assert not any(finishes(status) for status in stage.statuses())  # the status before Finished
    await stage.show(MANAGEMENT, JOBS, JOB, {"status": done}, NS)
    await stage.pass_time(1)
    finished = stage.statuses()[-1]["conditions"][-1]
    assert (finished["type"], finished["reason"], finished["message"]) == (
        "Finished",
        "Succeeded",
        "Job finished successfully",
    )
    assert stage.ports["a"].asked("delete", JOBS) == []
    await stage.workload(conditions={"Finished": ("Succeeded", "Job finished successfully")})
    (removal,) = stage.ports["a"].asked("delete", JOBS)
    assert (removal.uid, removal.owner_label) == (f"Job-a-{JOB}", (ORIGIN, "multikueue"))
    assert stage.ports["a"].asked("delete", WORKLOADS) == []
    await stage.gone("a", JOBS)
    assert len(stage.ports["a"].asked("delete", WORKLOADS)) == 1
    await stage.gone("a", WORKLOADS)
    asked = work(stage)
    await stage.pass_time(3600)
    assert work(stage) == asked


async def test_job_finishes_with_an_error(mocked: Make) -> None:
    stage = await mocked("a")
    await stage.running("a")
    failed: Json = {"failed": 7, "startTime": "T", "conditions": [{"type": "Failed", "status": "True"}]}
    await stage.remote_job("a", failed, suspend=False)
    await stage.clone("a", conditions={"Finished": ("Failed", "Job has reached the specified backoff limit")})
    assert stage.job_statuses()[-1]["failed"] == 7
    await stage.show(MANAGEMENT, JOBS, JOB, {"status": failed}, NS)
    await stage.pass_time(1)
    finished = stage.statuses()[-1]["conditions"][-1]
    assert (finished["reason"], finished["message"]) == ("Failed", "Job has reached the specified backoff limit")


async def test_status_changes_frequently(mocked: Make) -> None:
    stage = await mocked("a")
    await stage.running("a")
    await stage.pass_time(2)
    shown: Json = {}

    async def store() -> None:
        """The manager stores what was written last."""
        patch = stage.job_statuses()[-1]
        shown.update({key: value for key, value in patch.items() if value is not None})
        await stage.show(MANAGEMENT, JOBS, JOB, {"status": dict(shown)}, NS)

    await store()
    before = len(stage.job_statuses())
    for failed in range(1, 101):
        await stage.remote_job("a", {"active": 1, "ready": 0, "startTime": "T", "failed": failed}, suspend=False)
        known = len(stage.job_statuses())
        await stage.pass_time(0.05)
        if len(stage.job_statuses()) > known:
            await store()
    await stage.pass_time(1.0)
    await store()
    assert shown["failed"] == 100
    assert 3 <= len(stage.job_statuses()) - before <= 7
    asked = len(stage.job_statuses())
    await stage.pass_time(60)
    assert len(stage.job_statuses()) == asked
    assert len(await stage.events(StatusRelayDecided)) == asked


async def test_a_foreign_job_of_the_same_name_is_untouched(mocked: Make) -> None:
    stage = await mocked("a", "b")
    stage.ports["a"].answers(
        "create", JOBS, Foreign(f"Job {NS}/{JOB} does not carry {ORIGIN}", user_job()), always=True
    )
    await offered(stage)
    await stage.clone("a")
    await stage.clone("b")
    await stage.clone("a", **ADMITTED)
    await stage.gone("b", WORKLOADS)
    assert len(stage.ports["a"].asked("create", JOBS)) == 1
    (refused,) = await stage.events(ClusterRefused)
    assert (refused.cluster, refused.reason) == ("a", WorkloadReason.JOB_NAME_TAKEN)
    assert stage.statuses()[-1]["nominatedClusterNames"] == ["b"]
    assert stage.ports["a"].asked("delete", JOBS) == []
    await until(lambda: stage.ports["a"].asked("delete", WORKLOADS), "the clone on a to go")
