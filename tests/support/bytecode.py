"""Where the run keeps compiled modules, if the environment wants none beside the sources.

In: `PYTHONDONTWRITEBYTECODE`, as CI sets it. Out: the same modules compiled once, in pytest's own cache, instead of
once in each process: the tests start the program more than a hundred times, and half of a start was compiling. What pip
has compiled is linked there, since Python looks nowhere else then."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

import pytest


def keep(config: pytest.Config) -> None:
    """Let this process and those that it starts keep bytecode in pytest's cache, unless they keep it as usual."""
    if not sys.dont_write_bytecode or not hasattr(config, "cache") or config.cache is None:
        return
    try:
        place = str(config.cache.mkdir("bytecode"))
        link(Path(sysconfig.get_path("purelib")), Path(place))
    except OSError:  # a tree that can only be read
        return
    sys.pycache_prefix, sys.dont_write_bytecode = place, False
    os.environ["PYTHONPYCACHEPREFIX"] = place
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def compile_program() -> None:
    """Compile the program and its tests before the processes of a run start: each of them would compile all of it, at
    the same time."""
    root, parts = Path(__file__).parents[2], os.cpu_count() or 1
    python = [sys.executable, "-m"]
    folders = [str(root / "controlplane"), str(root / "tests")]
    subprocess.run([*python, "compileall", "-q", "-j", "0", "-x", r"/(test_\w+|conftest)\.py$", *folders], check=False)
    rewriting = [[*python, "tests.support.rewriting", str(part), str(parts)] for part in range(parts)]
    for running in [subprocess.Popen(command, cwd=root) for command in rewriting]:
        running.wait()


def link(packages: Path, place: Path) -> None:
    """Link what is compiled beside the packages to where it is looked for, unless that was done before."""
    target = place.joinpath(*packages.parts[1:])
    if target.exists():
        return
    for folder, _, names in os.walk(packages):
        if not folder.endswith("__pycache__") or not names:
            continue
        there = target / Path(folder).parent.relative_to(packages)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            with suppress(OSError):  # another device
                os.link(Path(folder, name), there / name)
