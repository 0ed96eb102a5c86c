"""The service runs on uvloop's event loop, and on asyncio's own where there is no uvloop."""

from __future__ import annotations

import asyncio
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
