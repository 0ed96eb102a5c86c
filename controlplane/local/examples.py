"""The examples of the repository, from wherever they are: in a wheel inside the package, in a checkout beside it."""

from __future__ import annotations

from pathlib import Path

import yaml

from controlplane.kube.kinds import Json

_PACKAGE = Path(__file__).resolve().parents[1]


def examples() -> Path:
    """Return the folder of the examples."""
    packaged = _PACKAGE / "_examples"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "examples"


def jobs_file() -> Path:
    """Return the file with the demo's Jobs."""
    return examples() / "demo" / "jobs.yaml"


def jobs() -> list[Json]:
    """Return the demo's Jobs."""
    return [document for document in yaml.safe_load_all(jobs_file().read_text(encoding="utf-8")) if document]
