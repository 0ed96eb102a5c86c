"""The judge of the demo finds each thing that can be wrong, and nothing where all is right."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.local.check import Evidence, RecordedPlacement, judge
from tests.support.rows import each

RIGHT = Evidence(
    asked={"a": "Complete", "b": "Failed"},
    ended={"a": "Complete", "b": "Failed"},
    starts={"a": ["worker-1"], "b": ["worker-2"]},
    left=[],
    workloads={"a": "job-a", "b": "job-b"},
    placements=[RecordedPlacement("job-a", 1, "worker-1", True), RecordedPlacement("job-b", 1, "worker-2", True)],
    services=["one", "two"],
)
A, B = RIGHT.placements


def test_nothing_is_wrong_where_all_is_right() -> None:
    assert judge(RIGHT) == []


@each(
    ("change", "said"),
    [
        ({"ended": {"a": "Complete"}}, "b is not on the management cluster"),
        ({"ended": {"a": "", "b": "Failed"}}, "a should be Complete and is not finished"),
        ({"ended": {"a": "Complete", "b": "Complete"}}, "b should be Failed and is Complete"),
        (
            {"ended": {"a": "Complete", "b": "Failed", "c": ""}},
            "c is on the management cluster, and nobody asked for it",
        ),
        ({"left": ["worker-1: Job default/a"]}, "left behind on worker-1: Job default/a"),
        ({"placements": [A]}, "the log has no placement for b, and it ran on worker-2"),
        (
            {"placements": [A, RecordedPlacement("job-b", 1, "worker-1", True)]},
            "the log has worker-1 for b, and it ran on worker-2",
        ),
        (
            {"placements": [A, RecordedPlacement("job-b", 1, "", True)]},
            "the log has no cluster for b, and it ran on worker-2",
        ),
        (
            {"placements": [A, B, RecordedPlacement("job-b", 2, "worker-2", True)]},
            "the log has worker-2, worker-2 for b, and it ran on worker-2",
        ),
        ({"placements": [A, RecordedPlacement("job-b", 1, "worker-2", False)]}, "the log does not say that b finished"),
        (
            {"placements": [A, B, RecordedPlacement("job-c", 1, "worker-2", True)]},
            "the log has a placement of job-c, which belongs to none of the jobs",
        ),
        ({"services": ["one"]}, "the log should tell of 2 starts of the service and tells of 1"),
        ({"services": ["one", "one"]}, "both starts in the log are of the same process, one"),
        ({"exit_code": -9}, "the service was asked to end and left with code -9"),
    ],
)
def test_one_thing_is_wrong(change: dict[str, Any], said: str) -> None:
    assert judge(msgspec.structs.replace(RIGHT, **change)) == [said]


def test_a_job_that_never_ran() -> None:
    evidence = msgspec.structs.replace(RIGHT, starts={"a": ["worker-1"]})
    assert judge(evidence) == ["b never ran on a worker", "the log has worker-2 for b, and it ran on none"]


def test_a_job_that_ran_twice() -> None:
    evidence = msgspec.structs.replace(RIGHT, starts={"a": ["worker-1", "worker-3"], "b": ["worker-2"]})
    assert judge(evidence)[0] == "a ran 2 times: on worker-1, worker-3"


def test_a_job_that_nobody_asked_for() -> None:
    evidence = msgspec.structs.replace(RIGHT, starts={**RIGHT.starts, "c": ["worker-3"]})
    assert judge(evidence) == ["c ran on worker-3, and nobody asked for it"]
