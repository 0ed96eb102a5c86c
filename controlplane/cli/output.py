"""The form of what a verb prints: a table for people, JSON or YAML for programs.

In: plain values (dicts, lists, text, numbers, times). Out: text on stdout. Colours and line folding only on a terminal;
in a pipe every line is whole. What came from a cluster may hold anything, so control characters are made visible
instead of reaching the terminal."""

from __future__ import annotations

import difflib
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import click

from controlplane.cli.options import JSONPATH, LISTED, current

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UNESCAPED = re.compile(r"[\x7f-\x9f]")
_OBEYED = re.compile(r"(?!\r?\n|\t)[\x00-\x1f\x7f-\x9f]")
_WIDE = 100_000
_LONGEST_WORD = 24  # places: what has spaces and is no longer, such as a time, is not wrapped
_INDENT = "    "
_SHORTEST_TEXT = 18  # places of a column in which text is wrapped


def emit(
    form: str,
    value: Any,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    kind: str = "",
    items: str = "",
) -> None:
    """Print a value in a form for programs, or its rows as a table, in the order that was asked for.

    Where the value is a list its objects belong to the rows, one to one; more rows, such as a sum, stay at the end.
    `kind` and `items` are those of `dump`."""
    rows = list(rows)
    if (field := current().sort_by) is not None:
        listed, rows = ordered(value[items] if items else value, rows, field)
        value = {**value, items: listed} if items else listed
    if form == "table":
        table(columns, rows)
    else:
        dump(form, value, kind=kind, items=items)


def ordered(
    value: list[dict[str, Any]], rows: Sequence[Sequence[object]], field: str
) -> tuple[list[dict[str, Any]], list[Sequence[object]]]:
    """Return objects and their rows by a field, written `since`, `.since` or `{.data.name}`; those without it come
    first, as kubectl has it. Usage error for one that no object has."""
    path = field.removeprefix("{").removesuffix("}").lstrip(".").split(".")
    found = [_at(one, path) for one in value]
    if value and all(one is None for one in found) and path[0] not in value[0]:
        near = difflib.get_close_matches(path[0], value[0], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(value[0])}"
        raise click.UsageError(f'--sort-by: the rows have no field "{field}": {hint}')
    order = sorted(range(len(value)), key=lambda place: _rank(found[place]))
    return [value[place] for place in order], [*(rows[place] for place in order), *rows[len(value) :]]


def in_order(value: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return objects in the order that was asked for, as they are if none was."""
    field = current().sort_by
    return value if field is None else ordered(value, [()] * len(value), field)[0]


def _at(one: Any, path: Sequence[str]) -> Any:
    for name in path:
        one = one.get(name) if isinstance(one, dict) else None
    return one


def _rank(value: Any) -> tuple[int, Any]:
    """Return what values of any kind are ordered by: nothing, numbers, texts and times, the rest as text."""
    if value is None:
        return 0, 0
    if isinstance(value, (int, float, Decimal)):
        return 1, value
    return 2, str(value)


def comma_separated(value: Sequence[dict[str, Any]]) -> None:
    """Print objects as CSV (RFC 4180), their fields in the first line, which is missing if there is no object, or with
    `--no-headers`.

    Times are RFC 3339 as in JSON; what has parts of its own is JSON in one field, and what begins as a formula does has
    an apostrophe before it."""
    import msgspec

    from controlplane.audit.comma_separated import row

    lines = [row(list(value[0]))] if value and not current().no_headers else []
    for one in value:
        plain = msgspec.to_builtins(one, str_keys=True)
        cells = (
            msgspec.json.encode(cell).decode() if isinstance(cell, (dict, list)) else cell for cell in plain.values()
        )
        lines.append(row(list(cells)))
    sys.stdout.write(_harmless("".join(lines)))


def dump(form: str, value: Any, *, kind: str = "", items: str = "") -> None:
    """Print a value as `json` (indented), `yaml`, `jsonpath=TEMPLATE`, or as `csv` and `name` if it is a list.

    `items` is the field of a list within the value. `kind` begins each name: KIND/NAMESPACE/NAME, as verbs take it. A
    template is asked of an object with the field `items` where the value is a list, as in kubectl."""
    import msgspec

    if form in LISTED:
        listed = value[items] if items else value
        comma_separated(listed) if form == "csv" else names(kind, listed)
    elif form.startswith(JSONPATH):
        from controlplane.cli.jsonpath import JsonPathError, render

        plain = msgspec.to_builtins(value, str_keys=True)
        try:
            text = render(form.removeprefix(JSONPATH), {"items": plain} if isinstance(plain, list) else plain)
        except JsonPathError as error:
            raise click.UsageError(f"-o jsonpath: {error}") from None
        click.echo(_harmless(text), nl=not text.endswith("\n"), color=True)  # as it is, also in a pipe
    elif form == "json":
        click.echo(escaped(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))
    else:
        import yaml

        text = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True, width=_WIDE)
        click.echo(text, nl=False)


def names(kind: str, listed: Sequence[dict[str, Any]]) -> None:
    """Print a list of things by their names, one a line."""
    for one in listed:
        parts = (kind, one.get("namespace"), one["name"] if "name" in one else one[kind])
        line("/".join(part for part in parts if part))


def line(text: str) -> None:
    """Print one line for people."""
    click.echo(visible(text))


def aside(text: str) -> None:
    """Say on stderr, in one line, what is to be known beside a result."""
    click.echo(visible(text), err=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under upper-case headings. Without any row only the headings appear, which `wc -l` counts as nothing
    found.
    """
    cells = [[visible("" if cell is None else str(cell)) for cell in row] for row in rows]
    on_terminal = sys.stdout.isatty()
    headings = [column.upper() for column in zoned(columns)] if not current().no_headers else []
    if not headings and not cells:
        return
    for shown in (folded if on_terminal else aligned)(headings, cells):
        click.echo(shown.rstrip())


def zoned(columns: Sequence[str]) -> list[str]:
    """Return headings with the zone that the times below them have."""
    zone = "(local time)" if current().local_time else "(UTC)"
    return [column.replace("(UTC)", zone) for column in columns]


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, each whole: as `folded` on a terminal that is wide enough, and quick also for
    many."""
    from rich.cells import cell_len

    table = [columns, *rows] if columns else list(rows)
    wide = widths(table)
    for row in table:
        padded = (f"{cell}{' ' * (width - cell_len(cell))}" for cell, width in zip(row, wide, strict=True))
        yield "  ".join(padded)


def widths(table: Sequence[Sequence[str]]) -> list[int]:
    """Return how many places of a terminal each column of a table needs."""
    from rich.cells import cell_len

    return [max(cell_len(row[place]) for row in table) for place in range(len(table[0]))]


def folded(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> Iterable[str]:
    """Return the lines of a table as they fit on the terminal, or into a width: long texts are wrapped, and names,
    words and times stay whole. Where there is no room for the texts beside these, they stand below them; where these
    alone need more, the lines are as `aligned` has them, as kubectl's are."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=width, highlight=False, no_color=None if width is None else True)
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=bool(columns))
    needed = widths([columns, *rows] if columns else rows)
    long = _texts(rows, needed)
    whole = sum(most + 2 for place, most in enumerate(needed) if place not in long)
    if whole + len(long) * _SHORTEST_TEXT > console.width:
        return (
            stacked(columns, rows, long, console.width)
            if long and whole - 2 <= console.width
            else aligned(columns, rows)
        )
    for place, column in enumerate(columns or [""] * len(rows[0])):
        grid.add_column(column, overflow="fold", no_wrap=place not in long)
    for row in rows:
        grid.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(grid)
    return captured.get().splitlines()


def _texts(rows: Sequence[Sequence[str]], needed: Sequence[int]) -> set[int]:
    """Return the columns that hold long texts, which may be wrapped."""
    return {
        place
        for place, most in enumerate(needed)
        if most > _LONGEST_WORD and any(" " in row[place].strip() for row in rows)
    }


def stacked(columns: Sequence[str], rows: Sequence[Sequence[str]], long: set[int], width: int) -> Iterator[str]:
    """Yield the lines of a table for a narrow terminal: of each row what is short on one line, and each of its texts
    below, wrapped and indented."""
    table = [columns, *rows] if columns else list(rows)
    short = [[cell for place, cell in enumerate(row) if place not in long] for row in table]
    for row, head in zip(table, aligned([], short), strict=True):
        yield head
        for place in sorted(long):
            yield from textwrap.wrap(
                row[place], width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
            )


def escaped(text: str) -> str:
    """Return JSON with the control characters escaped that JSON lets stand in a text: a terminal obeys some of them."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _harmless(text: str) -> str:
    """Return lines for programs as they are; for a terminal with control characters as `visible` has them."""
    if not sys.stdout.isatty():
        return text
    return _OBEYED.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def visible(text: str) -> str:
    """Return the text on one line, with control characters (colours, cursor moves) shown as `\\x1b` and the like."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}" if found[0] not in "\n\t\r" else " ", text)
