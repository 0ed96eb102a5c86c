"""`controlplane scheduler run` as a process: what keeps it from starting is a sentence and a code; killed, another one
goes on.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Here
from tests.cli.processes import finished, running, stopped
from tests.scheduling.stage import Cluster, until
from tests.scheduling.test_replicas import bindings, of_binding, recorded

BAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
  plugins:
    score:
      enabled: [{name: Magic}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: Bestest}}
"""


Refused = Callable[..., str]


def said_of(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def refused(here: Here) -> Refused:
    return lambda code, *arguments, **settings: said_of(here("scheduler", "run", *arguments, **settings), code)


def test_profiles_that_cannot_be_used_name_their_fields(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "profiles.yaml"
    path.write_text(BAD)
    said = refused(3, "--database-url", "postgresql://h/d", "--scheduler-config", str(path))
    assert f"{path}: profiles[0].plugins.score.enabled[0].name: plugin 'Magic' is not registered" in said
    assert f"{path}: profiles[0].pluginConfig[0].args.scoringStrategy.type: " in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "is not YAML"),
        ("a: !!int ", "is not YAML"),
        ("[" * 3000, "is nested too deep"),
        ("- a", "is not a KubeSchedulerConfiguration, but list"),
        ("profiles: &a [*a]\n", "contains itself; write it out"),
    ],
)
def test_a_file_that_is_no_configuration(refused: Refused, tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "profiles.yaml"
    path.write_text(text)
    assert told in refused(3, "--database-url", "postgresql://h/d", "--scheduler-config", str(path))


def test_a_file_that_is_not_there() -> None:
    arguments = ("--database-url", "postgresql://h/d", "--scheduler-config", "/nowhere/profiles.yaml")
    said = said_of(finished("scheduler", "run", *arguments), 3)
    assert "scheduler.config: /nowhere/profiles.yaml cannot be read" in said


def test_a_candidate_profile_that_is_not_there(refused: Refused) -> None:
    said = refused(3, "--database-url", "postgresql://h/d", scheduler_candidate_profile="other")
    assert 'scheduler.candidateProfile: there is no profile "other", only controlplane' in said


def test_a_log_name_that_cannot_be_one(refused: Refused) -> None:
    assert "scheduler.log must be" in refused(3, "--database-url", "postgresql://h/d", "--log", "My Log")


def test_a_log_that_is_the_services(refused: Refused) -> None:
    said = refused(3, "--database-url", "postgresql://h/d", "--log", "main")
    assert 'scheduler.log: "main" is the log of the service (database.log)' in said


def test_a_kubeconfig_that_is_not_there(refused: Refused, database_url: str) -> None:
    said = refused(3, "--database-url", database_url, "--kubeconfig", "/nowhere/config", http_port="0")
    assert "management.kubeconfig: there is no file /nowhere/config" in said


@pytest.mark.deep
async def test_killed_between_reserving_and_binding(cluster: Cluster, database_url: str, tmp_path: Path) -> None:
    arguments = ("scheduler", "run", "--database-url", database_url, "--kubeconfig", str(tmp_path / "kubeconfig"))
    cluster.node("a", cpu="1")
    counts = bindings(cluster)
    silent = cluster.server.faults.half_open(when=of_binding)
    with (
        running(tmp_path / "one.log", *arguments, http_port="0") as one,
        running(tmp_path / "two.log", *arguments, http_port="0") as two,
    ):
        cluster.pod("p")
        await until(lambda: recorded(database_url, "BindingDecided") == 1, within=60)
        told = {process: (tmp_path / name).read_text() for process, name in ((one, "one.log"), (two, "two.log"))}
        leader = next(process for process, text in told.items() if '"event": "leading"' in text)
        leader.kill()
        cluster.server.faults.remove(silent)
        cluster.pod("too-much")
        await until(lambda: cluster.on("p") == "a", within=60)
        await until(lambda: cluster.condition("too-much").get("reason") == "Unschedulable")
        assert counts == {"p": 1}
        assert recorded(database_url, "NodeReserved") == 1
        other = two if leader is one else one
        assert await asyncio.to_thread(stopped, other, signal.SIGTERM) == 0
