"""The image is built and the compose file tried, where a Docker engine and Compose v2 are at hand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.manifests import ROOT
from tests.support.postgres import docker_answers

PROJECT = "controlplane-test"
PASSWORDS = {"OWNER_PASSWORD": "p@ss/w:rd#1", "SERVICE_PASSWORD": "s#1%20?&"}


def compose(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", "compose", "--project-name", PROJECT, "--project-directory", str(ROOT), *words],
        env=os.environ | PASSWORDS, capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip


def missing() -> str:
    if not shutil.which("docker"):
        return "docker is not there"
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        return "Compose v2 is not there"
    return "" if docker_answers() else "no Docker engine answers"


WHY = missing()


BASES = re.findall(r"^FROM (\S+:\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


@pytest.fixture
def up() -> Iterator[None]:
    for image in BASES:
        had = subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode == 0
        pulled = had or subprocess.run(["docker", "pull", image], capture_output=True, check=False).returncode == 0
        if not pulled:
            pytest.skip(f"the image {image} cannot be had")
    try:
        done = compose("up", "--build", "--detach", "--wait")
        assert done.returncode == 0, done.stderr
        yield
    finally:
        compose("down", "--volumes")


@pytest.mark.skipif(bool(WHY), reason=WHY)
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("up")
def test_a_job_is_submitted_as_the_readme_says(tmp_path: Path) -> None:
    inside = ("exec", "--no-TTY", "controlplane", "controlplane")
    done = compose(*inside, "submit", "examples/demo/jobs.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("created") == 20
    asked = compose(*inside, "workloads")
    assert asked.returncode == 0, asked.stderr
    file = tmp_path / "management.kubeconfig"
    copied = compose("cp", "controlplane:/var/lib/controlplane/clusters/management.kubeconfig", str(file))
    assert copied.returncode == 0, copied.stderr
    if shutil.which("kubectl"):
        shown = subprocess.run(
            ["kubectl", "--kubeconfig", str(file), "get", "jobs", "--no-headers"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert len(shown.stdout.splitlines()) == 20
