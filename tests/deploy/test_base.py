"""The Deployment and what stands beside it: safe by default, and configured with settings that exist."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from controlplane.settings.load import load
from tests.deploy.manifests import KUBECTL, ROOT, Object, documents, one, render


def pod(folder: str, kind: str) -> Object:
    return one(render(folder), kind)["spec"]["template"]["spec"]


def environment(container: Object) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


@pytest.mark.parametrize(("folder", "kind"), [("deploy/base", "Deployment"), ("deploy/migrate", "Job")])
def test_a_pod_has_no_more_power_than_it_needs(folder: str, kind: str) -> None:
    spec = pod(folder, kind)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "hostNetwork" not in spec
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


def test_the_owner_s_credentials_are_where_the_service_cannot_read_them() -> None:
    service = one(render("deploy/base"), "Deployment")
    migration = one(render("deploy/migrate"), "Job")
    assert service["metadata"]["namespace"] != migration["metadata"]["namespace"]
    assert "controlplane-database-owner" not in yaml.safe_dump_all(render("deploy/base"))
    assert pod("deploy/migrate", "Job")["automountServiceAccountToken"] is False


def test_probes_and_metrics_are_on_the_port_of_the_settings() -> None:
    container = pod("deploy/base", "Deployment")["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    settings = load(ROOT / "deploy/base/settings.yaml", {})
    assert ports == {"http": settings.http.port}
    assert settings.http.address == "0.0.0.0"
    paths = {probe: container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe: get["port"] for probe, get in paths.items()} == dict.fromkeys(paths, "http")
    assert paths["livenessProbe"]["path"] == paths["startupProbe"]["path"] == "/healthz"
    assert paths["readinessProbe"]["path"] == "/readyz?exclude=database"


def test_the_settings_and_variables_are_known() -> None:
    container = pod("deploy/base", "Deployment")["containers"][0]
    given = environment(container)
    assert given.pop("CONTROLPLANE_CONFIG") == "/etc/controlplane/settings.yaml"
    given |= {"CONTROLPLANE_DATABASE_URL": "postgresql://a:b@db/c", "CONTROLPLANE_MULTIKUEUE_NAMESPACE": "elsewhere"}
    settings = load(ROOT / "deploy/base/settings.yaml", given)
    assert settings.multikueue.namespace == "elsewhere"
    assert settings.database.url.reveal() == "postgresql://a:b@db/c"
    load(None, environment(pod("deploy/migrate", "Job")["containers"][0]))


def test_one_replica_may_go_and_one_leads_on() -> None:
    objects = render("deploy/base")
    assert one(objects, "Deployment")["spec"]["replicas"] == 2
    assert one(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    for selector in (
        one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one(objects, "Service")["spec"]["selector"],
    ):
        assert selector.items() <= labels.items()


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_an_overlay_moves_it_to_another_namespace(tmp_path: Path) -> None:
    overlay = {
        "resources": [os.path.relpath(ROOT / "deploy/base", tmp_path.resolve())],
        "namespace": "batch",
        "images": [{"name": "controlplane", "newName": "somewhere/controlplane", "newTag": "9"}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    done = subprocess.run([str(KUBECTL), "kustomize", str(tmp_path)], capture_output=True, text=True, check=True)
    objects = documents(done.stdout)
    assert {item["metadata"]["namespace"] for item in objects if "namespace" in item["metadata"]} == {"batch"}
    for item in objects:
        assert all(subject["namespace"] == "batch" for subject in item.get("subjects", ()))
    assert (
        one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"] == "somewhere/controlplane:9"
    )
