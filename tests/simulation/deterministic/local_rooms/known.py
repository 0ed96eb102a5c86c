"""Defects that the local scene has found and that are not mended yet. Whoever mends one takes its lines away.

`KNOWN`: seeds of the ordinary run, with the reason. `OPEN`: the smallest forms that were found, as (seed, `--steps`, why).
"""

from __future__ import annotations

END = (
    "a PodGroup comes and goes within one batch of the scheduler's watch: its end is not recorded, since its coming is not folded yet, "
    "and the scheduler's log believes in it for ever"
)

KNOWN: dict[int, str] = {
    40: END,
}

OPEN: list[tuple[int, str, str]] = [
    (40, "2-4", END),
]
