"""The commands of the page about quota without Kueue, and what they print of a ClusterQueue that is full.

`python -m tests.docs.without_kueue` writes what they print into the page anew: read it before it is committed."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from controlplane.audit.reads import READ
from controlplane.log import schema
from tests.audit.database import keep
from tests.docs.past import BLOCK, printed
from tests.docs.snippets import ROOT
from tests.quota.admission.scene import Scene
from tests.support import postgres

PAGE = ROOT / "docs" / "howto" / "without-kueue.md"
_READS = ("$ controlplane why", "$ controlplane timeline")


def scene(earlier: int = 6) -> Scene:
    """Three ask for a ClusterQueue that has room for two of them; a fourth one preempts, and that one waits again. Some
    have run and ended before, for four minutes and more."""
    found = Scene()
    found.queue("batch", "10", preemption={"withinClusterQueue": "LowerPriority"})
    for number in range(earlier):
        found.workload(f"report-{number}", "batch", "3")
        found.settle()
        found.pass_time(240 + 30 * number)
        found.finish(f"report-{number}")
        found.settle()
    for name, cpu, priority in (("report", "3", 10), ("nightly", "6", 0), ("train", "9", 5), ("urgent", "5", 10)):
        found.workload(name, "batch", cpu, priority=priority)
        found.settle()
        found.pass_time(60)
    found.release("nightly")
    found.settle()
    found.pass_time(60)
    return found


def blocks(page: str) -> list[str]:
    """Return the blocks that show what the history says."""
    return [match["text"] for match in BLOCK.finditer(page) if match["text"].startswith(_READS)]


async def fill(url: str) -> None:
    """Put the scene into a log."""
    await keep(url, scene().log, types=READ)


def main() -> None:
    """Write what the commands print into the page anew."""
    page = PAGE.read_text()
    with postgres.server() as server, tempfile.TemporaryDirectory() as folder:
        url = server.create(postgres.new_name("quota"))
        schema.upgrade(url)
        asyncio.run(fill(url))
        for block in blocks(page):
            page = page.replace(f"```console\n{block}```", f"```console\n{printed(block, url, Path(folder))}```")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
