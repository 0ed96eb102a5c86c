"""The page that walks through the code from a watch line to a request is what happens."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import controlplane
from tests.outages.stage import Stage

PACKAGE = Path(controlplane.__file__).parent
PAGE = PACKAGE.parent / "docs/explanation/from-watch-to-request.md"
_HOP = re.compile(r"^\| \d+ \| `([^`]+)` \| `([^`]+)` \|", re.MULTILINE)
Call = tuple[str, str]


async def test_the_functions_of_the_page_are_called_in_its_order(stage: Callable[..., Awaitable[Stage]]) -> None:
    hops: list[Call] = _HOP.findall(PAGE.read_text())
    assert (len(hops), len({file for file, _ in hops})) == (16, 15)
    on = await stage("a")
    calls: list[Call] = []
    wanted = {(str(PACKAGE / file), name.rpartition(".")[2]): (file, name) for file, name in hops}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        hop = wanted.get((code.co_filename, code.co_name)) if event == "call" else None
        if hop is not None and code.co_qualname == hop[1]:
            calls.append(hop)

    sys.setprofile(note)
    try:
        on.submit_for("train-0", "1h")
        await on.running(name="train-0")
    finally:
        sys.setprofile(None)
    left = list(hops)
    for call in calls:
        if left and call == left[0]:
            left.pop(0)
    assert left == [], "these were not called after those before them"
