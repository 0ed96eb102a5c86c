"""Defects that were found and are not mended yet, and what shows them. Whoever mends one moves its lines to test_regressions.

`KNOWN`: seeds of the ordinary run. `OPEN`: the smallest forms that were found, as (seed, `--steps`, why), of the first edition of plans.
"""

from __future__ import annotations

OVERTAKEN = "a restored or rebuilt cluster is not noticed once its resourceVersions have reached ours"

KNOWN: dict[int, str] = {
    3: OVERTAKEN,
    9: OVERTAKEN,
    30: OVERTAKEN,
    32: OVERTAKEN,
}

OPEN: list[tuple[int, str, str]] = [
    (58, "1-2,5", OVERTAKEN),
    (257, "3,5-6", OVERTAKEN),
    (374, "5-7", OVERTAKEN),
]
