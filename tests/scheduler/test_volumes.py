"""Volumes: bound claims, claims that wait for their pod, zones."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.kube.kinds import Json
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
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": "Available"}}


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


def test_volumes_on_both_nodes_are_not_reserved_twice() -> None:
    both = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in ("data", "more")]
    claims = [claim(), claim(meta={"name": "more"})]
    one = [volume("pv", "z1")]
    two = [*one, volume("pv2", "z1")]
    asked: Json = {"persistentVolumeClaims": claims, "storageClasses": [storage_class()]}
    assert feasible(ask("VolumeBinding", pod("new", volumes=both), persistentVolumes=one, **asked)) == set()
    assert feasible(ask("VolumeBinding", pod("new", volumes=both), persistentVolumes=two, **asked)) == {"a"}


def two(*claims: Json) -> Json:
    listed = [
        {"name": one["metadata"]["name"], "persistentVolumeClaim": {"claimName": one["metadata"]["name"]}}
        for one in claims
    ]
    return pod("new", volumes=listed)


UNREACHED = "node(s) didn't match PersistentVolume's node affinity"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@pytest.mark.parametrize(("first", "told"), [("here", UNREACHED), ("gone", GONE)])
def test_of_two_bound_claims_the_first_that_fails_is_told(first: str, told: str) -> None:
    names = ["here", "gone"] if first == "here" else ["gone", "here"]
    claims = [claim(name, meta={"name": name}) for name in names]
    found = ask("VolumeBinding", two(*claims), persistentVolumeClaims=claims, persistentVolumes=[volume("here", "z9")])
    assert found["filter"]["a"]["reasons"] == [told]


def test_a_claim_is_provisioned_on_the_node_that_was_selected_for_it() -> None:
    asked = claim(meta={"annotations": {"volume.kubernetes.io/selected-node": "b"}})
    made = storage_class(provisioner="csi.example.com")
    found = ask("VolumeBinding", persistentVolumeClaims=[asked], storageClasses=[made])
    assert feasible(found) == {"b"}
    static = ask(
        "VolumeBinding",
        persistentVolumeClaims=[asked],
        storageClasses=[storage_class()],
        persistentVolumes=[volume("pv")],
    )
    assert feasible(static) == set()  # a volume that is there already is not taken any more


def claimed(name: str, zone: str, **reference: str) -> Json:
    found = volume(name, zone)
    found["spec"]["claimRef"] = {"namespace": "default", "name": "data", **reference}
    return found


@pytest.mark.parametrize(
    ("volumes", "nodes"),
    [
        ([claimed("pv", "z1")], {"a"}),
        ([claimed("pv", "z1"), volume("free", "z2")], {"a"}),  # it takes no other one
        ([claimed("pv", "z1", uid="another"), volume("free", "z2")], {"b"}),
        ([volume("pv") | {"status": {"phase": "Released"}}], set()),
        ([volume("pv") | {"status": {}}], set()),
    ],
)
def test_which_volumes_are_free(volumes: list[Json], nodes: set[str]) -> None:
    asked: Json = {"persistentVolumeClaims": [claim()], "storageClasses": [storage_class()]}
    assert feasible(ask("VolumeBinding", persistentVolumes=volumes, **asked)) == nodes


@pytest.mark.parametrize(
    ("field", "value"),
    [("volumeMode", "Block"), ("volumeAttributesClassName", "gold"), ("accessModes", []), ("storageClassName", "slow")],
)
def test_volumes_that_do_not_fit(field: str, value: Any) -> None:
    other = volume("pv")
    other["spec"][field] = value
    asked: Json = {"persistentVolumeClaims": [claim()], "storageClasses": [storage_class()]}
    assert feasible(ask("VolumeBinding", persistentVolumes=[other], **asked)) == set()


def test_a_volume_that_goes_is_not_taken() -> None:
    going = volume("pv")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    asked: Json = {"persistentVolumeClaims": [claim()], "storageClasses": [storage_class()]}
    assert feasible(ask("VolumeBinding", persistentVolumes=[going], **asked)) == set()


def test_a_volume_knows_nodes_by_their_labels_only() -> None:
    named = volume("pv")
    by_name = [{"key": "metadata.name", "operator": "In", "values": ["b"]}]
    named["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchFields": by_name}]}}
    found = ask("VolumeBinding", persistentVolumeClaims=[claim("pv")], persistentVolumes=[named])
    assert feasible(found) == {"a", "b", "c"}


@pytest.mark.parametrize(("owner", "code"), [("uid-new", "Success"), ("other", "UnschedulableAndUnresolvable")])
def test_an_ephemeral_claim_is_its_pods_own(owner: str, code: str) -> None:
    using = pod("new", volumes=[{"name": "v", "ephemeral": {}}])
    owners = [{"kind": "Pod", "name": "new", "uid": owner, "controller": True}]
    claims = [claim("pv", meta={"name": "new-v", "ownerReferences": owners})]
    found = ask("VolumeBinding", using, persistentVolumeClaims=claims, persistentVolumes=[volume("pv")])
    assert found["preFilter"]["code"] == code


def test_the_old_annotation_of_a_class_goes_before_the_field() -> None:
    old = claim(storage_class="other", meta={"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}})
    found = ask(
        "VolumeBinding",
        persistentVolumeClaims=[old],
        storageClasses=[storage_class()],
        persistentVolumes=[volume("pv")],
    )
    assert feasible(found) == {"a", "b", "c"}


def test_a_class_without_a_mode() -> None:
    unset = storage_class()
    del unset["volumeBindingMode"]
    asked: Json = {"persistentVolumeClaims": [claim()], "storageClasses": [unset]}
    assert ask("VolumeBinding", **asked)["preFilter"]["code"] == "Error"
    assert ask("VolumeZone", **asked)["preFilter"]["code"] == "UnschedulableAndUnresolvable"


def test_a_zone_label_with_an_empty_zone_is_ignored() -> None:
    odd = volume("pv", **{ZONE: "z1__"})
    found = ask("VolumeZone", persistentVolumeClaims=[claim("pv")], persistentVolumes=[odd])
    assert found["preFilter"]["code"] == "Skip"
