"""Completion: the scripts, and what a real bash offers with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from tests.audit.database import with_stories
from tests.support import postgres
from tests.support.deep import deep_after
from tests.support.waiting import PATIENCE

PROGRAM = Path(sys.executable).with_name("controlplane")


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    yield from with_stories(postgres_server, migrated_template)


def offered(words: str, database: str = "") -> list[str]:
    """What bash offers at a tab after these words."""
    script = f"""
source <("{PROGRAM}" completion bash)
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
compopt() {{ :; }}
_controlplane_completion "{PROGRAM}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    env = {name: text for name, text in os.environ.items() if not name.startswith("CONTROLPLANE_")}
    if database:
        env["CONTROLPLANE_DATABASE_URL"] = database
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "wanted"),
    deep_after(
        2,
        [
            ("controlplane work", ["workloads"]),
            ("controlplane workloads -o js", ["json", "jsonpath="]),
            ("controlplane workloads --no", ["--no-headers"]),
            ("controlplane why default/et", ["default/etl", "default/etl-0a1b2"]),
            ("controlplane timeline clu", ["cluster"]),
            ("controlplane usage --by na", ["namespace"]),
            ("controlplane why -n team", ["team-b"]),
        ],
    ),
)
def test_bash(url: str, words: str, wanted: list[str]) -> None:
    assert offered(words, url) == wanted


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("database", deep_after(1, ["postgresql://u@127.0.0.1:1/d", "", "nonsense"]))
def test_without_a_database_nothing_is_offered_and_nothing_said(database: str) -> None:
    assert offered("controlplane why default/e", database) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str) -> None:
    found = CliRunner().invoke(cli, ["completion", shell])
    assert found.exit_code == 0
    assert f"_CONTROLPLANE_COMPLETE={shell}_complete" in found.stdout
