"""The scheduler's manifests: its rights are exactly these, its settings and profiles can be used."""

from __future__ import annotations

import yaml

from controlplane.app.scheduling.profiles import load
from controlplane.app.scheduling.rooms import WATCHED
from controlplane.kube import POD_GROUPS
from controlplane.settings import load as load_settings
from tests.deploy.manifests import ROOT, one, render, rights

SEE = ("get", "list", "watch")
FOLDER = "deploy/scheduler"
CANDIDATES = "candidates.controlplane.dev"


def test_rights() -> None:
    assert rights(one(render(FOLDER), "ClusterRole")) == {
        "core/pods": tuple(sorted((*SEE, "create", "patch", "delete"))),
        "core/pods/binding": ("create",),
        "core/pods/status": ("patch",),
        "core/nodes": SEE,
        "core/namespaces": SEE,
        "core/services": SEE,
        "core/replicationcontrollers": SEE,
        "core/persistentvolumes": SEE,
        "core/persistentvolumeclaims": SEE,
        "apps/replicasets": SEE,
        "apps/statefulsets": SEE,
        "policy/poddisruptionbudgets": SEE,
        "storage.k8s.io/storageclasses": SEE,
        "scheduling.k8s.io/priorityclasses": SEE,
        f"{CANDIDATES}/candidates": tuple(sorted((*SEE, "patch"))),
        f"{CANDIDATES}/candidates/status": ("patch",),
        f"{CANDIDATES}/candidates/finalizers": ("update",),
        f"{CANDIDATES}/candidatesources": SEE,
        "scheduling.volcano.sh/podgroups": tuple(sorted((*SEE, "patch"))),
        "events.k8s.io/events": ("create",),
    }


def test_everything_that_is_watched_may_be() -> None:
    given = rights(one(render(FOLDER), "ClusterRole"))
    for kind in (*WATCHED, POD_GROUPS):
        assert set(SEE) <= set(given[f"{kind.group or 'core'}/{kind.plural}"]), kind.name


def test_the_binding_has_its_role_and_its_account() -> None:
    objects = render(FOLDER)
    binding, account = one(objects, "ClusterRoleBinding"), one(objects, "ServiceAccount")
    assert binding["roleRef"]["name"] == one(objects, "ClusterRole")["metadata"]["name"]
    subject = binding["subjects"][0]
    assert (subject["name"], subject["namespace"]) == (
        account["metadata"]["name"],
        account["metadata"]["namespace"],
    )
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
