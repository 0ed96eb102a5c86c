"""Tables in a pipe: every line whole, aligned as on a terminal that is wide enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.cli.output import aligned, folded, visible

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
