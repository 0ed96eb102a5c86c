"""Seeds that break a rule at the moment, and the defect that each of them shows. Whoever mends one takes its seeds out."""

from __future__ import annotations

RESTORED = "a restored or rebuilt cluster whose resourceVersions have overtaken ours is not noticed"
LAST_STATUS = "a Workload is finished without its job's last status"

KNOWN: dict[int, str] = {
    3: RESTORED,
    9: RESTORED,
    30: RESTORED,
    32: RESTORED,
    58: RESTORED,
}
