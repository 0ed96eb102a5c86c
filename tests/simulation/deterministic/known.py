"""Defects that are known and not mended yet, and what shows them. Whoever mends one takes its seeds out.

`KNOWN`: seeds of the ordinary run. `OPEN`: the smallest forms that were found, as (seed, `--steps`).
"""

from __future__ import annotations

OVERTAKEN = "a restored or rebuilt cluster is not noticed once its resourceVersions have reached ours"
FORGOTTEN = "a position that was forgotten comes back with the next bookmark, and the kind is not listed"
LAST_STATUS = "a Workload is finished without its job's last status: the patience counts from when the copy finished"
TRANSIENT = "a Workload is finished without its job's last status after three answers that only said to come back later"

KNOWN: dict[int, str] = {
    3: OVERTAKEN,
    9: OVERTAKEN,
    30: OVERTAKEN,
    32: OVERTAKEN,
    58: OVERTAKEN,
}

OPEN: list[tuple[int, str, str]] = [
    (58, "1-2,5", OVERTAKEN),
    (257, "3,5-6", OVERTAKEN),
    (315, "3-4", OVERTAKEN),
    (374, "5-7", OVERTAKEN),
    (512, "2,4-6,11", FORGOTTEN),
    (168, "5,9", LAST_STATUS),
    (376, "1-4", LAST_STATUS),
    (439, "2-3,5-6,11-12", LAST_STATUS),
    (307, "1,3-8", TRANSIENT),
]
