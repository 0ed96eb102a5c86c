"""What is kept of a test module before a run is what pytest would have made of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import _read_pyc

from tests.support import rewriting


def test_what_is_kept_is_what_pytest_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    kept = rewriting.rewrite(Path(__file__))
    assert kept is not None, "pytest has other names for it: then this costs half a minute of a run"
    code = _read_pyc(Path(__file__), kept)
    assert code is not None
    assert "@pytest_ar" in code.co_names, "its assertions are rewritten"
    assert rewriting.rewrite(Path(__file__)) is None


def test_every_test_module_is_kept_once() -> None:
    parts = [rewriting.modules()[part::3] for part in range(3)]
    assert sorted(path for part in parts for path in part) == sorted(rewriting.modules())
    assert Path(__file__) in rewriting.modules()
