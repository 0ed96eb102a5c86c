"""Every command of the page about what would have been prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.past import blocks, printed
from tests.docs.what_if import PAGE, tell, write_files
from tests.support import postgres

BLOCKS = blocks(PAGE.read_text())


@pytest.mark.deep
def test_the_commands_print_what_is_shown(
    postgres_server: postgres.Server, migrated_template: str, tmp_path: Path
) -> None:
    name = postgres.new_name("what_if")
    url = postgres_server.create(name, migrated_template)
    try:
        tell(url)
        write_files(tmp_path)
        for block in BLOCKS:
            assert printed(block, url, tmp_path) == block
    finally:
        postgres_server.drop(name)


def test_each_of_the_commands_is_shown() -> None:
    typed = {line.split()[2] for block in BLOCKS for line in block.splitlines() if line.startswith("$ controlplane")}
    assert typed == {"diff-decisions", "whatif"}
