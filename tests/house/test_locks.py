"""The lock files agree with each other, name no index, and lock every declared dependency."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+)", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    return {match["name"]: match["version"] for match in PIN.finditer((ROOT / lock).read_text())}


def declared(requirements: list[str]) -> set[str]:
    return {
        re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0].lower().replace("_", "-") for requirement in requirements
    }


def test_development_contains_runtime_version_for_version() -> None:
    runtime, development = pins("requirements.lock"), pins("requirements-dev.lock")
    assert runtime.items() <= development.items()


def test_the_build_lock_agrees_with_the_development_lock_where_both_speak() -> None:
    build, development = pins("requirements-build.lock"), pins("requirements-dev.lock")
    assert "hatchling" in build
    assert {name: build[name] for name in build.keys() & development} == {
        name: development[name] for name in build.keys() & development
    }


def test_the_lock_of_a_release_agrees_with_the_development_lock_where_both_speak() -> None:
    site, development = pins("requirements-release.lock"), pins("requirements-dev.lock")
    shared = site.keys() & development.keys()
    assert {name: site[name] for name in shared} == {name: development[name] for name in shared}


def test_everything_declared_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    runtime = [*project["project"]["dependencies"], *extras["embedded"], *extras["web"]]
    assert declared(runtime) <= pins("requirements.lock").keys()
    assert declared(project["dependency-groups"]["dev"]) <= pins("requirements-dev.lock").keys()
    assert declared(project["dependency-groups"]["release"]) <= pins("requirements-release.lock").keys()


def test_every_pin_has_a_hash_and_no_index_is_named() -> None:
    for lock in ("requirements.lock", "requirements-dev.lock", "requirements-build.lock", "requirements-release.lock"):
        text = (ROOT / lock).read_text()
        assert "://" not in text
        assert "index" not in re.sub(r"--hash=\S+", "", text)
        entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
        assert all("--hash=sha256:" in entry for entry in entries)
