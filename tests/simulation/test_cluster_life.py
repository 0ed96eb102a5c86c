"""Those who make and end pods in a simulated cluster: Jobs with pods, claims that get volumes, runs that fail, are
cancelled, or wait.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from controlplane.kube.kinds import JOBS, NAMESPACES, PERSISTENT_VOLUMES, PIPELINE_RUNS, PODS, Json, Kind, meta
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import View
from controlplane.simulation.controllers.claims import Claims
from controlplane.simulation.controllers.job_pods import JobPods
from controlplane.simulation.controllers.tekton import FAILS, NAMESPACE, Tekton
from controlplane.simulation.kinds.base import CONFIG_MAPS
from controlplane.simulation.kinds.own_cluster import CLAIMS, TASK_RUNS, WHOLE_KINDS

NS = "default"


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(0)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Nobody waits here."""


class Kit:
    def __init__(self) -> None:
        clock, uids = Clock(), iter(range(10_000))
        self.store = Store("kit", kinds=WHOLE_KINDS, now=clock.now, new_uid=lambda: f"uid-{next(uids):04d}")
        view = View(self.store, [PODS, JOBS, CLAIMS, PERSISTENT_VOLUMES, PIPELINE_RUNS, TASK_RUNS, CONFIG_MAPS])
        self.all = (
            JobPods("jobs", view, clock),
            Claims("claims", view, clock, provisions=True),
            Tekton("tekton", view, clock),
        )
        view.start()
        self.store.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})

    def make(self, kind: Kind, name: str, namespace: str = NS, **more: Any) -> Json:
        metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
        made = self.store.create(kind, {"metadata": metadata, **more})
        return self.settle() or made

    def settle(self) -> None:
        while sum(one.drain() for one in self.all):
            pass

    def of(self, kind: Kind) -> list[Json]:
        return [record.obj for record in self.store.records(kind)]

    def ends(self, pod: Json, phase: str) -> None:
        self.store.patch(PODS, NS, meta(pod)["name"], {"status": {"phase": phase}}, subresource="status")
        self.settle()

    def end_of(self, kind: Kind, name: str) -> str:
        conditions = self.store.get(kind, NS, name)["status"].get("conditions") or []
        return "/".join(f"{one['status']} {one['reason']}" for one in conditions)


@pytest.fixture
def kit() -> Kit:
    return Kit()


def template() -> Json:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_job_replaces_pods_that_fail_or_go_and_ends_with_its_completions(kit: Kit) -> None:
    kit.make(JOBS, "j", spec={"parallelism": 2, "completions": 3, "template": template()})
    first, second = kit.of(PODS)
    kit.ends(first, "Failed")
    kit.store.delete(PODS, NS, meta(second)["name"])
    kit.settle()
    assert [pod["status"]["phase"] for pod in kit.of(PODS)].count("Pending") == 2
    for _ in range(3):
        kit.ends(next(pod for pod in kit.of(PODS) if pod["status"]["phase"] == "Pending"), "Succeeded")
    status = kit.store.get(JOBS, NS, "j")["status"]
    assert (status["succeeded"], status["conditions"][0]["type"]) == (3, "Complete")
    assert all(pod["status"]["phase"] != "Pending" for pod in kit.of(PODS))


def test_a_claim_gets_a_volume_stays_while_a_pod_names_it_and_takes_the_volume_along(kit: Kit) -> None:
    kit.make(CLAIMS, "data", spec={"resources": {"requests": {"storage": "2Gi"}}})
    (volume,) = kit.of(PERSISTENT_VOLUMES)
    assert (volume["spec"]["capacity"], volume["spec"]["claimRef"]["name"]) == ({"storage": "2Gi"}, "data")
    assert kit.store.get(CLAIMS, NS, "data")["spec"]["volumeName"] == meta(volume)["name"]
    uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    kit.make(PODS, "p", spec={"containers": [], "volumes": uses})
    kit.store.delete(CLAIMS, NS, "data")
    kit.settle()
    assert "deletionTimestamp" in meta(kit.store.get(CLAIMS, NS, "data"))
    kit.store.delete(PODS, NS, "p")
    kit.settle()
    assert kit.of(CLAIMS) == kit.of(PERSISTENT_VOLUMES) == []


def pipeline(kit: Kit, *, fails: int = 0, retries: int = 1, **spec: Any) -> None:
    tasks = [
        {"name": "a", "retries": retries, "workspaces": [{"name": "ws", "workspace": "ws"}]},
        {"name": "b", "runAfter": ["a"]},
    ]
    whole = {"pipelineSpec": {"tasks": tasks}, "workspaces": [{"name": "ws", "volumeClaimTemplate": {}}], **spec}
    kit.make(PIPELINE_RUNS, "r", metadata={"annotations": {FAILS: str(fails)} if fails else {}}, spec=whole)


def names(kit: Kit) -> list[str]:
    return [meta(pod)["name"] for pod in kit.of(PODS)]


def test_a_task_that_fails_is_tried_again_and_the_next_follows(kit: Kit) -> None:
    pipeline(kit, fails=1)
    kit.ends(kit.of(PODS)[0], "Failed")
    assert names(kit) == ["r-a-pod", "r-a-pod-retry1"]
    kit.ends(kit.of(PODS)[1], "Succeeded")
    kit.ends(kit.store.get(PODS, NS, "r-b-pod"), "Succeeded")
    assert kit.end_of(PIPELINE_RUNS, "r") == "True Succeeded"


def test_a_task_that_fails_too_often_fails_its_run_and_what_follows_is_not_begun(kit: Kit) -> None:
    pipeline(kit, retries=0)
    kit.ends(kit.of(PODS)[0], "Failed")
    assert (kit.end_of(TASK_RUNS, "r-a"), kit.end_of(PIPELINE_RUNS, "r")) == ("False Failed", "False Failed")
    assert names(kit) == ["r-a-pod"]


def test_a_run_waits_until_it_is_let_go_and_ends_when_it_is_cancelled(kit: Kit) -> None:
    pipeline(kit, status="PipelineRunPending")
    assert names(kit) == []
    kit.store.patch(PIPELINE_RUNS, NS, "r", {"spec": {"status": None}})
    kit.settle()
    assert names(kit) == ["r-a-pod"]
    kit.store.patch(PIPELINE_RUNS, NS, "r", {"spec": {"status": "Cancelled"}})
    kit.settle()
    assert (names(kit), kit.end_of(PIPELINE_RUNS, "r")) == ([], "False Cancelled")


@pytest.mark.parametrize(
    ("flag", "follows"),
    [("pipelineruns", True), ("workspaces", True), ("disabled", False), ("Isolate-PipelineRun", True), ("", True)],
)
def test_tasks_follow_the_placeholder_that_the_flag_asks_for(kit: Kit, flag: str, follows: bool) -> None:
    kit.make(CONFIG_MAPS, "feature-flags", NAMESPACE, data={"coschedule": "pipelineruns"})
    kit.store.patch(CONFIG_MAPS, NAMESPACE, "feature-flags", {"data": {"coschedule": flag}})
    kit.settle()
    pipeline(kit)
    (made,) = kit.of(TASK_RUNS)
    assert (AFFINITY_ASSISTANT in (meta(made).get("annotations") or {})) is follows
