"""A name that Kubernetes, Kueue or Tekton gives stands in one module: a label, an annotation, a finalizer, a gate, a
media type."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import controlplane

_ROOT = Path(controlplane.__file__).parent


def named(module: ast.Module) -> Iterator[str]:
    """Yield what the constants of a module name: a prefix with a dot, a slash, and a word; or a media type."""
    for node in module.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            prefix, slash, word = value.value.partition("/")
            if slash and word and " " not in value.value and ("." in prefix or prefix == "application"):
                yield value.value


def test_a_name_stands_in_one_module() -> None:
    where: dict[str, set[str]] = defaultdict(set)
    for path in sorted(_ROOT.rglob("*.py")):
        for name in named(ast.parse(path.read_text())):
            where[name].add(str(path.relative_to(_ROOT)))
    assert len(where) > 40
    assert {name: sorted(paths) for name, paths in where.items() if len(paths) > 1} == {}
