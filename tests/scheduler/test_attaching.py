"""What a node can mount and attach: disks that pods name themselves, claims for one pod, limits of CSI drivers."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.objects import read_node
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.kinds import Json
from controlplane.kube.pod_fields import PodMisfit
from tests.scheduler.objects import a_pod, node, pod
from tests.scheduler.test_preemption import running
from tests.support.rows import each

DRIVER = "disks.example.com"


def ask(asked: Json, pods: list[Json] | None = None, **more: Any) -> Json:
    """Return the default profile's answer; nodes n and m unless there are others."""
    nodes = more.pop("nodes", [node("n"), node("m")])
    return answer(read({"id": "q", "pod": asked, "nodes": nodes, "pods": pods or [], **more}))


def disk(**source: Json) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def claimed(*names: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]}


def claim(name: str, *modes: str, namespace: str = "default", volume: str = "") -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"c-{name}",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"accessModes": list(modes), "volumeName": volume or f"pv-{name}"},
        "status": {"phase": "Bound"},
    }


def volume(name: str, driver: str = DRIVER, **source: Json) -> Json:
    behind = source or {"csi": {"driver": driver, "volumeHandle": f"h-{name}"}}
    return {"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"}, **behind}}


def csi_node(name: str, count: int, driver: str = DRIVER) -> Json:
    return {"metadata": {"name": name}, "spec": {"drivers": [{"name": driver, "allocatable": {"count": count}}]}}


def stored(*names: str, **more: Any) -> dict[str, Any]:
    """Claims with a volume of their own each."""
    found = {
        "persistentVolumeClaims": [claim(name, "ReadWriteOnce") for name in names],
        "persistentVolumes": [volume(f"pv-{name}") for name in names],
    }
    return found | more


READS = {"readOnly": True}
GCE, EBS = {"pdName": "d"}, {"volumeID": "vol-1"}
ISCSI = {"iqn": "iqn.1", "targetPortal": "1.1.1.1", "lun": 0}
RBD = {"monitors": ["a", "b"], "pool": "rbd", "image": "i"}


@each(
    ("mine", "theirs", "conflict"),
    [
        ({"gcePersistentDisk": GCE}, {"gcePersistentDisk": GCE}, True),
        ({"gcePersistentDisk": GCE}, {"gcePersistentDisk": GCE | READS}, True),
        ({"gcePersistentDisk": GCE | READS}, {"gcePersistentDisk": GCE | READS}, False),
        ({"gcePersistentDisk": GCE}, {"gcePersistentDisk": {"pdName": "e"}}, False),
        ({"awsElasticBlockStore": EBS | READS}, {"awsElasticBlockStore": EBS | READS}, True),
        ({"awsElasticBlockStore": EBS}, {"awsElasticBlockStore": {"volumeID": "vol-2"}}, False),
        ({"iscsi": ISCSI}, {"iscsi": ISCSI | {"targetPortal": "2.2.2.2", "lun": 1}}, True),
        ({"iscsi": ISCSI | READS}, {"iscsi": ISCSI | READS}, False),
        ({"rbd": RBD}, {"rbd": RBD | {"monitors": ["b", "c"]}}, True),
        ({"rbd": RBD}, {"rbd": RBD | {"monitors": ["c"]}}, False),
        ({"rbd": RBD}, {"rbd": RBD | {"pool": "other"}}, False),
        ({"rbd": RBD | READS}, {"rbd": RBD | READS}, False),
        ({"cinder": {"volumeID": "c"}}, {"cinder": {"volumeID": "c"}}, False),
        ({"gcePersistentDisk": GCE}, {"awsElasticBlockStore": {"volumeID": "d"}}, False),
    ],
)
def test_a_disk_is_mounted_by_one_pod_of_a_node(mine: Json, theirs: Json, conflict: bool) -> None:
    found = ask(pod("new", **disk(**mine)), [running("first", "n", **disk(**theirs))])["combined"]
    assert found["feasible"] == (["m"] if conflict else ["n", "m"])
    if conflict:
        told = {"code": "Unschedulable", "plugin": "VolumeRestrictions", "reasons": ["node(s) had no available disk"]}
        assert found["filter"]["n"] == told


@pytest.mark.parametrize(
    ("modes", "used", "refused"),
    [
        (["ReadWriteOncePod"], True, True),
        (["ReadWriteOncePod"], False, False),
        (["ReadWriteOnce"], True, False),
        (["ReadWriteMany"], True, False),
    ],
)
def test_a_claim_for_one_pod_is_given_to_one(modes: list[str], used: bool, refused: bool) -> None:
    others = [running("first", "n", **claimed("data"))] if used else []
    tables = {"persistentVolumeClaims": [claim("data", *modes)], "persistentVolumes": [volume("pv-data")]}
    found = ask(pod("new", **claimed("data")), others, **tables)["combined"]
    assert found["feasible"] == ([] if refused else ["n", "m"])
    assert not refused or {status["plugin"] for status in found["filter"].values()} == {"VolumeRestrictions"}


def test_a_claim_of_that_name_elsewhere_is_another() -> None:
    elsewhere = {"name": "first", "namespace": "shop", "uid": "s"}
    other = running("first", "n", **claimed("data"), meta=elsewhere)
    claims = [claim("data", "ReadWriteOncePod"), claim("data", "ReadWriteOncePod", namespace="shop")]
    tables = {"persistentVolumeClaims": claims, "persistentVolumes": [volume("pv-data")]}
    assert ask(pod("new", **claimed("data")), [other], **tables)["combined"]["feasible"] == ["n", "m"]


def test_who_has_the_claim_goes_for_a_pod_of_higher_priority() -> None:
    tables = {"persistentVolumeClaims": [claim("data", "ReadWriteOncePod")], "persistentVolumes": [volume("pv-data")]}
    found = ask(pod("new", priority=9, **claimed("data")), [running("first", "n", 0, **claimed("data"))], **tables)
    assert found["preemption"]["chosen"] == ["n"]
    assert found["preemption"]["candidates"]["n"]["victims"] == ["default/first"]


def test_a_pod_on_a_node_that_is_gone_has_no_claim() -> None:
    cluster = ClusterTables()
    snapshot = Snapshot([read_node(node("n"))], (), cluster)
    snapshot.add_pod(a_pod("first", on="n", **claimed("data")))
    assert snapshot.users == {("default", "data"): {"uid-first"}}
    snapshot.remove_node("n")
    assert snapshot.users == {}
    snapshot.put_node(read_node(node("n")))
    assert snapshot.users == {("default", "data"): {"uid-first"}}
    snapshot.remove_pod("uid-first")
    assert snapshot.users == {}


@pytest.mark.parametrize(("count", "fits"), [(2, False), (3, True), (0, False)])
def test_a_node_attaches_as_many_volumes_as_its_csi_node_says(count: int, fits: bool) -> None:
    others = [running("first", "n", **claimed("a", "b"))]
    tables = stored("a", "b", "c", csiNodes=[csi_node("n", count)])
    found = ask(pod("new", **claimed("c")), others, **tables)["combined"]
    assert ("n" in found["feasible"]) is fits
    assert "m" in found["feasible"]  # nothing says how many it can attach
    if not fits:
        assert found["filter"]["n"]["reasons"] == ["node(s) exceed max volume count"]


def test_a_volume_that_is_there_already_counts_once() -> None:
    others = [running("first", "n", **claimed("a"))]
    tables = stored("a", csiNodes=[csi_node("n", 1)])
    tables["persistentVolumeClaims"][0]["spec"]["accessModes"] = ["ReadWriteMany"]
    assert ask(pod("new", **claimed("a")), others, **tables)["combined"]["feasible"] == ["n", "m"]


@pytest.mark.parametrize(
    ("attachment", "fits"),
    [
        ({"attacher": DRIVER, "source": {"persistentVolumeName": "pv-a"}}, False),
        ({"attacher": "other.example.com", "source": {"persistentVolumeName": "pv-a"}}, True),
        ({"attacher": DRIVER, "source": {"persistentVolumeName": "gone"}}, True),
        ({"attacher": DRIVER, "source": {}}, True),
    ],
)
def test_what_is_still_attached_counts(attachment: Json, fits: bool) -> None:
    attached = {"metadata": {"name": "x"}, "spec": {"nodeName": "n", **attachment}}
    tables = stored("a", "b", csiNodes=[csi_node("n", 1)], volumeAttachments=[attached])
    assert ("n" in ask(pod("new", **claimed("b")), **tables)["combined"]["feasible"]) is fits


def test_a_claim_that_waits_counts_for_the_driver_of_its_class() -> None:
    waiting = {"metadata": {"name": "w", "namespace": "default", "uid": "w"}, "spec": {"storageClassName": "fast"}}
    fast = {"metadata": {"name": "fast"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    tables = {"persistentVolumeClaims": [waiting], "storageClasses": [fast], "csiNodes": [csi_node("n", 0)]}
    assert ask(pod("new", **claimed("w")), **tables)["combined"]["feasible"] == ["m"]


def test_a_disk_of_a_cloud_counts_for_its_driver_where_there_is_a_csi_node() -> None:
    nodes = [csi_node("n", 0, "ebs.csi.aws.com"), csi_node("m", 1, "ebs.csi.aws.com")]
    found = ask(pod("new", **disk(awsElasticBlockStore=EBS)), csiNodes=nodes)["combined"]
    assert found["feasible"] == ["m"]


def test_one_disk_by_its_name_and_by_its_volume_is_one() -> None:
    tables = {
        "persistentVolumeClaims": [claim("a", "ReadWriteMany")],
        "persistentVolumes": [volume("pv-a", awsElasticBlockStore={"volumeID": "aws://zone/vol-1"})],
        "csiNodes": [csi_node("n", 1, "ebs.csi.aws.com")],
    }
    both = {"volumes": [*claimed("a")["volumes"], *disk(awsElasticBlockStore=EBS)["volumes"]]}
    assert "n" in ask(pod("new", **both), **tables)["combined"]["feasible"]


def test_a_limit_of_a_wrong_type_is_named() -> None:
    wrong = {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": DRIVER, "allocatable": {"count": "many"}}]}}
    with pytest.raises(PodMisfit, match=r"csiNodes\[0\].spec.drivers\[0\].allocatable.count: expected an integer"):
        ask(pod("new"), csiNodes=[wrong])


def test_an_attachment_that_moves_counts_where_it_is() -> None:
    cluster = ClusterTables()
    for where in ("n", "m"):
        spec = {"nodeName": where, "attacher": DRIVER, "source": {"persistentVolumeName": "v"}}
        cluster.put_attachment({"metadata": {"name": "x"}, "spec": spec})
    assert list(cluster.attachments) == ["m"]
    cluster.drop_attachment("x")
    cluster.drop_attachment("x")
    assert cluster.attachments == {}
