"""The rights of the controllers of one's own cluster are what they use, and the webhook's configuration is what is
served.
"""

from __future__ import annotations

from controlplane.app.admission import JOBS_PATH
from controlplane.controllers.coscheduling.hook import PATH
from controlplane.controllers.hosts import hosted
from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.webhook import configuration, defaults
from controlplane.kube.kueue_names import QUEUE_LABEL
from controlplane.kube.visibility import GROUP, VERSIONS
from controlplane.settings import Settings
from tests.deploy.manifests import ROOT, documents, one, render, rights
from tests.support.local import settings


def watched(controller: str) -> set[str]:
    """What a controller watches in the whole cluster, as `group/resource`."""
    specs = [spec for one in hosted(settings(controller)) for spec in one.home]
    return {f"{spec.kind.group or 'core'}/{spec.kind.plural}" for spec in specs if not spec.namespace}


def test_what_is_watched_may_be_watched() -> None:
    for controller in ("podgroups", "coscheduling"):
        role = rights(one(render(f"deploy/{controller}"), "ClusterRole", f"controlplane-{controller}"))
        for resource in watched(controller):
            assert {"list", "watch"} <= set(role[resource]), resource
        assert role["core/namespaces[kube-system]"] == ("get",)


def test_namespaces_of_config_maps_are_those_of_the_settings() -> None:
    role = one(render("deploy/coscheduling"), "Role")
    assert role["metadata"]["namespace"] == Settings().coscheduling.config_namespace


def test_everything_is_bound_to_the_services_account() -> None:
    for controller in ("podgroups", "coscheduling"):
        objects = render(f"deploy/{controller}")
        bound = {item["roleRef"]["name"] for item in objects if item["kind"].endswith("RoleBinding")}
        assert f"controlplane-{controller}" in bound
        for item in objects:
            if item["kind"].endswith("RoleBinding"):
                assert item["subjects"] == [
                    {"kind": "ServiceAccount", "name": "controlplane", "namespace": "kueue-system"}
                ]


def test_the_webhook_is_where_the_service_serves_it() -> None:
    objects, chosen = render("deploy/coscheduling"), Settings().coscheduling
    service = one(objects, "Service")
    assert service["spec"]["ports"][0]["targetPort"] == chosen.webhook_port
    for hook in one(objects, "MutatingWebhookConfiguration")["webhooks"]:
        target = hook["clientConfig"]["service"]
        assert (target["name"], target["path"]) == (service["metadata"]["name"], PATH)
        assert hook["timeoutSeconds"] > chosen.webhook_patience.total_seconds()
        assert (hook["sideEffects"], hook["failurePolicy"]) == ("None", "Ignore")


def test_the_webhook_of_jobs_is_where_the_service_serves_it_and_has_every_kind() -> None:
    assert (ROOT / "deploy/multikueue-webhook/webhook.yaml").read_text() == configuration(), (
        "python -m controlplane.job_kinds webhook > deploy/multikueue-webhook/webhook.yaml"
    )
    objects = render("deploy/multikueue-webhook")
    service = one(objects, "Service")
    assert service["spec"]["ports"][0]["targetPort"] == Settings().webhook.port
    assert service == one(render("deploy/coscheduling"), "Service"), "one webhook serves both"
    sent: dict[tuple[str, str, str], list[str]] = {}
    for hook in one(objects, "MutatingWebhookConfiguration")["webhooks"]:
        target = hook["clientConfig"]["service"]
        assert (target["name"], target["path"]) == (service["metadata"]["name"], JOBS_PATH)
        assert (hook["sideEffects"], hook["failurePolicy"], hook["reinvocationPolicy"]) == (
            "None",
            "Ignore",
            "IfNeeded",
        )
        for rule in hook["rules"]:
            (group,), (version,), (plural,) = rule["apiGroups"], rule["apiVersions"], rule["resources"]
            sent[group, version, plural] = rule["operations"]
    kinds = {(kind.group, kind.version, kind.plural) for kind in (one_.kind for one_ in JOB_KINDS.values())}
    assert sent.keys() == kinds
    templates = {plural for (_, _, plural), operations in sent.items() if "UPDATE" in operations}
    assert templates == {"deployments", "statefulsets", "leaderworkersets"}, (
        "what is immutable is not asked about again"
    )
    role = rights(one(objects, "ClusterRole"))
    assert role == {"kueue.x-k8s.io/localqueues": ("get", "list", "watch")}


def test_what_names_no_queue_is_sent_only_where_that_is_applied_and_never_from_the_services_own_namespaces() -> None:
    path = ROOT / "deploy/multikueue-webhook/default-queue.yaml"
    assert path.read_text() == defaults(), (
        "python -m controlplane.job_kinds default-queue > deploy/multikueue-webhook/default-queue.yaml"
    )
    assert "default-queue.yaml" not in (path.parent / "kustomization.yaml").read_text()
    (found,) = documents(path.read_text())
    sent = {plural for hook in found["webhooks"] for rule in hook["rules"] for plural in rule["resources"]}
    assert sent == {kind.kind.plural for kind in JOB_KINDS.values() if kind.reconciled or kind.suspends_pods}
    for hook in found["webhooks"]:
        (elsewhere,) = hook["namespaceSelector"]["matchExpressions"]
        assert (elsewhere["operator"], elsewhere["values"]) == ("NotIn", ["kube-system", "kueue-system"])
        assert hook["objectSelector"]["matchExpressions"][0] == {"key": QUEUE_LABEL, "operator": "DoesNotExist"}
        assert (hook["failurePolicy"], hook["clientConfig"]["service"]["path"]) == ("Ignore", JOBS_PATH)


def test_the_visibility_api_is_where_the_service_serves_it_in_every_version() -> None:
    objects = render("deploy/visibility")
    service = one(objects, "Service")
    assert service["spec"]["ports"][0]["targetPort"] == Settings().quota.visibility.port
    served = [item for item in objects if item["kind"] == "APIService"]
    assert {item["metadata"]["name"] for item in served} == {f"{version}.{GROUP}" for version in VERSIONS}
    for item in served:
        spec = item["spec"]
        assert (spec["group"], spec["version"]) == (GROUP, item["metadata"]["name"].partition(".")[0])
        assert spec["service"] == {**{key: service["metadata"][key] for key in ("name", "namespace")}, "port": 443}
