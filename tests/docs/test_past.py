"""Every command of the page about the past prints what the page shows."""

from __future__ import annotations

from pathlib import Path

from tests.docs.past import PAGE, blocks, printed

BLOCKS = blocks(PAGE.read_text())


def test_the_commands_print_what_is_shown(fleet_url: str, tmp_path: Path) -> None:
    for block in BLOCKS:
        assert printed(block, fleet_url, tmp_path) == block


def test_each_of_the_commands_is_shown() -> None:
    typed = {line.split()[2] for block in BLOCKS for line in block.splitlines() if line.startswith("$ controlplane")}
    assert typed == {"as-of", "why", "timeline", "inspect", "usage", "export", "verify-export"}
