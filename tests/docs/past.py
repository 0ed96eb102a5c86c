"""The commands of the page about the past, and what they print on the log of `fleet_story`.

`python -m tests.docs.past` writes what they print into the page anew: read it before it is committed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from controlplane.log import schema
from tests.cli.processes import environment
from tests.docs.cookbook import tell
from tests.docs.snippets import ROOT
from tests.support import postgres

PAGE = ROOT / "docs/howto/read-the-past.md"
BLOCK = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return [match["text"] for match in BLOCK.finditer(page)]


def printed(block: str, url: str, folder: Path) -> str:
    """Return a block with what its commands print now: each is typed into a shell, as a reader does."""
    found = []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in block.splitlines():
        if line.startswith("$ "):
            variables = environment(database_url=url, database_role="") | {"PATH": path}
            ended = subprocess.run(
                line[2:], shell=True, env=variables, cwd=folder, capture_output=True, text=True, check=True
            )
            found.append(f"{line}\n{ended.stdout}")
    return "".join(found)


def main() -> None:
    """Write what the commands print into the page anew."""
    with postgres.server() as server, tempfile.TemporaryDirectory() as folder:
        url = server.create(postgres.new_name("past"))
        schema.upgrade(url)
        tell(url)
        PAGE.write_text(
            BLOCK.sub(lambda match: f"```console\n{printed(match['text'], url, Path(folder))}```", PAGE.read_text())
        )


if __name__ == "__main__":
    main()
