"""Every query of the auditor's cookbook has the answer that the page shows."""

from __future__ import annotations

import re

import psycopg

from tests.docs.cookbook import PAGE, Entry, answer, entries
from tests.support.rows import each

ENTRIES = entries(PAGE.read_text())


@each("entry", ENTRIES, ids=lambda entry: entry.question)
def test_the_answer_is_the_one_that_is_shown(fleet_url: str, entry: Entry) -> None:
    assert answer(fleet_url, entry.query) == entry.answer


def test_every_question_has_a_query_and_an_answer() -> None:
    assert [entry.question for entry in ENTRIES] == re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    assert len(ENTRIES) >= 40
    empty = [entry.question for entry in ENTRIES if len(entry.answer.splitlines()) < 2]
    assert empty == [entry.question for entry in ENTRIES if entry.question.endswith("(nothing)")]


def test_every_view_and_function_is_used(fleet_url: str) -> None:
    with psycopg.connect(fleet_url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'audit'::regnamespace AND relkind = 'v'"
            " UNION SELECT proname FROM pg_proc WHERE pronamespace = 'audit'::regnamespace"
        ).fetchall()
    used = {word for entry in ENTRIES for word in re.findall(r"audit\.(\w+)", entry.query)}
    assert {name for (name,) in rows} - used == set()
