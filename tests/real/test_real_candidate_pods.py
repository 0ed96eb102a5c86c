"""Candidates on a real kube-apiserver, beside a scheduler with the rights of deploy/scheduler: made of pods as another
API server shows them, and by a source that errs or means harm.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd. No kubelet and no controller runs there."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
import yaml

from controlplane.clusters.budget import RequestBudget
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.clusters.verbs import Executor
from controlplane.controllers.candidates.invitation import ROLE_BINDINGS
from controlplane.controllers.candidates.objects import (
    CANDIDATE_SOURCES,
    CANDIDATES,
    FINALIZER,
    FOLLOWED,
    SOURCE_LABEL,
    template,
)
from controlplane.controllers.candidates.references.decide import Copy, copy_request
from controlplane.kube.kinds import NAMESPACES, PODS, PRIORITY_CLASSES, Json, Kind, ObjectRef, Request
from tests.deploy.manifests import ROOT, documents, one, render
from tests.real.test_real_scheduler import ACCOUNT_KINDS, HOME, WHY, Real, kubeconfig, real, until, with_account
from tests.real.test_real_volumes import POLICY_KINDS

__all__ = ["kubeconfig", "real"]
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(240)]
RUNTIME_CLASSES = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False)


async def invited(real: Real, **spec: Any) -> None:
    spec = {"cluster": HOME, "user": "on-premises", "podSecurity": "baseline", **spec}
    head = {"apiVersion": CANDIDATES.api_version, "kind": "CandidateSource", "metadata": {"name": HOME}}
    with contextlib.suppress(ApiError):
        await real.api.write(Request("delete", ObjectRef(CANDIDATE_SOURCES, "default", HOME)))
    await real.api.create(CANDIDATE_SOURCES, "default", {**head, "spec": spec})


async def asked(real: Real, name: str, pod: Json, **spec: Any) -> None:
    """Create a Candidate made of a pod as an API server shows it."""
    made = msgspec.json.decode(template(pod).text)
    origin = {"cluster": HOME, "namespace": "default", "name": name, "uid": f"uid-{name}", "epoch": 1}
    head = {"labels": made["labels"], "annotations": made["annotations"]}
    whole = {"source": origin, "template": {"metadata": head, "spec": made["spec"]}, **spec}
    metadata = {"name": f"{name}-1", "labels": {SOURCE_LABEL: HOME}, "finalizers": [FINALIZER]}
    body = {"apiVersion": CANDIDATES.api_version, "kind": "Candidate", "metadata": metadata, "spec": whole}
    await real.api.create(CANDIDATES, "default", body)


async def comes_to(real: Real, name: str, phase: str) -> Json:
    """Return a Candidate's status once its phase is that."""
    found: Json = {}

    async def is_so() -> bool:
        nonlocal found
        found = (await real.api.get(CANDIDATES, "default", f"{name}-1")).get("status") or {}
        return found.get("phase") == phase

    try:
        await until(is_so)
    except AssertionError:
        raise AssertionError(f"{found.get('phase')}: {found.get('message')}") from None
    return found


async def test_a_pod_as_its_own_api_server_has_filled_it_in_is_one_that_another_takes(real: Real) -> None:
    """The server puts matchLabelKeys into the selectors, and the policy of the class and the overhead of the runtime
    into the pod; another one refuses the first, and has its own word for the others."""
    await real.node("filled", cpu="4")
    await invited(real)
    for policy, overhead in (("PreemptLowerPriority", "200m"), ("Never", "100m")):
        # As they are in the source, and then in the target.
        for kind, name in ((PRIORITY_CLASSES, "batch"), (RUNTIME_CLASSES, "kata")):
            with contextlib.suppress(ApiError):
                await real.api.write(Request("delete", ObjectRef(kind, "", name)))
        await real.api.create(PRIORITY_CLASSES, "", {**_named("batch"), "value": 5, "preemptionPolicy": policy})
        more = {"handler": "kata", "overhead": {"podFixed": {"cpu": overhead}}}
        await real.api.create(RUNTIME_CLASSES, "", {**_named("kata"), **more})
        if policy == "PreemptLowerPriority":
            source = await real.api.create(PODS, "default", filled_in())
    keys = source["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"]
    assert [one["key"] for one in keys] == ["pod-template-hash"]
    await asked(real, "filled", source)
    await comes_to(real, "filled", "Reserved")
    made = (await real.api.get(PODS, "default", "filled-1"))["spec"]
    assert (made["preemptionPolicy"], made["overhead"]) == ("Never", {"cpu": "100m"})
    for field in ("topologySpreadConstraints", "affinity"):
        assert made[field] == source["spec"][field]


def _named(name: str) -> Json:
    return {"metadata": {"name": name}}


def filled_in() -> Json:
    mine, keys = {"labelSelector": {"matchLabels": {"app": "a"}}}, ["pod-template-hash"]
    spread = {"maxSkew": 1, "topologyKey": "pool", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": keys}
    term = {"topologyKey": "pool", **mine, "matchLabelKeys": keys}
    other = {"topologyKey": "pool", "labelSelector": {}, "mismatchLabelKeys": keys}
    return {
        "metadata": {"name": "filled", "labels": {"app": "a", "pod-template-hash": "h1"}},
        "spec": {
            "schedulerName": "controlplane-candidates",
            "nodeSelector": {"pool": "filled"},
            "priorityClassName": "batch",
            "runtimeClassName": "kata",
            "containers": [{"name": "main", "image": "app"}],
            "topologySpreadConstraints": [{**spread, **mine}],
            "affinity": {
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
                },
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, other]},
            },
        },
    }


async def test_a_permit_that_ended_before_all_time_stops_nobody_else(real: Real) -> None:
    await real.node("apart", cpu="4")
    await invited(real)
    body = {"metadata": {}, "spec": {"nodeSelector": {"pool": "apart"}, "containers": [{"name": "c", "image": "i"}]}}
    permit = {"number": 1, "kind": "Preempt", "reservation": 0, "until": "0001-01-01T00:00:00Z"}
    huge = {"spec": {**body["spec"], "nodeSelector": {"pool": "nowhere"}}}
    await asked(real, "ages", {**body, **huge}, permit=permit)
    said = await comes_to(real, "ages", "Refused")
    assert "spec.permit.until" in said["message"]
    await asked(real, "after", body)
    await comes_to(real, "after", "Reserved")


async def test_who_is_not_invited_any_more_removes_what_it_had_and_brings_nothing(real: Real, kubeconfig: Json) -> None:
    """Without a CandidateSource, the policy once let nobody write a Candidate: neither the scheduler, whose finalizer
    then stayed, nor the controller of namespaces."""
    await real.node("left", cpu="4")
    await invited(real)
    kinds = {kind.kind: kind for kind in (*POLICY_KINDS, *ACCOUNT_KINDS, ROLE_BINDINGS)}
    example = documents((ROOT / "deploy/candidates/target/example.yaml").read_text())
    binding = one(example, "RoleBinding") | {"metadata": {"name": "campus", "namespace": "default"}}
    account = [item for item in example if item["kind"] in ("Namespace", "ServiceAccount")]
    for item in [*render("deploy/candidates/target"), *account, binding]:
        await real.api.create(kinds[item["kind"]], item["metadata"].get("namespace", ""), item)
    user = {"user": "system:serviceaccount:candidate-sources:campus"}
    await real.api.write(Request("patch", ObjectRef(CANDIDATE_SOURCES, "default", HOME), {"spec": user}))
    limited = await with_account(real.api, kubeconfig, "candidate-sources", "campus")
    source = Real(Transport("source", parse_kubeconfig(yaml.safe_dump(limited).encode())))
    body = {"metadata": {}, "spec": {"nodeSelector": {"pool": "left"}, "containers": [{"name": "c", "image": "i"}]}}
    try:
        await until(lambda: asked_by(source, "left", body))
        await comes_to(real, "left", "Reserved")
        await real.api.write(Request("delete", ObjectRef(CANDIDATE_SOURCES, "default", HOME)))
        await until(lambda: refused(source, "again", body))
        await comes_to(real, "left", "Refused")
        await source.api.write(Request("delete", ObjectRef(CANDIDATES, "default", "left-1")))

        async def is_gone() -> bool:
            page = await real.api.list(ListQuery(CANDIDATES, namespace="default"))
            return all(item["metadata"]["name"] != "left-1" for item in page.items)

        await until(is_gone)
    finally:
        await source.api.close()


async def asked_by(source: Real, name: str, pod: Json) -> bool:
    await asked(source, name, pod)
    return True


async def refused(source: Real, name: str, pod: Json) -> bool:
    """Whether the policy lets nothing in, which takes a moment."""
    try:
        await asked(source, name, pod)
    except ApiError as error:
        return "no params found" in error.message
    await source.api.write(Request("delete", ObjectRef(CANDIDATES, "default", f"{name}-1")))
    return False


async def test_a_copy_is_renewed_as_a_whole(real: Real) -> None:
    with contextlib.suppress(ApiError):
        await real.api.create(NAMESPACES, "", _named("physics"))
    ports = [{"port": 80}]
    rows: list[tuple[str, list[Json]]] = [
        ("Secret", [{"data": {"a": "dg==", "b": "dg=="}}, {"data": {"a": "eA=="}}, {}, {"data": {"c": "eA=="}}]),
        ("ConfigMap", [{"data": {"a": "v", "b": "v"}}, {"data": {"a": "w"}}, {"binaryData": {"c": "eA=="}}]),
        ("Service", [{"spec": {"ports": ports, **more}} for more in ({}, {"selector": {"a": "b"}}, {})]),
    ]
    for kind, sources in rows:
        ref = ObjectRef(FOLLOWED[kind], "physics", "copied")
        uid, version = "", ""
        for number, held in enumerate(sources):
            source = {"metadata": {"resourceVersion": str(number)}, **held}
            request = copy_request(Copy(kind, "copied", str(number), uid, version), "physics", source, HOME)
            await Executor(real.api, RequestBudget()).execute(request)
            found = await real.api.get(ref.kind, "physics", "copied")
            uid, version = found["metadata"]["uid"], found["metadata"]["resourceVersion"]
            for field in ("data", "binaryData"):
                assert found.get(field) == held.get(field), kind
            assert found.get("spec", {}).get("selector") == held.get("spec", {}).get("selector"), kind
            assert found["metadata"]["labels"] == {SOURCE_LABEL: HOME}
