"""A report as `controlplane whatif -o json` writes it, for pages that only have to be looked at."""

from __future__ import annotations

from pathlib import Path

import msgspec

_CLUSTER = {"placed": 12, "run_hours": 3.25, "utilisation": 0.283}
_FIGURES = {
    "arrived": 30, "started": 30, "waiting": 0, "finished": 30, "wait_p50": 10.5, "wait_p95": 47.0, "wait_max": 51.1,
    "wait_total": 420.0, "utilisation": 0.2, "run_hours": 0.33, "moves": 3, "lost_hours": 0.04,
    "clusters": {"east": _CLUSTER, "north": {**_CLUSTER, "utilisation": None}, "west": _CLUSTER},
    "preemptions": 2, "queues": {"team-a": {"given": 30, "wait_p50": 8.0, "wait_p95": 40.0, "preemptions": 2}},
}  # fmt: skip
REPORT = {
    "log": "main", "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "changes": ["without west"],
    "capacities": {"east": {"cpu": 8.0}}, "not_simulated": {"its job was never seen": 2},
    "placements": {
        "recorded": 33, "agree": 32, "share": 0.9697,
        "differ": [{"workload": "team-b/job-sim-0a1b2", "recorded": ["north", "west"], "played": ["east"]}],
    },
    "reproduced": False, "recorded": _FIGURES, "played": {**_FIGURES, "wait_p50": 10.4},
    "alternative": {**_FIGURES, "wait_p50": 21.0, "clusters": {"east": {**_CLUSTER, "placed": 24}, "north": _CLUSTER}},
    "queues": {"team-a": "engine"}, "quota": {"recorded": 30, "agree": 30, "share": 1.0, "differ": []},
}  # fmt: skip


def write_report(directory: Path, name: str = "without-west") -> None:
    """Write it into a directory."""
    (directory / f"{name}.json").write_bytes(msgspec.json.encode(REPORT))
