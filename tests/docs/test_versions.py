"""The site has a folder a release, and the newest one is where readers begin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.test_site import SITE
from tests.docs.versions import publish


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


def test_releases_are_beside_one_another(site: Path, tmp_path: Path) -> None:
    published = tmp_path / "published"
    for release, newest in (("v0.9.0", "0.9"), ("0.10.1", "0.10"), ("0.9.1", "0.10"), ("0.10.2", "0.10")):
        (site / "index.html").write_text(release)
        (site / f"page-of-{release}.html").write_text("")
        assert publish(site, published, release)[0] == newest
        (site / f"page-of-{release}.html").unlink()
    assert json.loads((published / "versions.json").read_text()) == [
        {"version": "0.10", "title": "0.10", "aliases": ["latest"]},
        {"version": "0.9", "title": "0.9", "aliases": []},
    ]
    assert (published / "latest/index.html").read_text() == (published / "0.10/index.html").read_text() == "0.10.2"
    assert (published / "0.9/index.html").read_text() == "0.9.1"
    assert sorted(one.name for one in (published / "0.9").iterdir()) == ["index.html", "page-of-0.9.1.html"]
    assert "latest/" in (published / "index.html").read_text()


@pytest.mark.parametrize("release", ["main", "1.2", "1.2.3-rc1", "../1.2.3"])
def test_what_is_no_release_is_refused(site: Path, tmp_path: Path, release: str) -> None:
    (site / "index.html").touch()
    with pytest.raises(ValueError, match="no release"):
        publish(site, tmp_path / "published", release)


def test_what_is_no_site_is_refused(site: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make docs"):
        publish(site, tmp_path / "published", "1.2.3")
    assert not (tmp_path / "published").exists()


def test_the_theme_shows_the_choice() -> None:
    assert SITE["extra"]["version"]["provider"] == "mike"  # the form of the list
