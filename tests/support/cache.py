"""Where the run keeps what other processes of it, and later runs, need not make again: in pytest's own cache."""

from __future__ import annotations

from pathlib import Path

import pytest

_root: pytest.Cache | None = None


def keep(config: pytest.Config) -> None:
    """Let this process keep things."""
    global _root
    _root = getattr(config, "cache", None)


def place(name: str) -> Path | None:
    """Return the folder for things of one sort; None if this run keeps none."""
    try:
        return None if _root is None else _root.mkdir(name)
    except OSError:  # a tree that can only be read
        return None
