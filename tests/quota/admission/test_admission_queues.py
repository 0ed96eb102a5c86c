"""What follows for Workloads when queues, flavors, checks and Cohorts stop, change, go or cannot be read, and what
those say."""

from __future__ import annotations

import pytest

from controlplane.controllers.quota.admission import events
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from tests.quota.admission.checks import check, checked
from tests.quota.admission.scene import NS, Scene, quota


@pytest.mark.parametrize(("policy", "admitted", "reserved"), [("Hold", False, False), ("HoldAndDrain", True, False)])
def test_a_stopped_cluster_queue(policy: str, *, admitted: bool, reserved: bool) -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("runs", "q", "3")
    scene.settle()
    scene.queue("q", "5", stopPolicy=policy)
    scene.workload("waits", "q", "1")
    scene.settle()
    assert scene.is_true("runs", "Evicted") is admitted
    assert scene.is_true("waits", "QuotaReserved") is reserved
    waits = scene.condition("waits", "QuotaReserved")
    assert (waits["reason"], waits["message"]) == ("Suspended", "ClusterQueue q is inactive")
    assert scene.active(kinds.CLUSTER_QUEUES, "q") == ("False", "Stopped", "Can't admit new workloads: is stopped.")
    assert scene.active(kinds.LOCAL_QUEUES, "q", NS)[:2] == ("False", "ClusterQueueIsInactive")
    scene.queue("q", "5")
    scene.settle()
    assert scene.is_true("waits", "Admitted")


def test_a_stopped_local_queue_drains() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q", "3")
    scene.settle()
    scene.put(kinds.LOCAL_QUEUES, "q", NS, spec={"clusterQueue": "q", "stopPolicy": "HoldAndDrain"})
    scene.settle()
    assert scene.condition("a", "Evicted")["reason"] == "LocalQueueStopped"
    assert scene.active(kinds.LOCAL_QUEUES, "q", NS) == ("False", "Stopped", "LocalQueue is stopped")


def test_a_reservation_whose_queue_is_gone_is_taken_back() -> None:
    scene = Scene()
    checked(scene)
    scene.workload("a", "q")
    scene.settle()
    assert scene.is_true("a", "QuotaReserved")
    scene.drop((kinds.LOCAL_QUEUES, NS, "q"))
    scene.settle()
    assert scene.condition("a", "QuotaReserved")["message"] == "LocalQueue q doesn't exist"
    assert "admission" not in scene.status("a")


def test_missing_queues_are_said_and_others_go_on() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.put(kinds.LOCAL_QUEUES, "lost", NS, spec={"clusterQueue": "none"})
    scene.workload("a", "none")
    scene.workload("b", "lost")
    scene.workload("c", "q")
    scene.settle()
    # As with Kueue: a Workload that nobody has looked at yet says why it cannot be.
    assert scene.condition("a", "QuotaReserved")["message"] == "LocalQueue none doesn't exist"
    assert scene.condition("b", "QuotaReserved")["message"] == "ClusterQueue none doesn't exist"
    assert scene.active(kinds.LOCAL_QUEUES, "lost", NS)[:2] == ("False", "ClusterQueueDoesNotExist")
    assert scene.is_true("c", "Admitted")


def test_a_missing_flavor_a_missing_check_and_an_inactive_one_are_told_by_the_queue() -> None:
    scene = Scene()
    scene.put(
        kinds.CLUSTER_QUEUES,
        "q",
        spec={
            "resourceGroups": [quota("5", "none")],
            "admissionChecksStrategy": {"admissionChecks": [{"name": "lost"}]},
        },
    )
    scene.settle()
    assert scene.active(kinds.CLUSTER_QUEUES, "q") == (
        "False",
        "FlavorNotFound",
        (
            "Can't admit new workloads: references missing ResourceFlavor(s): none, "
            "references missing AdmissionCheck(s): lost."
        ),
    )
    check(scene, "lost", active=False)
    scene.put(kinds.RESOURCE_FLAVORS, "none", spec={})
    scene.settle()
    assert scene.active(kinds.CLUSTER_QUEUES, "q")[1] == "AdmissionCheckInactive"
    check(scene, "lost")
    scene.settle()
    assert scene.active(kinds.CLUSTER_QUEUES, "q") == ("True", "Ready", "Can admit new workloads")


def test_an_object_that_does_not_fit_its_api_is_refused_and_others_go_on() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.put(kinds.CLUSTER_QUEUES, "bad", spec={"resourceGroups": [quota("lots")]})
    scene.workload("a", "q")
    scene.settle()
    (refused,) = scene.said(events.AdmissionInputRefused)
    assert refused.name == "bad"
    assert refused.field == "spec.resourceGroups[0].flavors[default].resources[cpu].nominalQuota"
    assert scene.is_true("a", "Admitted")


@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        (
            {"resourceGroups": [quota("5"), {**quota("5"), "coveredResources": ["memory"]}]},
            "spec.resourceGroups[1].flavors[0].name",
            "flavor default is named before: name each flavor once, in one group",
        ),
        (
            {"resourceGroups": [quota("5"), quota("5", "other")]},
            "spec.resourceGroups[1].coveredResources[0]",
            "resource cpu is covered before: cover each resource once, in one group",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]}},
            "spec.namespaceSelector.matchExpressions[0].operator",
            '"Like" is not an operator',
        ),
    ],
)
def test_a_cluster_queue_that_kueues_webhook_would_refuse_is_refused(spec: Json, field: str, why: str) -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.put(kinds.CLUSTER_QUEUES, "bad", spec=spec)
    scene.workload("a", "q")
    scene.settle()
    (refused,) = scene.said(events.AdmissionInputRefused)
    assert (refused.name, refused.field) == ("bad", field)
    assert refused.error == f"{field}: {why}"
    assert not [one for one in scene.written if one.ref.name == "bad"]
    assert scene.is_true("a", "Admitted")


def test_a_cluster_queue_whose_change_is_refused_goes_on_as_it_was() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.settle()
    scene.put(kinds.CLUSTER_QUEUES, "q", spec={"resourceGroups": [quota("9"), quota("9", "other")]})
    scene.workload("a", "q", cpu="6")
    scene.workload("b", "q", cpu="5")
    scene.settle()
    assert [scene.is_true(name, "Admitted") for name in "ab"] == [False, True]


def test_cohorts_that_are_their_own_ancestors_admit_nothing_and_others_go_on() -> None:
    scene = Scene()
    scene.put(kinds.COHORTS, "x", spec={"parentName": "y"})
    scene.put(kinds.COHORTS, "y", spec={"parentName": "x"})
    scene.queue("looped", "5", cohortName="x")
    scene.queue("q", "5")
    scene.workload("a", "looped")
    scene.workload("b", "q")
    scene.settle()
    waits = scene.said(events.WorkloadInadmissible, "a")[-1]
    assert (waits.why, waits.message) == ("Suspended", "ClusterQueue looped is inactive")
    said = scene.condition("a", "QuotaReserved")
    assert (said["reason"], said["message"]) == ("Suspended", "ClusterQueue looped is inactive")
    assert scene.is_true("b", "Admitted")


def test_a_namespace_that_is_not_selected() -> None:
    scene = Scene()
    scene.queue("q", "5", namespaceSelector={"matchLabels": {"dep": "eng"}})
    scene.workload("a", "q")
    scene.settle()
    found = scene.condition("a", "QuotaReserved")
    assert (found["reason"], found["message"]) == (
        "Misconfigured",
        "workload namespace doesn't match ClusterQueue selector",
    )
    scene.put(kinds.NAMESPACES, NS, metadata={"labels": {"dep": "eng"}})
    scene.settle()
    assert scene.is_true("a", "Admitted")


def test_what_is_in_use_is_kept_and_goes_with_its_last_user() -> None:
    scene = Scene()
    scene.queue("q", "5")
    scene.workload("a", "q")
    scene.settle()
    queue, flavor = (kinds.CLUSTER_QUEUES, "", "q"), (kinds.RESOURCE_FLAVORS, "", "default")
    assert scene.objects[queue]["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    scene.delete(kinds.CLUSTER_QUEUES, "q")
    scene.delete(kinds.RESOURCE_FLAVORS, "default")
    scene.settle()
    assert queue in scene.objects
    assert flavor in scene.objects
    assert scene.active(kinds.CLUSTER_QUEUES, "q")[1] == "Terminating"
    scene.finish("a")
    scene.settle()
    assert queue not in scene.objects
    assert flavor not in scene.objects


def test_fair_sharing_is_told_in_the_statuses() -> None:
    scene = Scene(fair_sharing=True)
    scene.put(kinds.COHORTS, "all", spec={})
    scene.queue("q", "2", cohortName="all")
    scene.queue("other", "8", cohortName="all")
    scene.workload("a", "q", "5")
    scene.settle()
    assert scene.objects[kinds.CLUSTER_QUEUES, "", "q"]["status"]["fairSharing"] == {"weightedShare": 300}
    assert scene.objects[kinds.COHORTS, "", "all"]["status"]["fairSharing"] == {"weightedShare": 0}


def test_the_shares_of_all_cohorts_above_follow_what_is_used() -> None:
    """As in Kueue's own spec of hierarchical cohorts."""
    scene = Scene(fair_sharing=True)
    for name, parent in (("left", "root"), ("right", "root"), ("bank", "right")):
        groups = {"resourceGroups": [quota("10")]} if name == "bank" else {}
        scene.put(kinds.COHORTS, name, spec={"parentName": parent, **groups})
    scene.queue("q", "2", cohortName="left")
    scene.settle()

    def share(name: str) -> object:
        return scene.objects[kinds.COHORTS, "", name]["status"]["fairSharing"]["weightedShare"]

    assert [share(name) for name in ("left", "right", "bank")] == [0, 0, 0]
    scene.workload("a", "q", "5")
    scene.settle()
    scene.pass_time(5)
    assert [share(name) for name in ("left", "right", "bank")] == [250, 0, 0]
    scene.finish("a")
    scene.settle()
    scene.pass_time(5)
    assert share("left") == 0


def test_queues_are_decided_about_in_the_same_order_in_each_process() -> None:
    """A Workload that moves concerns the queue that it leaves and then the one that it goes to; a set of both has an
    order of its own in each process, which one of many pairs shows."""
    scene, pairs = Scene(), [(f"before-{number}", f"after-{number}") for number in range(16)]
    for number, (before, after) in enumerate(pairs):
        scene.queue(before, "0")
        scene.queue(after, "0")
        scene.workload(f"w-{number}", before, "1")
    scene.settle()
    order = []
    for number, (_, after) in enumerate(pairs):
        scene.controller.index.take_dirty()
        spec = scene.objects[(kinds.WORKLOADS, NS, f"w-{number}")]["spec"]
        scene.put(kinds.WORKLOADS, f"w-{number}", NS, spec={**spec, "queueName": after})
        order += [one for one in scene.controller.index.take_dirty() if one.startswith("admission/clusterqueue/")]
    assert order == [f"admission/clusterqueue/{name}" for pair in pairs for name in pair]
