"""The failure model names tests that exist, every verdict, and settings and annotations as they are called."""

from __future__ import annotations

import re
from typing import get_args

from controlplane.controllers.multikueue.context import EXECUTION_POLICIES
from controlplane.controllers.multikueue.events import Verdict
from controlplane.controllers.multikueue.objects import EXECUTION_POLICY
from controlplane.settings import LEAVES
from tests.deploy import chart_files
from tests.docs.snippets import PAGES, ROOT

PAGE = ROOT / "docs/explanation/failure-model.md"
SECTIONS = {leaf.key.partition(".")[0] for leaf in LEAVES}


def test_every_failure_is_held_by_tests_that_exist() -> None:
    rows = re.findall(r"^\| \*\*.+\| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) >= 11
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named
        assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_verdict_is_in_the_table() -> None:
    assert set(re.findall(r"\| `(\w+)` \|", PAGE.read_text())) == set(get_args(Verdict))


def test_policies_are_called_what_they_are_called() -> None:
    text = PAGE.read_text()
    assert EXECUTION_POLICY in text
    for policy in EXECUTION_POLICIES:
        assert f"**`{policy}`**" in text


def test_every_setting_that_is_named_exists() -> None:
    settings = {leaf.key for leaf in LEAVES}
    for page in PAGES:
        keys = settings | (chart_files.value_names() if page.name == "helm.md" else set())
        named = re.findall(rf"`((?:{'|'.join(SECTIONS)})(?:\.[a-z][A-Za-z]*)+)`", page.read_text())
        assert [name for name in named if name not in keys and not name.endswith((".md", ".py"))] == [], page
