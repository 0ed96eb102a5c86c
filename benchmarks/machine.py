"""The surroundings of a measurement: the machine in a line, a durable PostgreSQL of its own, and tables of figures."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from controlplane.local.postgres import EmbeddedPostgres
from controlplane.log import schema


def describe() -> str:
    """Return processor, memory, system and Python in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} x {_processor()}, {memory:.0f} GiB, {platform.system()} {platform.release()}, {python}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@asynccontextmanager
async def database(folder: Path | None) -> AsyncIterator[str]:
    """Have a migrated database on a server of its own, with PostgreSQL's default, durable settings."""
    top = _top(folder)
    try:
        async with EmbeddedPostgres(top / "pg", durable=True) as server:
            schema.upgrade(server.url)
            with psycopg.connect(server.url) as connection:
                row = connection.execute("SELECT version(), current_setting('fsync')").fetchone()
            assert row is not None
            print(f"{row[0].partition(' on ')[0]}, fsync {row[1]}, on {_filesystem(top)} ({top.parent})", flush=True)
            yield server.url
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _top(folder: Path | None) -> Path:
    """Make an empty folder; run by root, the server is another user and has to get through."""
    top = Path(tempfile.mkdtemp(prefix="controlplane-bench-", dir=folder))
    top.chmod(0o711)
    return top


def _filesystem(path: Path) -> str:
    """Return the type of the file system that a path is on."""
    found = ("", "an unknown file system")
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return found[1]
    for _, place, kind, *_ in mounts:
        if path.is_relative_to(place) and len(place) >= len(found[0]):
            found = (place, kind)
    return found[1]


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table in Markdown: the first column to the left, figures to the right."""
    cells = [list(header), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    print(f"\n{title}\n")
    for number, row in enumerate(cells):
        padded = [
            cell.ljust(w) if not i else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print(f"| {' | '.join(padded)} |")
        if not number:
            print(f"|{'|'.join('-' * (w + 2) if not i else '-' * (w + 1) + ':' for i, w in enumerate(widths))}|")
    print(flush=True)


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
