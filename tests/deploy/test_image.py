"""The image and the compose file agree with each other and with the manifests (no engine is needed to see that)."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import yaml
from sqlalchemy.engine import make_url

from controlplane.local.folder import LocalFleet
from controlplane.local.postgres import EmbeddedPostgres
from controlplane.settings.load import SettingsError, load
from tests.deploy.manifests import ROOT, one, render
from tests.support import postgres
from tests.support.deep import deep_after

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


def test_what_the_wheel_includes_is_copied_before_it_is_built() -> None:
    """The builder of the wheel refuses a folder that is not there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    (build,) = [stage for stage in DOCKERFILE.split("\nFROM ") if "AS build\n" in stage]
    copied = {words[1] for line in build.splitlines() if (words := line.split())[:1] == ["COPY"]}
    assert not [path for path in included if not copied & {path, *map(str, Path(path).parents)}]


def test_a_clone_that_is_closed_to_others_works() -> None:
    """What is copied or mounted keeps its mode, and neither the service nor PostgreSQL runs as the owner of the
    clone.
    """
    assert not [volume for service in SERVICES.values() for volume in service.get("volumes", ()) if volume[0] in "./~"]
    for stage in DOCKERFILE.split("\nFROM ")[1:]:
        if "COPY --from=build" in stage:  # the service's: everything comes from a stage that opened it
            assert not [line for line in stage.splitlines() if line.startswith("COPY ") and "--from=" not in line]
            continue
        copied = [line.split() for line in stage.splitlines() if line.startswith("COPY ") and " AS database" in stage]
        for *_, target in copied:
            assert re.search(rf"chmod 0[67][45][45] {re.escape(target)}", stage), target
    (built,) = [stage for stage in DOCKERFILE.split("\nFROM ") if "AS build\n" in stage]
    assert re.search(r"chmod -R a\+rX LICENSE examples", built)


def test_a_change_of_code_is_a_small_layer() -> None:
    """The environment with the dependencies comes from a stage that has seen no code, and the code is added to it."""
    stages = {stage.split("\n", 1)[0].split()[-1]: stage for stage in DOCKERFILE.split("\nFROM ")}
    final = DOCKERFILE.split("\nFROM ")[-1]
    (source,) = re.findall(r"COPY --from=(\S+) /opt/venv", final)
    assert "-r requirements.lock" in stages[source]
    assert not re.search(r"COPY (controlplane|pyproject.toml|migrations|examples|\.) ", stages[source])
    assert final.index("/opt/venv /opt/venv") < final.index("pip --python /opt/venv/bin/python install")


def test_the_code_is_the_last_layer() -> None:
    """What stands after a layer is stored and pulled again with it; a wheel that is copied stays in its layer."""
    layers = [line for line in DOCKERFILE.split("\nFROM ")[-1].splitlines() if line.startswith(("COPY ", "RUN "))]
    assert "pip --python /opt/venv/bin/python install" in layers[-1]
    assert not [line for line in layers if line.startswith("COPY ") and "wheel" in line]


def test_a_volume_hides_nothing_of_the_image() -> None:
    """A volume keeps what the first image had there, and the next image's files would not be seen. Where the image has
    nothing, the volume is root's.
    """
    final = DOCKERFILE.split("\nFROM ")[-1]
    copied = [line.split()[-1] for line in final.splitlines() if line.startswith("COPY ")]
    (folder,), user = instructions("WORKDIR")[-1:], instructions("USER")[-1].split(":")[0]
    mounted = [volume.split(":")[1] for volume in SERVICES["controlplane"]["volumes"]]
    for target in mounted:
        assert not [path for path in copied if Path(folder, path).is_relative_to(target)], target
        assert re.search(rf"install --directory --owner {user} .*{re.escape(target)}( |$)", final, re.MULTILINE), target


def test_the_health_check_asks_where_the_service_listens() -> None:
    (check,) = instructions("HEALTHCHECK")
    command = json.loads(check.partition("CMD")[2])
    assert command[0] == "python"
    assert f"'{load(None, {}).http.port}'" in command[2]
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        given = os.environ | {"CONTROLPLANE_HTTP_PORT": str(server.server_address[1])}
        asked = subprocess.run([sys.executable, *command[1:]], env=given, capture_output=True, text=True, check=False)
        assert asked.returncode == 0, asked.stderr
    again = subprocess.run([sys.executable, *command[1:]], env=given, capture_output=True, check=False)
    assert again.returncode != 0


class Healthy(BaseHTTPRequestHandler):
    """Answers `/healthz` alone."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_the_version_of_the_image_is_the_package_s() -> None:
    version = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    image = f"controlplane:{version[1]}"
    assert {SERVICES[name]["image"] for name in ("migrate", "controlplane", "pages")} == {image}
    assert SERVICES["postgres"]["image"] == f"controlplane-database:{version[1]}"
    for folder, kind in (("deploy/base", "Deployment"), ("deploy/migrate", "Job")):
        assert one(render(folder), kind)["spec"]["template"]["spec"]["containers"][0]["image"] == image


def test_compose_starts_in_order() -> None:
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("controlplane", "pages"):
        assert SERVICES[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["migrate"]["restart"] == "no"
    assert set(SERVICES) == {"postgres", "migrate", "controlplane", "pages"}


@pytest.mark.parametrize(
    ("service", "role"),
    [("migrate", "controlplane_owner"), ("controlplane", "controlplane_service"), ("pages", "controlplane_reader")],
)
def test_each_logs_in_as_its_own_role(service: str, role: str) -> None:
    given = {name: filled(text) for name, text in SERVICES[service]["environment"].items()}
    password = given.pop("PGPASSWORD")  # not in the URL, where some characters would have to be encoded
    url = urlsplit(load(None, given).database.url.reveal())
    postgres = {name: filled(text) for name, text in SERVICES["postgres"]["environment"].items()}
    passwords = {
        f"controlplane_{name}": postgres[f"{name.upper()}_PASSWORD"] for name in ("owner", "service", "reader")
    }
    assert (url.username, url.password, url.hostname) == (role, None, "postgres")
    assert password == passwords[role]
    made = (ROOT / "deploy/postgres/roles.sql").read_text() + (ROOT / "deploy/compose/init.sh").read_text()
    assert f"CREATE ROLE {role} LOGIN" in made or f"ALTER ROLE {role} LOGIN" in made


@pytest.mark.parametrize(
    "password", deep_after(0, ["a/b?c%20d:'\\\"e&f=g h#ü@", "p@ss", "p#1", "a/b?c%20d:'\\\"e&f=g h", "ü"])
)
def test_any_password_will_do(password: str, tmp_path: Path) -> None:
    """The roles get it as the image's script gives it, and the service logs in with the environment that compose
    makes.
    """
    with postgres.folder() as folder:
        server = EmbeddedPostgres(folder, durable=False, port=0)
        server.launch()
        try:
            at = make_url(server.tcp_url)
            psql = {
                "PGHOST": "127.0.0.1",
                "PGPORT": str(at.port),
                "PGPASSWORD": str(at.password),
                "POSTGRES_USER": str(at.username),
            }
            with psycopg.connect(at.set(drivername="postgresql", database="postgres").render_as_string(False)) as own:
                own.autocommit = True
                own.execute("DROP DATABASE controlplane WITH (FORCE)")
            initialised(psql, password, tmp_path)
            environment = compose_environment("migrate", OWNER_PASSWORD=password)
            url = urlsplit(environment["CONTROLPLANE_DATABASE_URL"])
            place = f"{url.username}@127.0.0.1:{at.port}"
            environment["CONTROLPLANE_DATABASE_URL"] = urlunsplit(url._replace(netloc=place))
            done = subprocess.run(
                [sys.executable, "-m", "controlplane", "db", "upgrade"],
                env=os.environ | environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        finally:
            server.shutdown()


def test_the_pages_are_published_on_loopback_alone() -> None:
    """Nobody is asked who he is there, so the settings are such that nothing else would be accepted."""
    pages = SERVICES["pages"]
    given = {name: filled(text) for name, text in pages["environment"].items() if name != "PGPASSWORD"}
    settings = load(None, given)
    assert pages["command"] == ["web"]
    assert (settings.web.authentication, settings.web.published) == ("none", "loopback")
    assert pages["ports"] == [f"127.0.0.1:{settings.web.port}:{settings.web.port}"]
    with pytest.raises(SettingsError, match="whoever reaches it would see all"):
        load(None, {**given, "CONTROLPLANE_WEB_PUBLISHED": "address"})


@pytest.mark.parametrize("file", ["README.md", "docs/howto/web.md", "docker-compose.yml"])
def test_it_is_said_where_the_pages_of_compose_are(file: str) -> None:
    address, outside, _ = SERVICES["pages"]["ports"][0].split(":")
    told = [part for part in re.split(r"\n\s*\n", (ROOT / file).read_text()) if "docker compose up" in part]
    assert any(f"http://{address}:{outside}" in part for part in told)


def compose_environment(service: str, **given: str) -> dict[str, str]:
    """Return a service's environment as compose fills it in."""

    def fill(found: re.Match[str]) -> str:
        return given.get(found[1], found[2])

    texts: dict[str, str] = SERVICES[service]["environment"]
    return {name: re.sub(r"\$\{(\w+):-([^}]*)\}", fill, text) for name, text in texts.items()}


def initialised(psql: dict[str, str], password: str, folder: Path) -> None:
    """Run the script of the database's image with a psql that is at hand, or skip."""
    found = shutil.which("psql")
    if found is None:
        pytest.skip("psql is not there")
    script = (ROOT / "deploy/compose/init.sh").read_text()
    for name in ("roles", "rights"):
        script = script.replace(f"/{name}.sql", str(ROOT / f"deploy/postgres/{name}.sql"))
    path = folder / "init.sh"
    path.write_text(script)
    given = compose_environment(
        "postgres", OWNER_PASSWORD=password, SERVICE_PASSWORD=password, READER_PASSWORD=password
    )
    subprocess.run(["sh", str(path)], env=os.environ | given | psql, check=True, capture_output=True)


def test_volumes_exist() -> None:
    for service in SERVICES.values():
        assert {volume.split(":")[0] for volume in service.get("volumes", ())} <= set(COMPOSE["volumes"])


def test_the_clusters_are_published_on_loopback_where_the_kubeconfigs_say() -> None:
    (published,) = SERVICES["controlplane"]["ports"]
    address, outside, inside = published.split(":")
    first, last = map(int, outside.split("-"))
    assert (address, outside) == ("127.0.0.1", inside)
    words = dict(word[2:].partition("=")[::2] for word in SERVICES["controlplane"]["command"][1:])
    fleet = LocalFleet(cluster_ports=int(words["cluster-ports"]), address=words["address"])
    assert fleet.ports == list(range(first, last + 1))
    kubeconfig = SERVICES["controlplane"]["environment"]["CONTROLPLANE_MANAGEMENT_KUBECONFIG"]
    assert kubeconfig == f"{words['data']}/management.kubeconfig"
    assert kubeconfig in (ROOT / "docker-compose.yml").read_text().split("name:")[0]


def test_no_file_names_the_host_of_a_registry() -> None:
    images = [service["image"] for service in SERVICES.values()] + [line.split()[0] for line in instructions("FROM")]
    assert not [image for image in images if "." in image.split("/")[0].split(":")[0]]
