"""The rules on writes of Workloads: what each refuses, in which words, and what it lets through."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.clusters.protocol import ApiError
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import JOBS, Json, meta
from controlplane.simulation.kueue.webhook import validate_workload
from tests.simulation.kueue_cluster import WORKLOADS, Cluster, clone
from tests.support.rows import each

AT = "2026-01-01T00:00:00Z"
REF = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_REF = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}],
}
Edit = Callable[[Json], Any]


def condition(type_: str) -> Json:
    return {"type": type_, "status": "True", "reason": "r", "message": "", "lastTransitionTime": AT}


def workload(*true: str, **status: Any) -> Json:
    made = clone("wl")
    made["status"] = {"conditions": [condition(type_) for type_ in true], **status}
    if "QuotaReserved" in true:
        made["status"].setdefault("admission", copy.deepcopy(ADMISSION))
    return made


def on(path: str, value: Any) -> Edit:
    """Set, or with None drop, what a dotted path names."""

    def edit(obj: Json) -> None:
        *parents, last = path.split(".")
        for part in parents:
            obj = obj[int(part)] if part.isdigit() else obj[part]
        if value is None:
            obj.pop(last, None)
        else:
            obj[last] = value

    return edit


def both(*edits: Edit) -> Edit:
    def edit(obj: Json) -> None:
        for one in edits:
            one(obj)

    return edit


RESERVED = workload("QuotaReserved")
NOMINATED = workload("QuotaReserved", nominatedClusterNames=["a", "b"])
CHOSEN = workload("QuotaReserved", "Admitted", clusterName="a")
WITH_CLASS = workload("QuotaReserved")
WITH_CLASS["spec"] |= {"priority": 1, "priorityClassRef": REF}
WITH_POD_CLASS = workload("QuotaReserved")
WITH_POD_CLASS["spec"] |= {"priority": 1, "priorityClassRef": POD_REF}
LIMITED = workload("QuotaReserved", "Admitted")
LIMITED["spec"]["maximumExecutionTimeSeconds"] = 60
UPDATED = workload(
    "QuotaReserved",
    admissionChecks=[
        {
            "name": "c",
            "state": "Ready",
            "lastTransitionTime": AT,
            "message": "",
            "podSetUpdates": [{"name": "main", "labels": {"a": "1"}}],
        }
    ],
)

REFUSED: list[tuple[str, Json, Edit, int, str]] = [
    (
        "1 clusterName changes",
        CHOSEN,
        on("status.clusterName", "b"),
        422,
        'status: Invalid value: "object": clusterName is immutable once set',
    ),
    (
        "2 clusterName beside nominations",
        NOMINATED,
        on("status.clusterName", "a"),
        422,
        "clusterName and nominatedClusterNames are mutually exclusive",
    ),
    (
        "3 clusterName that was not nominated",
        NOMINATED,
        both(on("status.clusterName", "c"), on("status.nominatedClusterNames", None)),
        403,
        'status.clusterName: Invalid value: "c": when setting clusterName it must be one of the nominatedClusterNames',
    ),
    (
        "3 nomination and selection in one write",
        RESERVED,
        on("status.clusterName", "a"),
        403,
        'status.clusterName: Invalid value: "a": when setting clusterName it must be one of the nominatedClusterNames',
    ),
    (
        "4 queueName",
        RESERVED,
        on("spec.queueName", "other"),
        422,
        "queueName is immutable while workload quota reserved",
    ),
    (
        "4 priorityClassRef appears",
        RESERVED,
        both(on("spec.priorityClassRef", REF), on("spec.priority", 1)),
        422,
        "priorityClassRef is immutable while workload quota reserved",
    ),
    ("4 priorityClassRef goes", WITH_CLASS, on("spec.priorityClassRef", None), 422, "priorityClassRef is immutable"),
    ("4 its group", WITH_CLASS, on("spec.priorityClassRef", POD_REF), 422, "priorityClassRef.group is immutable"),
    (
        "4 the name of a pod's priority class",
        WITH_POD_CLASS,
        on("spec.priorityClassRef.name", "low"),
        422,
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
    ),
    (
        "4 maximumExecutionTimeSeconds",
        LIMITED,
        on("spec.maximumExecutionTimeSeconds", 61),
        422,
        "maximumExecutionTimeSeconds is immutable",
    ),
    ("5 podSets", RESERVED, on("spec.podSets.0.count", 2), 403, "spec.podSets[0]: Invalid value: field is immutable"),
    (
        "6 admission changes",
        RESERVED,
        on("status.admission.clusterQueue", "other"),
        403,
        "status.admission: Invalid value: field is immutable",
    ),
    (
        "6 QuotaReserved without admission",
        workload(),
        on("status.conditions", [condition("QuotaReserved")]),
        403,
        "status.admission: Required value: must be set while the QuotaReserved condition is true",
    ),
    (
        "6 number of assignments",
        workload(),
        both(
            on("status.conditions", [condition("QuotaReserved")]),
            on("status.admission", {"clusterQueue": "cq", "podSetAssignments": []}),
        ),
        422,
        "podSetAssignments must have the same number of podSets as the spec",
    ),
    (
        "6 assignment of an unknown pod set",
        workload(),
        both(
            on("status.conditions", [condition("QuotaReserved")]),
            on("status.admission", {"clusterQueue": "cq", "podSetAssignments": [{"name": "other"}]}),
        ),
        403,
        'status.admission.podSetAssignments[0].name: Not found: "other"',
    ),
    (
        "7 podSetUpdates of a Ready check",
        UPDATED,
        on("status.admissionChecks.0.podSetUpdates.0.labels", {"a": "2"}),
        403,
        "status.admissionChecks[0].podSetUpdates: Invalid value: field is immutable",
    ),
    (
        "7 podSetUpdates for an unknown pod set",
        RESERVED,
        on("status.admissionChecks", [{"name": "c", "state": "Pending", "podSetUpdates": [{"name": "other"}]}]),
        403,
        'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "other": supported values: "main"',
    ),
    (
        "too many nominations",
        RESERVED,
        on("status.nominatedClusterNames", [str(i) for i in range(21)]),
        422,
        "at most 20 items",
    ),
    (
        "a class without a priority",
        workload(),
        both(on("spec.priorityClassRef", REF), on("spec.priority", None)),
        422,
        "spec: Invalid value",
    ),
]

ALLOWED: list[tuple[str, Json, Edit]] = [
    ("1 clusterName goes", CHOSEN, on("status.clusterName", None)),
    ("2 nominations alone", RESERVED, on("status.nominatedClusterNames", ["a"])),
    (
        "2 clusterName beside an empty list",
        NOMINATED,
        both(on("status.clusterName", "a"), on("status.nominatedClusterNames", [])),
    ),
    (
        "3 selection after nomination",
        NOMINATED,
        both(on("status.clusterName", "b"), on("status.nominatedClusterNames", None)),
    ),
    ("4 queueName without quota", workload(), on("spec.queueName", "other")),
    ("4 queueName while quota goes", RESERVED, both(on("spec.queueName", "other"), on("status", {}))),
    ("4 the name of a workload priority class", WITH_CLASS, on("spec.priorityClassRef.name", "low")),
    ("4 the number", RESERVED, on("spec.priority", 5)),
    ("4 maximumExecutionTimeSeconds before admission", RESERVED, on("spec.maximumExecutionTimeSeconds", 61)),
    ("5 podSets without quota", workload(), on("spec.podSets.0.count", 2)),
    ("5 a count that shrinks", RESERVED, on("spec.podSets.0.count", 0)),
    ("6 admission goes with the reservation", RESERVED, on("status", {})),
    ("6 a topology arrives", RESERVED, on("status.admission.podSetAssignments.0.delayedTopologyRequest", "Pending")),
    (
        "7 podSetUpdates when no longer Ready",
        UPDATED,
        both(on("status.admissionChecks.0.state", "Pending"), on("status.admissionChecks.0.podSetUpdates", [])),
    ),
    ("nothing", CHOSEN, lambda obj: None),
]


@each(("old", "edit", "code", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(old: Json, edit: Edit, code: int, text: str) -> None:
    new = copy.deepcopy(old)
    edit(new)
    with pytest.raises(ApiError) as refused:
        validate_workload("update", WORKLOADS, "", old, new)
    assert refused.value.status == code
    assert text in refused.value.message
    assert refused.value.reason == ("Invalid" if code == 422 else "Forbidden")
    if code == 403:
        assert refused.value.message.startswith('admission webhook "vworkload.kb.io" denied the request: ')
    else:
        assert refused.value.message.startswith('Workload.kueue.x-k8s.io "wl" is invalid: ')


@each(("old", "edit"), [row[1:] for row in ALLOWED], ids=[row[0] for row in ALLOWED])
def test_allowed(old: Json, edit: Edit) -> None:
    new = copy.deepcopy(old)
    edit(new)
    validate_workload("update", WORKLOADS, "status", old, new)


def test_an_elastic_replacement_may_select_without_nomination() -> None:
    new = copy.deepcopy(RESERVED)
    meta(new)["annotations"] = {"kueue.x-k8s.io/workload-slice-replacement-for": "default/old"}
    new["status"]["clusterName"] = "a"
    validate_workload("update", WORKLOADS, "status", RESERVED, new)


def test_a_reservation_that_was_wrong_already_may_converge() -> None:
    wrong = workload()
    wrong["status"]["conditions"] = [condition("QuotaReserved")]
    validate_workload("update", WORKLOADS, "status", wrong, copy.deepcopy(wrong))


def test_other_kinds_and_deletions_pass() -> None:
    validate_workload("update", JOBS, "", CHOSEN, RESERVED)
    validate_workload("delete", WORKLOADS, "", CHOSEN, None)


def test_the_rules_stand_at_the_stores_door() -> None:
    cluster = Cluster(manager=True)
    cluster.queues(checks=("multikueue",))
    cluster.store.create(WORKLOADS, clone("wl"))
    cluster.settle()
    assert is_true(cluster.workload("wl"), "QuotaReserved")
    with pytest.raises(ApiError, match="must be one of the nominatedClusterNames"):
        cluster.status("wl", {"clusterName": "a"})
    cluster.status("wl", {"nominatedClusterNames": ["a"]})
    cluster.status("wl", {"clusterName": "a", "nominatedClusterNames": None})
    with pytest.raises(ApiError, match="clusterName is immutable once set"):
        cluster.status("wl", {"clusterName": "b"})
    with pytest.raises(ApiError, match="field is immutable"):
        cluster.store.patch(
            WORKLOADS, "default", "wl", {"spec": {"podSets": [{**clone("x")["spec"]["podSets"][0], "count": 9}]}}
        )
