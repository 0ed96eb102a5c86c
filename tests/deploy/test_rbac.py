"""The rights are exactly these. A verb more or a verb less is a decision, and this table is where it is taken."""

from __future__ import annotations

import pytest

from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.rights import cluster_role
from tests.deploy.manifests import ROOT, documents, one, render, rights

SEE = ("get", "list", "watch")
FOLDERS = ("deploy/base", "deploy/rbac/management", "deploy/rbac/worker", "deploy/migrate")


def test_management() -> None:
    assert rights(one(render("deploy/rbac/management"), "ClusterRole", "controlplane-management")) == {
        "kueue.x-k8s.io/workloads": SEE,
        "kueue.x-k8s.io/workloads/status": ("patch",),
        "kueue.x-k8s.io/admissionchecks": SEE,
        "kueue.x-k8s.io/admissionchecks/status": ("patch",),
        "kueue.x-k8s.io/multikueueconfigs": SEE,
        "kueue.x-k8s.io/clusterqueues": SEE,
        "kueue.x-k8s.io/multikueueclusters": SEE,
        "kueue.x-k8s.io/multikueueclusters/status": ("patch",),
        "core/namespaces[kube-system]": ("get",),
        "events.k8s.io/events": ("create",),
    }


def test_secrets_are_readable_in_one_namespace_only() -> None:
    objects = render("deploy/base")
    role = one(objects, "Role")
    assert rights(role) == {"core/secrets": SEE}
    assert role["metadata"]["namespace"] == "kueue-system"
    roles = [item for item in objects if item["kind"] == "ClusterRole"]
    assert roles
    assert not any("core/secrets" in rights(role) for role in roles)


def applied_beside(path: str) -> dict[str, tuple[str, ...]]:
    """The rights of a file that no kustomization has."""
    folder, name = path.rsplit("/", 1)
    assert name not in (ROOT / folder / "kustomization.yaml").read_text()
    return rights(next(one for one in documents((ROOT / path).read_text()) if one["kind"] in ("Role", "ClusterRole")))


def test_what_is_off_by_default_has_rights_of_its_own() -> None:
    assert applied_beside("deploy/rbac/management/clusterprofiles.yaml") == {
        "multicluster.x-k8s.io/clusterprofiles": SEE
    }
    assert applied_beside("deploy/rbac/management/quota.yaml") == {
        "kueue.x-k8s.io/localqueues": SEE,
        "kueue.x-k8s.io/clusterqueues": ("patch",),
        "kueue.x-k8s.io/clusterqueues/status": ("patch",),
    }
    assert applied_beside("deploy/rbac/management/admission.yaml") == {
        **dict.fromkeys(
            (
                "kueue.x-k8s.io/localqueues",
                "kueue.x-k8s.io/cohorts",
                "kueue.x-k8s.io/workloadpriorityclasses",
                "core/namespaces",
                "core/limitranges",
                "node.k8s.io/runtimeclasses",
                "core/nodes",
                "core/pods",
                "resource.k8s.io/resourceclaimtemplates",
                "resource.k8s.io/deviceclasses",
                "resource.k8s.io/resourceslices",
            ),
            SEE,
        ),
        **{
            f"kueue.x-k8s.io/{kind}": tuple(sorted((*SEE, "patch")))
            for kind in ("workloads", "clusterqueues", "resourceflavors", "admissionchecks", "topologies")
        },
        **{
            f"kueue.x-k8s.io/{kind}/status": ("patch",)
            for kind in ("workloads", "clusterqueues", "localqueues", "cohorts")
        },
        "core/pods/status": ("patch",),
        "events.k8s.io/events": ("create",),
    }
    assert applied_beside("deploy/rbac/worker/quota.yaml") == {
        "kueue.x-k8s.io/clusterqueues": SEE,
        "kueue.x-k8s.io/localqueues": SEE,
    }


def test_the_job_framework_may_write_jobs_and_their_workloads() -> None:
    path = "deploy/rbac/management/jobframework.yaml"
    assert (ROOT / path).read_text() == cluster_role("jobframework"), (
        f"python -m controlplane.job_kinds jobframework > {path}"
    )
    kinds = {
        f"{one_.kind.group}/{one_.kind.plural}": one_
        for one_ in JOB_KINDS.values()
        if one_.reconciled and not one_.ends_by_deletion
    }
    assert applied_beside(path) == {
        "kueue.x-k8s.io/workloads": tuple(sorted((*SEE, "create", "delete", "patch"))),
        "kueue.x-k8s.io/workloads/status": ("patch",),
        "kueue.x-k8s.io/resourceflavors": SEE,
        "kueue.x-k8s.io/workloadpriorityclasses": SEE,
        "scheduling.k8s.io/priorityclasses": SEE,
        "core/pods": tuple(sorted((*SEE, "patch"))),
        "events.k8s.io/events": ("create",),
    }
    (of_jobs,) = (
        one_
        for one_ in documents((ROOT / path).read_text())
        if one_["metadata"]["name"] == "controlplane-jobframework-jobs" and one_["kind"] == "ClusterRole"
    )
    assert rights(of_jobs) == {
        **{name: tuple(sorted((*SEE, "patch"))) for name in kinds},
        **{f"{name}/finalizers": ("update",) for name in kinds},
        "batch/jobs/status": ("patch",),
        **dict.fromkeys(("apps/statefulsets", "leaderworkerset.x-k8s.io/leaderworkersets"), SEE),
        **{f"trainer.kubeflow.org/{name}": SEE for name in ("clustertrainingruntimes", "trainingruntimes")},
    }


def test_pods_may_be_deleted_only_where_that_is_granted_by_itself() -> None:
    path = "deploy/rbac/management/jobframework-pods.yaml"
    assert (ROOT / path).read_text() == cluster_role("jobframework-pods"), (
        f"python -m controlplane.job_kinds jobframework-pods > {path}"
    )
    assert applied_beside(path) == {
        "core/pods": tuple(sorted((*SEE, "delete", "patch"))),
        "core/pods/finalizers": ("update",),
        "core/pods/status": ("patch",),
    }


def test_worker() -> None:
    assert rights(one(render("deploy/rbac/worker"), "ClusterRole", "controlplane-worker")) == {
        "kueue.x-k8s.io/workloads": tuple(sorted((*SEE, "create", "patch", "delete"))),
        "kueue.x-k8s.io/workloads/status": ("patch",),
        "core/namespaces[kube-system]": ("get",),
    }


@pytest.mark.parametrize("place", ["management", "worker"])
def test_the_rights_for_jobs_are_those_of_the_kinds(place: str) -> None:
    assert (ROOT / f"deploy/rbac/{place}/jobs.yaml").read_text() == cluster_role(place), (
        f"python -m controlplane.job_kinds {place} > deploy/rbac/{place}/jobs.yaml"
    )
    found = rights(one(render(f"deploy/rbac/{place}"), "ClusterRole", f"controlplane-{place}-jobs"))
    mine = (one_ for one_ in JOB_KINDS.values() if not one_.external and one_.dispatched)
    kinds = [(one_.kind.group or "core", one_.kind.plural) for one_ in mine]
    if place == "worker":
        wanted = {f"{group}/{plural}": tuple(sorted((*SEE, "create", "delete"))) for group, plural in kinds}
        for changes in (
            "ray.io/rayservices",
            "ray.io/rayclusters",
            "batch/jobs",
            "core/pods",
        ):  # serveConfigV2, or the size, follows; a pod's finalizer is taken off
            wanted[changes] = tuple(sorted((*SEE, "create", "patch", "delete")))
    else:
        wanted = {f"{group}/{plural}": SEE for group, plural in kinds}
        wanted |= {
            f"{group}/{plural}/status": ("patch",)
            for group, plural in kinds
            if plural not in ("statefulsets", "leaderworkersets")
        }
    assert found == wanted


@pytest.mark.parametrize("folder", FOLDERS)
def test_there_is_no_wildcard(folder: str) -> None:
    for item in render(folder):
        for rule in item.get("rules", ()):
            assert "nonResourceURLs" not in rule
            for words in rule.values():
                assert not [word for word in words if "*" in word]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_binding_has_its_role_and_its_account(folder: str) -> None:
    objects = render(folder)
    known = {(item["kind"], item["metadata"]["name"]) for item in objects}
    accounts = {"deploy/rbac/management": {("ServiceAccount", "controlplane")}}.get(folder, set())
    for item in objects:
        if item["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in known
            for subject in item["subjects"]:
                assert (subject["kind"], subject["name"]) in known | accounts
                assert subject["namespace"] == "kueue-system"


def test_jobs_are_deleted_on_the_management_cluster_only_with_a_manifest_of_its_own() -> None:
    path = "deploy/rbac/management/job-deletion.yaml"
    assert (ROOT / path).read_text() == cluster_role("deletion"), f"python -m controlplane.job_kinds deletion > {path}"
    assert applied_beside(path) == {
        f"{one_.kind.group}/{one_.kind.plural}": ("delete",)
        for one_ in JOB_KINDS.values()
        if one_.reconciled and not one_.ends_by_deletion
    }
