"""A PipelineRun is dispatched whole to a worker that can take it, over HTTP: left out with a reason, run, relayed,
lost, fenced.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from controlplane.kube.kinds import PIPELINE_RUNS, meta
from tests.coscheduling.e2e.fleet import NS, RUN, Fleet, existing
from tests.deploy.manifests import render, spelled
from tests.podgroups.e2e.test_audit import ask
from tests.support.deep import deep_after

Make = Callable[..., Awaitable[Fleet]]


@pytest.fixture
async def fleet(database_url: str, tmp_path: Path, quick: None) -> AsyncIterator[Make]:
    """Make the stage: `await fleet("a", "b", lost=1.0)`; with `start=False` its test starts it."""
    made: list[Fleet] = []

    async def make(*workers: str, start: bool = True, **more: object) -> Fleet:
        made.append(Fleet(database_url, tmp_path, *workers, **more))
        if start:
            await made[-1].start()
        return made[-1]

    yield make
    for one in made:
        await one.stop()


async def test_a_run_goes_whole_to_the_worker_that_has_its_claim(fleet: Make) -> None:
    it = await fleet("a", "b")
    it.claim("b")
    it.submit_run(existing("src", "data"))
    await it.until(lambda: it.started("b"), "the run on b")
    assert it.copies() == {"b"}
    judged = it.said("ClustersJudged")[-1]["clusters"]
    assert judged["a"]["reason"] == "ClaimMissing"
    assert "reason" not in judged["b"]
    assert [one["clusters"] for one in it.said("NominationDecided")] == [["b"]]
    said = "Not offered to a: there is no claim default/data"
    admitted = 'The workload was admitted on "b"'
    await it.until(lambda: said in it.notes() or it.check_message() == admitted, "the note, or the admission after it")
    await it.until(lambda: it.succeeded(), "the result on the management cluster")
    assert it.tasks("b") == ["build-one", "build-two"] or it.copies() == set()
    hub, workload = it.run(), it.workload_of_run()
    assert hub is not None
    assert workload is not None
    assert hub["spec"]["managedBy"]
    assert hub["status"]["startTime"]
    assert hub["status"]["completionTime"]
    await it.until(lambda: it.copies() == set(), "nothing left")
    await it.until(lambda: it.left() == [], "no Workload left")


async def test_where_nothing_fits_it_waits_says_why_and_goes_once_something_does(fleet: Make) -> None:
    it = await fleet("a", "b")
    it.submit_run(cpu="16")
    why = 'no node has enough cpu: task "one" needs 16, and the most that a node has is 8'
    said = f"No cluster can take it: a: {why}; b: {why}"
    await it.until(lambda: it.check_message() == said, "the message of the check")
    await it.until(lambda: said in it.notes(), "a Kubernetes Event")
    assert it.said("NominationDecided") == []
    await it.quiet(1.5)
    before = it.position
    await it.quiet(1.0)
    assert it.position == before, "nothing is written while nothing changes"
    workload = meta(it.workload_of_run() or {})["name"]
    for asked in (RUN, workload):
        told = " ".join(ask(it, "why", f"{NS}/{asked}").split())
        assert "It has quota and waits for a cluster that can take it (a, b)" in told
        assert f"a: {why}; b: {why}." in told
        assert "ClustersJudged" in told
    assert "run fits on no cluster; not on a (no node has enough cpu" in ask(it, "events", "--type", "ClustersJudged")
    it.node("b", "n2", cpu="32")
    await it.until(lambda: it.started("b"), "the run on b")
    assert it.copies() == {"b"}
    await it.until(lambda: it.succeeded(), "the result on the management cluster")


async def test_a_mode_that_is_asked_for_chooses_among_workers(fleet: Make) -> None:
    it = await fleet("a", "b")
    it.flag("b", "pipelineruns")
    it.submit_run(**{"controlplane/coschedule": "pipelineruns"})
    await it.until(lambda: it.copies() == {"b"}, "the copy on b")
    assert it.said("ClustersJudged")[-1]["clusters"]["a"]["reason"] == "ModeDiffers"
    run = it.run("b")
    assert run is not None
    assert meta(run)["annotations"]["controlplane/attempt"] == "1"
    it.manager.store.delete(PIPELINE_RUNS, NS, RUN, propagation="Background")
    await it.until(lambda: it.copies() == set(), "the copy to be gone")


async def test_a_worker_that_is_lost_gets_a_fresh_attempt_elsewhere_and_is_fenced_when_it_is_back(fleet: Make) -> None:
    it = await fleet("a", "b", lost=1.0)
    for name in ("a", "b"):
        it.claim(name)
    it.submit_run(existing("src", "data"), duration="2s")
    first = await it.until(lambda: next((name for name in ("a", "b") if it.started(name)), ""), "the first attempt")
    other = "b" if first == "a" else "a"
    old = meta(it.run(first) or {})["uid"]
    await it.until(lambda: (it.run() or {}).get("status", {}).get("startTime"), "its start time here")
    it.cut(first)
    await it.until(lambda: it.started(other), "the fresh attempt")
    new = meta(it.run(other) or {})
    assert new["uid"] != old
    assert new["annotations"]["controlplane/attempt"] == "2"
    # Meanwhile the old one goes on to its end over there: it is its result that must not count.
    await it.until(lambda: it.succeeded(first), "the end of the first attempt")
    it.heal(first)
    await it.until(lambda: it.said("CopyJudged", verdict="Remove", cluster=first), "the verdict")
    assert it.said("CopyJudged")[0]["reason"] == "Fenced"
    await it.until(lambda: first not in it.copies(), "the old copy to be gone")
    removed = [one for one in it.said("RemovalDecided", of="Job") if one["cluster"] == first]
    assert {one["uid"] for one in removed} == {old}
    await it.until(lambda: it.succeeded(), "the result on the management cluster")
    assert [one["cluster"] for one in it.said("WinnerChosen")] == [first, other]
    relays = [one.get("source") for one in it.said("StatusRelayDecided")]
    assert set(relays[relays.index(other) :]) == {other}, "nothing of a fenced attempt is relayed"
    await it.until(lambda: it.copies() == set() and it.left() == [], "nothing left")


async def test_a_worker_on_which_we_may_see_nothing_is_offered_the_run_all_the_same(fleet: Make) -> None:
    it = await fleet("a", start=False)
    closed = ("nodes", "storageclasses.storage.k8s.io", "pods", "configmaps", "persistentvolumeclaims")
    it.worker("a").faults.storm(403, resources=closed)
    await it.start()
    it.claim("a")
    it.submit_run(existing("src", "data"), cpu="16", duration="5s")
    await it.until(lambda: it.started("a"), "the run")
    (judged,) = it.said("ClustersJudged")
    assert "reason" not in judged["clusters"]["a"]
    said = " ".join(judged["clusters"]["a"]["unknown"])
    for what in (
        "its nodes",
        "its storage classes",
        "its mode",
        "its placeholders",
        "PersistentVolumeClaim default/data",
    ):
        assert what in said
    assert [one["kind"] for one in it.said("KindOff")].count("nodes") == 1


async def test_quota_counts_the_placeholders_of_a_run(fleet: Make) -> None:
    it = await fleet("a", "b", cpu="1040m")
    it.submit_run({"name": "src", "volumeClaimTemplate": {"spec": {}}}, duration="5s")
    await it.until(lambda: it.workload_of_run(), "its Workload")
    await it.quiet(0.5)
    assert it.said("NominationDecided") == [], "the tasks alone would have fit into the quota"


def allowed(*folders: str) -> set[tuple[str, str]]:
    """What the roles of some folders allow, as verb and `resource.group/subresource`."""
    return spelled(item for folder in folders for item in render(folder) if item["kind"] in ("ClusterRole", "Role"))


async def test_nothing_is_asked_that_the_roles_do_not_allow(fleet: Make) -> None:
    it = await fleet("a", "b")
    it.claim("b")
    it.submit_run(existing("src", "data"))
    await it.until(lambda: it.succeeded() and it.copies() == set(), "its end")
    rights_of = {
        "management": allowed("deploy/base", "deploy/pipelineruns/management"),
        **dict.fromkeys(("a", "b"), allowed("deploy/rbac/worker", "deploy/pipelineruns/worker")),
    }
    for name, cluster in it.world.clusters.items():
        counts, watches = cluster.server.counts, cluster.server.watches
        asked = {(verb, f"{what}/{sub}" if sub else what) for (verb, what, sub), count in counts.items() if count}
        asked |= {("watch", resource) for resource, count in watches.items() if count}
        asked = {(verb, what) for verb, what in asked if what not in ("", "version", "discovery")}
        assert asked - rights_of[name] == set(), name


@pytest.mark.parametrize("where", deep_after(1, ["worker", "management"]))
async def test_a_run_that_loses_its_quota_begins_anew(fleet: Make, where: str) -> None:
    it = await fleet("a")
    it.submit_run(duration="1500ms")
    await it.until(lambda: (it.run() or {}).get("status", {}).get("startTime"), "its start time here")
    old = meta(it.run("a") or {})["uid"]
    workload = meta(it.workload_of_run() or {})["name"]
    cluster = it.worker("a") if where == "worker" else it.manager
    assert cluster.kueue.preempt(NS, workload)
    await it.until(lambda: it.started("a") and meta(it.run("a") or {})["uid"] != old, "a fresh attempt")
    assert meta(it.run("a") or {})["annotations"]["controlplane/attempt"] == "2"
    assert not it.finished_run()
    await it.until(lambda: it.succeeded(), "the result on the management cluster")
