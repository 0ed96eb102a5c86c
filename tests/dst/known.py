"""Defects that were found and are not mended yet, and what shows them. Whoever mends one moves its lines to
test_regressions.

`KNOWN`: seeds of the ordinary run, with the reason. `OPEN`: the smallest forms that were found, as (seed, `--steps`,
why), of the first edition of plans; `OPEN_IN_2`: of the second."""

from __future__ import annotations

KNOWN: dict[int, str] = {}

OPEN: list[tuple[int, str, str]] = []

OPEN_IN_2: list[tuple[int, str, str]] = []
