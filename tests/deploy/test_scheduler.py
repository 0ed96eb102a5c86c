"""The scheduler's manifests: its rights are exactly these, its settings and profiles can be used."""

from __future__ import annotations

import yaml

from controlplane.app.claims import scheduler_lease_names
from controlplane.app.scheduler_controllers import WATCHED
from controlplane.app.scheduler_profiles import load
from controlplane.kube.kinds import POD_GROUPS
from controlplane.settings import load as load_settings
from tests.deploy.manifests import ROOT, one, render, rights

SEE = ("get", "list", "watch")
FOLDER = "deploy/scheduler"
CANDIDATES = "candidates.controlplane.dev"


def test_rights() -> None:
    assert rights(one(render(FOLDER), "ClusterRole", "controlplane-scheduler")) == {
        "core/pods": tuple(sorted((*SEE, "delete"))),
        "core/pods/binding": ("create",),
        "core/pods/status": ("patch",),
        "core/nodes": SEE,
        "core/namespaces": SEE,
        "core/services": SEE,
        "core/replicationcontrollers": SEE,
        "core/persistentvolumes": tuple(sorted((*SEE, "patch"))),
        "core/persistentvolumeclaims": tuple(sorted((*SEE, "patch"))),
        "apps/replicasets": SEE,
        "apps/statefulsets": SEE,
        "policy/poddisruptionbudgets": SEE,
        "storage.k8s.io/storageclasses": SEE,
        "storage.k8s.io/csinodes": SEE,
        "storage.k8s.io/volumeattachments": SEE,
        "resource.k8s.io/resourceclaims": tuple(sorted((*SEE, "patch"))),
        "resource.k8s.io/resourceclaims/status": ("patch",),
        "resource.k8s.io/resourceclaims/binding": ("patch",),
        "resource.k8s.io/resourceslices": SEE,
        "resource.k8s.io/deviceclasses": SEE,
        "scheduling.k8s.io/priorityclasses": SEE,
        "scheduling.volcano.sh/podgroups": tuple(sorted((*SEE, "patch"))),
        "events.k8s.io/events": ("create",),
    }


def test_what_candidates_need_besides_is_a_role_of_its_own() -> None:
    assert rights(one(render(FOLDER), "ClusterRole", "controlplane-scheduler-candidates")) == {
        "core/pods": ("create", "delete", "patch"),
        f"{CANDIDATES}/candidates": tuple(sorted((*SEE, "patch"))),
        f"{CANDIDATES}/candidates/status": ("patch",),
        f"{CANDIDATES}/candidates/finalizers": ("update",),
        f"{CANDIDATES}/candidatesources": SEE,
    }


def test_the_leases_that_it_may_renew_are_those_of_its_profiles() -> None:
    profiles = load(str(ROOT / FOLDER / "profiles.yaml")).names
    names = ",".join(scheduler_lease_names(load_settings(ROOT / FOLDER / "settings.yaml", {}), profiles))
    assert rights(one(render(FOLDER), "ClusterRole", "controlplane-scheduler-leases")) == {
        f"coordination.k8s.io/leases[{names}]": ("get", "patch"),
        "coordination.k8s.io/leases": ("create",),
    }


def test_everything_that_is_watched_may_be() -> None:
    roles = [item for item in render(FOLDER) if item["kind"] == "ClusterRole"]
    given = {key: verbs for role in roles for key, verbs in rights(role).items() if set(SEE) <= set(verbs)}
    for kind in (*WATCHED, POD_GROUPS):
        assert f"{kind.group or 'core'}/{kind.plural}" in given, kind.name


def test_each_role_is_bound_to_the_account() -> None:
    objects = render(FOLDER)
    account = one(objects, "ServiceAccount")
    roles = {item["metadata"]["name"] for item in objects if item["kind"] == "ClusterRole"}
    bindings = [item for item in objects if item["kind"] == "ClusterRoleBinding"]
    assert {binding["roleRef"]["name"] for binding in bindings} == roles
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == (
            account["metadata"]["name"],
            account["metadata"]["namespace"],
        )


def test_the_account_runs_the_scheduler() -> None:
    objects = render(FOLDER)
    account = one(objects, "ServiceAccount")
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert pod["containers"][0]["args"] == ["scheduler", "run"]


def test_settings_and_profiles_can_be_used() -> None:
    settings = load_settings(ROOT / FOLDER / "settings.yaml", {})
    mounted = {
        mount["name"]: mount["mountPath"]
        for mount in one(render(FOLDER), "Deployment")["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    }
    assert settings.scheduler.config == f"{mounted['settings']}/profiles.yaml"
    setup = load(str(ROOT / FOLDER / "profiles.yaml"))
    assert setup.names == ("controlplane",)
    assert yaml.safe_load((ROOT / FOLDER / "profiles.yaml").read_text())["kind"] == "KubeSchedulerConfiguration"
