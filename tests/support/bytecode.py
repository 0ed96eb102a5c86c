"""Where the run keeps compiled modules, if the environment wants none beside the sources.

In: `PYTHONDONTWRITEBYTECODE`, as CI sets it. Out: the same modules compiled once, in pytest's own cache, instead of
once in each process: the tests start the program more than a hundred times, and half of a start was compiling."""

from __future__ import annotations

import os
import sys

import pytest


def keep(config: pytest.Config) -> None:
    """Let this process and those that it starts keep bytecode in pytest's cache, unless they keep it as usual."""
    if not sys.dont_write_bytecode or not hasattr(config, "cache") or config.cache is None:
        return
    try:
        place = str(config.cache.mkdir("bytecode"))
    except OSError:  # a tree that can only be read
        return
    sys.pycache_prefix, sys.dont_write_bytecode = place, False
    os.environ["PYTHONPYCACHEPREFIX"] = place
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
