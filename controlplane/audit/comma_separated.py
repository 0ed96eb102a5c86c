"""A row of CSV (RFC 4180) that a spreadsheet shows as it is, and does not reckon with.

In: cells. Out: a line. Names, labels and messages come from clusters, and who may create a job chooses them: a cell
that begins as a formula does is given an apostrophe, which spreadsheets take for "this is text", and one that a
spreadsheet with another separator would take apart is quoted (https://owasp.org/www-community/attacks/CSV_Injection).
Numbers stay numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r'[",;\t\r\n]')


def row(cells: Sequence[object]) -> str:
    """Return a line, with its end; None is an empty cell."""
    written = [_cell("" if cell is None else str(cell)) for cell in cells]
    # A line without anything would be no row.
    return ",".join(written if written != [""] else ['""']) + "\r\n"


def _cell(text: str) -> str:
    if _FORMULA.match(text) and _NUMBER.fullmatch(text) is None:
        text = f"'{text}"
    return '"{}"'.format(text.replace('"', '""')) if _QUOTED.search(text) else text
