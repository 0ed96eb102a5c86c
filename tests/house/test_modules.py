"""The rules of the house that a linter has no name for: small modules, small functions, a header on each module, a core
without a clock.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.rows import each

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path for room in ("controlplane", "migrations") for path in (ROOT / room).rglob("*.py"))
OF_TESTS = sorted(path for room in ("tests", "benchmarks") for path in (ROOT / room).rglob("*.py"))
MOST_LINES_OF_A_MODULE = 400
MOST_LINES_OF_A_FUNCTION = 60
MOST_WAYS = 12  # through a function
FUNCTIONS_WITH_MORE = 40
DEEPEST = 3  # folders below `controlplane`
CORE = ("controlplane/controllers/", "controlplane/kube/")
CONTRACT = {f"controlplane/runtime/{module}.py" for module in ("controller", "decision_pass", "facets", "writes")}
CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today")}

Function = ast.FunctionDef | ast.AsyncFunctionDef
COUNTED = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.Assert)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


class Looked(NamedTuple):
    """What the rules ask of a module. Its tree is not kept: those of all modules together are millions of objects."""

    lines: int
    opens: bool
    too_long: list[str]
    clocks: list[str]
    ways: list[str]


@cache
def looked(path: Path) -> Looked:
    text = path.read_text()
    module = ast.parse(text, str(path))
    nodes = list(ast.walk(module))
    functions = [node for node in nodes if isinstance(node, Function)]
    many = [f"{name(path)}:{node.lineno} {node.name}" for node in functions if ways(node) > MOST_WAYS]
    opens = not text.strip() or bool(ast.get_docstring(module))
    clocks = list(clocks_read(nodes)) if is_pure(path) else []
    return Looked(len(text.splitlines()), opens, list(too_long(nodes)), clocks, many)


def too_long(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Function) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > MOST_LINES_OF_A_FUNCTION:
                yield f"{node.name}: {lines} lines"


def ways(function: Function) -> int:
    """Return how many ways there are through a function."""
    found = 1
    for node in ast.walk(function):
        if isinstance(node, COUNTED):
            found += 1
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
    return found


def clocks_read(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if (owner, node.attr) in CLOCKS:
                yield f"line {node.lineno}: {owner}.{node.attr}"


def is_pure(path: Path) -> bool:
    """Whether a module is of the functional core: the controllers, their contract, and Kubernetes' words."""
    return name(path).startswith(CORE) or name(path) in CONTRACT


def test_there_are_modules() -> None:
    assert len(MODULES) > 10


@each("path", MODULES, ids=name)
def test_a_module_keeps_the_rules(path: Path) -> None:
    """All of them at once: reading the module is most of the work."""
    found = looked(path)
    assert found.lines <= MOST_LINES_OF_A_MODULE
    assert found.too_long == []
    assert found.opens, "a module opens with what comes in, what goes out, why here"
    assert found.clocks == [], "the core reads no clock"


def test_modules_of_tests_are_small_too() -> None:
    lines = {name(path): len(path.read_text().splitlines()) for path in OF_TESTS}
    assert {path: count for path, count in lines.items() if count > MOST_LINES_OF_A_MODULE} == {}


def test_the_checks_see_what_they_look_for() -> None:
    long = "def f():\n" + "    x = 1\n" * MOST_LINES_OF_A_FUNCTION
    assert list(too_long(ast.walk(ast.parse(long)))) == [f"f: {MOST_LINES_OF_A_FUNCTION + 1} lines"]
    clock = "import datetime\nfrom datetime import date\ndatetime.datetime.now()\ndate.today()\nstate.now()\n"
    assert ways(ast.parse("def f():\n    return [x for x in y if x and (z or w)] if y else 1").body[0]) == 5  # type: ignore[arg-type]
    assert list(clocks_read(ast.walk(ast.parse(clock)))) == ["line 3: datetime.now", "line 4: date.today"]


def test_few_functions_have_many_ways_through_them() -> None:
    found = [function for path in MODULES for function in looked(path).ways]
    assert len(found) <= FUNCTIONS_WITH_MORE, found


def test_folders_are_not_deep() -> None:
    deep = {name(path.parent) for path in MODULES if len(path.parent.relative_to(ROOT).parts) > DEEPEST + 1}
    assert deep == set()


def test_every_folder_is_a_package() -> None:
    """Without its `__init__.py`, a folder is invisible to the import contracts."""
    rooms = {path.parent for path in MODULES if path.is_relative_to(ROOT / "controlplane")}
    assert [name(room) for room in sorted(rooms) if not (room / "__init__.py").exists()] == []
