"""The admission hook of jobs: what it adds to which kind, and what it leaves alone."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import msgspec
import pytest

from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.admission import ReviewError, answer
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.job_kinds import JOB_KINDS, adapters_for
from controlplane.job_kinds.base import JobKind
from controlplane.job_kinds.gated import HELD
from controlplane.kube.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, Json
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, QUEUE_LABEL
from controlplane.kube.reviews import json_patch
from tests.job_kinds.rows import ROWS
from tests.multikueue.observed import metadata
from tests.multikueue.observed import sighting as sighted
from tests.multikueue.scene import NS, START, Scene
from tests.support.rows import each

DISPATCHED = {name: kind for name, kind in JOB_KINDS.items() if kind.dispatched}
POLICY = MultiKueuePolicy(adapters=adapters_for([*DISPATCHED, "Render.v1.example.com"]), claims=True)
EVERY = [pytest.param(kind, id=kind.integration) for kind in DISPATCHED.values()]
QUEUES: dict[tuple[str, str], bool] = {(NS, "ours"): True, (NS, "other"): False}


def leads(namespace: str, queue: str) -> bool | None:
    return QUEUES.get((namespace, queue))


def job_of(kind: JobKind, queue: str = "ours", **labels: str) -> Json:
    job = ROWS[kind.integration].job() if kind.integration in ROWS else {"spec": {"frames": 1}}
    metadata = {"name": "train", "namespace": NS, "labels": {QUEUE_LABEL: queue, **labels}}
    return {**json.loads(json.dumps(job)), "metadata": metadata}


def ask(kind: JobKind, job: Json, policy: MultiKueuePolicy = POLICY, **more: Any) -> tuple[Json, list[str]]:
    """The job as the API server stores it, and the warnings."""
    named = {"group": kind.kind.group, "version": kind.kind.version, "kind": kind.kind.kind}
    request = {"uid": "r1", "kind": named, "operation": "CREATE", "namespace": NS, "object": job, **more}
    response = answer({"request": request}, policy, leads)["response"]
    assert (response["uid"], response["allowed"]) == ("r1", True)
    return apply(job, response.get("patch", "")), response.get("warnings", [])


def apply(obj: Json, patch: str) -> Json:
    found = copy.deepcopy(obj)
    for operation in json.loads(base64.b64decode(patch) or "[]"):
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at: Any = found
        for part in way:
            at = at[part]
        assert (operation["op"] == "add") is (last not in at)
        if operation["op"] == "remove":
            del at[last]
        else:
            at[last] = operation["value"]
    return found


def ours(kind: JobKind, job: Json) -> bool:
    return kind.managed_by(job) == MULTIKUEUE if kind.delegates else kind.held(job)


@each("kind", EVERY)
def test_a_job_in_a_queue_of_ours_is_ours_from_the_beginning_and_nothing_else_of_it_changes(kind: JobKind) -> None:
    job = job_of(kind)
    assert not ours(kind, job)
    made, warnings = ask(kind, job)
    assert ours(kind, made)
    assert not warnings
    assert {**made, "spec": None} == {**job, "spec": None}
    assert kind.clone_spec(made) == kind.clone_spec(job)
    assert ask(kind, made)[0] == made


@each("kind", EVERY)
def test_it_is_left_alone_where_the_queue_is_not_ours_or_it_is_a_copy_or_in_no_queue(kind: JobKind) -> None:
    of_no_queue = job_of(kind)
    of_no_queue["metadata"]["labels"] = {}
    for job in (job_of(kind, "other"), job_of(kind, **{ORIGIN_LABEL: "theirs"}), of_no_queue):
        assert ask(kind, job) == (job, [])


@each("kind", EVERY)
def test_a_queue_that_is_not_known_is_let_through_with_a_warning(kind: JobKind) -> None:
    job = job_of(kind, "new")
    made, warnings = ask(kind, job)
    assert made == job
    (said,) = warnings
    assert f"{NS}/new" in said
    assert kind.kind.kind in said
    made, _ = ask(kind, job_of(kind))
    assert ask(kind, {**made, "metadata": job["metadata"]})[1] == [], "what is ours already needs no warning"


@each("kind", [one for one in EVERY if one.values[0].delegates])  # type: ignore[attr-defined]
def test_the_kinds_own_controller_gives_way_and_another_one_does_not(kind: JobKind) -> None:
    for before, after in ((kind.own_controller, MULTIKUEUE), ("example.com/mine", "example.com/mine")):
        job = job_of(kind)
        job["spec"] = json.loads(json.dumps({**job["spec"], **kind.delegated(before)}))
        assert kind.managed_by(ask(kind, job)[0]) == after


@pytest.mark.parametrize("name", ["pod", "statefulset"])
def test_gates_of_others_stay_and_none_is_added_where_kueue_keeps_the_pods(name: str) -> None:
    kind = JOB_KINDS[name]
    job = job_of(kind)
    holder = job["spec"] if name == "pod" else job["spec"]["template"]["spec"]
    holder["schedulingGates"] = [{"name": "example.com/mine"}]
    made, _ = ask(kind, job)
    gates = (made["spec"] if name == "pod" else made["spec"]["template"]["spec"])["schedulingGates"]
    assert gates == [{"name": "example.com/mine"}, {"name": HELD}]
    assert ask(kind, job, msgspec.structs.replace(POLICY, pod_gate="kueue")) == (job, [])


def test_a_template_that_lost_the_gate_gets_it_back_and_what_never_had_it_is_not_made_anew() -> None:
    kind = JOB_KINDS["statefulset"]
    job = job_of(kind)
    held, _ = ask(kind, job)
    assert ask(kind, job, operation="UPDATE", oldObject=held)[0] == held
    assert ask(kind, job, operation="UPDATE", oldObject=job)[0] == job


@pytest.mark.parametrize("name", ["batch/job", "pod"])
def test_what_cannot_be_changed_any_more_is_not(name: str) -> None:
    kind = JOB_KINDS[name]
    job = job_of(kind)
    held, _ = ask(kind, job)
    assert ask(kind, job, operation="UPDATE", oldObject=held) == (job, [])


def test_a_custom_kind_is_ours_where_it_names_nobody() -> None:
    (kind,) = adapters_for(["Render.v1.example.com"]).values()
    assert ask(kind, job_of(kind))[0]["spec"]["managedBy"] == MULTIKUEUE
    bare = job_of(kind)
    del bare["spec"]
    assert ask(kind, bare)[0]["spec"] == {"managedBy": MULTIKUEUE}


def test_a_kind_that_is_not_dispatched_is_not_looked_at() -> None:
    kind = JOB_KINDS["batch/job"]
    policy = MultiKueuePolicy(adapters=adapters_for(["pod"]), claims=True)
    assert ask(kind, job_of(kind), policy) == (job_of(kind), [])


@pytest.mark.parametrize("damage", [{"spec": []}, {"metadata": {"labels": []}}, {"spec": {"template": 1}}])
def test_what_does_not_fit_is_let_through(damage: Json) -> None:
    for name in ("batch/job", "statefulset"):
        kind = JOB_KINDS[name]
        job = {**job_of(kind), **damage}
        made, _ = ask(kind, job)
        assert made == job or kind.managed_by(made) == MULTIKUEUE


@pytest.mark.parametrize("review", [{}, {"request": []}, {"request": {"kind": {}}}])
def test_what_is_no_review_is_refused(review: Json) -> None:
    with pytest.raises(ReviewError, match="uid"):
        answer(review, POLICY, leads)


def test_a_patch_names_each_change_with_its_path() -> None:
    before = {"a": {"b/c": 1, "gone": 2}, "same": [1]}
    after = {"a": {"b/c": 2, "new~": {"x": 1}}, "same": [1]}
    assert json_patch(before, after) == [
        {"op": "remove", "path": "/a/gone"},
        {"op": "replace", "path": "/a/b~1c", "value": 2},
        {"op": "add", "path": "/a/new~0", "value": {"x": 1}},
    ]


# --- where a queue leads
# -----------------------------------------------------------------------------------------------


class Queues(Scene):
    """A scene in which the queues of the management cluster are seen, as they are where the webhook is served."""

    def __init__(self) -> None:
        super().__init__("a", policy={"claims": True})
        self.leads = self.fleet.index.leads_to_us

    def see(self, kind: Any, obj: Json) -> bool:
        found = self.fleet.observe(sighted("@management", kind, obj), START)
        if found is None:
            return False
        self.fold(found.stream, found.event)
        return True

    def local(self, to: str, version: str = "1", **status: Any) -> bool:
        about = metadata("user", resourceVersion=version)
        return self.see(LOCAL_QUEUES, {"metadata": about, "spec": {"clusterQueue": to}, "status": status})

    def cluster(self, *checks: str, version: str = "1") -> bool:
        rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": one} for one in checks]}}
        about = {**metadata("shared", resourceVersion=version), "namespace": ""}
        return self.see(CLUSTER_QUEUES, {"metadata": about, "spec": rules})


def test_a_queue_leads_to_us_by_the_check_of_its_cluster_queue() -> None:
    scene = Queues()
    (ours_,) = scene.fleet.index.checks
    assert scene.leads(NS, "user") is None
    scene.local("shared")
    assert scene.leads(NS, "user") is None, "the ClusterQueue was not seen yet"
    scene.cluster("unseen")
    assert scene.leads(NS, "user") is None, "the check was not seen yet"
    scene.cluster("unseen", ours_, version="2")
    assert scene.leads(NS, "user") is True
    assert scene.leads("other", "user") is None
    scene.cluster(version="3")
    assert scene.leads(NS, "user") is False
    scene.local("elsewhere", "2")
    assert scene.leads(NS, "user") is None


def test_a_cluster_queue_that_an_older_version_recorded_is_not_known() -> None:
    scene = Queues()
    scene.local("shared")
    old = observations.ClusterQueueObserved(name="shared", uid="u", resource_version="1")
    scene.fold("clusterqueue/shared", old)
    assert scene.leads(NS, "user") is None


def test_queues_are_recorded_when_they_lead_elsewhere_and_not_for_their_status() -> None:
    scene = Queues()
    assert scene.local("shared")
    assert not scene.local("shared", "2", pendingWorkloads=3)
    assert scene.local("other", "3")
    assert scene.cluster("c")
    assert not scene.cluster("c", version="2")
    assert scene.cluster("c", "d", version="3")


def test_without_the_webhook_queues_are_recorded_as_before() -> None:
    fleet = Scene("a").fleet
    local = {"metadata": metadata("user"), "spec": {"clusterQueue": "shared"}}
    assert fleet.observe(sighted("@management", LOCAL_QUEUES, local), START) is None
    rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}}
    seen = fleet.observe(sighted("@management", CLUSTER_QUEUES, {"metadata": metadata("q"), "spec": rules}), START)
    assert seen is not None
    assert seen.event == observations.ClusterQueueObserved(
        **{**msgspec.structs.asdict(seen.event), "checks": None}  # type: ignore[call-overload]
    )
