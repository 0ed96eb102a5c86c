"""What is owed to a cluster that cannot be reached stays owed, and is done within seconds of its return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from controlplane.kube.kinds import JOBS, meta
from tests.outages.stage import NS, Stage, back, running_on_a, settings
from tests.support.deep import deep_after, deep_but

Make = Callable[..., Awaitable[Stage]]
RESTARTS = pytest.mark.parametrize("restart", deep_but(("restart",), ["", "restart"]))


@RESTARTS
async def test_a_loser_that_was_away_is_removed(stage: Make, restart: str) -> None:
    """Copies on a cluster that had been away stayed there for good (Kueue #11346, #11515, #3841)."""
    on = await stage("a", "b", roomy=(), settings=settings(lost=30))
    on.submit()
    await on.until(lambda: on.clones() == {"a", "b"}, "clones")
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    on.make_room("b")
    await on.running("b")
    on.end("b")
    await on.until(on.finished, "finished")
    assert on.clones() >= {"a"}
    await back(on, restart)
    await on.until(lambda: on.left() == [], "nothing left")
    assert on.witness.starts["train"] == ["b"]


@RESTARTS
async def test_a_deleted_workload_is_removed_from_a_cluster_that_was_away(stage: Make, restart: str) -> None:
    """A job deleted during a disconnection ran on unseen on the worker (Kueue #2320)."""
    on = await running_on_a(stage, settings=settings(lost=30))
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    on.manager.store.delete(JOBS, NS, "train")
    await on.until(lambda: on.workload() is None, "gone here")
    assert on.jobs() == {"a"}
    await back(on, restart)
    await on.until(lambda: on.left() == [], "nothing left")


async def test_a_workload_deleted_while_we_are_away_is_removed(stage: Make) -> None:
    """The deletion itself was never seen: the list after the start tells of it, and of nothing that is not ours."""
    on = await running_on_a(stage)
    on.worker("a").store.create(JOBS, _foreign())
    await on.kill()
    on.manager.store.delete(JOBS, NS, "train")
    on.manager.store.compact()
    await on.up()
    await on.until(lambda: on.left() == ["a: Job theirs"], "only the foreign job left")


def _foreign() -> dict[str, object]:
    container = {"name": "c", "image": "i"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "theirs", "namespace": NS},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


async def test_what_vanished_between_two_lists_is_noticed(stage: Make) -> None:
    """A recorder that stopped between a list and its watch missed what happened in between; compaction hid it for
    good.
    """
    on = await running_on_a(stage)
    first = on.uid("a")
    await on.kill()
    on.worker("a").store.delete(JOBS, NS, "train")
    on.worker("a").store.compact()
    await on.up()
    await on.running("a")
    assert on.uid("a") != first
    assert on.said("RemoteJobGone", "a", uid=first)
    on.end("a")
    await on.done()


async def test_a_compacted_history_is_a_gap_and_says_so(stage: Make) -> None:
    """While the watch was down the history was compacted: listed anew, the difference told, and the gap recorded."""
    on = await running_on_a(stage, settings=settings(lost=30))
    first = on.uid("a")
    on.cut("a")
    await on.until(lambda: on.lost("a"), "lost")
    on.worker("a").store.delete(JOBS, NS, "train")
    on.worker("a").store.compact()
    on.heal("a")
    await on.until(lambda: on.said("RemoteJobGone", "a", uid=first), "the deletion")
    assert any(synced.get("gap") for synced in on.said("KindSynced", "a"))
    await on.until(lambda: on.running_on() and on.jobs() == {"a"} and on.uid("a") != first, "running again")


@pytest.mark.parametrize("verb", deep_after(1, ["create", "delete"]))
async def test_a_write_whose_reply_was_lost_happens_once(stage: Make, verb: str) -> None:
    """Executed, and the answer lost: the normal case of every write, and no second job."""
    on = await stage("a", "b", roomy=("a",))
    on.worker("a").faults.reply_lost(verbs=(verb,), resources=(JOBS.name,))
    on.submit()
    await on.running("a")
    uid = on.uid("a")
    on.end("a")
    await on.done()
    assert on.left() == []
    assert on.witness.starts["train"] == ["a"]
    assert len({seen["uid"] for seen in on.said("RemoteJobObserved")} | {uid}) == 1
    assert meta(on.job() or {})["name"] == "train"
