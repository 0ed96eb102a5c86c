"""Prose has at most 120 columns: docstrings, comments, and the paragraphs and lists of the documents."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST = 120
_GENERATED = {f"docs/reference/{name}.md" for name in ("events", "scheduler-events", "settings", "metrics")}
_NO_BREAK = re.compile(r"\s*([-*] )?\S+|!\[.*")
"""A line that cannot be broken: of one word, or a picture with its description."""


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a module's docstrings and comments, with their numbers; nothing of one without a line that is
    wider, which most are."""
    lines = source.splitlines()
    if all(len(line) <= MOST for line in lines):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from ((at, lines[at - 1]) for at in range(node.lineno, (node.end_lineno or 0) + 1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            yield token.start[0], token.line.rstrip("\n")


def paragraphs_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a document that are neither in a table nor in a block of code, with their numbers."""
    fence = ""
    for at, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and (not fence or line.strip() == fence):
            fence = "" if fence else mark[1]
        elif not fence and not line.lstrip().startswith(("|", "<")):
            yield at, line


def too_wide(lines: Iterator[tuple[int, str]]) -> list[int]:
    """Return the numbers of the lines with more columns than prose has, and a place to break them at."""
    return sorted({at for at, line in lines if len(line) > MOST and not _NO_BREAK.fullmatch(line)})


def test_docstrings_and_comments_are_no_wider() -> None:
    found = {}
    for folder in ("controlplane", "tests", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if wide := too_wide(prose_of(path.read_text())):
                found[str(path.relative_to(ROOT))] = wide
    assert found == {}


def test_documents_are_no_wider() -> None:
    found = {}
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        name = str(path.relative_to(ROOT))
        if name not in _GENERATED and (wide := too_wide(paragraphs_of(path.read_text()))):
            found[name] = wide
    assert found == {}


def test_the_check_sees_what_it_looks_for() -> None:
    wide = "word " * 30
    assert too_wide(prose_of(f'"""{wide}"""\n# {wide}\nx = "{wide}"\n')) == [1, 2]
    assert too_wide(paragraphs_of(f"{wide}\n\n```\n{wide}\n```\n| {wide} |\n- {wide}\n")) == [1, 7]
    assert too_wide(paragraphs_of(f"- <https://example.com/{'x' * 120}>\n")) == []
