"""The service runs on uvloop's event loop, and on asyncio's own where there is no uvloop."""

from __future__ import annotations

import asyncio
import resource
import sys

import pytest

from controlplane import event_loop


async def _module() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_it_is_uvloops_where_there_is_one() -> None:
    pytest.importorskip("uvloop")
    assert event_loop.run(_module()) == "uvloop"


def test_it_is_asyncios_own_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.run(_module()).startswith("asyncio.")


def test_what_is_raised_comes_out() -> None:
    async def failing() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        event_loop.run(failing())


def test_it_may_have_as_many_files_as_the_system_allows() -> None:
    """Each watch is a connection, and the soft limit of a container is often 1024."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    try:
        event_loop.run(_module())
        now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        hard = before[1] if before[1] != resource.RLIM_INFINITY else event_loop.MOST_FILES
        assert now == min(hard, event_loop.MOST_FILES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
