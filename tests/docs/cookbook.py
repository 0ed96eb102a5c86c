"""The questions of the auditor's cookbook, and their answers on the log of `fleet_story`.

`python -m tests.docs.cookbook` writes the answers into the page anew: read them before they are committed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

from controlplane.audit.reads import READ
from controlplane.log import schema
from tests.audit.database import keep
from tests.docs.fleet_story import TEMPLATES, story
from tests.docs.snippets import ROOT
from tests.support import postgres

PAGE = ROOT / "docs/howto/auditors-cookbook.md"
ENTRY = re.compile(
    r"^### (?P<question>[^\n]+)\n\n```sql\n(?P<query>.*?)```\n\n```text\n(?P<answer>.*?)```$", re.MULTILINE | re.DOTALL
)


class Entry(NamedTuple):
    question: str
    query: str
    answer: str


def entries(page: str) -> list[Entry]:
    return [Entry(match["question"], match["query"], match["answer"]) for match in ENTRY.finditer(page)]


def shown(value: Any) -> str:
    """Return a value as the page shows it; times are UTC, to the second."""
    match value:
        case None:
            return "-"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case list():
            return ", ".join(map(shown, value)) or "-"
        case dict():
            return json.dumps(value, sort_keys=True)
        case _:
            return str(value).partition(".")[0] if type(value).__name__ == "timedelta" else str(value)


def lines(header: list[str], rows: list[tuple[Any, ...]]) -> Iterator[str]:
    """Yield the lines of an answer, in columns."""
    table = [header, *([shown(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        yield "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()


def answer(url: str, query: str) -> str:
    """Return the answer to a query as somebody gets it who may only read."""
    with psycopg.connect(url, options="-c timezone=UTC") as connection:
        connection.execute("SET ROLE controlplane_reader")
        cursor = connection.execute(query.encode())
        header = [column.name for column in cursor.description or ()]
        return "".join(f"{line}\n" for line in lines(header, cursor.fetchall()))


def tell(url: str) -> None:
    """Write the log of the story into a database."""
    asyncio.run(keep(url, story().recorded, types=READ))
    with psycopg.connect(url) as connection:
        connection.cursor().executemany(
            "INSERT INTO controlplane.bodies (hash, body, recorded_at) VALUES (%s, %s, now())",
            [(body.hash, body.text) for body in TEMPLATES.values()],
        )


def with_fleet(server: postgres.Server, template: str) -> Iterator[str]:
    """Yield the URL of a database with the log of the story, for tests that write nothing."""
    name = postgres.new_name("fleet")
    url = server.create(name, template)
    try:
        tell(url)
        yield url
    finally:
        server.drop(name)


def main() -> None:
    """Write the answers into the page anew."""
    with postgres.server() as server:
        url = server.create(postgres.new_name("cookbook"))
        schema.upgrade(url)
        tell(url)

        def answered(match: re.Match[str]) -> str:
            start, end = match.start("answer") - match.start(), match.end("answer") - match.start()
            return f"{match[0][:start]}{answer(url, match['query'])}{match[0][end:]}"

        PAGE.write_text(ENTRY.sub(answered, PAGE.read_text()))


if __name__ == "__main__":
    main()
