"""Objects that no CRD has validated, of an older or patched API server: what cannot be read is refused by name, and
others get their quota all the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.controllers.quota.admission.pods_ready import WaitForPodsReady
from controlplane.controllers.quota.engine.usage_history import AdmissionFairSharing
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from tests.quota.admission import devices
from tests.quota.admission.placed import HOST, RACK, submit, with_topology
from tests.quota.admission.scene import NS, Scene, quota

ACTIVE = {"type": "Active", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01"}


def goes_on(scene: Scene, queue: str = "q") -> None:
    """See that somebody else gets quota."""
    scene.workload("other", queue)
    scene.settle()
    assert scene.is_true("other", "QuotaReserved")


def fields_refused(scene: Scene) -> list[str]:
    return [one.field for one in scene.said(events.AdmissionInputRefused)]


@pytest.mark.parametrize(
    ("condition", "field"),
    [
        ("x", "status.conditions"),
        ({**ACTIVE, "lastTransitionTime": {}}, "status.conditions[].lastTransitionTime"),
        ({**ACTIVE, "type": ["Active"]}, "status.conditions[].type"),
        ({**ACTIVE, "observedGeneration": "1"}, "status.conditions[].observedGeneration"),
    ],
)
@pytest.mark.parametrize("kind", [kinds.WORKLOADS, kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES])
def test_a_condition_that_is_none(kind: kinds.Kind, condition: object, field: str) -> None:
    scene = Scene()
    scene.queue("q")
    scene.queue("broken")
    scene.workload("broken", "q")
    scene.put(kind, "broken", NS if kind.namespaced else "", status={"conditions": [condition]})
    goes_on(scene)
    assert fields_refused(scene) == [field]


def test_two_conditions_of_a_type_are_not_written_for_ever() -> None:
    scene = Scene()
    scene.queue("q", stopPolicy="Hold")
    scene.workload("broken", "q")
    scene.settle()
    twice = [*scene.status("broken")["conditions"], scene.condition("broken", "QuotaReserved")]
    scene.put(kinds.WORKLOADS, "broken", NS, status={"conditions": twice})
    scene.queue("free")
    goes_on(scene, "free")
    assert fields_refused(scene) == ["status.conditions"]


@pytest.mark.parametrize("flavor", [["default"], 1.5])
def test_a_flavor_of_an_admission_that_is_no_name(flavor: object) -> None:
    scene = Scene()
    scene.queue("q")
    scene.workload("w", "q")
    scene.settle()
    status = scene.status("w")
    (given,) = status["admission"]["podSetAssignments"]
    admission = {**status["admission"], "podSetAssignments": [{**given, "flavors": {"cpu": flavor}}]}
    scene.put(kinds.WORKLOADS, "w", NS, status={**status, "admission": admission})
    goes_on(scene)
    assert fields_refused(scene) == ["status.admission.podSetAssignments.flavors.cpu"]


def test_an_admission_that_is_left_over_says_nothing_of_what_is_asked_for() -> None:
    scene = Scene()
    scene.queue("q", "1")
    scene.workload("w", "q", count=2)
    pod_set = {**scene.of("w")["spec"]["podSets"][0], "minCount": 1}
    left = {"clusterQueue": "q", "podSetAssignments": []}
    scene.put(
        kinds.WORKLOADS, "w", NS, spec={**scene.of("w")["spec"], "podSets": [pod_set]}, status={"admission": left}
    )
    scene.settle()
    assert scene.is_true("w", "Admitted")
    (given,) = scene.status("w")["admission"]["podSetAssignments"]
    assert (given["count"], given["resourceUsage"]) == (1, {"cpu": "1"})


def test_a_template_of_claims_that_is_no_name() -> None:
    scene = devices.with_devices()
    devices.pod(scene, "broken", {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": {"a": "b"}}]})
    goes_on(scene)
    where = "spec.podSets[0].template.spec.resourceClaims[0].resourceClaimTemplateName"
    assert fields_refused(scene) == [where]


@pytest.mark.parametrize("name", ["default", "defaultRequest"])
def test_a_default_of_a_limit_range_that_is_no_quantity(name: str) -> None:
    scene = Scene()
    scene.queue("q")
    scene.put(kinds.LIMIT_RANGES, "broken", NS, spec={"limits": [{"type": "Container", name: {"memory": "much"}}]})
    goes_on(scene)
    (said,) = scene.said(events.AdmissionInputRefused)
    assert f"limits.{name}[memory]: not a quantity" in said.error


def placed(**topology: Any) -> Scene:
    scene = with_topology(("n1", "r1", "4"), ("n2", "r1", "4"))
    scene.put(kinds.RESOURCE_FLAVORS, "plain", spec={})
    scene.queue("free", resourceGroups=[quota("4", "plain")])
    scene.put(kinds.TOPOLOGIES, "racks", **topology)
    return scene


def test_a_topology_without_levels_places_nobody() -> None:
    scene = placed(spec={"levels": []})
    submit(scene, "w", podSetSliceRequiredTopology=RACK, podSetSliceSize=1)
    goes_on(scene, "free")
    assert not scene.is_true("w", "QuotaReserved")
    assert scene.condition("w", "QuotaReserved")["message"] == "ClusterQueue q is inactive"


@pytest.mark.parametrize("size", [0, -1])
def test_an_inner_slice_of_no_pods(size: int) -> None:
    scene = placed()
    layers = [{"topology": RACK, "size": 2}, {"topology": HOST, "size": size}]
    submit(scene, "w", podsetSliceRequiredTopologyConstraints=layers)
    goes_on(scene, "free")
    said = f"additional slice layer size {size} must evenly divide parent layer size 2"
    assert said in scene.condition("w", "QuotaReserved")["message"]


@pytest.mark.parametrize(
    ("assignment", "field"),
    [
        ({"levels": [HOST], "domains": [{"values": [], "count": 1}]}, "domains.values"),
        (
            {
                "levels": [HOST],
                "slices": [
                    {
                        "domainCount": 2**31 - 1,
                        "valuesPerLevel": [{"universal": "n1"}],
                        "podCounts": {"universal": 1},
                    }
                ],
            },
            "slices[0].domainCount",
        ),
    ],
)
def test_places_that_cannot_be_read(assignment: Json, field: str) -> None:
    """The second one is valid for an API server: it has no bound where all domains are alike."""
    scene = placed()
    submit(scene, "w")
    scene.settle()
    status = scene.status("w")
    (given,) = status["admission"]["podSetAssignments"]
    admission = {**status["admission"], "podSetAssignments": [{**given, "topologyAssignment": assignment}]}
    unhealthy = [{"name": "n1"}]
    scene.put(kinds.WORKLOADS, "w", NS, status={**status, "admission": admission, "unhealthyNodes": unhealthy})
    goes_on(scene, "free")
    assert fields_refused(scene) == [f"status.admission.podSetAssignments.topologyAssignment.{field}"]


@pytest.mark.parametrize("type_", ["QuotaReserved", "PodsReady", "Evicted"])
def test_a_moment_without_a_time_zone_is_none(type_: str) -> None:
    scene = Scene(pods_ready=WaitForPodsReady(timedelta(minutes=5), timedelta(minutes=5)))
    scene.queue("q")
    scene.workload("w", "q")
    scene.put(kinds.WORKLOADS, "w", NS, metadata={"creationTimestamp": "2026-01-01"})
    scene.settle()
    scene.set_condition("w", type_, "False" if type_ == "PodsReady" else "True")
    odd = [{**one, "lastTransitionTime": "2026-01-01"} for one in scene.status("w")["conditions"]]
    scene.put(kinds.WORKLOADS, "w", NS, status={**scene.status("w"), "conditions": odd})
    goes_on(scene)


def test_a_pod_set_that_has_another_name_since_it_was_placed() -> None:
    scene = placed()
    submit(scene, "w")
    scene.settle()
    (pod_set,) = scene.of("w")["spec"]["podSets"]
    scene.put(kinds.WORKLOADS, "w", NS, spec={**scene.of("w")["spec"], "podSets": [{**pod_set, "name": "new"}]})
    scene.put(kinds.WORKLOADS, "w", NS, status={**scene.status("w"), "unhealthyNodes": [{"name": "n1"}]})
    scene.pass_time(60)
    goes_on(scene, "free")


@pytest.mark.parametrize("kind", [kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES, kinds.COHORTS])
@pytest.mark.parametrize("said", ["x", {"admissionFairSharingStatus": ["x"]}])
def test_a_share_that_is_none(kind: kinds.Kind, said: object) -> None:
    scene = Scene(past_usage=AdmissionFairSharing(600, 100))
    scene.queue("q")
    scene.queue("broken")
    scene.put(kinds.COHORTS, "broken", spec={})
    scene.put(kind, "broken", NS if kind.namespaced else "", status={"fairSharing": said})
    goes_on(scene)
    scene.pass_time(200)
    assert fields_refused(scene)[0].startswith("status.fairSharing")
