"""The reference page is what the code says, and says everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from controlplane.settings import LEAVES, reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_is_the_one_that_the_code_writes() -> None:
    assert PAGE.read_text() == reference(), "run: python -m controlplane.settings > docs/reference/settings.md"


def test_the_program_writes_it() -> None:
    written = subprocess.run(
        [sys.executable, "-m", "controlplane.settings"], capture_output=True, text=True, check=True
    )
    assert written.stdout == reference()


def test_it_names_every_setting_once() -> None:
    page = reference()
    for leaf in LEAVES:
        assert page.count(f"| `{leaf.key}` |") == 1
        assert page.count(f"| `{leaf.variable}` |") == 1
    assert "CONTROLPLANE_MULTIKUEUE_WORKER_LOST_TIMEOUT" in page
