"""The reference names everything there is, and nothing that is not."""

from __future__ import annotations

import re

import click
import psycopg
import pytest

from controlplane.cli import cli
from controlplane.controllers.manifests import SCHEDULER, SERVICE
from controlplane.runtime.manifest import Manifest
from tests.docs.snippets import ROOT
from tests.interface.shape import scheduler, service
from tests.support.rows import each

REFERENCE = ROOT / "docs/reference"
CODE = re.compile(r"`([^`]+)`")


def first_column(page: str, heading: str) -> set[str]:
    """Return the code words in the first column of the tables below a heading."""
    text = (REFERENCE / page).read_text()
    sections = re.split(r"^###? ", text, flags=re.MULTILINE)
    found = next((section for section in sections if section.startswith(f"{heading}\n")), "")
    rows = [line.split("|")[1] for line in found.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in CODE.findall(row)}


PAGES = {
    "events.md": SERVICE,
    "scheduler-events.md": [manifest for manifest in SCHEDULER if manifest not in SERVICE],
}
SECTIONS = [pytest.param(page, one, id=one.title) for page, manifests in PAGES.items() for one in manifests]


@each(("page", "manifest"), SECTIONS)
def test_every_event_and_reason_is_there(page: str, manifest: Manifest) -> None:
    decisions, reasons = f"Decisions: {manifest.title}", f"Reasons: {manifest.title}"
    assert first_column(page, manifest.title) == {event.__name__ for event in manifest.others()}
    assert first_column(page, decisions) == {event.__name__ for event in manifest.decisions()}
    assert first_column(page, reasons) == set(map(str, manifest.reasons))


@each(("page", "manifest"), SECTIONS)
def test_writes_are_told_from_other_decisions(page: str, manifest: Manifest) -> None:
    write = manifest.write
    writes = {event.__name__ for event in manifest.decisions() if write is not None and issubclass(event, write)}
    names = {event.__name__ for event in manifest.decisions()}
    rows = re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", (REFERENCE / page).read_text(), re.MULTILINE)
    assert {name for name, to in rows if name in names and to.strip() != "none"} == writes


def test_the_streams_are_those_that_somebody_owns() -> None:
    for page, process in (("events.md", service()), ("scheduler-events.md", scheduler())):
        owned = {word for registration in process.registrations for word in registration.owns}
        documented = {re.split("[/,]", pattern)[0] for pattern in first_column(page, "Streams")}
        known = {word for manifest in (*SERVICE, *SCHEDULER) for word in first_words(manifest)}
        assert documented <= owned | {"fit", "worker", "quota"}
        assert owned <= known


def first_words(manifest: Manifest) -> set[str]:
    return {re.split("[/,]", pattern)[0] for pattern in manifest.streams}


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
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
            "n.nspname IN ('controlplane', 'audit') AND c.relkind::text = ANY (%s) AND c.relname <> 'alembic_version' "
            "AND NOT c.relispartition",
            [kinds],
        ).fetchall()
    assert first_column("sql.md", heading) == {name for (name,) in rows}


def test_every_column_of_a_view_is_there(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
            " WHERE c.relnamespace = 'audit'::regnamespace AND c.relkind = 'v' AND c.relname <> 'streams'"
        ).fetchall()
    everywhere = first_column("sql.md", "The same everywhere")
    described = {view: first_column("sql.md", f"`audit.{view}`") for view, _ in rows}
    assert [(view, column) for view, column in rows if column not in described[view] and column != "log"] == []
    assert {word for words in described.values() for word in words} >= everywhere


def test_every_function_is_there(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT p.proname, obj_description(p.oid) FROM pg_proc p WHERE p.pronamespace = 'audit'::regnamespace"
        ).fetchall()
    assert {name for name, said in rows if said} == {
        re.sub(r"audit\.(\w+)\(.*", r"\1", word) for word in first_column("sql.md", "Functions")
    }
