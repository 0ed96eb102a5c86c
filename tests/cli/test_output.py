"""Tables in a pipe: every line whole, aligned as on a terminal that is wide enough."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.cli.errors import CommandFailure, Exit, report
from controlplane.cli.following import document
from controlplane.cli.output import aligned, aside, dump, folded, line, visible
from tests.support.rows import each

cells = st.text(st.characters(exclude_categories=("Cs", "Zl", "Zp")), max_size=12).map(visible)
tables = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.text("ABCDEF (GIB)", min_size=1, max_size=8).map(str.strip).filter(bool), min_size=n, max_size=n),
        st.lists(st.lists(cells, min_size=n, max_size=n), max_size=5),
    )
)


@given(tables)
def test_a_pipe_gets_what_a_wide_terminal_shows(table: tuple[list[str], list[list[str]]]) -> None:
    columns, rows = table
    whole = [line.rstrip() for line in aligned(columns, rows)]
    assert whole == [line.rstrip() for line in folded(columns, rows, width=100_000)]


def test_wide_characters_take_two_cells() -> None:
    assert list(aligned(["A", "B"], [["日本", "x"], ["a", "y"]])) == ["A     B", "日本  x", "a     y"]


def test_a_table_without_headings_is_folded_as_one_with_them() -> None:
    rows = [["a", "a long text that has to be wrapped somewhere"], ["b", "c"]]
    lines = [one.rstrip() for one in folded([], rows, 30)]
    assert lines == ["a  a long text that has to be", "   wrapped somewhere", "b  c"]
    assert list(aligned([], rows[1:])) == ["b  c"]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_long_texts_are_wrapped_and_names_stay_whole(width: int) -> None:
    name, at, text = (
        "job-again-00-8ba76",
        "2026-01-01 12:00:00",
        "it was offered to all of them because they can take it " * 3,
    )
    lines = [line.rstrip() for line in folded(["name", "at (UTC)", "what"], [[name, at, text]], width=width)]
    assert max(map(len, lines)) <= width
    assert (len(lines) > 2) == (len(name) + len(at) + len(text) > width)
    assert any(name in line and at in line for line in lines)
    assert " ".join(line[len(name) + len(at) + 4 :].strip() for line in lines[1:]).split() == text.split()


def test_what_fits_only_in_pieces_is_left_to_the_terminal() -> None:
    rows = [["n" * 30, "s" * 30, "word " * 20]]
    assert list(folded(["a", "b", "c"], rows, width=60)) == list(aligned(["a", "b", "c"], rows))


def test_on_a_narrow_terminal_texts_stand_below_what_is_short() -> None:
    columns = ["at (UTC)", "cluster", "what", "why"]
    rows = [
        [
            "2026-01-01 10:00:00",
            "worker-1",
            "copy is to be created (attempt 1)",
            "worker-1 was nominated and has no copy of it yet",
        ],
        ["2026-01-01 10:00:01", "management", "job runs", ""],
    ]
    lines = [line.rstrip() for line in folded(columns, rows, width=48)]
    assert lines == [
        "at (UTC)             cluster",
        "    what",
        "    why",
        "2026-01-01 10:00:00  worker-1",
        "    copy is to be created (attempt 1)",
        "    worker-1 was nominated and has no copy of it",
        "    yet",
        "2026-01-01 10:00:01  management",
        "    job runs",
    ]


class Terminal(io.StringIO):
    """Standard output or error of somebody who sits at a terminal."""

    def isatty(self) -> bool:
        return True


EVIL = "\x1b[2Kall is \x9b1mwell\x7f\r"
OBEYED = {*map(chr, range(32)), *map(chr, range(127, 160))} - {"\n", "\t"}


@contextmanager
def at_a_terminal() -> Iterator[Terminal]:
    found = Terminal()
    with redirect_stdout(found), redirect_stderr(found):
        yield found


@pytest.mark.parametrize("form", ["json", "yaml", "csv", "name", "jsonpath={.items[*].message}"])
def test_what_comes_from_clusters_reaches_no_terminal_as_it_is(form: str) -> None:
    with at_a_terminal() as terminal:
        dump(form, [{"namespace": "default", "name": EVIL, "message": EVIL}], kind="workload")
    said = terminal.getvalue().replace("\r\n", "\n")  # which ends the rows of CSV
    assert "all is" in said
    assert not OBEYED & set(said)


def test_nor_does_it_beside_a_result() -> None:
    with at_a_terminal() as terminal:
        for say in (line, aside, lambda text: document("json", {"message": text})):
            say(EVIL)
        assert report(CommandFailure(f"wrong are\n  {EVIL}\n  and more"), {"NO_COLOR": "1"}) == Exit.FAILED
    said = terminal.getvalue()
    assert said.count("all is") == 4
    assert "\n  and more\n" in said
    assert not OBEYED & set(said)


def test_programs_get_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    value = [{"name": EVIL}]
    dump("json", value)
    assert json.loads(capsys.readouterr().out) == value
    dump("jsonpath={.items[*].name}", value)
    assert capsys.readouterr().out == f"{EVIL}\n"
    dump("csv", value)
    assert capsys.readouterr().out == f'name\r\n"{EVIL}"\r\n'


@each(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("\t=1", '"\'\t=1"'),
        ("\r=1", '"\'\r=1"'),
        ("\n=1", '"\'\n=1"'),
        ("＝1", "'＝1"),
        ('=HYPERLINK("x","y")', '"\'=HYPERLINK(""x"",""y"")"'),
        ("a;=1", '"a;=1"'),
        ("a\t=1", '"a\t=1"'),
        (-5, "-5"),
        (-0.25, "-0.25"),
        ("-5", "-5"),
        ("+3.5e-7", "+3.5e-7"),
        ("-", "'-"),
        ("a=b", "a=b"),
        (["=x"], '"[""=x""]"'),
        (None, '""'),
    ],
)
def test_no_cell_is_a_formula(cell: object, written: str) -> None:
    with redirect_stdout(io.StringIO()) as out:
        dump("csv", [{"name": cell}])
    assert out.getvalue() == f"name\r\n{written}\r\n"
    [_, [read]] = csv.reader(io.StringIO(out.getvalue(), newline=""))
    assert read.removeprefix("'") == ("" if cell is None else '["=x"]' if isinstance(cell, list) else str(cell))


def test_no_heading_is_one_either(capsys: pytest.CaptureFixture[str]) -> None:
    dump("csv", [{"=1+1": 1}])
    assert capsys.readouterr().out == "'=1+1\r\n1\r\n"
