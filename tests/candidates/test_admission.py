"""The admission hook of pods: which of them become candidates' source pods, and which are left as they are."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from controlplane.controllers.candidates.objects import ELECT_LABEL, SCHEDULER_NAME
from controlplane.controllers.candidates.source import observe
from controlplane.controllers.candidates.source.admission import answer
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.state import Connection
from controlplane.kube.kinds import NAMESPACES, Json
from tests.candidates.stage import NS, Stage, pod
from tests.support.rows import each

POLICY = SourcePolicy(cluster="home", namespaces=frozenset({NS}))
OWN = "kueue-system"


def plain(*, labels: Json | None = None, scheduler: str = "default-scheduler", **more: Any) -> Json:
    """Return a pod as the API server asks about it: its defaults are filled in already."""
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})}
    return {"metadata": {"generateName": "web-", "labels": labels or {}, **more.pop("metadata", {})}, "spec": spec}


def ask(
    obj: Json, namespace: str = NS, sends: bool | None = True, policy: SourcePolicy = POLICY, **more: Any
) -> tuple[str, list[str]]:
    """Return the scheduler that the pod has then, and the warnings."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": "r1", "kind": kind, "operation": "CREATE", "namespace": namespace, "object": obj, **more}
    response = answer({"request": request}, policy, OWN, lambda asked: sends if asked == namespace else None)[
        "response"
    ]
    assert (response["uid"], response["allowed"]) == ("r1", True)
    patch = msgspec.json.decode(base64.b64decode(response.get("patch", "")) or b"[]")
    assert [step for step in patch if step["path"] != "/spec/schedulerName"] == [], "nothing else of it changes"
    scheduler = patch[0]["value"] if patch else obj["spec"].get("schedulerName", "")
    return scheduler, response.get("warnings", [])


@each("labels", [{}, {ELECT_LABEL: "true"}, {"app": "web"}])
@each("scheduler", ["", "default-scheduler"])
def test_a_pod_that_is_asked_about_gets_the_scheduler_of_candidates(labels: Json, scheduler: str) -> None:
    obj = plain(labels=labels, scheduler=scheduler)
    assert ask(obj) == (SCHEDULER_NAME, [])
    del obj["spec"]["schedulerName"]
    assert ask(obj) == (SCHEDULER_NAME, [])


def test_it_is_the_scheduler_of_the_settings() -> None:
    policy = msgspec.structs.replace(POLICY, scheduler_name="elsewhere")
    assert ask(plain(), policy=policy) == ("elsewhere", [])


def test_a_pod_opts_out_of_its_namespace() -> None:
    assert ask(plain(labels={ELECT_LABEL: "false"})) == ("default-scheduler", [])


@pytest.mark.parametrize("value", ["yes", "True", "", "1"])
def test_a_label_that_says_neither_is_let_through_with_a_warning(value: str) -> None:
    scheduler, (said,) = ask(plain(labels={ELECT_LABEL: value}))
    assert scheduler == "default-scheduler"
    assert f'label {ELECT_LABEL}: "{value}": use "true" or "false"' in said


def test_another_scheduler_is_kept_and_named_only_where_the_pod_itself_asks_for_both() -> None:
    assert ask(plain(scheduler="volcano")) == ("volcano", [])
    scheduler, (said,) = ask(plain(scheduler="volcano", labels={ELECT_LABEL: "true"}))
    assert scheduler == "volcano"
    assert 'spec.schedulerName: "volcano"' in said
    assert ask(plain(scheduler=SCHEDULER_NAME, labels={ELECT_LABEL: "true"})) == (SCHEDULER_NAME, [])


@pytest.mark.parametrize("namespace", ["kube-system", OWN])
@pytest.mark.parametrize("labels", [{}, {ELECT_LABEL: "true"}])
def test_never_a_pod_of_the_system_or_of_the_service_itself(namespace: str, labels: Json) -> None:
    policy = msgspec.structs.replace(POLICY, namespaces=frozenset({"*"}))
    assert ask(plain(labels=labels), namespace, policy=policy)[0] == "default-scheduler"


def test_a_pod_that_has_its_node_here_stays_here() -> None:
    assert ask(plain(spec={"nodeName": "n1"})) == ("default-scheduler", [])
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d#1", "controller": True}
    assert ask(plain(metadata={"ownerReferences": [owner]})) == ("default-scheduler", [])
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "d", "uid": "d#1", "controller": True}
    assert ask(plain(metadata={"ownerReferences": [owner]})) == (SCHEDULER_NAME, [])


@pytest.mark.parametrize(
    ("sends", "said"), [(False, "candidates.namespaces"), (None, "is not known yet")], ids=["forbidden", "unknown"]
)
def test_what_is_in_doubt_is_let_through_with_a_warning(sends: bool | None, said: str) -> None:
    scheduler, (warning,) = ask(plain(), sends=sends)
    assert scheduler == "default-scheduler"
    assert f'namespace "{NS}"' in warning
    assert said in warning
    assert len(warning) <= 256, "kube-apiserver cuts longer ones"


@pytest.mark.parametrize(
    "obj",
    [
        {"metadata": {"labels": ["x"]}, "spec": {}},
        {"metadata": {}, "spec": "none"},
        {"metadata": {"ownerReferences": "me"}, "spec": {}},
        {"metadata": {"labels": {ELECT_LABEL: True}}, "spec": {}},
        {"metadata": {}, "spec": {"schedulerName": 7}},
    ],
)
def test_what_is_no_pod_is_let_through(obj: Json) -> None:
    request = {"uid": "r1", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": NS, "object": obj}
    response = answer({"request": request}, POLICY, OWN, lambda _: True)["response"]
    assert response["allowed"]
    assert "patch" not in response
    assert response["warnings"]


def test_only_pods_that_are_created() -> None:
    assert ask(plain(), operation="UPDATE") == ("default-scheduler", [])
    assert ask(plain(), kind={"group": "batch", "version": "v1", "kind": "Job"}) == ("default-scheduler", [])
    assert ask(plain(), subResource="eviction") == ("default-scheduler", [])


@pytest.mark.parametrize("review", [{}, {"request": None}, {"request": {"kind": "Pod"}}])
def test_what_is_no_review_is_refused(review: Json) -> None:
    with pytest.raises(ValueError, match=r"admission\.k8s\.io/v1"):
        answer(review, POLICY, OWN, lambda _: True)


@pytest.mark.parametrize("value", ["true", "false"])
def test_the_label_is_no_forged_mark_and_stays_in_the_source(value: str) -> None:
    stage = Stage("a")
    stage.home["pods"]["web"] = pod(metadata={"labels": {ELECT_LABEL: value, "app": "web"}})
    stage.look()
    stage.send()
    (made,) = stage.stores["a"]["candidates"].values()
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web"}


def test_the_same_as_an_annotation_is_refused_and_named() -> None:
    _, seen, _ = observe.source_pod(pod(metadata={"annotations": {ELECT_LABEL: "true"}, "resourceVersion": "1"}))
    assert seen.problem == "ForgedAnnotation"
    assert ELECT_LABEL in seen.problem_message


def test_a_namespace_is_not_known_before_the_labelled_ones_are_listed() -> None:
    assert SourceController(POLICY, "me").may_send("other") is False
    controller = SourceController(POLICY, "me", labelled=True)
    assert (controller.may_send(NS), controller.may_send("other")) == (True, None)
    listed = Connection(name=MANAGEMENT, phase="Connected", synced=frozenset({NAMESPACES.name}))
    controller.connections[MANAGEMENT] = listed
    assert controller.may_send("other") is False
    controller.connections[MANAGEMENT] = msgspec.structs.replace(listed, synced=frozenset())
    assert controller.may_send("other") is None
