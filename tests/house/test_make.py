"""What a newcomer meets first: `make` explains itself, and says what is missing instead of failing half-way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    given = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in given}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=kept | ({"PATH": path} if path else {}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for file in (
        "Makefile",
        "requirements.lock",
        "requirements-dev.lock",
        "requirements-release.lock",
        "requirements-build.lock",
        "pyproject.toml",
    ):
        shutil.copy(ROOT / file, tmp_path)
    return tmp_path


def interpreter(folder: Path, script: str) -> str:
    path = folder / "python-for-the-test"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_without_a_target_it_lists_every_target() -> None:
    result = make(ROOT)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert result.returncode == 0
    assert targets == set(re.findall(r"^  make ([a-z-]+) ", result.stdout, re.MULTILINE))
    assert {
        "demo",
        "test",
        "test-integration",
        "test-deep",
        "sim",
        "lint",
        "types",
        "bench",
        "up",
        "lock",
        "clean",
        "help",
        "chart",
        "docs",
        "dist",
    } == targets


def test_an_old_python_is_named(clone: Path) -> None:
    old = interpreter(clone, 'case "$1" in -V) echo Python 3.9.2;; *) exit 1;; esac')
    result = make(clone, f"PYTHON={old}", "demo")
    assert result.returncode != 0
    assert "is Python 3.9.2, but 3.11 or newer is needed" in result.stderr
    assert not (clone / ".venv").exists()


def test_a_python_without_ensurepip_says_what_to_install(clone: Path) -> None:
    bare = interpreter(clone, 'case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac')
    result = make(clone, f"PYTHON={bare}", "test")
    assert result.returncode != 0
    assert "apt-get install python3-venv" in result.stderr
    assert not (clone / ".venv").exists()


def test_no_python_at_all_is_said(clone: Path) -> None:
    tools = clone / "bin"
    tools.mkdir()
    for tool in ("make", "sh", "echo", "test"):
        (tools / tool).symlink_to(shutil.which(tool) or "/bin/false")
    result = make(clone, "demo", path=str(tools))
    assert result.returncode != 0
    assert "No Python 3.11 or newer on PATH" in result.stderr


def test_the_runtime_environment_is_made_from_the_runtime_lock_with_hashes(clone: Path) -> None:
    dry = make(clone, "--dry-run", "demo").stdout
    assert "--require-hashes -r requirements.lock" in dry
    assert "requirements-dev.lock" not in dry
