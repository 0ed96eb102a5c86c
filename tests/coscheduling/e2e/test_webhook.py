"""The webhook over HTTPS beside a running process: Tekton is told to place nothing, and reviews of what it creates are
answered.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from controlplane.app.admission import Reviews
from controlplane.clock import SystemClock
from controlplane.controllers.coscheduling.controller import CoschedulingController
from controlplane.controllers.coscheduling.hook import PATH
from controlplane.controllers.coscheduling.hook import hook as hook_of
from controlplane.kube.kinds import Json, meta
from controlplane.simulation.controllers.workload_owners import owner_reference
from controlplane.web import Certificate, Webhook, serve_webhook
from tests.clusters import pki
from tests.coscheduling.e2e.test_runs import TEMPLATE, placeholder, run
from tests.outages.stage import Replica
from tests.support.local import NS, Make, Stage

FOLLOWS = "pipeline.tekton.dev/affinity-assistant"


class Hook:
    def __init__(self, it: Stage, webhook: Webhook, folder: Path) -> None:
        self.it, self.webhook, self.folder = it, webhook, folder

    async def review(self, kind: str, obj: Json) -> Json:
        request = {"uid": "r1", "operation": "CREATE", "namespace": NS, "kind": {"kind": kind}, "object": obj}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        url = f"https://127.0.0.1:{self.webhook.port}{PATH}"
        async with aiohttp.ClientSession() as session, session.post(url, json=body, ssl=trust) as answer:
            assert answer.status == 200
            response: Json = (await answer.json())["response"]
        assert (response["uid"], response["allowed"]) == ("r1", True)
        return response


def reviews(it: Stage, replica: Replica) -> Reviews:
    return Reviews(hook_of(it.settings, replica.service.find), SystemClock(), replica.metrics)


@pytest.fixture
async def hook(stage: Make, tmp_path: Path) -> AsyncIterator[Hook]:
    it = await stage(flag="disabled", runs={"mode": "pipelineruns"})
    folder = tmp_path / "pki"
    folder.mkdir()
    pki.make(folder, "IP:127.0.0.1")
    replica = it.replicas[0]
    admission = reviews(it, replica)
    certificate = Certificate(str(folder / "server.crt"), str(folder / "server.key"))
    webhook = await serve_webhook({PATH: admission}, certificate, "127.0.0.1", 0)
    yield Hook(it, webhook, folder)
    await webhook.stop()


def patch_of(response: Json) -> list[Json]:
    found: list[Json] = json.loads(base64.b64decode(response["patch"]))
    return found


def task_run(owner: Json, claim: str = "") -> Json:
    workspaces = [{"name": "src", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "metadata": {"name": "t", "namespace": NS, "ownerReferences": [owner_reference(owner)]},
        "spec": {"workspaces": workspaces},
    }


async def test_a_task_of_a_run_that_is_not_known_yet_is_waited_for_and_bound(hook: Hook) -> None:
    made = run(hook.it, tasks=1)
    response = await hook.review("TaskRun", task_run(made))  # within a millisecond of the run
    [added] = patch_of(response)
    await hook.it.until(lambda: placeholder(hook.it), "its placeholder")
    pod = placeholder(hook.it)
    assert pod is not None
    assert added["value"] == {FOLLOWS: meta(pod)["ownerReferences"][0]["name"]}


async def test_the_claim_of_a_template_is_the_placeholders(hook: Hook) -> None:
    made = run(hook.it, tasks=1, workspaces=[{"name": "src", "volumeClaimTemplate": TEMPLATE}])
    pod = await hook.it.until(lambda: placeholder(hook.it), "its placeholder")
    [claim] = [one["persistentVolumeClaim"]["claimName"] for one in pod["spec"]["volumes"]]
    asked = claim.removesuffix(f"-{meta(pod)['name']}")
    patch = patch_of(await hook.review("TaskRun", task_run(made, asked)))
    assert patch[1] == {
        "op": "replace",
        "path": "/spec/workspaces/0/persistentVolumeClaim/claimName",
        "value": claim,
    }


async def test_a_pod_that_follows_a_placeholder_is_tied_to_it(hook: Hook) -> None:
    labels = {"tekton.dev/pipelineRun": "build"}
    pod = {"metadata": {"name": "p", "annotations": {FOLLOWS: "affinity-assistant-x"}, "labels": labels}, "spec": {}}
    run(hook.it, tasks=1)
    [added] = patch_of(await hook.review("Pod", pod))
    assert added["path"] == "/spec/affinity"
    assert "patch" not in await hook.review("Pod", {"metadata": {"name": "other"}, "spec": {}})


async def test_a_run_that_nobody_knows_is_let_through_with_a_warning(hook: Hook) -> None:
    ghost = {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": "ghost", "uid": "u-1"}}
    response = await hook.review("TaskRun", task_run(ghost))
    assert "patch" not in response
    assert "ghost is not known here" in response["warnings"][0]
    metrics = hook.it.replicas[0].metrics.registry
    assert metrics.get_sample_value("controlplane_admission_reviews_total", {"result": "unknown"}) == 1


async def test_a_follower_answers_as_well(hook: Hook) -> None:
    it = hook.it
    made = run(it, tasks=1)
    await it.until(lambda: it.said("ModePinned"), "its mode")
    follower = Replica(it.url, it.folder / "management.kubeconfig", it.settings, "follower")
    it.replicas.append(follower)

    def has_read() -> bool:
        runs = follower.service.find(CoschedulingController)
        return runs is not None and bool(runs.runs)

    await it.until(has_read, "the follower to have read the log")
    answer = reviews(it, follower)
    request = {
        "uid": "r2",
        "operation": "CREATE",
        "namespace": NS,
        "kind": {"kind": "TaskRun"},
        "object": task_run(made),
    }
    assert "patch" in (await answer({"request": request}))["response"]
    assert not follower.leads
