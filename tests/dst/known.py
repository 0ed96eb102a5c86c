"""Defects that were found and are not mended yet, and what shows them. Whoever mends one moves its lines to
test_regressions.

`KNOWN`: seeds of the ordinary run, with the reason. `OPEN`: the smallest forms that were found, as (seed, `--steps`,
why), of the first edition of plans; `OPEN_IN_2`: of the second."""

from __future__ import annotations

KNOWN: dict[int, str] = {
    250: "copies of pods are deleted before their end was seen, their group's Workload finishes without them, and the"
    " users' pods never show an end",
}

OPEN: list[tuple[int, str, str]] = []

OPEN_IN_2: list[tuple[int, str, str]] = []
