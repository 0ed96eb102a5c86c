"""Keeps Python's collector of cycles from acting for a while."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Collect no cycles in the block: many objects that stay are made without being looked through again and again, and
    no finalizer comes at a step that nobody knows."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
