"""What does not decode into a built-in kind is refused, by a status that depends on the verb."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kube.kinds import APPLY_PATCH, JOBS, MERGE_PATCH
from tests.simulation.contract.client import Api, job

BAD: tuple[dict[str, Any], ...] = (
    {"parallelism": "x"},
    {"parallelism": 1.5},
    {"parallelism": True},
    {"completions": 99_999_999_999},
    {"suspend": "yes"},
    {"template": []},
    {"template": {"spec": {"containers": {}}}},
    {"template": {"spec": {"containers": ["x"]}}},
    {"template": {"spec": {"containers": [{"name": "a", "image": "b", "resources": {"requests": {"cpu": "one"}}}]}}},
)


@pytest.mark.parametrize("spec", BAD, ids=str)
async def test_a_field_of_another_type_is_refused(api: Api, spec: dict[str, Any]) -> None:
    answer = await api.call("POST", JOBS.path(api.namespace), job("odd", **spec))
    answer.refused(400, "BadRequest", 'Job in version "v1" cannot be handled as a Job')
    (await api.call("POST", JOBS.path(api.namespace), job("odd"))).ok(201)
    replaced = await api.call("PUT", JOBS.path(api.namespace, "odd"), job("odd", **spec))
    replaced.refused(400, "BadRequest", 'Job in version "v1" cannot be handled as a Job')


@pytest.mark.parametrize("labels", [{"a": 1}, [], "x"], ids=str)
async def test_metadata_is_typed_too(api: Api, labels: Any) -> None:
    body = job("odd")
    body["metadata"]["labels"] = labels
    answer = await api.call("POST", JOBS.path(api.namespace), body)
    answer.refused(400, "BadRequest", 'Job in version "v1" cannot be handled as a Job', "labels")


async def test_null_is_as_good_as_nothing(api: Api) -> None:
    (await api.call("POST", JOBS.path(api.namespace), job("none", parallelism=None, suspend=None))).ok(201)


async def test_a_patch_that_leaves_another_type_behind_is_refused(api: Api) -> None:
    (await api.call("POST", JOBS.path(api.namespace), job("odd"))).ok(201)
    path = JOBS.path(api.namespace, "odd")
    merge: Any = {"spec": {"parallelism": "x"}}
    operations: Any = [{"op": "replace", "path": "/spec/parallelism", "value": "x"}]
    for content_type, patch in ((MERGE_PATCH, merge), ("application/json-patch+json", operations)):
        answer = await api.call("PATCH", path, patch, content_type=content_type)
        answer.refused(422, "Invalid", "patch: Invalid value")
    applied = await api.call("PATCH", path, job("odd", parallelism="x"), content_type=APPLY_PATCH, fieldManager="me")
    applied.refused(500, "", "failed to create typed patch object", "parallelism")
