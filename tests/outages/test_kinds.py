"""Every kind of job that a simulated Kueue runs is dispatched: its copy runs on a worker, its status and its end come
back, and nothing of it is left. What serves and has no end is deleted by its user.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from controlplane.job_kinds import INTEGRATIONS
from controlplane.job_kinds.base import SimulatedKind, merged
from controlplane.job_kinds.ray import RayCluster, RayJob, RayService
from controlplane.kube.kinds import JOBS, WORKLOADS, Json, meta
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, QUEUE_LABEL
from controlplane.simulation.apiserver.history import Commit
from tests.job_kinds.rows import ROWS
from tests.multikueue.kep693.rig import NS
from tests.outages.stage import Stage, condition, settings

KINDS = list(INTEGRATIONS.values())
BY_KIND = {kind.kind: kind for kind in KINDS}
RAY_SERVICE = RayService.kind


def name_of(kind: SimulatedKind) -> str:
    return kind.kind.kind.lower()


def job(kind: SimulatedKind) -> Json:
    spec = merged(ROWS[kind.integration].spec, kind.delegated(MULTIKUEUE))
    return {
        "apiVersion": kind.kind.api_version,
        "kind": kind.kind.kind,
        "metadata": {
            "namespace": NS,
            "name": name_of(kind),
            "labels": {QUEUE_LABEL: "user-queue"},
            "annotations": {"simulation.controlplane/duration": "2s"},
        },
        "spec": spec,
    }


class Kinds:
    """What there is of each kind, on the stage."""

    def __init__(self, on: Stage) -> None:
        self._on = on
        self.ran: set[str] = set()
        """The kinds of which a copy has run."""
        self.shown: set[str] = set()
        """The kinds of which a user's job has said that it runs."""
        for cluster in (on.manager, *on.world.workers.values()):
            cluster.store.listen(self._hear)

    def _hear(self, commit: Commit) -> None:
        """Take note of every change: on a busy machine a job may have ended between two looks."""
        kind, obj = BY_KIND.get(commit.record.kind), commit.record.obj
        if kind is None:
            return
        if ORIGIN_LABEL not in commit.record.labels:
            if kind.active(obj.get("status") or {}):
                self.shown.add(kind.integration)
        elif kind.runs(obj) and not kind.suspended(obj):
            self.ran.add(kind.integration)

    def local(self, kind: SimulatedKind) -> Json:
        return self._on.manager.store.get(kind.kind, NS, name_of(kind))

    def copies(self, kind: SimulatedKind) -> list[Json]:
        found = [each.store.list(kind.kind)[0] for each in self._on.world.workers.values()]
        return [obj for objs in found for obj in objs if ORIGIN_LABEL in (meta(obj).get("labels") or {})]

    def runs(self, kind: SimulatedKind) -> bool:
        """Whether a copy runs, and the user's job says so, which itself does not."""
        shown = kind.active(self.local(kind).get("status") or {})
        return shown and any(kind.runs(copy) and not kind.suspended(copy) for copy in self.copies(kind))

    def ended(self, kind: SimulatedKind) -> bool:
        """Whether the user's job says that it succeeded, and its Workload that it is Finished."""
        outcome = kind.outcome(self.local(kind).get("status") or {})
        owned = (
            one
            for one in self._on.manager.store.list(WORKLOADS)[0]
            if any(owner["kind"] == kind.kind.kind for owner in meta(one).get("ownerReferences") or ())
        )
        return outcome is not None and outcome.success and all(condition(one, "Finished") for one in owned)


async def test_a_job_of_every_kind_runs_on_a_worker_and_its_end_comes_back(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    on = await stage("a", "b", settings=settings(kinds=tuple(kind.integration for kind in KINDS)))
    there = Kinds(on)
    for kind in KINDS:
        on.manager.store.create(kind.kind, job(kind))
    await on.until(lambda: len(there.ran) == len(there.shown) == len(KINDS), "every kind ran, and its job said so")
    serving = [kind for kind in KINDS if ROWS[kind.integration].succeeded is None]
    ending = [kind for kind in KINDS if kind not in serving]
    await on.until(lambda: all(there.ended(kind) for kind in ending), "those that end have ended")
    assert all(there.runs(kind) for kind in serving)
    service = INTEGRATIONS[RAY_SERVICE]
    on.manager.store.patch(RAY_SERVICE, NS, name_of(service), {"spec": {"serveConfigV2": "a: 2"}})
    await on.until(
        lambda: [one["spec"]["serveConfigV2"] for one in there.copies(service)] == ["a: 2"], "the copy that follows"
    )
    (update,) = on.said("SpecUpdateDecided")
    assert (update["kind"], update["reason"]) == (RAY_SERVICE.name, "SpecChanged")
    for kind in serving:
        on.manager.store.delete(kind.kind, NS, name_of(kind))
    await on.until(lambda: not any(there.copies(kind) for kind in KINDS) and on.left() == [], "nothing left")


async def test_a_worker_without_a_kind_is_offered_none_of_it_and_says_so(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    on = await stage("a", "b", roomy=("a", "b"))
    kind = on.worker("b").store.served.pop(JOBS)
    await on.kill()
    await on.up()
    await on.until(lambda: about_jobs(on, "KindOff"), "off on b")
    assert about_jobs(on, "KindOff")[-1]["reason"] == "NotServed"
    assert on.active("b")
    on.submit()
    await on.running("a")
    assert on.said("CloneDecided", "b") == []
    on.worker("b").store.served[JOBS] = kind
    on.end("a")
    await on.done()


def about_jobs(on: Stage, said: str) -> list[Json]:
    return [one for one in on.said(said, "b") if one["kind"] == JOBS.name]


async def test_the_ray_cluster_that_is_made_of_a_ray_job_is_left_to_its_maker(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """KubeRay gives it the labels and annotations of the copy, and it is seen last."""
    ray_job, cluster = INTEGRATIONS[RayJob.kind], INTEGRATIONS[RayCluster.kind]
    kinds = tuple(one.integration for one in (ray_job, cluster))
    on = await stage("a", settings=settings(kinds=kinds))
    there, submitted = Kinds(on), job(ray_job)
    submitted["metadata"]["annotations"] = {"simulation.controlplane/duration": "1h"}
    on.manager.store.create(ray_job.kind, submitted)
    await on.until(lambda: there.runs(ray_job), "it runs")
    (copy,) = there.copies(ray_job)
    marks = {name: meta(copy)[name] for name in ("labels", "annotations")}
    marks["labels"] = {name: value for name, value in marks["labels"].items() if name != QUEUE_LABEL}
    maker = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": meta(copy)["name"], "uid": meta(copy)["uid"]}
    made = {
        "apiVersion": cluster.kind.api_version,
        "kind": cluster.kind.kind,
        "metadata": {**marks, "namespace": NS, "name": "made", "ownerReferences": [{**maker, "controller": True}]},
        "spec": copy["spec"]["rayClusterSpec"],
        "status": {"state": "ready"},
    }
    on.worker("a").store.create(cluster.kind, made)
    await on.quiet(1.5)
    assert "state" not in there.local(ray_job)["status"]
    on.manager.store.delete(ray_job.kind, NS, name_of(ray_job))
    await on.until(lambda: there.copies(ray_job) == [], "the copy is gone")
    assert [one for one in on.said("RemovalDecided") if one.get("kind") == cluster.kind.name] == []
