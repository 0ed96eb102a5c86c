"""A cluster that is not what it was: its etcd was restored from a backup, or another one stands in its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from controlplane.kube.kinds import JOBS
from tests.outages.stage import NS, Stage, running_on_a, settings
from tests.support.deep import deep_but

Make = Callable[..., Awaitable[Stage]]
WAYS = pytest.mark.parametrize("seen", deep_but(("killed",), ["watched", "killed"]))


async def restored(on: Stage, seen: str, backup: object) -> None:
    """Put a's backup back, while the service watches, or while it is not there."""
    if seen == "killed":
        await on.kill()
    await on.rebuild("a", backup)  # type: ignore[arg-type]
    if seen == "killed":
        await on.up()


async def noticed(on: Stage) -> None:
    await on.until(lambda: on.said("ClusterRestored", "a"), "the restore noticed")
    await on.until(lambda: on.active("a"), "back")


@WAYS
async def test_a_restored_cluster_forgets_no_running_job(stage: Make, seen: str) -> None:
    """The backup knows nothing of a job that ran: it is queued again, and runs once more and not twice."""
    on = await stage("a", "b", roomy=("a",))
    backup = on.backup("a")
    on.submit()
    await on.running("a")
    first = on.uid("a")
    await restored(on, seen, backup)
    await noticed(on)
    await on.until(lambda: bool(on.running_on()) and on.uid(on.running_on()) != first, "running again")
    on.end(on.running_on())
    await on.done()
    assert on.witness.starts["train"] == ["a", "a"]


@WAYS
async def test_a_restored_cluster_runs_nothing_that_runs_elsewhere(stage: Make, seen: str) -> None:
    """A copy that had been removed from a comes back with the backup, running, while the job runs on b: it goes."""
    on = await running_on_a(stage)
    backup = on.backup("a")
    on.make_room("b")
    on.route("b")
    await on.running("b")
    on.route("a", "b")
    on.worker("a").store.create(JOBS, _foreign())
    await restored(on, seen, backup)
    await noticed(on)
    await on.until(lambda: on.clones() == on.jobs() == {"b"}, "the restored copy gone")
    assert on.running_on() == "b"
    on.end("b")
    await on.done()


@pytest.mark.deep
@WAYS
async def test_a_restored_cluster_does_not_finish_a_job_twice(stage: Make, seen: str) -> None:
    """The copy of a job that has finished comes back with the backup, running: it goes, and nobody hears of it."""
    on = await running_on_a(stage)
    backup = on.backup("a")
    on.end("a")
    await on.done()
    status = (on.job() or {})["status"]
    await restored(on, seen, backup)
    await on.until(lambda: on.said("ClusterRestored", "a"), "the restore noticed")
    await on.until(lambda: on.left() == [], "the restored copy gone")
    assert (on.job() or {})["status"] == status


@pytest.mark.deep
@WAYS
async def test_a_restored_cluster_is_believed_in_what_it_shows_now(stage: Make, seen: str) -> None:
    """The backup has the copy as it was admitted and running, an hour younger: it is the same copy, and its end is
    believed.
    """
    on = await running_on_a(stage, settings=settings(lost=30))
    uid, started, backup = on.uid("a"), on.remote_job("a")["status"]["startTime"], on.backup("a")
    for failed in range(1, 40):
        on.say("a", {"failed": failed})
    await on.until(lambda: (on.job() or {})["status"].get("failed") == 39, "the status here")
    await restored(on, seen, backup)
    await noticed(on)
    await on.until(lambda: not (on.job() or {})["status"].get("failed"), "the status of the backup here")
    assert (on.running_on(), on.uid("a"), on.remote_job("a")["status"]["startTime"]) == ("a", uid, started)
    on.end("a")
    await on.done()


@pytest.mark.deep
@WAYS
async def test_another_cluster_of_the_same_name_is_another_cluster(stage: Make, seen: str) -> None:
    """Rebuilt under the same name: what the old one ran is gone with it, and resourceVersions begin again."""
    on = await stage("a", "b", roomy=("a",))
    for number in range(30):  # the old one has seen more than the new one will for a while
        on.worker("a").store.create(JOBS, _foreign(f"theirs-{number}"))
    on.submit()
    await on.running("a")
    first, life = on.uid("a"), on.said("ClusterConnected", "a")[-1]["incarnation"]
    await restored(on, seen, None)
    await on.until(lambda: bool(on.running_on()) and on.uid(on.running_on()) != first, "running again")
    assert on.said("ClusterConnected", "a")[-1]["incarnation"] != life
    assert on.said("RemoteJobGone", "a", uid=first)
    on.end(on.running_on())
    await on.done()
    assert on.left() == []


def _foreign(name: str = "theirs") -> dict[str, object]:
    container = {"name": "c", "image": "i"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
