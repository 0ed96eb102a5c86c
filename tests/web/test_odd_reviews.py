"""Every path of the admission webhook answers a review in which any one part is something else than the API promises:
with an answer that lets the request through, or with a sentence that says why it is no review."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controlplane.app.admission import JobAdmission, Reviews
from controlplane.clock import SystemClock
from controlplane.controllers.candidates.source.hook import hook as hook_of_candidates
from controlplane.controllers.coscheduling.hook import hook as hook_of_coscheduling
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.kinds import Json
from controlplane.kube.reviews import requested
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.webhook import Answer
from tests.jobframework.scene import ADAPTERS, Scene
from tests.jobframework.test_jobs_admission import Fleet, created, review

ODD: tuple[object, ...] = (
    None, True, 0, -1, 1.5, 10**30, "", "x", "\0", [], [1], [None], ["x"], [[]], [{}], {}, {"x": 1}, {"a": {"b": []}},
)  # fmt: skip
OWNER = {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "name": "n", "uid": "u", "controller": True}
NEAR = [{"labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "y"}}}]
META = {
    "name": "p",
    "labels": {"candidates.controlplane.dev/elect": "true", "tekton.dev/taskRun": "t"},
    "annotations": {"pipeline.tekton.dev/affinity-assistant": "aa-x"},
    "ownerReferences": [OWNER],
}
POD = {
    "metadata": META,
    "spec": {
        "schedulerName": "default-scheduler",
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NEAR}},
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
    },
}
TASK_RUN = {
    "metadata": META,
    "spec": {"workspaces": [{"name": "s", "persistentVolumeClaim": {"claimName": "c"}}]},
}


def settings() -> Settings:
    found = Settings()
    return msgspec.structs.replace(
        found,
        webhook=msgspec.structs.replace(found.webhook, certificate="served.pem"),
        candidates=msgspec.structs.replace(found.candidates, cluster="here", namespaces=("*",)),
        coscheduling=msgspec.structs.replace(found.coscheduling, webhook_patience=timedelta(0)),
    )


def nowhere(_kind: Any) -> None:
    """No controller has begun."""


def of_kind(group: str, kind: str, obj: Json) -> Json:
    named = {"group": group, "version": "v1", "kind": kind}
    return {"request": {"uid": "r", "kind": named, "operation": "CREATE", "namespace": "n", "object": obj}}


def coscheduling() -> Answer:
    return Reviews(hook_of_coscheduling(settings(), nowhere), SystemClock(), Metrics())


def candidates() -> Answer:
    hook = hook_of_candidates(settings(), nowhere)
    assert hook is not None
    return Reviews(hook, SystemClock(), Metrics())


def jobs() -> Answer:
    scene = Scene()
    return JobAdmission(lambda: Fleet, lambda: scene.controller, Metrics())  # type: ignore[arg-type,return-value]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def with_odd(whole: Json, path: tuple[Any, ...], odd: object) -> Json:
    found: Any = copy.deepcopy(whole)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        pytest.param(coscheduling, of_kind("", "Pod", POD), id="a pod that follows a placeholder"),
        pytest.param(coscheduling, of_kind("tekton.dev", "TaskRun", TASK_RUN), id="a TaskRun"),
        pytest.param(candidates, of_kind("", "Pod", POD), id="a pod that asks to be sent"),
        *(pytest.param(jobs, review(kind, created(kind)), id=kind.integration) for kind in ADAPTERS.values()),
    ],
)
async def test_whatever_one_part_of_a_review_is_it_is_answered(answer: Any, whole: Json) -> None:
    hook = answer()
    for path in list(places(whole)):
        for odd in ODD:
            changed = with_odd(whole, path, odd)
            if path[-1] in ("request", "uid") and requested(changed) is None:
                with pytest.raises(ValueError, match="uid"):
                    await hook(changed)
            else:
                found = await hook(changed)
                assert found["response"]["allowed"] is True
                json.dumps(found)


@pytest.mark.parametrize("depth", [100, 990, 1010])
async def test_a_job_that_is_nested_deep_is_suspended_all_the_same(depth: int) -> None:
    kind = JOB_KINDS["workload.codeflare.dev/appwrapper"]
    made = created(kind)
    made["spec"]["more"] = inner = {}
    for _ in range(depth):
        inner["a"] = inner = {}
    found = await jobs()(review(kind, made))
    assert "patch" in found["response"]
    assert "warnings" not in found["response"]
