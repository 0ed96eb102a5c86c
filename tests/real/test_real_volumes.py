"""Claims that wait for their first consumer, on a real kube-apiserver, with the rights of deploy/scheduler; and the
policy on Candidates.

No volume controller and no provisioner runs there: their part is played by hand.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import yaml

from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ListQuery
from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATES, FINALIZER, SOURCE_LABEL
from controlplane.controllers.scheduling.snapshot.storage import SELECTED_NODE
from controlplane.kube.kinds import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    Json,
    Kind,
    ObjectRef,
    Request,
)
from controlplane.kube.well_known import BIND_COMPLETED
from tests.real.test_real_scheduler import HOME, WHY, Real, kubeconfig, real, until

__all__ = ["kubeconfig", "real"]
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(240)]
ADMISSION = "admissionregistration.k8s.io"
POLICY_KINDS = (
    Kind(ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False),
    Kind(ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False),
)
POLICY = Path(__file__).parents[2] / "deploy" / "candidates" / "target" / "policy.yaml"


async def storage(real: Real, name: str, provisioner: str) -> None:
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    with contextlib.suppress(ApiError):
        await real.api.create(STORAGE_CLASSES, "", body)


async def claim(real: Real, name: str, storage_class: str) -> None:
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await real.api.create(PERSISTENT_VOLUME_CLAIMS, "default", {"metadata": {"name": name}, "spec": spec})


async def volume(real: Real, name: str, node: str, size: str, **more: object) -> None:
    expression = {"key": "pool", "operator": "In", "values": [node]}
    spec = {
        "storageClassName": "local",
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/v"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        **more,
    }
    await real.api.create(PERSISTENT_VOLUMES, "", {"metadata": {"name": name}, "spec": spec})
    status = {"status": {"phase": "Available"}}
    await real.api.write(Request("patch", ObjectRef(PERSISTENT_VOLUMES, "", name), status, subresource="status"))


async def bind(real: Real, claim_: str, volume_: str) -> None:
    """What the volume controller writes."""
    body: Json = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume_}}
    await real.api.write(Request("patch", ObjectRef(PERSISTENT_VOLUME_CLAIMS, "default", claim_), body))
    shown = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    await real.api.write(
        Request(
            "patch", ObjectRef(PERSISTENT_VOLUME_CLAIMS, "default", claim_), {"status": shown}, subresource="status"
        )
    )


def using(name: str) -> list[Json]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


async def test_a_volume_is_given_to_the_claim_and_the_pod_follows(real: Real) -> None:
    await real.node("disks")
    await storage(real, "local", "kubernetes.io/no-provisioner")
    await volume(real, "large", "disks", "5Gi")
    await volume(real, "small", "disks", "1Gi")
    await claim(real, "static", "local")
    await real.pod("s", "disks", volumes=using("static"))

    async def given() -> Json:
        found: Json = (await real.api.get(PERSISTENT_VOLUMES, "", "small"))["spec"].get("claimRef") or {}
        return found

    await until(given)
    found, wanted = await given(), (await real.api.get(PERSISTENT_VOLUME_CLAIMS, "default", "static"))["metadata"]
    assert (found["kind"], found["namespace"], found["name"], found["uid"]) == (
        "PersistentVolumeClaim",
        "default",
        "static",
        wanted["uid"],
    )
    large = await real.api.get(PERSISTENT_VOLUMES, "", "large")
    assert "claimRef" not in large["spec"]
    notes = (await real.api.get(PERSISTENT_VOLUMES, "", "small"))["metadata"]["annotations"]
    assert notes["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert await real.on("s") == ""
    await bind(real, "static", "small")
    await until(lambda: real.on("s"))
    assert await real.on("s") == "disks"


async def test_a_node_is_selected_for_the_claim_and_the_pod_follows(real: Real) -> None:
    await real.node("cloud")
    await storage(real, "made", "csi.example.com")
    await claim(real, "dynamic", "made")
    await real.pod("d", "cloud", volumes=using("dynamic"))

    async def selected() -> str:
        found = (await real.api.get(PERSISTENT_VOLUME_CLAIMS, "default", "dynamic"))["metadata"]
        return str((found.get("annotations") or {}).get(SELECTED_NODE, ""))

    await until(selected)
    assert await selected() == "cloud"
    assert await real.on("d") == ""
    uid = (await real.api.get(PERSISTENT_VOLUME_CLAIMS, "default", "dynamic"))["metadata"]["uid"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "dynamic", "uid": uid}
    await volume(real, "pvc-1", "cloud", "1Gi", storageClassName="made", claimRef=reference)
    await bind(real, "dynamic", "pvc-1")
    await until(lambda: real.on("d"))
    assert await real.on("d") == "cloud"
    pod = await real.api.get(PODS, "default", "d")
    assert next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")["status"] == "True"


async def test_a_pod_whose_claim_finds_no_volume_says_so(real: Real) -> None:
    await real.node("empty")
    await storage(real, "local", "kubernetes.io/no-provisioner")
    await claim(real, "nothing", "local")
    await real.pod("n", "empty", volumes=using("nothing"))

    async def refused() -> bool:
        return (await real.condition("n")).get("reason") == "Unschedulable"

    await until(refused)
    assert "node(s) didn't find available persistent volumes to bind" in (await real.condition("n"))["message"]
    await real.api.write(Request("delete", ObjectRef(NODES, "", "empty")))


async def test_the_policy_on_candidates_lets_the_scheduler_take_its_finalizer_off(real: Real) -> None:
    for document in yaml.safe_load_all(POLICY.read_text()):
        kind = next(kind for kind in POLICY_KINDS if kind.kind == document["kind"])
        await real.api.create(kind, "", document)
    head = {"apiVersion": CANDIDATES.api_version}
    spec: Json = {"cluster": HOME, "user": "on-premises", "podSecurity": "baseline"}
    invitation = {**head, "kind": "CandidateSource", "metadata": {"name": HOME}, "spec": spec}
    with contextlib.suppress(ApiError):
        await real.api.create(CANDIDATE_SOURCES, "default", invitation)
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "64"}}}
    origin = {"cluster": HOME, "namespace": "default", "name": "f", "uid": "uid-f", "epoch": 1}
    metadata = {"name": "f", "labels": {SOURCE_LABEL: HOME}, "finalizers": [FINALIZER]}
    spec = {"source": origin, "template": {"spec": {"containers": [container]}}}
    await real.api.create(CANDIDATES, "default", {**head, "kind": "Candidate", "metadata": metadata, "spec": spec})

    async def unschedulable() -> bool:
        found = await real.api.get(CANDIDATES, "default", "f")
        return (found.get("status") or {}).get("phase") == "Unschedulable"

    await until(unschedulable)
    await real.api.write(Request("delete", ObjectRef(CANDIDATES, "default", "f")))

    async def gone() -> bool:
        page = await real.api.list(ListQuery(CANDIDATES, namespace="default"))
        return all(item["metadata"]["name"] != "f" for item in page.items)

    await until(gone)
