"""The image and the compose file agree with each other and with the manifests (no engine is needed to see that)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from controlplane.settings.load import load
from tests.deploy.manifests import ROOT, one, render

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")


def filled(text: str) -> str:
    """Substitute `${NAME:-default}` by its default, as compose does in an empty environment."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def instructions(word: str) -> list[str]:
    return [line.split(None, 1)[1] for line in DOCKERFILE.splitlines() if line.startswith(f"{word} ")]


def test_the_image_installs_locked_hashes_and_runs_as_nobody_in_particular() -> None:
    assert all("--require-hashes" in run for run in instructions("RUN") if "requirements" in run)
    assert any("-r requirements.lock" in run for run in instructions("RUN"))
    user = instructions("USER")[-1]
    container = one(render("deploy/base"), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{container['runAsUser']}:{container['runAsGroup']}"
    assert "/healthz" in DOCKERFILE.split("HEALTHCHECK", 1)[1]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for copy in instructions("COPY"):
        words = shlex.split(copy)
        if words[0].startswith("--from"):
            continue
        for source in words[:-1]:
            assert (ROOT / source).exists()
            assert source in kept


def test_the_version_of_the_image_is_the_package_s() -> None:
    version = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    image = f"controlplane:{version[1]}"
    assert {SERVICES[name]["image"] for name in ("migrate", "controlplane")} == {image}
    for folder, kind in (("deploy/base", "Deployment"), ("deploy/migrate", "Job")):
        assert one(render(folder), kind)["spec"]["template"]["spec"]["containers"][0]["image"] == image


def test_compose_starts_in_order() -> None:
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["controlplane"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["migrate"]["restart"] == "no"
    assert set(SERVICES) == {"postgres", "migrate", "controlplane"}


@pytest.mark.parametrize(
    ("service", "role"), [("migrate", "controlplane_owner"), ("controlplane", "controlplane_service")]
)
def test_each_logs_in_as_its_own_role(service: str, role: str) -> None:
    given = {name: filled(text) for name, text in SERVICES[service]["environment"].items()}
    url = urlsplit(load(None, given).database.url.reveal())
    postgres = {name: filled(text) for name, text in SERVICES["postgres"]["environment"].items()}
    passwords = {"controlplane_owner": postgres["OWNER_PASSWORD"], "controlplane_service": postgres["SERVICE_PASSWORD"]}
    assert (url.username, url.password, url.hostname) == (role, passwords[role], "postgres")
    assert f"CREATE ROLE {role} LOGIN" in (ROOT / "deploy/postgres/roles.sql").read_text()


def test_mounted_files_and_volumes_exist() -> None:
    for volume in SERVICES["postgres"]["volumes"]:
        source = volume.split(":")[0]
        assert Path(ROOT / source).is_file() if source.startswith("./") else source in COMPOSE["volumes"]


def test_no_file_names_the_host_of_a_registry() -> None:
    images = [service["image"] for service in SERVICES.values()] + [line.split()[0] for line in instructions("FROM")]
    assert not [image for image in images if "." in image.split("/")[0].split(":")[0]]
