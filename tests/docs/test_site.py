"""The site: every page is in its menu and in the index, and reading it asks no other host for anything."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.snippets import ROOT

SITE: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
DOCS = ROOT / "docs"
DECISION = re.compile(r"decisions/\d{4}-.*\.md")
built = pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="zensical is not there: make docs")


def listed(menu: Any) -> Iterator[str]:
    if isinstance(menu, str):
        yield menu
    else:
        for one in menu.values() if isinstance(menu, dict) else menu:
            yield from listed(one)


def pages() -> set[str]:
    found = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    return {page for page in found if not DECISION.fullmatch(page)}


def test_every_page_is_in_the_menu_once() -> None:
    menu = list(listed(SITE["nav"]))
    assert sorted(menu) == sorted(pages())


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([^)#]+\.md)", (DOCS / "index.md").read_text()))
    assert pages() - linked == {"index.md"}


@built
def test_it_builds_and_asks_no_other_host(tmp_path: Path) -> None:
    for name in ("docs", "zensical.toml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=tmp_path, check=True, capture_output=True
    )
    html = list((tmp_path / "site").rglob("*.html"))
    assert len(html) > len(pages())
    for path in html:
        text = path.read_text()
        assert re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"?(?:https?:)?//", text) == [], path
        styles = re.findall(r"<link[^>]*rel=\"?(\w+)[^>]*href=\"?((?:https?:)?//[^\" >]*)", text)
        assert {rel for rel, _ in styles} <= {"canonical", "next", "prev"}, path
