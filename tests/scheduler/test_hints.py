"""What may help a refused pod, plugin by plugin."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.scheduling.framework.hints import ClusterEvent, Hint, Hints, always
from controlplane.controllers.scheduling.framework.plugin import Plugin
from controlplane.controllers.scheduling.snapshot.objects import Node, Pod
from controlplane.controllers.scheduling.snapshot.storage import read_claim
from controlplane.kube.devices.objects import read_resource_claim
from controlplane.kube.kinds import Json
from tests.scheduler.test_queue import node, pod
from tests.support.rows import each

HINTS = Hints()
ZONE = "topology.kubernetes.io/zone"
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
}
ANTI = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        }
    }
}
TOGETHER = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        }
    }
}
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
BOUND = {"nodeName": "n"}
CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
DEVICES = {"resourceClaims": [{"name": "c", "resourceClaimName": "gpu"}]}
GIVEN = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "one"}]}}
DISK = {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]}


def added(new: Node) -> ClusterEvent:
    return ClusterEvent("Node", "Add", None, new)


def updated(old: Node, new: Node) -> ClusterEvent:
    return ClusterEvent("Node", "Update", old, new)


def left(old: Pod) -> ClusterEvent:
    return ClusterEvent("Pod", "AssignedDelete", old, None)


def came(new: Pod) -> ClusterEvent:
    return ClusterEvent("Pod", "AssignedAdd", None, new)


def relabelled(old: Pod, new: Pod) -> ClusterEvent:
    return ClusterEvent("Pod", "AssignedUpdate", old, new)


def volume_claim(name: str, namespace: str = "default") -> ClusterEvent:
    found = read_claim({"metadata": {"name": name, "namespace": namespace}, "spec": {}}, "claim")
    return ClusterEvent("PersistentVolumeClaim", "Update", None, found)


def resource_claim(old: Json | None, new: Json | None, name: str = "gpu") -> ClusterEvent:
    """A ResourceClaim of two states, each said by its UID, finalizers and allocation; None: it is not there."""

    def read(said: Json | None) -> Any:
        if said is None:
            return None
        meta = {"name": name, "namespace": "default", "uid": said.get("uid", "u"), "finalizers": said.get("finalizers")}
        status = {"allocation": said.get("allocation")}
        return read_resource_claim({"metadata": meta, "spec": {"devices": {}}, "status": status}, "claim")

    return ClusterEvent("ResourceClaim", "Delete" if new is None else "Update", read(old), read(new))


A, OTHER = {"app": "a"}, {"app": "b"}
CASES = [
    ("NodeResourcesFit", pod("p", cpu="2"), added(node(cpu="2")), True),
    ("NodeResourcesFit", pod("p", cpu="2"), added(node(cpu="1")), False),
    ("NodeResourcesFit", pod("p", cpu="2"), updated(node(cpu="2"), node(cpu="4")), True),
    ("NodeResourcesFit", pod("p", cpu="2"), updated(node(cpu="4"), node(cpu="4", labels={"x": "y"})), False),
    ("NodeResourcesFit", pod("p"), left(pod("q", **BOUND)), True),
    ("NodeResourcesFit", pod("p"), came(pod("q", **BOUND)), False),
    ("NodeResourcesFit", pod("p"), relabelled(pod("q", cpu="2"), pod("q", cpu="1")), True),
    ("NodeResourcesFit", pod("p"), relabelled(pod("q", labels=A), pod("q", labels=OTHER)), False),
    ("NodeAffinity", pod("p", nodeSelector={"disk": "ssd"}), added(node(labels={"disk": "ssd"})), True),
    ("NodeAffinity", pod("p", nodeSelector={"disk": "ssd"}), added(node()), False),
    ("NodeAffinity", pod("p", nodeSelector={"disk": "ssd"}), updated(node(), node(labels={"disk": "ssd"})), True),
    ("NodeAffinity", pod("p", nodeSelector={"disk": "ssd"}), left(pod("q")), False),
    ("TaintToleration", pod("p"), updated(node(taints=[TAINT]), node()), True),
    ("TaintToleration", pod("p"), updated(node(), node(cpu="8")), False),
    ("TaintToleration", pod("p"), added(node(taints=[TAINT])), False),
    ("NodeUnschedulable", pod("p"), updated(node(unschedulable=True), node()), True),
    ("NodeUnschedulable", pod("p"), updated(node(), node(unschedulable=True)), False),
    ("PodTopologySpread", pod("p", labels=A, **SPREAD), came(pod("q", labels=A, **BOUND)), True),
    ("PodTopologySpread", pod("p", labels=A, **SPREAD), came(pod("q", labels=OTHER, **BOUND)), False),
    ("PodTopologySpread", pod("p", labels=A, **SPREAD), left(pod("q", labels=A, **BOUND)), True),
    ("PodTopologySpread", pod("p", labels=A, **SPREAD), relabelled(pod("q", labels=A), pod("q", labels=OTHER)), True),
    ("PodTopologySpread", pod("p", labels=A, **SPREAD), relabelled(pod("q", labels=A), pod("q", labels=A)), False),
    ("PodTopologySpread", pod("p", **SPREAD), added(node(labels={ZONE: "z"})), True),
    ("PodTopologySpread", pod("p", **SPREAD), added(node()), False),
    ("PodTopologySpread", pod("p", **SPREAD), updated(node(labels={ZONE: "a"}), node(labels={ZONE: "b"})), True),
    ("PodTopologySpread", pod("p", **SPREAD), updated(node(labels={ZONE: "a"}), node(labels={ZONE: "a"})), False),
    (
        "PodTopologySpread",
        pod("p", **SPREAD),
        updated(node(labels={ZONE: "a"}, taints=[TAINT]), node(labels={ZONE: "a"})),
        True,
    ),
    ("PodTopologySpread", pod("p", **SPREAD), ClusterEvent("Node", "Delete", node(labels={ZONE: "a"}), None), True),
    ("InterPodAffinity", pod("p", **ANTI), left(pod("q", labels=A, **BOUND)), True),
    ("InterPodAffinity", pod("p", **ANTI), left(pod("q", labels=OTHER, **BOUND)), False),
    ("InterPodAffinity", pod("p", labels=A), left(pod("q", **ANTI, **BOUND)), True),
    ("InterPodAffinity", pod("p", **ANTI), added(node()), True),
    ("InterPodAffinity", pod("p", **ANTI), updated(node(), node(cpu="8")), False),
    ("InterPodAffinity", pod("p", **ANTI), updated(node(labels={"kubernetes.io/hostname": "n"}), node()), True),
    ("InterPodAffinity", pod("p", **TOGETHER), added(node()), False),
    ("InterPodAffinity", pod("p", **TOGETHER), added(node(labels={ZONE: "a"})), True),
    ("InterPodAffinity", pod("p", **TOGETHER), updated(node(), node(labels={ZONE: "a"})), True),
    ("NodeName", pod("p", nodeName="wanted"), added(node("wanted")), True),
    ("NodeName", pod("p", nodeName="wanted"), added(node("other")), False),
    ("VolumeBinding", pod("p"), ClusterEvent("PersistentVolumeClaim", "Update"), True),
    ("VolumeBinding", pod("p"), came(pod("q")), False),
    ("VolumeBinding", pod("p", **CLAIM), volume_claim("data"), True),
    ("VolumeBinding", pod("p", **CLAIM), volume_claim("another"), False),
    ("VolumeZone", pod("p", **CLAIM), volume_claim("data", "elsewhere"), False),
    ("DynamicResources", pod("p", **DEVICES), resource_claim(None, {}), True),
    ("DynamicResources", pod("p", **DEVICES), resource_claim({}, {"finalizers": ["f"]}), False),
    ("DynamicResources", pod("p", **DEVICES), resource_claim({}, {"allocation": GIVEN}), True),
    ("DynamicResources", pod("p", **DEVICES), resource_claim({}, {"uid": "renewed"}), True),
    ("DynamicResources", pod("p", **DEVICES), resource_claim({}, {"allocation": GIVEN}, "another"), False),
    ("DynamicResources", pod("p", **DEVICES), resource_claim({"allocation": GIVEN}, {}, "another"), True),
    ("DynamicResources", pod("p", **DEVICES), resource_claim({"allocation": GIVEN}, None, "another"), True),
    ("DynamicResources", pod("p", **DEVICES), resource_claim({}, None), False),
    ("DynamicResources", pod("p", **DEVICES), ClusterEvent("ResourceClaim", "Update"), True),
    ("VolumeRestrictions", pod("p", **CLAIM), left(pod("q", **CLAIM)), True),
    ("VolumeRestrictions", pod("p", **CLAIM), left(pod("q", **DISK)), False),
    ("VolumeRestrictions", pod("p", **DISK), left(pod("q", **DISK)), True),
    ("VolumeRestrictions", pod("p", **CLAIM), ClusterEvent("PersistentVolumeClaim", "Update"), True),
    ("VolumeRestrictions", pod("p", **CLAIM), updated(node(), node(cpu="8")), False),
    ("NodeVolumeLimits", pod("p", **CLAIM), left(pod("q", **CLAIM)), True),
    ("NodeVolumeLimits", pod("p", **CLAIM), left(pod("q")), False),
    ("NodeVolumeLimits", pod("p", **CLAIM), ClusterEvent("CSINode", "Update"), True),
    ("NodeVolumeLimits", pod("p", **CLAIM), ClusterEvent("VolumeAttachment", "Delete"), True),
    ("NodeVolumeLimits", pod("p", **CLAIM), ClusterEvent("VolumeAttachment", "Update"), False),
    ("SchedulingGates", pod("p"), added(node()), False),
]


@each(("plugin", "refused", "event", "helps"), CASES)
def test_what_helps_against_whom(plugin: str, refused: Pod, event: ClusterEvent, helps: bool) -> None:
    plugins = frozenset({plugin})
    assert (HINTS.concern(plugins, event) and HINTS.may_help(plugins, event, refused)) is helps


def test_one_of_several_plugins_is_enough() -> None:
    plugins = frozenset({"NodeAffinity", "NodeResourcesFit"})
    assert HINTS.may_help(plugins, left(pod("q")), pod("p"))


def test_ports_are_freed_by_the_pod_that_had_them() -> None:
    def using(name: str, port: int) -> Pod:
        return pod(name, containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": port}]}])

    plugins = frozenset({"NodePorts"})
    assert HINTS.may_help(plugins, left(using("q", 8080)), using("p", 8080))
    assert not HINTS.may_help(plugins, left(using("q", 8081)), using("p", 8080))


def test_a_plugin_that_says_nothing_is_helped_by_everything() -> None:
    assert HINTS.may_help(frozenset({"SomebodysOwn"}), ClusterEvent("Anything", "Update"), pod("p"))


def test_a_hint_that_fails_says_yes() -> None:
    class Failing(Plugin):
        name = "Failing"

        def queueing_hints(self) -> dict[tuple[str, str], Hint]:
            return {("Node", "Add"): lambda pod, event: bool(event.old.labels)}

    assert Hints([Failing()]).may_help(frozenset({"Failing"}), added(node()), pod("p"))


def test_a_plugin_may_have_hints_of_its_own() -> None:
    class Gang(Plugin):
        name = "Gang"

        def queueing_hints(self) -> dict[tuple[str, str], Hint]:
            return {("PodGroup", "Update"): always}

    hints, gang = Hints([Gang()]), frozenset({"Gang"})
    assert hints.may_help(gang, ClusterEvent("PodGroup", "Update"), pod("p"))
    assert not hints.may_help(gang, added(node()), pod("p"))


def test_a_selector_that_does_not_parse_is_no_reason_to_forget_a_pod() -> None:
    broken = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    spec = {"topologySpreadConstraints": [{**SPREAD["topologySpreadConstraints"][0], "labelSelector": broken}]}
    assert HINTS.may_help(frozenset({"PodTopologySpread"}), came(pod("q", **BOUND)), pod("p", **spec))
