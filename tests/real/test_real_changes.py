"""Changes of a source pod, and what comes with it, on a real kube-apiserver: it stores what we send as it was sent,
takes what we patch, and refuses what it refuses in words that are told.

The scheduler of the target runs with the rights of deploy/scheduler; the source's writes are made as they are
rendered."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.controllers.candidates.objects import (
    ACCOUNTS,
    CANDIDATE_SOURCES,
    CANDIDATES,
    FINALIZER,
    SOURCE_LABEL,
    TEMPLATE,
    sent,
    stamp,
    template,
)
from controlplane.controllers.candidates.references.decide import Copy, copy_request
from controlplane.kube.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, Json, Kind, ObjectRef, Request
from controlplane.kube.requests import merge_diff
from tests.real.test_real_scheduler import HOME, WHY, Real, kubeconfig, real, until

__all__ = ["kubeconfig", "real"]
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(240)]
NS = "default"


def formed(pod: Json) -> Json:
    """Return what the source sends of a pod, as a Candidate has it."""
    body = msgspec.json.decode(template(pod).text, type=dict)
    return {"metadata": {"labels": body["labels"], "annotations": body["annotations"]}, "spec": body["spec"]}


def source_pod(image: str = "app:1", **more: Any) -> Json:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "nodeSelector": {"pool": "changes"}, "terminationGracePeriodSeconds": 30}
    metadata = {"labels": {"app": "web", "old": "x"}, "annotations": {"note": "1"}, **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {**spec, **more}}


async def candidate(real: Real, name: str, pod: Json) -> Json:
    spec = {"cluster": HOME, "user": HOME, "podSecurity": "baseline", "follow": ["Service"]}
    with contextlib.suppress(ApiError):
        await real.api.create(
            CANDIDATE_SOURCES, NS, _typed(CANDIDATE_SOURCES, {"metadata": {"name": HOME}, "spec": spec})
        )
    origin = {"cluster": HOME, "namespace": NS, "name": name, "uid": f"uid-{name}", "epoch": 1}
    metadata = {"name": name, "labels": {SOURCE_LABEL: HOME}, "finalizers": [FINALIZER]}
    body = {"metadata": metadata, "spec": {"source": origin, "template": formed(pod)}}
    return await real.api.create(CANDIDATES, NS, _typed(CANDIDATES, body))


def _typed(kind: Kind, obj: Json) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}


async def change(real: Real, name: str, before: Json, after: Json) -> None:
    """Give the Candidate the pod's new template, as the source does."""
    found = await real.api.get(CANDIDATES, NS, name)
    head = {"uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
    body = {"metadata": head, "spec": {"template": merge_diff(formed(before), formed(after))}}
    await real.api.write(Request("patch", ObjectRef(CANDIDATES, NS, name), body))


async def test_a_candidate_is_stored_as_it_was_sent_and_its_pod_follows(real: Real) -> None:
    await real.node("changes", cpu="4")
    first = source_pod(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    assert sent(await candidate(real, "follows", first)).ref == template(first).ref

    async def phase() -> str:
        return str(((await real.api.get(CANDIDATES, NS, "follows")).get("status") or {}).get("phase"))

    async def reserved() -> bool:
        return await phase() == "Reserved"

    await until(reserved)
    assert (await real.api.get(CANDIDATES, NS, "follows"))["status"]["follows"] == ["Service"]
    made = await real.api.get(PODS, NS, "follows")
    more = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    second = source_pod(
        "app:2",
        metadata={"labels": {"app": "other"}, "annotations": {}},
        tolerations=[*first["spec"]["tolerations"], more],
        activeDeadlineSeconds=600,
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    await change(real, "follows", first, second)
    assert sent(await real.api.get(CANDIDATES, NS, "follows")).ref == template(second).ref

    async def followed() -> bool:
        found = await real.api.get(PODS, NS, "follows")
        return bool(found["metadata"]["annotations"][TEMPLATE] != made["metadata"]["annotations"][TEMPLATE])

    await until(followed)
    found = await real.api.get(PODS, NS, "follows")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert (found["metadata"]["labels"].get("app"), found["metadata"]["labels"].get("old")) == ("other", None)
    assert found["metadata"]["annotations"].keys() == {TEMPLATE}
    assert found["spec"]["containers"][0]["image"] == "app:2"
    assert found["spec"]["activeDeadlineSeconds"] == 600
    assert more in found["spec"]["tolerations"]
    assert len(found["spec"]["tolerations"]) == len(made["spec"]["tolerations"]) + 1, "what was added here stays"


async def test_what_the_api_server_refuses_is_told_in_its_words(real: Real) -> None:
    await real.node("changes", cpu="4")
    first = source_pod(activeDeadlineSeconds=60)
    await candidate(real, "refused", first)

    async def reserved() -> bool:
        return bool((await real.api.get(CANDIDATES, NS, "refused"))["status"]["phase"] == "Reserved")

    await until(reserved)
    found = await real.api.get(CANDIDATES, NS, "refused")
    permit = {"number": 1, "kind": "Bind", "reservation": found["status"]["reservation"]["number"]}
    body = {"spec": {"permit": {**permit, "until": stamp(datetime.now(UTC) + timedelta(seconds=60))}}}
    await real.api.write(Request("patch", ObjectRef(CANDIDATES, NS, "refused"), body))

    async def bound() -> bool:
        return bool((await real.api.get(CANDIDATES, NS, "refused"))["status"]["phase"] == "Bound")

    await until(bound)
    await change(real, "refused", first, source_pod(activeDeadlineSeconds=600))

    async def told() -> bool:
        status = (await real.api.get(CANDIDATES, NS, "refused"))["status"]
        return status.get("reason") == "PodRefused" and "activeDeadlineSeconds" in status["message"]

    await until(told)
    await change(real, "refused", source_pod(activeDeadlineSeconds=600), source_pod("app:2", activeDeadlineSeconds=30))

    async def followed() -> bool:
        pod = await real.api.get(PODS, NS, "refused")
        return bool(pod["spec"]["activeDeadlineSeconds"] == 30 and pod["spec"]["containers"][0]["image"] == "app:2")

    await until(followed)


async def test_copies_are_taken_and_renewed(real: Real) -> None:
    ports = [{"name": "sql", "port": 5432, "protocol": "TCP", "targetPort": 5432, "nodePort": 30111}]
    service = {"type": "NodePort", "clusterIP": "10.9.9.9", "selector": {"app": "db", "tier": "x"}, "ports": ports}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "pv",
        "volumeMode": "Filesystem",
    }
    sources: list[tuple[Kind, str, Json]] = [
        (SERVICES, "db", {"spec": service}),
        (PERSISTENT_VOLUME_CLAIMS, "data", {"spec": claim}),
        (ACCOUNTS, "builder", {"automountServiceAccountToken": False, "secrets": [{"name": "t"}]}),
    ]
    for kind, name, parts in sources:
        source = {"metadata": {"name": name, "resourceVersion": "1"}, **parts}
        request = copy_request(Copy(kind.kind, name, "1"), NS, source, HOME)
        made = await real.api.create(kind, NS, {**request.body, "metadata": {**request.body["metadata"], "name": name}})
        head = made["metadata"]
        if kind == SERVICES:
            parts["spec"] = {**service, "selector": {"app": "sql"}, "ports": [{"port": 5433, "protocol": "TCP"}]}
        renewed = copy_request(
            Copy(kind.kind, name, "2", head["uid"], head["resourceVersion"]),
            NS,
            {"metadata": {"name": name, "resourceVersion": "2"}, **parts},
            HOME,
        )
        versions = {"uid": renewed.uid, "resourceVersion": renewed.resource_version}
        body = {**renewed.body, "metadata": {**renewed.body["metadata"], **versions}}
        await real.api.write(_with(renewed, body))
    found = await real.api.get(SERVICES, NS, "db")
    assert (found["spec"]["type"], found["spec"]["selector"]) == ("ClusterIP", {"app": "sql"})
    assert [port["port"] for port in found["spec"]["ports"]] == [5433]
    assert "volumeName" not in (await real.api.get(PERSISTENT_VOLUME_CLAIMS, NS, "data"))["spec"]


def _with(request: Request, body: Json) -> Request:
    return Request("patch", request.ref, body, content_type=request.content_type)
