"""Puts the site of one release beside those of the releases before it, in the form that the theme's choice of versions
reads (`versions.json` above the folders of the versions).

    python -m tests.docs.versions SITE PUBLISHED VERSION

In: a folder that `make docs` made, the folder with what is published, and the release, `1.2.3` or `v1.2.3`. Out: the
folder `PUBLISHED/1.2`, its copy `PUBLISHED/latest` if no newer release is there, and a start page that leads to
`latest`. A version that was there before is replaced: patch releases share one folder."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

LIST, LATEST = "versions.json", "latest"
START = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Controlplane</title>
<meta http-equiv="refresh" content="0; url=latest/"><link rel="canonical" href="latest/"></head>
<body><a href="latest/">The documentation of the newest release</a></body></html>
"""


def publish(site: Path, published: Path, release: str) -> list[str]:
    """See the module; return the versions that are published, the newest first. Raises `ValueError` for a release that
    is none."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)\.\d+", release)
    if found is None:
        raise ValueError(f"{release} is no release: expected 1.2.3")
    if not (site / "index.html").is_file():
        raise ValueError(f"{site} has no index.html: run `make docs`")
    version = f"{found[1]}.{found[2]}"
    _replace(site, published / version)
    versions = sorted({version, *_known(published)}, key=_order, reverse=True)
    if versions[0] == version:
        _replace(site, published / LATEST)
    listed = [{"version": one, "title": one, "aliases": [LATEST] if one == versions[0] else []} for one in versions]
    (published / LIST).write_text(json.dumps(listed, indent=1) + "\n")
    (published / "index.html").write_text(START)
    (published / ".nojekyll").touch()
    return versions


def _known(published: Path) -> list[str]:
    path = published / LIST
    return [one["version"] for one in json.loads(path.read_text())] if path.is_file() else []


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _replace(site: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(site, folder)


if __name__ == "__main__":
    try:
        print("published:", *publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
    except (IndexError, ValueError) as error:
        sys.exit(f"Error: {error}" if isinstance(error, ValueError) else __doc__)
