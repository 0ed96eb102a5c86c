"""The API server takes nothing back of what a Job's status has told. A job is not lost for it: a later attempt that
counts anew, and a copy that was stopped and started again, are told to its user until the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import JOBS, Json
from tests.multikueue.kep693.rig import NS
from tests.outages.stage import Stage, running_on_a

Make = Callable[..., Awaitable[Stage]]


def shown(on: Stage, cluster: str, **status: object) -> None:
    """What the worker's Job controller writes."""
    on.worker(cluster).store.patch(JOBS, NS, "train", {"status": status}, subresource="status")


def told(on: Stage) -> Json:
    """The status that the user sees."""
    job: Json = on.manager.store.get(JOBS, NS, "train")
    return dict(job.get("status") or {})


async def test_the_next_attempt_of_a_job_that_had_a_failed_pod_is_told(stage: Make) -> None:
    on = await running_on_a(stage)
    shown(on, "a", failed=2)
    await on.until(lambda: told(on).get("failed") == 2, "the failed pods")
    first = on.uid("a")
    on.worker("a").store.delete(JOBS, NS, "train")
    await on.until(lambda: on.running_on() and on.jobs() == {"a"} and on.uid("a") != first, "running again")
    await on.until(lambda: told(on).get("active"), "that it runs again")
    on.end("a")
    await on.done()
    assert is_true({"status": told(on)}, "Complete")
    assert told(on)["failed"] == 2


async def test_a_copy_that_was_stopped_and_started_between_two_looks_is_told(stage: Make) -> None:
    on = await running_on_a(stage)
    await on.until(lambda: told(on).get("startTime"), "the start")
    began = told(on)["startTime"]
    on.worker("a").store.patch(JOBS, NS, "train", {"spec": {"suspend": True}})
    shown(on, "a", startTime=None, active=0)
    on.worker("a").store.patch(JOBS, NS, "train", {"spec": {"suspend": False}})
    shown(on, "a", startTime="2030-01-01T00:00:00Z", active=1, ready=1)
    await on.quiet()
    on.end("a")
    await on.done()
    assert is_true({"status": told(on)}, "Complete")
    assert told(on)["startTime"] == began
