"""The admission hook's answer: patches for what follows a placeholder, and a plain yes for everything else."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from controlplane.controllers.coscheduling.admission import answer
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import claim_name, made_claim_name, placeholder_name
from controlplane.controllers.coscheduling.objects import PipelineRun, read_run
from controlplane.controllers.coscheduling.placement.binding import beside
from controlplane.controllers.coscheduling.problems import InputRefused
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from tests.coscheduling.samples import NS, UID, Json, claim, run, template
from tests.support.rows import each

SINGLE = placeholder_name("", "my-pipelinerun")
OF_A = claim_name("", "a", UID)
KNOWN = read_run(run(template("a"), claim("b", "data")))
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def find(namespace: str, name: str, uid: str) -> PipelineRun | None:
    return KNOWN if (namespace, name, uid) == (NS, "my-pipelinerun", UID) else None


def ask(kind: str, obj: Json, mode: Mode = Mode.PIPELINERUNS, operation: str = "CREATE") -> tuple[Json, Json]:
    request = {"uid": "r1", "kind": {"kind": kind}, "operation": operation, "namespace": NS, "object": obj}
    response = answer({"request": request}, mode, find)["response"]
    assert (response["uid"], response["allowed"]) == ("r1", True)
    return apply(obj, response), response


def apply(obj: Json, response: Json) -> Json:
    """Apply the operations that the hook uses, as an API server does."""
    found = copy.deepcopy(obj)
    for operation in json.loads(base64.b64decode(response.get("patch", "W10="))):
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at: Any = found
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if last == "-":
            at.append(operation["value"])
        else:
            assert operation["op"] == "add" or last in at
            at[last] = operation["value"]
    return found


def task_run(*claims: str, uid: str = UID, annotations: Json | None = None, kind: str = "PipelineRun") -> Json:
    metadata: Json = {"ownerReferences": [{"kind": kind, "name": "my-pipelinerun", "uid": uid, "controller": True}]}
    if annotations is not None:
        metadata["annotations"] = annotations
    workspaces = [{"name": f"w{n}", "persistentVolumeClaim": {"claimName": one}} for n, one in enumerate(claims)]
    return {"metadata": metadata, "spec": {"workspaces": [{"name": "scratch", "emptyDir": {}}, *workspaces]}}


@each("kind", ["TaskRun", "CustomRun"])
@each("annotations", [None, {}, {"x": "y"}])
def test_tasks_of_a_run_follow_its_placeholder(kind: str, annotations: Json | None) -> None:
    patched, _ = ask(kind, task_run(annotations=annotations))
    assert patched["metadata"]["annotations"] == {**(annotations or {}), AFFINITY_ASSISTANT: SINGLE}


def test_claims_become_those_that_the_stateful_set_makes() -> None:
    patched, _ = ask("TaskRun", task_run(OF_A, "data"))
    found = [one["persistentVolumeClaim"]["claimName"] for one in patched["spec"]["workspaces"][1:]]
    assert found == [made_claim_name("", "a", UID, SINGLE), "data"]


@pytest.mark.parametrize(
    ("claims", "workspace"), [([OF_A], "a"), (["data"], "b"), (["data", OF_A], "a"), (["other"], None), ([], None)]
)
def test_per_workspace_the_last_claim_says_which(claims: list[str], workspace: str | None) -> None:
    obj = task_run(*claims)
    patched, response = ask("TaskRun", obj, Mode.WORKSPACES)
    if workspace is None:
        assert (patched, "patch" in response) == (obj, False)
    else:
        assert patched["metadata"]["annotations"] == {AFFINITY_ASSISTANT: placeholder_name(workspace, "my-pipelinerun")}
        assert patched["spec"] == obj["spec"]


@pytest.mark.parametrize(
    ("obj", "more"),
    [
        (task_run(annotations={AFFINITY_ASSISTANT: "there"}), {}),
        (task_run(kind="TaskRun"), {}),
        ({"metadata": {}}, {}),
        (task_run(), {"mode": Mode.DISABLED}),
        (task_run(), {"operation": "UPDATE"}),
    ],
)
def test_what_is_left_as_it_is(obj: Json, more: Any) -> None:
    patched, response = ask("TaskRun", obj, **more)
    assert patched == obj
    assert set(response) == {"uid", "allowed"}


def test_an_unknown_run_is_let_through_with_a_warning() -> None:
    _, response = ask("TaskRun", task_run(uid="another"))
    assert "is not known here" in response["warnings"][0]


@each(
    "affinity",
    [
        None,
        {},
        {"nodeAffinity": {"x": 1}},
        {"podAffinity": {}},
        {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        {"podAffinity": {REQUIRED: []}},
        {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}},
    ],
)
def test_a_pod_gets_the_term_after_what_is_there(affinity: Json | None) -> None:
    pod = {
        "metadata": {"annotations": {AFFINITY_ASSISTANT: SINGLE}},
        "spec": {} if affinity is None else {"affinity": affinity},
    }
    patched, _ = ask("Pod", pod)
    before = ((affinity or {}).get("podAffinity") or {}).get(REQUIRED) or []
    assert patched["spec"]["affinity"]["podAffinity"][REQUIRED] == [*before, beside(SINGLE)]
    for field, value in (affinity or {}).items():
        assert field == "podAffinity" or patched["spec"]["affinity"][field] == value
    again, response = ask("Pod", patched)
    assert (again, "patch" in response) == (patched, False)


def test_a_pod_that_follows_nothing() -> None:
    assert "patch" not in ask("Pod", {"metadata": {}, "spec": {}})[1]


@pytest.mark.parametrize("review", [{}, {"request": None}, {"request": {}}])
def test_what_is_no_review(review: Json) -> None:
    with pytest.raises(InputRefused, match="it has no request with a uid"):
        answer(review, Mode.PIPELINERUNS, find)
