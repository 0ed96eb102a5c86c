"""The pages of events are what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.audit.reference import reference
from controlplane.controllers.manifests import EVERY
from controlplane.runtime.manifest import Manifest
from tests.support.rows import each

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES = {"service": "events.md", "scheduler": "scheduler-events.md"}


@pytest.mark.parametrize("log", PAGES)
def test_the_page_is_the_one_that_the_code_writes(log: str) -> None:
    page = PAGES[log]
    assert (FOLDER / page).read_text() == reference(log), (
        f"run: python -m controlplane.audit.reference {log} > docs/reference/{page}"
    )


@pytest.mark.parametrize("log", PAGES)
def test_the_program_writes_it(log: str) -> None:
    command = [sys.executable, "-m", "controlplane.audit.reference", log]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == reference(log)


@each("manifest", EVERY, ids=lambda manifest: manifest.title)
def test_what_a_write_goes_to_is_said_of_writes_alone(manifest: Manifest) -> None:
    write = manifest.write
    assert all(write is not None and issubclass(event, write) for event in manifest.writes)
    assert not manifest.writes or set(manifest.writes) == {
        event for event in manifest.events if write is not None and issubclass(event, write)
    }


def test_the_fields_of_an_event_are_told_once() -> None:
    page = reference() + reference("scheduler")
    for manifest in EVERY:
        for event in manifest.events:
            assert page.count(f"\n- `{event.__name__}`:") == 1
