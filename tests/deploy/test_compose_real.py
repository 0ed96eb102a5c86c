"""The image is built and the compose file tried, where a Docker engine and Compose v2 are at hand.

The tests go on with what those before them left: the jobs, and the pages that show them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.pages.routes import PAGES
from tests.deploy.manifests import ROOT
from tests.support.postgres import docker_answers

PROJECT = "controlplane-test"
INSIDE = ("exec", "--no-TTY", "controlplane", "controlplane")
PASSWORDS = {"OWNER_PASSWORD": "p@ss/w:rd#1", "SERVICE_PASSWORD": "s#1%20?&", "READER_PASSWORD": "r/2:@"}


ADDRESS = "http://127.0.0.1:8081"
# Printed is what the login of the pages may do of this.
WRITES = """
import os, sys, psycopg
with psycopg.connect(os.environ["CONTROLPLANE_DATABASE_URL"], autocommit=True) as connection:
    print(connection.execute("SELECT session_user").fetchone()[0])
    for statement in sys.argv[1:]:
        try:
            connection.execute(statement)
            print("done:", statement)
        except psycopg.errors.InsufficientPrivilege:
            pass
"""
STATEMENTS = (
    "DELETE FROM controlplane.events",
    "UPDATE controlplane.events SET position = position",
    "INSERT INTO controlplane.events DEFAULT VALUES",
    "TRUNCATE controlplane.events",
    "DELETE FROM read_models.placements",
    "CREATE TABLE public.mine (a int)",
    "CREATE TEMPORARY TABLE mine (a int)",
    "SET ROLE controlplane_service",
    "SET ROLE controlplane_owner",
)


def compose(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", "compose", "--project-name", PROJECT, "--project-directory", str(ROOT), *words],
        env=os.environ | PASSWORDS, input=given, capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip


def missing() -> str:
    if not shutil.which("docker"):
        return "docker is not there"
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        return "Compose v2 is not there"
    return "" if docker_answers() else "no Docker engine answers"


WHY = missing()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(1800), pytest.mark.usefixtures("up")]


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


def page(path: str) -> tuple[int, str]:
    """Return the status and the text of a page; 0 if nobody listens."""
    try:
        with urllib.request.urlopen(ADDRESS + path, timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def shown(path: str, expected: str, seconds: float = 60) -> str:
    """Return the text of a page once it answers with 200 and has that in it."""
    end = time.monotonic() + seconds
    while (got := page(path))[0] != 200 or expected not in got[1]:
        assert time.monotonic() < end, (path, expected, got)
        time.sleep(0.2)
    return got[1]


def test_the_pages_show_the_jobs() -> None:
    told = compose("logs", "--no-log-prefix", "pages").stdout
    assert f"The pages are at {ADDRESS}/" in told
    compose(*INSIDE, "submit", "examples/demo/jobs.yaml")
    shown("/workloads", "train-19")
    for one in PAGES:
        if "{" not in one.path and one.template:
            assert page(one.path)[0] == 200, one.path
        if "{" not in one.api:
            assert page(f"/api/v1{one.api}")[0] == 200, one.api
    story = shown("/workloads/default/train-03", "train-03")
    assert re.search("worker-[123]", story)
    listed = json.loads(page("/api/v1/workloads")[1])["items"]
    assert {row["owner"] for row in listed} == {f"train-{number:02}" for number in range(20)}
    assert {one["name"] for one in json.loads(page("/api/v1/clusters")[1])["clusters"]} >= {"worker-1", "worker-3"}
    assert "/api/v1/workloads" in json.loads(page("/api/v1/openapi.json")[1])["paths"]
    then = max(row["changed"] for row in listed)
    for path in ("/", "/queues", "/outages", "/workloads", "/workloads/default/train-03"):
        assert page(f"{path}?at={then}")[0] == 200, path
    assert "train-03" in page(f"/workloads?at={then}")[1]


def test_what_happens_is_told_to_who_has_a_page_open() -> None:
    found = re.search(r"/stream\?after=\d+", page("/")[1])
    assert found is not None
    with urllib.request.urlopen(ADDRESS + found[0], timeout=60) as stream:
        assert compose(*INSIDE, "submit", "-", given=jobs("live")).returncode == 0
        lines = iter(stream.readline, b"")
        assert any(line == b"event: position\n" for line in lines)
    shown("/workloads", "live-19")


def test_the_pages_can_only_read() -> None:
    done = compose("exec", "--no-TTY", "pages", "python", "-c", WRITES, *STATEMENTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["controlplane_reader", ""]
    assert compose("exec", "--no-TTY", "pages", "touch", "/var/lib/controlplane/mine").returncode != 0


def jobs(prefix: str) -> str:
    """Return the jobs of the demo under other names."""
    return (ROOT / "examples/demo/jobs.yaml").read_text().replace("name: train-", f"name: {prefix}-")


def test_what_is_stopped_goes_on() -> None:
    """The first process of each container hears SIGTERM and ends with code 0; after that nothing is lost or done
    again.
    """
    assert compose(*INSIDE, "submit", "-", given=jobs("stopped")).returncode == 0
    assert compose("stop").returncode == 0
    for service in ("controlplane", "pages", "postgres"):
        asked = compose("ps", "--all", "--format", "{{.ExitCode}}", service)
        assert asked.stdout.split() == ["0"], asked
    done = compose("up", "--detach", "--wait")
    assert done.returncode == 0, done.stderr
    assert {row["attempt"] for row in finished("stopped")} == {1}
    shown("/workloads?state=Finished", "stopped-19")


def test_the_pages_go_on_when_the_database_is_back() -> None:
    assert compose("stop", "postgres").returncode == 0
    status, text = page("/workloads")
    assert (status, "The database is away" in text) == (503, True)
    assert compose("start", "postgres").returncode == 0
    assert compose(*INSIDE, "submit", "-", given=jobs("away")).returncode == 0
    shown("/workloads", "away-19")
    finished("away")


def test_a_service_that_is_killed_goes_on_and_the_pages_are_there_meanwhile() -> None:
    """The simulated clusters die with it, and have lost what they had not saved; it does again what was lost there.
    They save every two seconds: a job that was submitted just before would be lost to all.
    """
    assert compose(*INSIDE, "submit", "-", given=jobs("killed")).returncode == 0
    time.sleep(6)
    shown("/workloads?state=Running", "killed-", 5)
    assert compose("kill", "controlplane").returncode == 0
    shown("/workloads", "killed-19", 5)
    done = compose("up", "--detach", "--wait")
    assert done.returncode == 0, done.stderr
    finished("killed")


def finished(prefix: str) -> list[dict[str, Any]]:
    """Return the twenty Workloads of those jobs once all have finished."""
    end = time.monotonic() + 300
    while True:
        asked = compose(*INSIDE, "workloads", "--all", "-o", "json")
        assert asked.returncode == 0, asked.stderr
        rows = [row for row in json.loads(asked.stdout) if row["job"].startswith(f"{prefix}-")]
        if len(rows) == 20 and all(row["state"] == "Finished" for row in rows):
            return rows
        assert time.monotonic() < end, rows
        time.sleep(1)
