"""How the demo looks: a live table on a terminal, a line for each change in a pipe, nothing for programs.

In: rows, and what is to be said. Out: text on stdout.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from controlplane.local.demo import Screen
from controlplane.local.progress import ENDS, JobProgress

_STYLES = {
    "queued": "dim",
    "offered": "cyan",
    "admitted": "blue",
    "running": "yellow",
    "finished": "green",
    "failed": "red",
}
_COLUMNS = 2


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Drop it."""

    def show(self, jobs: Sequence[JobProgress], running: dict[str, str], service: str) -> None:
        """Drop it."""


class Lines:
    """Writes one line for each change, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last: dict[str, str] = {}

    def say(self, text: str) -> None:
        """Write a line."""
        click.echo(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def show(self, jobs: Sequence[JobProgress], running: dict[str, str], service: str) -> None:
        """Write a line for each job that got further: placed, or ended.

        One that was started in the moment of the kill may end before its Workload says where it is.
        """
        for row in jobs:
            shown = (
                f"is {row.word}{f' on {row.cluster}' if row.cluster else ''}" if row.cluster or row.word in ENDS else ""
            )
            if shown and self._last.get(row.job) != shown:
                self.say(f"{row.job} {shown}")
            self._last[row.job] = shown


class Redrawn:
    """Redraws a table in place; what is said stays above it."""

    def __init__(self, console: Console, live: Live, workers: Sequence[str]) -> None:
        self._console, self._live, self._workers = console, live, workers

    def say(self, text: str) -> None:
        """Print above the table."""
        self._console.print(text, highlight=False)

    def show(self, jobs: Sequence[JobProgress], running: dict[str, str], service: str) -> None:
        """Draw everything anew."""
        self._live.update(picture(jobs, running, service, self._workers))


def picture(jobs: Sequence[JobProgress], running: dict[str, str], service: str, workers: Sequence[str]) -> Group:
    """Return the jobs in two columns, and below them what runs on each worker and how the service is."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for _ in range(_COLUMNS):
        for heading, width in (("JOB", 12), ("STATE", 10), ("CLUSTER", 12)):
            grid.add_column(heading, min_width=width)
    height = math.ceil(len(jobs) / _COLUMNS)
    for number in range(height):
        cells: list[Text] = []
        for row in jobs[number::height]:
            cells += [Text(row.job), Text(row.word, style=_STYLES[row.word]), Text(row.cluster)]
        grid.add_row(*cells)
    below = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for worker in workers:
        below.add_row(
            worker, Text(" ".join(sorted(job for job, cluster in running.items() if cluster == worker)), "yellow")
        )
    below.add_row("service", Text(service, style="red" if "dead" in service else "green"))
    return Group(grid, Text(""), below)


@contextmanager
def screen(workers: Sequence[str], *, on_terminal: bool) -> Iterator[Screen]:
    """Have a screen until the end of the performance."""
    if not on_terminal:
        yield Lines()
        return
    console = Console()
    with Live(console=console, refresh_per_second=10, redirect_stderr=False) as live:
        yield Redrawn(console, live, workers)
