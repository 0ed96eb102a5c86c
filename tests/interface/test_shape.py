"""Nothing of what users rely on is lost: whatever `shape.json` names is still there. What is new is added to it by
hand.

`python -m tests.interface.test_shape` adds what is new to the file and keeps what it has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interface.shape import picture

FILE = Path(__file__).parent / "shape.json"


def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return picture()


def test_events_keep_their_names_schemas_and_fields(now: dict[str, Any]) -> None:
    for name, event in kept()["events"].items():
        assert name in now["events"], f"{name} is in logs"
        found = now["events"][name]
        assert found["schema"] >= event["schema"], name
        assert event["fields"].keys() <= found["fields"].keys(), name
        new = found["fields"].keys() - event["fields"].keys()
        assert found["schema"] > event["schema"] or all(found["fields"][field] == "optional" for field in new), name
        for field, need in event["fields"].items():
            assert found["fields"][field] in (need, "optional"), f"{name}.{field}"


def test_streams_keep_their_first_words_and_what_identities_begin_with(now: dict[str, Any]) -> None:
    for process, streams in kept()["streams"].items():
        assert streams.items() <= now["streams"][process].items()


def test_metrics_keep_their_names_kinds_and_labels(now: dict[str, Any]) -> None:
    assert kept()["metrics"].items() <= now["metrics"].items()


def test_commands_keep_their_options(now: dict[str, Any]) -> None:
    for command, options in kept()["commands"].items():
        assert set(options) <= set(now["commands"].get(command, ())), command


def test_settings_keep_their_names_and_variables(now: dict[str, Any]) -> None:
    assert kept()["settings"].items() <= now["settings"].items()


def test_nothing_is_kept_that_the_file_does_not_name(now: dict[str, Any]) -> None:
    """What is new is an interface from its release on: it has to be in the file, which a review sees."""
    assert {part: set(now[part]) - set(found) for part, found in kept().items()} == {part: set() for part in kept()}


def added(old: Any, new: Any) -> Any:
    """Return the old value with what only the new one has."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: added(old[key], new[key]) if key in old and key in new else (old | new)[key] for key in old | new}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *(item for item in new if item not in old)]
    return old


if __name__ == "__main__":
    FILE.write_text(json.dumps(added(kept() if FILE.exists() else {}, picture()), indent=1, sort_keys=True) + "\n")
