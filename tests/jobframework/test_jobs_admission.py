"""The admission hook has a job with a queue created suspended, where this service decides on quota."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from controlplane.app.admission import JobAdmission
from controlplane.controllers.jobframework.admission import DEFAULT, Defaults, created_as
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.job_kinds import JOB_KINDS, adapters_for
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.pod import PodOfParent
from controlplane.kube.kinds import JOBSETS, WORKLOAD_PRIORITY_CLASSES, Json, meta
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, PRIORITY_CLASS, QUEUE_LABEL
from controlplane.telemetry import Metrics
from tests.clusters.clocks import ManualClock
from tests.job_kinds.rows import ROWS
from tests.jobframework.scene import ADAPTERS, NS, PARENTS, Scene, job
from tests.jobframework.test_jobs_related import child, job_set
from tests.support.rows import each

KINDS = [pytest.param(kind, id=kind.integration) for kind in ADAPTERS.values()]


def review(kind: JobKind, obj: Json, **more: Any) -> Json:
    named = {"group": kind.kind.group, "version": kind.kind.version, "kind": kind.kind.kind}
    return {"request": {"uid": "r", "kind": named, "operation": "CREATE", "namespace": NS, "object": obj, **more}}


def created(kind: JobKind, scene: Scene | None = None, **labels: str) -> Json:
    found: Json = json.loads(json.dumps(ROWS[kind.integration].job()))
    found["metadata"] = {"name": "x", "namespace": NS, "labels": {QUEUE_LABEL: "team", **labels}}
    found["spec"] = {key: value for key, value in found["spec"].items() if key not in ("suspend", "runPolicy")}
    return found


@each("kind", KINDS)
def test_a_job_with_a_queue_is_created_suspended(kind: JobKind) -> None:
    made = created(kind)
    assert not kind.suspended(made)
    found = created_as(review(kind, made), ADAPTERS, lambda *_: False)
    assert found is not None
    assert kind.suspended(found)
    assert created_as(review(kind, found), ADAPTERS, lambda *_: False) is None


@each("kind", KINDS)
def test_what_is_no_job_with_a_queue_of_its_own_is_left_alone(kind: JobKind) -> None:
    made, never = created(kind), lambda *_: False
    owner = {"apiVersion": JOBSETS.api_version, "kind": "JobSet", "name": "s", "uid": "u", "controller": True}
    owned = {**made, "metadata": {**meta(made), "ownerReferences": [owner]}}
    assert created_as(review(kind, {**made, "metadata": {"name": "x"}}), ADAPTERS, never) is None
    assert created_as(review(kind, created(kind, **{ORIGIN_LABEL: "m"})), ADAPTERS, never) is None
    assert created_as(review(kind, made, operation="UPDATE"), ADAPTERS, never) is None
    assert created_as(review(kind, owned), ADAPTERS, lambda *_: True) is None
    assert created_as(review(kind, {**made, "spec": "none"}), ADAPTERS, never) is None
    assert created_as({"request": {}}, ADAPTERS, never) is None


def test_the_job_of_a_job_set_is_its_owners_business() -> None:
    scene = Scene()
    owner = scene.create(job_set(), JOBSETS)
    scene.settle()
    kind = JOB_KINDS["batch/job"]
    belongs = scene.controller.index.may_belong
    assert created_as(review(kind, child("s-0", owner, queue="team")), ADAPTERS, belongs) is None
    unseen = {"metadata": {"name": "t", "uid": "another"}}
    assert created_as(review(kind, child("t-0", unseen, queue="team")), ADAPTERS, belongs) is None
    alone = child("r-0", owner, queue="team", kind="Render")
    assert created_as(review(kind, alone), ADAPTERS, belongs) is not None


class Fleet:
    """What the webhook asks of the dispatch of Workloads: every queue leads to it."""

    policy = MultiKueuePolicy(adapters=adapters_for(JOB_KINDS), claims=True)
    index = type("Index", (), {"leads_to_us": staticmethod(lambda namespace, name: True)})


async def test_one_answer_says_both_whose_the_job_is_and_that_it_waits() -> None:
    scene = Scene()
    kind = JOB_KINDS["kubeflow.org/pytorchjob"]
    hook = JobAdmission(lambda: Fleet, lambda: scene.controller, Metrics())  # type: ignore[arg-type,return-value]
    made = created(kind)
    answer = await hook(review(kind, made))
    operations = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert [one["path"] for one in operations] == ["/spec/runPolicy", "/spec/runPolicy/managedBy"]
    assert operations[0]["value"] == {"suspend": True}
    assert operations[1]["value"] == MULTIKUEUE
    waits = job(suspend=True, managedBy=MULTIKUEUE)
    assert "patch" not in (await hook(review(JOB_KINDS["batch/job"], waits)))["response"]
    alone = JobAdmission(lambda: Fleet, lambda: None, Metrics())  # type: ignore[arg-type,return-value]
    operations = json.loads(base64.b64decode((await alone(review(kind, made)))["response"]["patch"]))
    assert [one["path"] for one in operations] == ["/spec/runPolicy"]


async def test_where_a_queue_leads_is_waited_for_a_little() -> None:
    """A pod is created once: without its gate it is rejected for good."""
    kind, clock, known = JOB_KINDS["pod"], ManualClock(), {8: True}

    def hook(fleet: Any) -> JobAdmission:
        return JobAdmission(lambda: fleet if clock.sleeps[3:] else None, lambda: None, Metrics(), clock=clock)

    class Later:
        policy = Fleet.policy
        index = type("Index", (), {"leads_to_us": staticmethod(lambda *_: known.get(len(clock.sleeps)))})

    found = (await hook(Later)(review(kind, created(kind))))["response"]
    (gate,) = json.loads(base64.b64decode(found["patch"]))
    assert gate["value"] == [{"name": "controlplane/dispatched"}]
    assert "warnings" not in found
    clock.sleeps.clear()
    known.clear()
    found = (await hook(Later)(review(kind, created(kind))))["response"]
    assert "where LocalQueue default/team leads is not known" in found["warnings"][0]
    assert sum(clock.sleeps) == pytest.approx(2.0, abs=0.1)
    clock.sleeps.clear()
    never = JobAdmission(lambda: None, lambda: None, Metrics(), clock=clock)
    with pytest.raises(ValueError, match="has not begun to read the log"):
        await never(review(kind, created(kind)))
    assert sum(clock.sleeps) == pytest.approx(2.0, abs=0.1)


async def test_where_there_is_no_room_to_wait_it_is_answered_by_what_is_known() -> None:
    kind, clock, asked = JOB_KINDS["pod"], ManualClock(), [True, True, False]

    class Unknown:
        policy = Fleet.policy
        index = type("Index", (), {"leads_to_us": staticmethod(lambda *_: None)})

    hook = JobAdmission(lambda: Unknown, lambda: None, Metrics(), clock=clock)  # type: ignore[arg-type,return-value]
    found = (await hook(review(kind, created(kind)), lambda: asked.pop(0)))["response"]
    assert "where LocalQueue default/team leads is not known" in found["warnings"][0]
    assert (asked, len(clock.sleeps)) == ([], 2)


async def test_a_pod_gets_the_gate_of_its_queue_and_the_one_that_holds_it_here() -> None:
    scene = Scene()
    kind = JOB_KINDS["pod"]
    hook = JobAdmission(lambda: Fleet, lambda: scene.controller, Metrics())  # type: ignore[arg-type,return-value]
    operations = json.loads(base64.b64decode((await hook(review(kind, created(kind))))["response"]["patch"]))
    added = {one["path"]: one["value"] for one in operations}
    gates = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology", "controlplane/dispatched"]
    assert added["/spec/schedulingGates"] == [{"name": one} for one in gates]
    assert added["/metadata/finalizers"] == ["kueue.x-k8s.io/managed"]
    assert added["/metadata/labels/kueue.x-k8s.io~1managed"] == "true"
    assert set(added["/metadata/annotations"]) == {"kueue.x-k8s.io/role-hash"}


def test_a_pod_that_is_made_for_another_kind_is_left_to_that() -> None:
    kind = JOB_KINDS["pod"]
    made = created(kind)
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}
    assert created_as(review(kind, made), ADAPTERS, lambda *_: False) is None


# --- kinds whose pods wait ---

ALL = {**ADAPTERS, **PARENTS}
PARENT = "kueue.x-k8s.io/pod-suspending-parent"


def templates_of(kind: JobKind, obj: Json) -> list[Json]:
    spec = obj["spec"]
    if "leaderWorkerTemplate" in spec:
        return [one for name, one in spec["leaderWorkerTemplate"].items() if name.endswith("Template")]
    return [spec["template"]]


@each("kind", [pytest.param(one, id=one.integration) for one in PARENTS.values()])
@each("operation", ["CREATE", "UPDATE"])
def test_what_has_its_pods_wait_says_so_in_its_templates(kind: JobKind, operation: str) -> None:
    made = created(kind, **{PRIORITY_CLASS: "high"})
    found = created_as(review(kind, made, operation=operation), ALL, lambda *_: False)
    assert found is not None
    for one in templates_of(kind, found):
        assert meta(one)["annotations"][PARENT] == kind.integration
        assert meta(one)["labels"][QUEUE_LABEL] == "team"
        assert meta(one)["labels"][PRIORITY_CLASS] == "high"
        assert ("kueue.x-k8s.io/managed" in meta(one)["labels"]) is (kind.integration == "deployment")
    assert created_as(review(kind, found, operation=operation), ALL, lambda *_: False) is None
    assert created_as(review(kind, made, operation="DELETE"), ALL, lambda *_: False) is None
    alone = {**made, "metadata": {"name": "x", "namespace": NS}}
    assert created_as(review(kind, alone), ALL, lambda *_: False) is None


def test_the_template_of_a_stateful_set_keeps_the_queue_that_it_has_and_no_pod_is_made_anew() -> None:
    kind = JOB_KINDS["statefulset"]
    made = created_as(review(kind, created(kind)), ALL, lambda *_: False)
    assert made is not None
    made["metadata"]["labels"][QUEUE_LABEL] = "other"
    assert created_as(review(kind, made, operation="UPDATE"), ALL, lambda *_: False) is None


def test_the_workers_of_a_leader_have_ranks_that_begin_with_one() -> None:
    kind = JOB_KINDS["leaderworkerset.x-k8s.io/leaderworkerset"]
    made = created_as(review(kind, created(kind)), ALL, lambda *_: False)
    assert made is not None
    inner, offset = made["spec"]["leaderWorkerTemplate"], "kueue.x-k8s.io/pod-index-offset"
    assert meta(inner["workerTemplate"])["annotations"][offset] == "1"
    assert offset not in meta(inner["leaderTemplate"])["annotations"]
    grouped = created(kind)
    worker = grouped["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    worker["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-group-name": "g"}}
    made = created_as(review(kind, grouped), ALL, lambda *_: False)
    assert made is not None
    assert offset not in meta(made["spec"]["leaderWorkerTemplate"]["workerTemplate"])["annotations"]


@pytest.mark.parametrize("parent", ["deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset", "other"])
def test_a_pod_that_waits_for_another_kind_is_gated_and_has_no_finalizer(parent: str) -> None:
    kind = JOB_KINDS["pod"]
    made = created(kind)
    made["metadata"]["annotations"] = {PARENT: parent}
    found = created_as(review(kind, made), ALL, lambda *_: True)
    if parent == "other":
        assert found is None
        return
    assert found is not None
    gates = [one["name"] for one in found["spec"]["schedulingGates"]]
    assert gates == ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]
    assert not meta(found).get("finalizers")
    assert "kueue.x-k8s.io/managed" not in meta(found)["labels"]
    assert created_as(review(kind, found), ALL, lambda *_: True) is None


def test_where_such_kinds_alone_are_looked_after_other_pods_are_left_alone() -> None:
    kind = PodOfParent()
    adapters = {**PARENTS, kind.kind: kind}
    assert created_as(review(kind, created(kind)), adapters, lambda *_: False) is None
    made = created(kind)
    made["metadata"]["annotations"] = {PARENT: "deployment"}
    assert created_as(review(kind, made), adapters, lambda *_: False) is not None


# --- what is named default ---


class Local:
    """In the place of what knows LocalQueues: the namespace has one named default."""

    def __init__(self, *namespaces: str) -> None:
        self.index = self.engine = self.queues = self
        self.local = {f"{one}/{DEFAULT}": None for one in namespaces}


def queueless(kind: JobKind) -> Json:
    found = created(kind)
    return {**found, "metadata": {"name": "x", "namespace": NS}}


@each("kind", KINDS)
def test_a_job_without_a_queue_gets_the_one_named_default_and_is_suspended(kind: JobKind) -> None:
    defaults = Defaults(queue=lambda namespace: namespace == NS)
    found = created_as(review(kind, queueless(kind)), ADAPTERS, lambda *_: False, defaults)
    assert found is not None
    assert meta(found)["labels"][QUEUE_LABEL] == DEFAULT
    assert PRIORITY_CLASS not in meta(found)["labels"]
    assert kind.suspended(found)
    assert created_as(review(kind, queueless(kind)), ADAPTERS, lambda *_: False, Defaults()) is None


def test_what_belongs_to_a_kind_that_is_looked_after_gets_no_queue() -> None:
    kind = JOB_KINDS["batch/job"]
    defaults = Defaults(queue=lambda _: True, looked_after=lambda owner: owner.kind == "JobSet")
    for owner, expected in (("JobSet", None), ("CronJob", DEFAULT)):
        made = queueless(kind)
        reference = {"apiVersion": "x/v1", "kind": owner, "name": "s", "uid": "u", "controller": True}
        made["metadata"]["ownerReferences"] = [reference]
        found = created_as(review(kind, made), ADAPTERS, lambda *_: False, defaults)
        assert (meta(found)["labels"][QUEUE_LABEL] if found is not None else None) == expected


def test_a_job_gets_the_priority_class_named_default_if_it_names_none() -> None:
    kind = JOB_KINDS["batch/job"]
    defaults = Defaults(priority_class=lambda: True)
    for said, expected in ((None, DEFAULT), ("high", "high")):
        made = created(kind, **({PRIORITY_CLASS: said} if said else {}))
        found = created_as(review(kind, made), ADAPTERS, lambda *_: False, defaults)
        assert found is not None
        assert (meta(found)["labels"][QUEUE_LABEL], meta(found)["labels"][PRIORITY_CLASS]) == ("team", expected)


async def test_the_defaults_are_those_that_the_service_has_seen() -> None:
    scene, kind = Scene(), JOB_KINDS["jobset.x-k8s.io/jobset"]
    scene.store.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": DEFAULT}, "value": 5})
    scene.settle()

    async def labels(local: Local) -> Json:
        hook = JobAdmission(lambda: Fleet, lambda: scene.controller, Metrics(), lambda: local)  # type: ignore[arg-type,return-value]
        patch = (await hook(review(kind, queueless(kind))))["response"].get("patch")
        operations = json.loads(base64.b64decode(patch)) if patch else []
        return next((one["value"] for one in operations if one["path"] == "/metadata/labels"), {})

    assert await labels(Local(NS)) == {QUEUE_LABEL: DEFAULT, PRIORITY_CLASS: DEFAULT}
    assert await labels(Local("elsewhere")) == {}
