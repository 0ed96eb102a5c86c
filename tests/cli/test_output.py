"""Tables in a pipe: every line whole, aligned as on a terminal that is wide enough."""

from __future__ import annotations

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
