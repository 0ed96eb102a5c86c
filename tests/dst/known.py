"""Defects that were found and are not mended yet, and what shows them. Whoever mends one moves its lines to
test_regressions.

`KNOWN`: seeds of the ordinary run, with the reason. `OPEN`: the smallest forms that were found, as (seed, `--steps`,
why), of the first edition of plans; `OPEN_IN_2`: of the second; `OPEN_CANDIDATES_IN_10`:
of the tenth, of the scene of candidates."""

from __future__ import annotations

KNOWN: dict[int, str] = {}

OPEN: list[tuple[int, str, str]] = []

OPEN_IN_2: list[tuple[int, str, str]] = []

OPEN_CANDIDATES_IN_10: list[tuple[int, str, str]] = [
    (
        945316,
        "",
        # An API server never stores a Pod whose status has a field of another type, so this is no run that a cluster
        # can give. It is what decision 0063 says of permits that nobody can know: the pod names its target once that
        # was written on it.
        "a second permit: the log went back, the target is away, and the pod, which nobody could read, does not name it",
    ),
]
