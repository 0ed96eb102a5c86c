"""How a run of the tests is arranged: their order, how many examples they try, and where bytecode is kept."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import bytecode, deep, order


@dataclass(frozen=True)
class Item:
    """As much of a test as is asked for."""

    nodeid: str


def items(*modules: str, each: int = 2) -> list[Any]:
    return [Item(f"{module}::test_{number}") for module in modules for number in range(each)]


def test_what_waits_is_spread_among_what_computes_and_what_is_brief_comes_last() -> None:
    brief, waits = ["tests/fields/a.py", "tests/web/b.py"], ["tests/outages/a.py", "tests/outages/b.py"]
    computes = [f"tests/dst/{name}.py" for name in "abcd"]
    given = items(*brief[:1], *computes, *brief[1:], *waits)
    found = order.arranged(given)
    assert sorted(item.nodeid for item in found) == sorted(item.nodeid for item in given)
    modules = list(dict.fromkeys(item.nodeid.partition("::")[0] for item in found))
    assert [item.nodeid.partition("::")[0] for item in found[::2]] == modules, "a module stays together"
    assert modules[-2:] == brief
    assert [module for module in modules if "dst" in module] == computes
    assert [place for place, module in enumerate(modules) if "outages" in module] == [1, 4]


def test_there_are_more_processes_than_cores() -> None:
    assert order.processes() >= 2


def test_few_examples_unless_the_run_is_for_what_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "_many", False)
    for marks, expected in (("not deep", 5), ("deep or generated", 50), ("", 5)):
        deep.choose(marks)
        assert deep.examples(5, 50) == expected


def test_what_is_deep_of_a_sweep() -> None:
    def kept(values: list[Any]) -> list[Any]:
        return [value for value in values if not hasattr(value, "marks")]

    assert kept(deep.deep_after(2, "abcd")) == ["a", "b"]
    assert kept(deep.deep_but("bd", "abcd")) == ["b", "d"]
    assert len(deep.deep_after(2, "abcd")) == len(deep.deep_but("bd", "abcd")) == 4
    assert deep.deep_after(0, [(1, "one")])[0].values == (1, "one"), "one value for each name"


def test_bytecode_is_kept_where_the_environment_wants_none_beside_the_sources(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "")
    bytecode.keep(pytestconfig)
    (tmp_path / "small.py").write_text("")
    subprocess.run([sys.executable, "-c", "import small"], cwd=tmp_path, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["small.py"]
    assert sys.pycache_prefix is not None
    assert list(Path(sys.pycache_prefix + str(tmp_path)).glob("small.*.pyc"))
