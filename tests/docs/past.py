"""The commands of the page about the past, and what they print on the log of `fleet_story`.

`python -m tests.docs.past` writes what they print into the page anew: read it before it is committed."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from controlplane.__main__ import run
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
    """Return a block with what its commands print now."""
    found = []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in block.splitlines():
        if line.startswith("$ "):
            variables = environment(database_url=url, database_role="") | {"PATH": path}
            found.append(f"{line}\n{typed(line[2:], variables, folder)}")
    return "".join(found)


def typed(line: str, variables: dict[str, str], folder: Path) -> str:
    """Type a line into a shell, as a reader does, and return what is printed. Where it is nothing but a command of
    ours, this process is quicker than a shell and one of its own."""
    if not line.startswith("controlplane ") or any(one in line for one in "|<>;&$*`#"):
        return subprocess.run(
            line, shell=True, env=variables, cwd=folder, capture_output=True, text=True, check=True
        ).stdout
    out = io.StringIO()
    with (
        mock.patch.dict(os.environ, variables, clear=True),
        mock.patch("controlplane.telemetry.configure"),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
    ):
        assert run(shlex.split(line)[1:]) == 0, line
    return out.getvalue()


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
