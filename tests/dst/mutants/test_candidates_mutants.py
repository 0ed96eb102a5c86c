"""The scene of candidates bites: each deliberate bug breaks a rule, in its scene or at its seed."""

from __future__ import annotations

import pytest

from controlplane.dst.play import play
from tests.dst.mutants.candidates import BUGS, find
from tests.dst.mutants.hunt import shown

pytestmark = pytest.mark.deep

MORE = range(1, 21)  # where to look when the service has changed so much that the known seed no longer shows it


@pytest.mark.parametrize("name", BUGS)
def test_it_is_found(name: str) -> None:
    bug = BUGS[name]
    found = find(bug, [bug.seed, *MORE])
    assert found is not None, f"nothing notices that {bug.what}"


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug.scene is not None])
def test_its_scene_holds_without_it(name: str) -> None:
    scene = BUGS[name].scene
    assert scene is not None
    assert play(scene).violation is None


def test_the_page_shows_them_all() -> None:
    rows = shown(r"(candidates \d+|a scene by hand)")
    assert {name: tuple(row) for name, *row in rows} == {
        name: (bug.what, bug.rule, bug.where) for name, bug in BUGS.items()
    }
