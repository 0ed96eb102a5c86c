"""The CRDs take what both sides write, and the rights are exactly these."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATE_TARGETS, CANDIDATES, ELECT_LABEL
from controlplane.controllers.candidates.source.hook import PATH
from controlplane.kube.kinds import Json, Kind
from controlplane.settings import Settings
from tests.candidates.stage import Stage
from tests.deploy.manifests import ROOT, documents, one, render, rights

SEE = ("get", "list", "watch")


def schema(kind: Kind) -> Json:
    (crd,) = [item for item in render("deploy/crds") if item["spec"]["names"]["kind"] == kind.kind]
    assert crd["metadata"]["name"] == kind.name
    assert crd["spec"]["group"] == kind.group
    assert crd["spec"]["names"]["plural"] == kind.plural
    (version,) = crd["spec"]["versions"]
    assert version["name"] == kind.version
    found: Json = version["schema"]["openAPIV3Schema"]
    return found


def unknown(value: Any, wanted: Json, where: str = "") -> list[str]:
    """Return what a structural schema would prune or refuse."""
    if wanted.get("x-kubernetes-preserve-unknown-fields"):
        return []
    if "enum" in wanted and value not in wanted["enum"]:
        return [f"{where}: {value!r}"]
    if isinstance(value, dict):
        if "additionalProperties" in wanted or "properties" not in wanted:
            return []
        missing = [f"{where}.{name} is missing" for name in wanted.get("required", []) if name not in value]
        strange = [f"{where}.{name}" for name in value if name not in wanted["properties"]]
        deeper = [
            problem
            for name, item in value.items()
            if name in wanted["properties"]
            for problem in unknown(item, wanted["properties"][name], f"{where}.{name}")
        ]
        return missing + strange + deeper
    if isinstance(value, list):
        return [problem for item in value for problem in unknown(item, wanted["items"], f"{where}[]")]
    types = {"string": str, "integer": int, "boolean": bool}
    return [] if isinstance(value, types[wanted["type"]]) else [f"{where}: {value!r} is no {wanted['type']}"]


@pytest.mark.parametrize("kind", [CANDIDATES, CANDIDATE_SOURCES, CANDIDATE_TARGETS], ids=lambda kind: kind.kind)
def test_the_kinds_are_those_that_the_code_asks_for(kind: Kind) -> None:
    assert schema(kind)["properties"]["spec"]["type"] == "object"


def test_everything_that_is_written_is_in_the_schema() -> None:
    wanted = schema(CANDIDATES)
    stage = Stage("a", "b").delegated("a")
    stage.run("a", "Running", 1)
    written = [stage.stores["a"]["candidates"], stage.stores["b"]["candidates"]]
    for obj in [obj for found in written for obj in found.values()]:
        assert unknown(obj, {**wanted, "properties": {**wanted["properties"], "metadata": {"type": "object"}}}) == []


def test_a_source_reaches_only_candidates() -> None:
    roles = render("deploy/candidates/target")
    assert rights(one(roles, "ClusterRole", "controlplane-candidate-source")) == {
        "candidates.controlplane.dev/candidates": tuple(sorted((*SEE, "create", "patch", "delete")))
    }
    names = {item["metadata"]["name"] for item in roles if item["kind"] == "ClusterRole"}
    assert names == {
        "controlplane-candidate-source",
        "controlplane-candidate-source-follow",
        "controlplane-candidate-source-objects",
        "controlplane-candidate-source-streams",
        "controlplane-candidate-source-nodes",
    }  # the scheduler has its own
    more = rights(one(roles, "ClusterRole", "controlplane-candidate-source-objects"))
    writes = tuple(sorted((*SEE, "create", "patch", "delete")))
    assert more.pop("core/persistentvolumeclaims") == tuple(sorted((*SEE, "create", "patch"))), "none is ever deleted"
    assert more == {"core/serviceaccounts": writes, "core/services": writes}
    streams = {f"core/pods/{name}": ("create", "get") for name in ("exec", "attach", "portforward")}
    found = rights(one(roles, "ClusterRole", "controlplane-candidate-source-streams"))
    assert found == {**streams, "core/pods/log": ("get",)}
    assert rights(one(roles, "ClusterRole", "controlplane-candidate-source-nodes")) == {"core/nodes": SEE}


def test_only_with_virtual_nodes_a_source_touches_nodes_and_removes_pods() -> None:
    made = render("deploy/candidates/virtual-nodes")
    found = rights(one(made, "ClusterRole", "controlplane-candidates-virtual-nodes"))
    assert found == {
        "core/nodes": tuple(sorted((*SEE, "create", "delete"))),
        "core/nodes/status": ("patch",),
        "core/pods/binding": ("create",),
        "core/pods": ("delete",),
    }
    leases = one(made, "Role", "controlplane-candidates-virtual-nodes")
    assert leases["metadata"]["namespace"] == "kube-node-lease"
    assert rights(leases) == {"coordination.k8s.io/leases": ("create", "patch")}
    reviews = rights(one(made, "ClusterRole", "controlplane-candidates-kubelet"))
    assert set(reviews) == {"authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews"}


def test_the_policy_lets_whoever_may_write_the_status_pass_and_that_is_no_source() -> None:
    policy = one(render("deploy/candidates/target"), "ValidatingAdmissionPolicy")
    (condition,) = policy["spec"]["matchConditions"]
    assert "resource('candidates').subresource('status')" in condition["expression"]
    found = rights(one(render("deploy/scheduler"), "ClusterRole", "controlplane-scheduler-candidates"))
    assert found["candidates.controlplane.dev/candidates/status"] == ("patch",)
    for role in (item for item in render("deploy/candidates/target") if item["kind"] == "ClusterRole"):
        assert "candidates.controlplane.dev/candidates/status" not in rights(role)


def test_where_nobody_is_invited_any_more_what_is_there_may_go() -> None:
    """Nobody else is asked, neither the scheduler nor the controller of namespaces: to deny there is to deny all."""
    bindings = [
        item["spec"]
        for item in render("deploy/candidates/target")
        if item["kind"] == "ValidatingAdmissionPolicyBinding"
    ]
    missing = {
        operation: spec["paramRef"]["parameterNotFoundAction"]
        for spec in bindings
        for rule in spec["matchResources"]["resourceRules"]
        for operation in rule["operations"]
    }
    assert missing == {"CREATE": "Deny", "UPDATE": "Allow", "DELETE": "Allow"}


def test_in_its_own_cluster_a_source_creates_and_deletes_no_pod() -> None:
    found = rights(one(render("deploy/candidates/source"), "ClusterRole"))
    assert found["core/pods"] == ("get", "list", "patch", "watch")
    assert found["core/pods/status"] == ("patch",)


@pytest.mark.parametrize(
    "folder", ["deploy/candidates/source", "deploy/candidates/target", "deploy/candidates/virtual-nodes"]
)
def test_there_is_no_wildcard(folder: str) -> None:
    for item in render(folder):
        for rule in item.get("rules", ()):
            for words in rule.values():
                assert not [word for word in words if "*" in word]


def test_the_example_names_what_is_there() -> None:
    example = documents((ROOT / "deploy/candidates/target/example.yaml").read_text())
    binding, invitation = one(example, "RoleBinding"), one(example, "CandidateSource")
    roles = {item["metadata"]["name"] for item in render("deploy/candidates/target") if item["kind"] == "ClusterRole"}
    assert binding["roleRef"]["name"] in roles
    (subject,) = binding["subjects"]
    assert invitation["spec"]["user"] == f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    assert subject["namespace"] != invitation["metadata"]["namespace"]  # no pod of the source may run as it
    assert unknown(invitation["spec"], schema(CANDIDATE_SOURCES)["properties"]["spec"]) == []


def test_the_webhook_is_asked_about_each_pod_once_and_never_about_those_of_the_system() -> None:
    objects = render("deploy/candidates/webhook")
    assert one(objects, "Service") == one(render("deploy/multikueue-webhook"), "Service"), "one webhook serves both"
    by_namespace, by_pod = one(objects, "MutatingWebhookConfiguration")["webhooks"]
    for hook in (by_namespace, by_pod):
        target = hook["clientConfig"]["service"]
        assert (target["name"], target["path"]) == (one(objects, "Service")["metadata"]["name"], PATH)
        assert (hook["sideEffects"], hook["failurePolicy"], hook["name"].partition(".")[0]) == (
            "None",
            "Ignore",
            "pods",
        )
        assert hook["rules"] == [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ]
    ours, pods = Settings().multikueue.namespace, ["", "true", "false", "yes"]
    for namespace in ("physics", "kube-system", ours):
        for elected in (True, False):
            labels = {"kubernetes.io/metadata.name": namespace} | ({ELECT_LABEL: "true"} if elected else {})
            asked = {
                value: [hook["name"] for hook in (by_namespace, by_pod) if _is_asked(hook, labels, value)]
                for value in pods
            }
            system = namespace != "physics"
            of_pod = [] if system else [by_pod["name"]]
            of_namespace = [by_namespace["name"]] if elected and not system else []
            assert asked == {"": of_namespace, "true": of_pod, "false": [], "yes": of_pod}


def _is_asked(hook: Json, namespace: Json, value: str) -> bool:
    pod = {ELECT_LABEL: value} if value else {}
    return all(
        _holds(expression, labels)
        for selector, labels in ((hook["namespaceSelector"], namespace), (hook["objectSelector"], pod))
        for expression in selector["matchExpressions"]
    )


def _holds(expression: Json, labels: Json) -> bool:
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise AssertionError(other)
