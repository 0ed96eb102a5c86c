"""What is released: an sdist of which the same wheel is made, and a wheel that brings the command and all that it
reads."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from controlplane.doctor.rights import manifests

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"controlplane-{PROJECT['version']}"


def build(source: Path, target: Path, *what: str) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *what]
    subprocess.run(words, cwd=source, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def tracked(*folders: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return set(done.stdout.split("\n")) - {""}


def test_the_wheel_has_every_file_of_the_program(dist: Path) -> None:
    found = members(dist / f"{NAME}-py3-none-any.whl")
    assert tracked("controlplane", "migrations") <= found.keys()
    assert {name.replace("examples/", "controlplane/_examples/", 1) for name in tracked("examples")} <= found.keys()
    assert {f"controlplane/_deploy/{name}" for name in manifests()} <= found.keys()
    strange = {name for name in found if not name.startswith(("controlplane/", "migrations/", f"{NAME}.dist-info/"))}
    assert strange == set()


@pytest.mark.deep
def test_the_sdist_makes_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        archive.extractall(tmp_path)  # without a filter, which Python has since 3.11.4: it is our own archive
    build(tmp_path / NAME, tmp_path, "-t", "wheel")
    wheel = f"{NAME}-py3-none-any.whl"
    assert members(tmp_path / wheel) == members(dist / wheel)


@pytest.mark.deep
def test_it_installs_and_brings_the_command(dist: Path, tmp_path: Path) -> None:
    words = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(tmp_path)]
    subprocess.run([sys.executable, *words, str(dist / f"{NAME}-py3-none-any.whl")], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for program in PROJECT["scripts"]:
        assert (tmp_path / "bin" / program).is_file()
        done = subprocess.run(
            [sys.executable, str(tmp_path / "bin" / program), "version", "-o", "json"],
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert f'"{PROJECT["version"]}"' in done.stdout
    code = "from controlplane.log import schema; print(schema.revisions()[-1], schema.migrations())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env=environment, capture_output=True, text=True, check=True
    )
    newest = max(path.stem.partition("_")[0] for path in (ROOT / "migrations/versions").glob("0*.py"))
    assert done.stdout.split() == [newest, str(tmp_path / "migrations")]


def test_the_workflows_run_what_everybody_runs() -> None:
    whole = ".ci/run lint types docs test test-integration test-deep"
    for name, wanted in (("ci", [".ci/run ${{ matrix.targets }}"]), ("release", [whole, "make dist", "make docs"])):
        workflow = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())
        run = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
        assert [one for one in wanted if one not in run] == []
        assert workflow["permissions"] == {"contents": "read"}, "a job that needs more asks for it"
