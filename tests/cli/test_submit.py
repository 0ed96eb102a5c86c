"""`controlplane submit`, against the clusters of `up` on other ports and another address than the default."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.local.examples import jobs
from tests.cli.conftest import Here
from tests.cli.processes import finished, running, stopped
from tests.cli.test_up import until


def three_ports() -> int:
    """Return the first of three free ports in a row."""
    for _ in range(100):
        with socket.create_server(("127.0.0.2", 0)) as first:
            port: int = first.getsockname()[1]
            try:
                for more in (1, 2):
                    socket.create_server(("127.0.0.2", port + more)).close()
            except (OSError, OverflowError):
                continue
            return port
    raise AssertionError("there are no three free ports in a row")


@pytest.mark.deep
def test_jobs_go_to_a_fleet_that_listens_where_it_was_told_to(empty_database_url: str, tmp_path: Path) -> None:
    data, port, file = tmp_path / "data", three_ports(), tmp_path / "job.yaml"
    job = jobs()[0]
    job["metadata"]["annotations"] = {"simulation.controlplane/duration": "0s"}
    file.write_text(yaml.safe_dump(job))
    arguments = ["--data", str(data), "--workers", "2", "--address", "127.0.0.2", "--cluster-ports", str(port)]
    inside = ["--inside", "docker compose exec controlplane"]
    with running(tmp_path / "errors", "up", *arguments, *inside, "--database-url", empty_database_url) as process:
        assert process.stdout is not None
        printed = []
        for text in process.stdout:
            printed.append(text.strip())
            if "keeps the data" in text:
                break
        assert printed[0] == "In the container:"
        assert "`docker compose stop` stops everything and keeps the data." in printed
        assert "docker compose exec controlplane controlplane workloads" in printed
        assert f"docker compose cp controlplane:{data}/management.kubeconfig management.kubeconfig" in printed
        servers = {
            name: yaml.safe_load((data / f"{name}.kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
            for name in ("management", "worker-1", "worker-2")
        }
        for number, server in enumerate(servers.values()):
            assert server.startswith(f"http://127.0.0.2:{port + number}/")
        kubeconfig = str(data / "management.kubeconfig")
        done = finished("submit", str(file), "-o", "json", management_kubeconfig=kubeconfig)
        assert (done.returncode, done.stderr) == (0, "")
        name = job["metadata"]["name"]
        assert json.loads(done.stdout) == [{"kind": "Job", "namespace": "default", "name": name, "result": "created"}]
        until({"kubeconfigs": {"management": kubeconfig}}, "Finished")
        again = finished("submit", "--kubeconfig", kubeconfig, str(file))
        assert (again.returncode, "AlreadyExists" in again.stdout) == (0, True)
        assert stopped(process) == 0, (tmp_path / "errors").read_text()
        assert process.stdout.read() == "Stopped. `docker compose up --detach` goes on from here.\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
            2,
            "holds something else than jobs of these kinds: AppWrapper, Deployment, JAXJob, Job, JobSet, ",
        ),
        ("a: [", 2, "is not YAML: "),
        ("{apiVersion: batch/v1, kind: Job, spec: {}}", 2, "has a Job without metadata.name: give it a name"),
        (
            "{apiVersion: batch/v1, kind: Job, metadata: {labels: {}}}",
            2,
            "has a Job without metadata.name: give it a name",
        ),
        ("a", 2, "holds something else than jobs of these kinds"),
        ("---\n", 2, "holds no jobs"),
        ("{apiVersion: batch/v1, kind: Job, metadata: {name: a, labels: {x: !!int }}}", 2, "is not YAML: "),
        ("{apiVersion: batch/v1, kind: Job, metadata: {name: a, labels: {x: !!binary aGk=}}}", 2, "which JSON cannot"),
        ("{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: " + "[" * 3000, 2, "is nested too deep"),
        ("{apiVersion: batch/v1, kind: Job, metadata: {name: a}}", 3, "there is no management cluster"),
    ],
)
def test_what_cannot_be_submitted_is_one_sentence(here: Here, tmp_path: Path, text: str, code: int, said: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    done = here("submit", str(file))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_who_has_kubectls_variable_is_told_that_it_is_not_read(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("{apiVersion: batch/v1, kind: Job, metadata: {name: a}}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    said = here("submit", str(file)).stderr
    assert "set --kubeconfig or management.kubeconfig" in said
    assert said.rstrip().endswith("KUBECONFIG is not read here")


def test_a_kubeconfig_that_is_not_there_is_said_of_the_option(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("{apiVersion: batch/v1, kind: Job, metadata: {name: a}}")
    done = here("submit", str(file), "--kubeconfig", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stderr) == (3, f"Error: --kubeconfig: there is no file {tmp_path / 'nowhere'}\n")
    assert "set --kubeconfig or management.kubeconfig" in here("submit", str(file)).stderr


@contextmanager
def api_server(directory: Path, answers: int) -> Iterator[tuple[str, list[Any]]]:
    """Have an API server that creates so many objects and is gone then; yield its kubeconfig and what was posted."""
    posted: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(json.loads(body))
            if len(posted) > answers:
                self.close_connection = True
                return
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is its base's
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = directory / "kubeconfig"
        cluster = {"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        users = [{"name": "a", "user": {}}]
        file.write_text(
            json.dumps({"clusters": [cluster], "users": users, "contexts": [context], "current-context": "a"})
        )
        try:
            yield str(file), posted
        finally:
            server.shutdown()


def test_a_job_is_created_as_it_is_written(tmp_path: Path) -> None:
    """Times are texts and keys are, as to kubectl."""
    file = tmp_path / "file.yaml"
    file.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: a\n"
        "  annotations:\n    since: 2024-01-01T10:00:00Z\n    day: 2024-01-01\n    5: five\n"
    )
    with api_server(tmp_path, 1) as (kubeconfig, posted):
        done = finished("submit", "--kubeconfig", kubeconfig, str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["metadata"]["annotations"] for one in posted] == [
        {"since": "2024-01-01T10:00:00Z", "day": "2024-01-01", "5": "five"}
    ]


def test_what_was_created_before_the_cluster_was_lost_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(
        "\n---\n".join(f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}}}" for name in ("a", "b", "c"))
    )
    with api_server(tmp_path, 1) as (kubeconfig, _):
        done = finished("submit", "--kubeconfig", kubeconfig, str(file))
    assert done.returncode == 6
    assert [line.split()[2:] for line in done.stdout.splitlines()[1:]] == [["a", "created"], ["b", "no", "answer"]]
    assert done.stderr.startswith("Error: the cluster does not answer: @management")
