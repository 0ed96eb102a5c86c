"""The commands of the page about what would have been, and what they print on logs of the simulation.

`python -m tests.docs.what_if` writes what they print into the page anew: read it before it is committed."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

from controlplane.audit.reads import READ
from controlplane.log import schema
from tests.audit.database import keep
from tests.docs.past import BLOCK, printed
from tests.docs.snippets import ROOT
from tests.dst.plans import plan, step
from tests.support import postgres
from tests.whatif.logs import played
from tests.whatif.quota_logs import fleet

PAGE = ROOT / "docs/howto/what-if.md"
FILE = re.compile(r"^```yaml\n# (?P<name>[\w.-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LOG = plan(
    *(step(5 + 1.37 * n, "submit", f"job-{n}", 20 + n % 7 * 5.3, 1) for n in range(30)),
    step(40, "partition", "w3", 300),
    step(500, "cut", "w2"),
)


TEAMS = fleet(
    *(step(5 + 4.3 * n, "submit", f"job-{n}-a-low", 150 + n % 3 * 20, 1) for n in range(1, 9)),
    *(step(70 + 6.1 * n, "submit", f"job-{n}-b-mid", 60, 1) for n in range(1, 6)),
)
"""Two teams with a queue each: the first asks for more than it has, before the second asks for anything."""


def tell(url: str) -> None:
    """Write the logs into a database."""
    asyncio.run(keep(url, played(LOG)))
    asyncio.run(keep(url, played(TEAMS), "teams", READ))


def write_files(folder: Path) -> None:
    """Write the files that the page shows."""
    for match in FILE.finditer(PAGE.read_text()):
        (folder / match["name"]).write_text(match["text"])


def main() -> None:
    """Write what the commands print into the page anew."""
    with postgres.server() as server, tempfile.TemporaryDirectory() as folder:
        url = server.create(postgres.new_name("what_if"))
        schema.upgrade(url)
        tell(url)
        write_files(Path(folder))
        PAGE.write_text(
            BLOCK.sub(lambda match: f"```console\n{printed(match['text'], url, Path(folder))}```", PAGE.read_text())
        )


if __name__ == "__main__":
    main()
