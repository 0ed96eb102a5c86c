"""Defects that were found and are not mended yet, and what shows them. Whoever mends one moves its lines to test_regressions.

`KNOWN`: seeds of the ordinary run, with the reason. `OPEN`: the smallest forms that were found, as (seed, `--steps`, why), of the first
edition of plans; `OPEN_IN_2`: of the second.
"""

from __future__ import annotations

BUSY = "a watch that was refused by a busy server is resumed, and a restore in between is not noticed"

LIVES = "the management cluster is restored while a last status is written, and the copy goes before the job is seen in its new life"

KNOWN: dict[int, str] = {
    164: LIVES,
}

OPEN: list[tuple[int, str, str]] = []

OPEN_IN_2: list[tuple[int, str, str]] = [
    (164, "1-2,4-5,15-17", LIVES),
    (1493, "1-4,7-8,19", BUSY),
]
