"""deploy/rbac/worker/kubeconfig.sh writes a kubeconfig that passes MultiKueue's checks, or says what is missing."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from controlplane.clusters.kubeconfig import parse_kubeconfig
from tests.deploy.manifests import ROOT

AUTHORITY = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()


def run(folder: Path, authority: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script with a kubectl that answers as a real one with the two commands the script gives it."""
    kubectl = folder / "kubectl"
    kubectl.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {folder}/calls\n'
        'case "$*" in\n'
        "*clusters*.server*) printf https://10.0.0.7:6443;;\n"
        f"*certificate-authority-data*) printf '{authority}';;\n"
        "*'create token'*) printf the-token;;\n"
        "esac\n"
    )
    kubectl.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"} | variables
    script = ROOT / "deploy/rbac/worker/kubeconfig.sh"
    return subprocess.run([str(script)], env=environment, capture_output=True, text=True, check=False)


def test_it_is_accepted(tmp_path: Path) -> None:
    done = run(tmp_path, AUTHORITY, CONTEXT="worker-a")
    assert done.returncode == 0, done.stderr
    written = yaml.safe_load(done.stdout)
    assert written["users"][0]["user"] == {"token": "the-token"}
    assert written["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.7:6443",
        "certificate-authority-data": AUTHORITY,
    }
    parsed = parse_kubeconfig(done.stdout.encode())
    assert (parsed.server, parsed.token) == ("https://10.0.0.7:6443", "the-token")
    calls = (tmp_path / "calls").read_text()
    assert "create token controlplane-worker --namespace kueue-system --duration 720h" in calls
    assert calls.count("--context worker-a") == 3


def test_the_address_can_be_another_one(tmp_path: Path) -> None:
    written = yaml.safe_load(run(tmp_path, AUTHORITY, SERVER="https://worker-a.example.com").stdout)
    assert written["clusters"][0]["cluster"]["server"] == "https://worker-a.example.com"


@pytest.mark.parametrize("authority", [""])
def test_without_a_ca_it_refuses(tmp_path: Path, authority: str) -> None:
    done = run(tmp_path, authority)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "no CA certificate" in done.stderr
