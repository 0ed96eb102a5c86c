"""Two management clusters share a worker, and have one origin: neither removes what it does not know to be its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.job_kinds.base import MADE_FOR
from controlplane.kube.kinds import JOBS, WORKLOADS, Json
from controlplane.kube.kueue_names import ORIGIN_LABEL, PREBUILT
from tests.multikueue.kep693.rig import user_job
from tests.outages.stage import NS, Stage, settings
from tests.outages.test_origin import of_new_log
from tests.support.waiting import PATIENCE

Make = Callable[..., Awaitable[Stage]]


def running(on: Stage, name: str, mark: str) -> None:
    """Have a copy run on the worker a whose Workload is not here: `mark` is whose it says that it is, "" for nobody's,
    as Kueue makes it."""
    worker = on.worker("a").store
    annotations = {MADE_FOR: mark} if mark else {}
    labels = {ORIGIN_LABEL: "multikueue"}
    job = user_job(name)
    job["metadata"] |= {
        "namespace": NS,
        "labels": {**labels, PREBUILT: name, "kueue.x-k8s.io/queue-name": "user-queue"},
        "annotations": {**annotations, PREBUILT: name},
    }
    del job["spec"]["managedBy"]
    sets = [{"name": "main", "count": 1, "template": job["spec"]["template"]}]
    clone: Json = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": name, "namespace": NS, "labels": labels, "annotations": annotations},
        "spec": {"podSets": sets, "queueName": "user-queue", "active": True},
    }
    worker.create(WORKLOADS, clone)
    worker.create(JOBS, job)


def left(on: Stage) -> set[str]:
    return {record.name for kind in (WORKLOADS, JOBS) for record in on.worker("a").store.records(kind)}


@pytest.mark.parametrize("log", ["the same log", "a new log"])
async def test_what_another_may_have_made_stays_and_what_was_made_for_this_one_goes(stage: Make, log: str) -> None:
    on = await stage("a", "b")
    await on.replica.stop()
    for name, mark in (("kueues", ""), ("theirs", "another-cluster"), ("ours", on.identity)):
        running(on, name, mark)
    before = {name: on.uid("a", name) for name in ("kueues", "theirs")}
    await on.up(wanted=settings() if log == "the same log" else of_new_log())
    await on.until(lambda: "ours" not in left(on), "what was made for this cluster is gone")
    on.submit_for("job", "200ms")
    await on.until(lambda: on.finished(name="job"), "a job goes on as always")
    await on.quiet(1.5)
    assert left(on) >= {"kueues", "theirs"}
    assert {name: on.uid("a", name) for name in before} == before
    log = "main" if log == "the same log" else "new"
    said = CliRunner().invoke(cli, ["--database-url", on.url, "clusters", "--log", log], catch_exceptions=False)
    assert "do not say that they were made for this management cluster: default/kueues, default/theirs." in said.stderr
    said = CliRunner().invoke(
        cli, ["--database-url", on.url, "why", f"{NS}/theirs", "--log", log], catch_exceptions=False
    )
    assert "what a has is not said to be made for this management cluster, and is left alone" in said.stdout
    assert {one["reason"] for one in on.said("RemovalDecided", "a", of="Job")} <= {"Orphaned", "Finished"}


async def test_a_job_does_not_take_the_place_of_one_of_its_name_that_another_cluster_made(stage: Make) -> None:
    """It took the other one for what it had created itself, and waited for it without an end."""
    on = await stage("a")
    worker = on.worker("a").store
    running(on, "train", "another-cluster")
    worker.patch(JOBS, NS, "train", {"metadata": {"annotations": {PREBUILT: "theirs"}, "labels": {PREBUILT: "theirs"}}})
    before = on.uid("a")
    on.submit_for("train", "200ms")
    (refused,) = await on.until(lambda: on.said("ClusterRefused", "a"), "the worker is left out")
    assert (refused["reason"], refused["message"]) == (
        "JobNameTaken",
        f"Job {NS}/train was made for another: {MADE_FOR}=another-cluster",
    )
    assert on.uid("a") == before


async def test_what_has_the_name_of_a_workload_here_is_waited_for(stage: Make) -> None:
    """A group of pods, say, that both clusters have: it was taken for a copy of ours, and removed where it lost."""
    on = await stage("a", "b")
    await on.replica.stop()
    on.submit_for("train", "200ms")
    async with asyncio.timeout(PATIENCE):
        while not (named := [one.name for one in on.manager.store.records(WORKLOADS)]):
            await asyncio.sleep(0.02)
    (name,) = named
    running(on, name, "another-cluster")
    before = on.uid("a", name)
    # The other worker would be chosen before this one is seen.
    on.cut("b")
    await on.up()
    await on.until(lambda: on.said("CloneObserved", "a", name=name), "it is seen")
    on.heal("b")
    await on.until(lambda: on.said("ClusterConnected", "b")[1:], "the other worker is there")
    await on.quiet(1.5)
    assert (on.uid("a", name), on.said("NominationDecided"), on.said("RemovalDecided")) == (before, [], [])
    said = CliRunner().invoke(cli, ["--database-url", on.url, "why", f"{NS}/{name}"], catch_exceptions=False)
    assert "is there and may be another's" in said.stdout
    assert "made for another management cluster, another-cluster" in said.stdout
    for kind in (JOBS, WORKLOADS):
        on.worker("a").store.delete(kind, NS, name)
    await on.until(lambda: on.finished(name="train"), "it runs once the other one is gone")


async def test_the_origin_may_be_changed_beside_copies_of_another(stage: Make) -> None:
    """It is what an operator has to do, and his service waits for no copies that it does not know."""
    on = await stage("a")
    running(on, "theirs", "another-cluster")
    await on.until(lambda: on.said("RemoteJobObserved", "a", name="theirs"), "it is seen")
    await on.replica.stop()
    await on.up(wanted=settings(origin="another"))
    assert "theirs" in left(on)
