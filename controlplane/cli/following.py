"""Looks at a log again and again, as it grows: `--watch` and `--follow`.

In: the options, a reader, and what is to be done at each look. Out: nothing, ever: Ctrl-C ends it. A database that goes
away is waited for, and said once; what was committed meanwhile is seen when it is back."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.errors import Exit
from controlplane.cli.history import open_reader
from controlplane.cli.options import JSONPATH, Options
from controlplane.cli.output import aligned, aside, dump, escaped, line, names, visible, widths, zoned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.audit.reads import LogReader

_POLL = 2.0  # seconds between two looks when no notification comes
_LONGEST_PAUSE = 5.0  # seconds between two attempts to reach the database again
_REST = 3  # times what a look takes: a large fleet takes seconds to fold, and the database has others to serve
_NOT_WATCHED = {"csv": "-o csv", "svg": "-o svg"}


def watch_option(text: str) -> Callable[[Any], Any]:
    """Give a verb the option `-w`, which it gets as `watch`."""
    return click.option("-w", "--watch", "watch", is_flag=True, help=text)


def refuse_order(options: Options, flag: str = "--watch") -> None:
    """Usage error for what needs all rows, of which there is no end."""
    what = "--sort-by" if options.sort_by is not None else _NOT_WATCHED.get(options.output, "")
    if what:
        raise click.UsageError(f"{what} needs all of it, and {flag} has no end: leave one of the two out")


def follow(options: Options, first: LogReader, look: Callable[[LogReader], None], *, rest: int = _REST) -> int:
    """Look now, and whenever the log has grown or a moment has passed, until Ctrl-C; return its exit code.

    After each look there are `rest` times as many seconds in which nothing is asked."""
    import psycopg

    from controlplane.log.connect import first_line

    reader: LogReader | None = first
    pause = 0.1
    while True:
        try:
            if reader is None:
                reader = open_reader(options)
                reader.head()
                aside("The database is back.")
            while True:
                began = time.monotonic()
                look(reader)
                pause = 0.1
                time.sleep((time.monotonic() - began) * rest)
                reader.wait(_POLL)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
        except psycopg.Error as error:
            if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
                raise
            if reader is not None:
                reader.close()
                aside(f"The database is away ({first_line(error)}); waiting for it.")
            reader = None
            try:
                time.sleep(pause)
            except KeyboardInterrupt:
                return Exit.INTERRUPTED
            pause = min(pause * 2, _LONGEST_PAUSE)


def quietly(number: int) -> contextlib.AbstractContextManager[Any]:
    """Let what is said beside a result be said at the first look only: `number` counts them from 0."""
    return contextlib.redirect_stderr(io.StringIO()) if number else contextlib.nullcontext()


class ChangedRows:
    """Prints rows, and from then on those that are new or have changed; a thing that has gone is printed by its last
    row.

    A table has its headings once, and columns that later rows only widen. `form` json prints an object a line,
    yaml a document each; name KIND/NAMESPACE/NAME."""

    def __init__(self, options: Options, columns: Sequence[str], kind: str = "") -> None:
        self._form, self._headings, self._kind = options.output, not options.no_headers, kind
        self._columns = zoned(columns)
        self._widths: list[int] | None = None
        self._known: dict[Hashable, Any] = {}

    @property
    def known(self) -> set[Hashable]:
        """The keys of all that was shown and has not gone."""
        return set(self._known)

    def show(self, rows: Iterable[tuple[Hashable, Any, dict[str, Any], Sequence[object]]]) -> None:
        """Print those of some rows that say something else than before: key, what a change is told by, object,
        cells."""
        fresh = [row for row in rows if self._known.get(row[0], _NOTHING) != row[1]]
        for key, state, _, _ in fresh:
            self._known[key] = state
        if self._form == "table":
            self._print([[visible("" if cell is None else str(cell)) for cell in cells] for *_, cells in fresh])
        elif self._form == "name":
            names(self._kind, [value for _, _, value, _ in fresh])
        else:
            for _, _, value, _ in fresh:
                document(self._form, value)

    def forget(self, key: Hashable) -> None:
        """Let a thing that has gone be forgotten: it is new if it comes back."""
        self._known.pop(key, None)

    def _print(self, cells: list[list[str]]) -> None:
        heads = [column.upper() for column in self._columns]
        if self._widths is None:  # headings come with the first row, as kubectl has it
            if not cells:
                return
            cells = [heads, *cells] if self._headings else cells
            self._widths = [0] * len(heads)
        if cells:
            self._widths = widths([[" " * width for width in self._widths], *cells])
        for shown in list(aligned([" " * width for width in self._widths], cells))[1:]:
            line(shown.rstrip())


_NOTHING = object()


def document(form: str, value: Any) -> None:
    """Print one of several values that come one by one: JSON in a line, YAML as a document."""
    if form == "json":
        import msgspec

        click.echo(escaped(msgspec.json.encode(value).decode()))
        return
    if not form.startswith(JSONPATH):
        click.echo("---")
    dump(form, value)
