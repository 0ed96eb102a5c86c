"""The reference names everything there is, and nothing that is not."""

from __future__ import annotations

import re

import click
import psycopg
import pytest

from controlplane.cli import cli
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.multikueue import events as multikueue
from controlplane.controllers.multikueue.reasons import WorkloadReason
from tests.docs.snippets import ROOT

REFERENCE = ROOT / "docs/reference"
CODE = re.compile(r"`([^`]+)`")


def first_column(page: str, heading: str) -> set[str]:
    """Return the code words in the first column of the tables below a heading."""
    text = (REFERENCE / page).read_text()
    sections = re.split(r"^###? ", text, flags=re.MULTILINE)
    found = next((section for section in sections if section.startswith(f"{heading}\n")), "")
    rows = [line.split("|")[1] for line in found.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in CODE.findall(row)}


def test_every_event_is_there() -> None:
    documented = {
        word for heading in ("Connections", "Observations", "Decisions") for word in first_column("events.md", heading)
    }
    assert documented == {event.__name__ for event in (*connectivity.EVENTS, *multikueue.EVENTS)}


def test_decisions_are_told_from_what_was_seen() -> None:
    decisions = {event.__name__ for event in multikueue.EVENTS if issubclass(event, multikueue.WorkloadDecision)}
    assert decisions == first_column("events.md", "Decisions") - {"EffectFailed", "EffectUnneeded"}
    writes = {event.__name__ for event in multikueue.EVENTS if issubclass(event, multikueue.WorkloadWrite)}
    rows = re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", (REFERENCE / "events.md").read_text(), re.MULTILINE)
    assert {name for name, write in rows if name in decisions and write.strip() != "none"} == writes


def test_every_reason_is_there() -> None:
    assert first_column("events.md", "Reasons") == set(WorkloadReason)


def verbs(group: click.Group, path: str = "controlplane") -> set[str]:
    """Return every command that can be typed, as it is typed."""
    found: set[str] = set()
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            found |= verbs(command, f"{path} {name}")
        if not isinstance(command, click.Group) or command.invoke_without_command:
            found.add(f"{path} {name}")
    return found


def test_every_verb_has_a_heading() -> None:
    headings = re.findall(r"^## `([^`]+)`$", (REFERENCE / "cli.md").read_text(), re.MULTILINE)
    assert {
        " ".join(word for word in heading.split() if not re.match(r"[A-Z\[-]", word)) for heading in headings
    } == verbs(cli)


@pytest.mark.parametrize("heading", ["Tables", "Views"])
def test_every_table_and_view_is_there(database_url: str, heading: str) -> None:
    kinds = {"Tables": ["r", "p"], "Views": ["v", "m"]}[heading]
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname IN ('controlplane', 'audit') AND c.relkind::text = ANY (%s) AND c.relname <> 'alembic_version'",
            [kinds],
        ).fetchall()
    assert first_column("sql.md", heading) == {name for (name,) in rows}
