"""Volumes: bound claims, claims that wait for their pod, zones."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kube import Json
from controlplane.scheduler.evaluate.answer import answer
from controlplane.scheduler.evaluate.question import read
from tests.scheduler.objects import ZONE, node, pod

NODES = [node("a", {ZONE: "z1"}), node("b", {ZONE: "z2"}), node("c")]
USING = pod("new", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])


def ask(plugin: str, incoming: Json = USING, **more: Any) -> Json:
    return answer(read({"pod": incoming, "nodes": NODES, "only": [plugin], **more}))["perPlugin"][plugin]


def claim(volume: str = "", storage_class: str = "fast", bound: bool = True, **more: Any) -> Json:
    meta = {"name": "data", "namespace": "default"} | more.pop("meta", {})
    if volume and bound:
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    asked = {"requests": {"storage": "10Gi"}}
    spec = {
        "volumeName": volume,
        "storageClassName": storage_class,
        "resources": asked,
        "accessModes": ["ReadWriteOnce"],
    }
    return {"metadata": meta, "spec": spec, "status": more}


def volume(name: str, zone: str = "", size: str = "10Gi", **labels: str) -> Json:
    spec: Json = {"storageClassName": "fast", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    if zone:
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def storage_class(
    mode: str = "WaitForFirstConsumer", provisioner: str = "kubernetes.io/no-provisioner", **more: Any
) -> Json:
    return {"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def feasible(found: Json) -> set[str]:
    return {name for name, status in found["filter"].items() if status["code"] == "Success"}


def test_a_pod_without_claims_is_skipped() -> None:
    assert ask("VolumeBinding", pod("new"))["preFilter"]["code"] == "Skip"
    assert ask("VolumeZone", pod("new"))["preFilter"]["code"] == "Skip"


def test_a_bound_volume_is_reached_only_from_its_nodes() -> None:
    found = ask("VolumeBinding", persistentVolumeClaims=[claim("pv")], persistentVolumes=[volume("pv", "z1")])
    assert feasible(found) == {"a"}
    assert found["filter"]["b"]["reasons"] == ["node(s) didn't match PersistentVolume's node affinity"]
    found = ask("VolumeBinding", persistentVolumeClaims=[claim("pv")], persistentVolumes=[volume("pv")])
    assert feasible(found) == {"a", "b", "c"}


def test_a_bound_volume_that_is_gone() -> None:
    found = ask("VolumeBinding", persistentVolumeClaims=[claim("pv")])
    told = ["node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"]
    assert found["filter"]["a"] == {"code": "UnschedulableAndUnresolvable", "reasons": told}


@pytest.mark.parametrize(
    ("claims", "classes", "told"),
    [
        ([], [], 'persistentvolumeclaim "data" not found'),
        ([claim()], [storage_class("Immediate")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("pv", bound=False)], [storage_class()], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("pv", phase="Lost")], [], 'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"'),
        (
            [claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            [],
            'persistentvolumeclaim "data" is being deleted',
        ),
    ],
)
def test_claims_that_keep_a_pod_waiting(claims: list[Json], classes: list[Json], told: str) -> None:
    found = ask("VolumeBinding", persistentVolumeClaims=claims, storageClasses=classes)
    assert found["preFilter"] == {"code": "UnschedulableAndUnresolvable", "reasons": [told]}


def test_a_waiting_claim_takes_a_volume_that_fits() -> None:
    volumes = [volume("small", "z1", "1Gi"), volume("right", "z2"), volume("elsewhere", "z3")]
    found = ask(
        "VolumeBinding", persistentVolumeClaims=[claim()], storageClasses=[storage_class()], persistentVolumes=volumes
    )
    assert feasible(found) == {"b"}
    assert found["filter"]["a"]["reasons"] == ["node(s) didn't find available persistent volumes to bind"]


def test_a_waiting_claim_is_provisioned_where_its_class_can() -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
    made = storage_class(provisioner="csi.example.com", allowedTopologies=allowed)
    assert feasible(ask("VolumeBinding", persistentVolumeClaims=[claim()], storageClasses=[made])) == {"a"}
    anywhere = storage_class(provisioner="csi.example.com")
    assert feasible(ask("VolumeBinding", persistentVolumeClaims=[claim()], storageClasses=[anywhere])) == {
        "a",
        "b",
        "c",
    }


def test_the_zone_labels_of_a_volume() -> None:
    labelled = volume("pv", **{ZONE: "z1__z9"})
    found = ask("VolumeZone", persistentVolumeClaims=[claim("pv")], persistentVolumes=[labelled])
    assert feasible(found) == {"a", "c"}  # c has no zone at all
    assert found["filter"]["b"]["reasons"] == ["node(s) had no available volume zone"]
    old = volume("pv", **{"failure-domain.beta.kubernetes.io/zone": "z2"})
    assert feasible(ask("VolumeZone", persistentVolumeClaims=[claim("pv")], persistentVolumes=[old])) == {"b", "c"}


def test_volumes_on_both_nodes_are_not_promised_twice() -> None:
    both = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in ("data", "more")]
    claims = [claim(), claim(meta={"name": "more"})]
    one = [volume("pv", "z1")]
    two = [*one, volume("pv2", "z1")]
    asked: Json = {"persistentVolumeClaims": claims, "storageClasses": [storage_class()]}
    assert feasible(ask("VolumeBinding", pod("new", volumes=both), persistentVolumes=one, **asked)) == set()
    assert feasible(ask("VolumeBinding", pod("new", volumes=both), persistentVolumes=two, **asked)) == {"a"}
