"""The import contracts of pyproject.toml hold, and they cover every room there is."""

from __future__ import annotations

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


def test_every_capability_is_under_contract() -> None:
    """A room with a decide module is a capability, and the contracts name capabilities one by one."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = {module for contract in contracts for module in contract.get("source_modules", [])}
    capabilities = {f"controlplane.{path.parent.name}" for path in (ROOT / "controlplane").glob("*/decide.py")}
    assert capabilities <= named
