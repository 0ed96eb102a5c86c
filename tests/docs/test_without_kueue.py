"""Every command of the page about quota without Kueue prints what the page shows."""

from __future__ import annotations

from pathlib import Path

from tests.docs.without_kueue import PAGE, blocks, fill, printed


async def test_the_commands_print_what_is_shown(database_url: str, tmp_path: Path) -> None:
    await fill(database_url)
    shown = blocks(PAGE.read_text())
    assert [printed(block, database_url, tmp_path) for block in shown] == shown
    assert {block.split()[2] for block in shown} == {"why", "timeline"}
