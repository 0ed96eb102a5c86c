"""The import contracts of pyproject.toml hold, and they cover every room there is."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def lint_imports(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_contracts_hold() -> None:
    result = lint_imports()
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]
    assert "0 broken" in result.stdout


def test_every_module_has_a_place_in_the_layers() -> None:
    """Also those of `runtime`, of which some are below the controllers and some above."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    placed = {module.strip() for layer in layers for module in re.split(r"[|:]", layer)}
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "controlplane").rglob("*.py")
        if path.name != "__init__.py"
    }
    assert {one for one in modules if not any(one == place or one.startswith(f"{place}.") for place in placed)} == set()
