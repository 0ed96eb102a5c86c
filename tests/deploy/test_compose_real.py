"""The image is built and the compose file tried, where a Docker engine and Compose v2 are at hand."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import ROOT
from tests.support.postgres import docker_answers

PROJECT = "controlplane-test"
INSIDE = ("exec", "--no-TTY", "controlplane", "controlplane")
PASSWORDS = {"OWNER_PASSWORD": "p@ss/w:rd#1", "SERVICE_PASSWORD": "s#1%20?&", "READER_PASSWORD": "r/2:@"}


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


def taken() -> list[int]:
    """Which ports that the compose file publishes somebody else has: `docker compose up` of the same clone, perhaps."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    found = []
    for published in (port for service in services for port in service.get("ports", ())):
        address, outside, _ = published.split(":")
        first, _, last = outside.partition("-")
        for port in range(int(first), int(last or first) + 1):
            try:
                socket.create_server((address, port)).close()
            except OSError:
                found.append(port)
    return found


@pytest.fixture(scope="module")
def up() -> Iterator[None]:
    if ports := taken():
        pytest.skip(f"ports that the compose file publishes are taken: {ports}")
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
    done = compose(*INSIDE, "submit", "examples/demo/jobs.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("created") + done.stdout.count("AlreadyExists") == 20
    asked = compose(*INSIDE, "workloads")
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


@pytest.mark.skipif(bool(WHY), reason=WHY)
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("up")
def test_the_pages_are_there() -> None:
    with urllib.request.urlopen("http://127.0.0.1:8081/api/v1/clusters", timeout=60) as answer:
        assert json.load(answer)["clusters"]


@pytest.mark.skipif(bool(WHY), reason=WHY)
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("up")
def test_what_is_stopped_goes_on() -> None:
    """The first process of each container hears SIGTERM and ends with code 0; after that nothing is lost or done
    again.
    """
    compose(*INSIDE, "submit", "examples/demo/jobs.yaml")
    assert compose("stop").returncode == 0
    for service in ("controlplane", "postgres"):
        asked = compose("ps", "--all", "--format", "{{.ExitCode}}", service)
        assert asked.stdout.split() == ["0"], asked
    done = compose("up", "--detach", "--wait")
    assert done.returncode == 0, done.stderr
    end = time.monotonic() + 300
    rows = workloads()
    while not all(row["state"] == "Finished" for row in rows):
        assert time.monotonic() < end, rows
        time.sleep(1)
        rows = workloads()
    assert len(rows) == 20
    assert {row["attempt"] for row in rows} == {1}


def workloads() -> list[dict[str, Any]]:
    asked = compose(*INSIDE, "workloads", "--all", "-o", "json")
    assert asked.returncode == 0, asked.stderr
    found: list[dict[str, Any]] = json.loads(asked.stdout)
    return found
