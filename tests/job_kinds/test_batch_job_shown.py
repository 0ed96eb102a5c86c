"""What of a copy's status is written to a user's Job whose status has told something already."""

from __future__ import annotations

from controlplane.job_kinds.batch_job import BatchJob
from controlplane.kube.kinds import Json

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
MET = {"type": "SuccessCriteriaMet", "status": "True"}
FAILED = {"type": "Failed", "status": "True"}


def shown(status: Json, local: Json, *, suspended: bool = False) -> Json:
    return BatchJob().shown(status, local, suspended=suspended)


def test_of_a_job_that_told_nothing_yet_all_is_written() -> None:
    status = {"active": 1, "failed": 1, "startTime": LATE, "conditions": [MET]}
    assert shown(status, {}) == status


def test_a_counter_does_not_fall_and_rises() -> None:
    assert shown({"failed": 1}, {"failed": 2, "succeeded": 1}) == {"failed": 2, "succeeded": 1}
    assert shown({"failed": 3, "succeeded": 1}, {"failed": 2, "succeeded": 1}) == {"failed": 3, "succeeded": 1}


def test_the_start_stays_while_the_job_is_not_suspended() -> None:
    assert shown({"startTime": LATE}, {"startTime": EARLY}) == {"startTime": EARLY}
    assert shown({}, {"startTime": EARLY}) == {"startTime": EARLY}
    assert shown({"startTime": LATE}, {"startTime": EARLY}, suspended=True) == {"startTime": LATE}


def test_no_end_is_before_the_start_that_stays() -> None:
    ended = {"startTime": EARLY, "completionTime": EARLY}
    assert shown(ended, {"startTime": LATE}) == {"startTime": LATE, "completionTime": LATE}


def test_what_was_said_of_the_end_stays_until_there_is_one() -> None:
    assert shown({"conditions": []}, {"conditions": [MET]}) == {"conditions": [MET]}
    denied = {"type": "SuccessCriteriaMet", "status": "False"}
    assert shown({"conditions": [denied]}, {"conditions": [MET]}) == {"conditions": [MET]}
    assert shown({"conditions": [FAILED]}, {"conditions": [MET]}) == {"conditions": [FAILED]}
