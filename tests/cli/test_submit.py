"""`controlplane submit`, against the clusters of `up` on other ports and another address than the default."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import yaml

from controlplane.local.examples import jobs
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
        ("a: [", 2, "cannot be read as YAML"),
        ("{apiVersion: batch/v1, kind: Job, spec: {}}", 2, "has a Job without metadata.name: give it a name"),
        (
            "{apiVersion: batch/v1, kind: Job, metadata: {labels: {}}}",
            2,
            "has a Job without metadata.name: give it a name",
        ),
        ("a", 2, "holds something else than jobs of these kinds"),
        ("---\n", 2, "holds no jobs"),
        ("{apiVersion: batch/v1, kind: Job, metadata: {name: a}}", 3, "there is no management cluster"),
    ],
)
def test_what_cannot_be_submitted_is_one_sentence(tmp_path: Path, text: str, code: int, said: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    done = finished("submit", str(file))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_who_has_kubectls_variable_is_told_that_it_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("{apiVersion: batch/v1, kind: Job, metadata: {name: a}}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    said = finished("submit", str(file)).stderr
    assert "set --kubeconfig or management.kubeconfig" in said
    assert said.rstrip().endswith("KUBECONFIG is not read here")


def test_a_kubeconfig_that_is_not_there_is_said_of_the_option(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("{apiVersion: batch/v1, kind: Job, metadata: {name: a}}")
    done = finished("submit", str(file), "--kubeconfig", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stderr) == (3, f"Error: --kubeconfig: there is no file {tmp_path / 'nowhere'}\n")
    assert "set --kubeconfig or management.kubeconfig" in finished("submit", str(file)).stderr
