"""`docs/reference/events.md` is what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from controlplane.audit.pod_words import POD_EVENTS, POD_REASONS
from controlplane.audit.reference import WRITES, reference
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import EVENTS, WorkloadWrite
from controlplane.controllers.multikueue.reasons import WorkloadReason

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "events.md"


def test_the_page_is_the_one_that_the_code_writes() -> None:
    assert PAGE.read_text() == reference(), "run: python -m controlplane.audit.reference > docs/reference/events.md"


def test_the_program_writes_it() -> None:
    command = [sys.executable, "-m", "controlplane.audit.reference"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == reference()


def test_every_write_says_what_it_writes_to() -> None:
    assert set(WRITES) == {event for event in EVENTS if issubclass(event, WorkloadWrite)}


def test_it_names_every_event_and_reason() -> None:
    page = reference()
    for event in MultiKueueController.types:
        assert page.count(f"| `{event.__name__}` |") == 1
        assert page.count(f"- `{event.__name__}`:") == 1
    workloads, _, pods = page.partition("## Candidate pods")
    told, _, pods = pods.partition("### Reasons about source pods")
    for event in POD_EVENTS:
        assert told.count(f"| `{event.__name__}` |") == 1
        assert pods.count(f"- `{event.__name__}`:") == 1
    for about in POD_REASONS:
        assert pods.count(f"| `{about}` |") == 1
    page = workloads
    for reason in WorkloadReason:
        assert page.count(f"| `{reason}` |") == 1
