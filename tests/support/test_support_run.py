"""How a run of the tests is arranged: their order, how many examples they try, and where bytecode is kept."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import bytecode, deep, integration, order

TESTS = Path(__file__).parents[1]


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


def test_what_a_module_prepares_is_prepared_in_one_process() -> None:
    for whole in ("tests/cli/test_whatif.py", "tests/pages/test_past.py", "tests/fields/test_brief.py"):
        assert [order.unit(item.nodeid) for item in items(whole)] == [whole, whole]
    for one in ("tests/dst/test_seeds.py", "tests/cli/test_up.py"):
        assert [order.unit(item.nodeid) for item in items(one)] == [item.nodeid for item in items(one)]


def test_what_has_ended_is_let_go_of() -> None:
    given = {"one": {"a": True, "b": True}, "two": {"c": True, "d": False}, "three": {"e": False}}
    assert order.Sharing._pending_of(object.__new__(order.Sharing), given) == 2
    assert list(given) == ["two", "three"]


def test_nothing_asks_for_a_group_that_nobody_makes() -> None:
    """The mark would be in the name of a test as pytest had it before 9.2: a module says what it shares in
    `order.WHOLE`."""
    asking = [path for path in TESTS.rglob("*.py") if "mark.xdist" + "_group" in path.read_text()]
    assert asking == []


def test_there_are_more_processes_than_cores() -> None:
    assert order.processes() >= 2


def test_what_plays_the_whole_service_is_there_and_left_out_by_make_test() -> None:
    paths = [path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py")]
    named = [*integration.MODULES, *integration.ORDINARY]
    assert [name for name in named if not any(path.startswith(name) for path in paths)] == []
    makefile = (TESTS.parent / "Makefile").read_text()
    without, alone = integration.WITHOUT, f"{integration.MARK} and not deep"
    assert f"-m '{without}'" in makefile
    assert f"-m '{alone}'" in makefile
    for path in paths:
        marked = integration.is_integration(path)
        assert (integration.leaves_out(without, path), integration.leaves_out(alone, path)) == (marked, not marked)
        for marks in ("", "not deep", "deep or generated"):
            assert not integration.leaves_out(marks, path)
    assert integration.is_integration("tests/dst/test_misled.py")
    assert not integration.is_integration("tests/dst/test_seeds.py"), "a seed of each scene is for every change"


@pytest.mark.parametrize(
    ("arguments", "marks", "expected"),
    [
        ((), integration.WITHOUT, integration.WITHOUT),
        (("tests/fields",), integration.WITHOUT, "not deep"),
        (("tests/fields",), "integration and not deep", "integration and not deep"),
        (("tests/fields",), "", ""),
    ],
)
def test_what_is_named_is_run(arguments: tuple[str, ...], marks: str, expected: str) -> None:
    config = pytest.Config.fromdictargs(
        {}, ["--rootdir", str(TESTS.parent), "-c", str(TESTS.parent / "pyproject.toml")]
    )
    config.args_source = pytest.Config.ArgsSource.ARGS if arguments else pytest.Config.ArgsSource.TESTPATHS
    config.option.markexpr = marks
    integration.choose(config)
    assert config.option.markexpr == expected


def test_few_examples_unless_the_run_is_for_what_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "_many", False)
    monkeypatch.setattr(deep, "_none", False)
    for marks, expected in (("not deep", 5), ("deep or generated", 50), ("", 5), (integration.WITHOUT, 5)):
        deep.choose(marks)
        assert deep.examples(5, 50) == expected


def test_what_tries_few_examples_here_tries_many_in_test_deep() -> None:
    """`make test-deep` selects what is `generated`; what Hypothesis draws is marked so by itself."""
    modules = {path: path.read_text() for path in TESTS.rglob("test_*.py")}
    asking = [
        path for path, text in modules.items() if re.search(r"^from tests.support.deep import .*examples", text, re.M)
    ]
    assert len(asking) > 20
    unmarked = [
        path for path in asking if not re.search(r"pytest.mark.generated|^from hypothesis", modules[path], re.M)
    ]
    assert unmarked == []


@pytest.mark.parametrize("marks", ["not deep", integration.WITHOUT, "deep or generated", ""])
def test_what_is_deep_of_a_sweep(marks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(values: list[Any]) -> list[Any]:
        return [value for value in values if not hasattr(value, "marks")]

    monkeypatch.setattr(deep, "_many", False)
    monkeypatch.setattr(deep, "_none", False)
    deep.choose(marks)
    there = 2 if "not deep" in marks else 4

    assert kept(deep.deep_after(2, "abcd")) == ["a", "b"]
    assert kept(deep.deep_but("bd", "abcd")) == ["b", "d"]
    assert len(deep.deep_after(2, "abcd")) == len(deep.deep_but("bd", "abcd")) == there
    assert deep.deep_after(0, [(1, "one")])[0].values == (1, "one"), "one value for each name"
    named = [(value.values, value.id, bool(value.marks)) for value in deep.deep_after(1, "ab", ids=["A", "B"])]
    assert named == [(("a",), "A", False), (("b",), "B", True)][: there // 2]


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


def test_what_pip_has_compiled_is_linked_once(tmp_path: Path) -> None:
    packages, place = tmp_path / "packages", tmp_path / "kept"
    (packages / "some" / "__pycache__").mkdir(parents=True)
    (packages / "some" / "__pycache__" / "small.cpython-311.pyc").write_bytes(b"compiled")
    bytecode.link(packages, place)
    there = place.joinpath(*packages.parts[1:]) / "some" / "small.cpython-311.pyc"
    assert there.read_bytes() == b"compiled"
    there.unlink()
    bytecode.link(packages, place)
    assert not there.exists()
