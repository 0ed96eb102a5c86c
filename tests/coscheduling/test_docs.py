"""The reference names every event and reason of the room, and every field of the plan, and nothing that is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from controlplane.controllers.coscheduling.events import EVENTS
from controlplane.controllers.coscheduling.placement.plan import PlacementPlan, plan_json
from controlplane.controllers.coscheduling.reasons import CoschedulingReason

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/coscheduling.md").read_text()


def rows(heading: str) -> dict[str, str]:
    section = next(part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith(f"{heading}\n"))
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE))


def test_events() -> None:
    assert rows("Events") == {event.__name__: " ".join((inspect.getdoc(event) or "").split()) for event in EVENTS}


def test_reasons() -> None:
    assert set(rows("Reasons")) == set(CoschedulingReason)


def test_the_plans_fields() -> None:
    assert set(rows("The plan")) == set(plan_json(PlacementPlan()))


def test_reasons_are_used() -> None:
    room = Path(inspect.getfile(CoschedulingReason)).parent
    text = "".join(path.read_text() for path in room.rglob("*.py"))
    assert [reason for reason in CoschedulingReason if f"Reason.{reason.name}" not in text] == []
