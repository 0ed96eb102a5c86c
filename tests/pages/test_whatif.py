"""Reports of `controlplane whatif` are shown as the command prints them, and nothing else of their directory is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from controlplane.pages.views import whatif
from tests.audit.database import keep
from tests.cli.test_whatif import QUEUED, invoke
from tests.pages.serving import served
from tests.support import postgres
from tests.whatif.logs import played


@pytest.fixture(scope="module")
def queued(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with the log of thirty Jobs."""
    name = postgres.new_name("whatif")
    url = postgres_server.create(name, migrated_template)
    asyncio.run(keep(url, played(QUEUED)))
    yield url
    postgres_server.drop(name)


@pytest.fixture(scope="module")
def directory(queued: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports as the command writes them, and files that are none."""
    made = tmp_path_factory.mktemp("reports")
    (made / "without w2.json").write_text(invoke(queued, "--without", "w2", "-o", "json").stdout)
    (made / "broken.json").write_text('{"log": "main"')
    (made / "notes.txt").write_text("not a report")
    (made.parent / "secret.json").write_text((made / "without w2.json").read_text())
    (made / "elsewhere.json").symlink_to(made.parent / "secret.json")
    return made


@pytest.fixture(scope="module")
def shown(queued: str, directory: Path) -> Iterator[TestClient]:
    with served(queued, whatif_directory=str(directory)) as client:
        yield client


def test_a_report_says_what_the_command_prints(shown: TestClient, queued: str, directory: Path) -> None:
    printed = invoke(queued, "--without", "w2").stdout
    page = shown.get("/whatif/without w2").text
    story: Any = shown.get("/api/v1/whatif/without w2").json()
    assert story["columns"] == ["recorded", "played again", "what if"]
    assert story["changes"] == ["without w2"]
    rows = {row[:24].strip(): row[24:].split() for row in printed.splitlines() if row[:24].strip()}
    for one in story["figures"]:
        for cell in rows[one["name"]]:
            assert cell in page, (one["name"], cell)
    report = json.loads((directory / "without w2.json").read_text())
    (waits,) = [one["values"] for one in story["figures"] if one["name"] == "wait, median"]
    assert waits == [report[name]["wait_p50"] for name in ("recorded", "played", "alternative")]
    assert {one["name"] for one in story["clusters"]} == {"w1", "w2", "w3"}
    assert [(one["name"], one["decided"], len(one["wait"])) for one in story["queues"]] == [
        ("cluster-queue", "capacity", 3)
    ]
    assert "ClusterQueues" in page
    assert page.count("<path d=") > 20


def test_the_list_has_the_reports_and_says_what_is_none(shown: TestClient) -> None:
    items = {one["name"]: one for one in shown.get("/api/v1/whatif").json()["items"]}
    assert set(items) == {"without w2", "broken"}
    assert (items["without w2"]["trouble"], items["without w2"]["changes"]) == ("", ["without w2"])
    assert "is not what `controlplane whatif -o json` writes" in items["broken"]["trouble"]
    assert "It cannot be read" in shown.get("/whatif").text


@pytest.mark.parametrize("name", ["broken", "notes", "elsewhere", "..%2Fsecret", "..", "nothing", "notes.txt"])
def test_no_name_leads_to_anything_else(shown: TestClient, name: str) -> None:
    assert shown.get(f"/api/v1/whatif/{name}").status_code == 404


def test_without_a_directory_the_page_says_what_to_set(pages: TestClient) -> None:
    assert "Set <code>web.whatifDirectory</code>" in pages.get("/whatif").text


def test_a_directory_that_is_not_there_is_one_sentence(queued: str) -> None:
    with served(queued, whatif_directory="/nonexistent/reports") as client:
        answer = client.get("/whatif")
        assert (answer.status_code, "cannot be read: No such file or directory" in answer.text) == (404, True)


def test_a_report_that_is_removed_meanwhile_is_not_listed(
    shown: TestClient, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.scandir
    (directory / "old.json").write_text("{}")

    def then_removed(path: str) -> contextlib.AbstractContextManager[list[os.DirEntry[str]]]:
        entries = list(listed(path))
        (directory / "old.json").unlink(missing_ok=True)
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(whatif.os, "scandir", then_removed)
    answer = shown.get("/api/v1/whatif")
    assert answer.status_code == 200
    assert {one["name"] for one in answer.json()["items"]} == {"without w2", "broken"}
