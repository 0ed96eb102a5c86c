"""The form of what a verb prints: a table for people, JSON or YAML for programs.

In: plain values (dicts, lists, text, numbers, times). Out: text on stdout. Colours and line folding only on a terminal;
in a pipe every line is whole. What came from a cluster may hold anything, so control characters are made visible
instead of reaching the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WIDE = 100_000


def emit(form: str, value: Any, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a value as JSON or YAML, or its rows as a table."""
    if form == "table":
        table(columns, rows)
    else:
        dump(form, value)


def emit_in(form: str, value: list[dict[str, Any]], columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print objects in one of the forms of `emit`, as `csv` with a line of their fields, or their rows as `wide`."""
    if form == "csv":
        comma_separated(value)
    else:
        emit("table" if form == "wide" else form, value, columns, rows)


def comma_separated(value: Sequence[dict[str, Any]]) -> None:
    """Print objects as CSV (RFC 4180), their fields in the first line, which is missing if there is no object.

    Times are RFC 3339 as in JSON; what has parts of its own is JSON in one field."""
    import csv

    import msgspec

    if not value:
        return
    writer = csv.writer(sys.stdout)
    writer.writerow(value[0])
    for one in value:
        plain = msgspec.to_builtins(one, str_keys=True)
        cells = (
            msgspec.json.encode(cell).decode() if isinstance(cell, (dict, list)) else cell for cell in plain.values()
        )
        writer.writerow(["" if cell is None else cell for cell in cells])


def dump(form: str, value: Any) -> None:
    """Print a value as `json` (indented) or `yaml`."""
    import msgspec

    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
        return
    import yaml

    text = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True, width=_WIDE)
    click.echo(text, nl=False)


def line(text: str) -> None:
    """Print one line for people."""
    click.echo(visible(text))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under upper-case headings. Without any row only the headings appear, which `wc -l` counts as nothing
    found.
    """
    cells = [[visible("" if cell is None else str(cell)) for cell in row] for row in rows]
    on_terminal = sys.stdout.isatty()
    for shown in (folded if on_terminal else aligned)([column.upper() for column in columns], cells):
        click.echo(shown.rstrip())


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, each whole: as `folded` on a terminal that is wide enough, and quick also for many."""
    from rich.cells import cell_len

    table = [columns, *rows]
    sizes = [[cell_len(cell) for cell in row] for row in table]
    widths = [max(row[column] for row in sizes) for column in range(len(columns))]
    for row, lengths in zip(table, sizes, strict=True):
        padded = (f"{cell}{' ' * (width - size)}" for cell, size, width in zip(row, lengths, widths, strict=True))
        yield "  ".join(padded)


def folded(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> Iterable[str]:
    """Return the lines of a table as they fit on the terminal, or into a width."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=width, highlight=False, no_color=None if width is None else True)
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(grid)
    return captured.get().splitlines()


def visible(text: str) -> str:
    """Return the text on one line, with control characters (colours, cursor moves) shown as `\\x1b` and the like."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}" if found[0] not in "\n\t\r" else " ", text)
