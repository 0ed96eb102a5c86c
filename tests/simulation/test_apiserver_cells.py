"""The computed cells of `kubectl get`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from controlplane.kube.durations import human_duration
from controlplane.kube.kinds import Json
from controlplane.simulation.apiserver.cells import (
    age,
    at_path,
    job_completions,
    job_duration,
    job_status,
    pod_ready,
    pod_restarts,
)
from tests.support.rows import each

NOW = datetime(2026, 1, 1, 1, 0, tzinfo=UTC)


@each(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"), (600, "10m"),
        (3 * 3600 - 1, "179m"), (3 * 3600, "3h"), (3 * 3600 + 120, "3h2m"), (8 * 3600, "8h"), (47 * 3600, "47h"),
        (48 * 3600, "2d"), (50 * 3600, "2d2h"), (8 * 86400, "8d"), (729 * 86400, "729d"), (731 * 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)  # fmt: skip
def test_durations_read_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_ages() -> None:
    assert age("2026-01-01T00:59:00Z", NOW) == "60s"
    assert age(None, NOW) == age("no time", NOW) == "<unknown>"


def test_paths() -> None:
    obj = {"a": {"b": 1}, "l": [{"type": "X", "status": "no"}, {"type": "Y", "status": "yes"}]}
    assert at_path(obj, ".a.b") == 1
    assert at_path(obj, ".l[?(@.type=='Y')].status") == "yes"
    assert at_path(obj, '.l[?(@.type=="Z")].status') is None
    assert at_path(obj, ".a.b.c") is at_path(obj, ".none") is None


def with_conditions(*types: str, **more: Any) -> Json:
    return {"status": {"conditions": [{"type": type_, "status": "True"} for type_ in types]}, **more}


@each(
    ("obj", "text"),
    [
        ({}, "Running"),
        (with_conditions("Complete"), "Complete"),
        (with_conditions("Failed", "FailureTarget"), "Failed"),
        (with_conditions("Suspended"), "Suspended"),
        (with_conditions("FailureTarget"), "FailureTarget"),
        (with_conditions("SuccessCriteriaMet"), "SuccessCriteriaMet"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "Terminating"),
        ({"status": {"conditions": [{"type": "Complete", "status": "False"}]}}, "Running"),
    ],
)
def test_a_jobs_status(obj: Json, text: str) -> None:
    assert job_status(obj, NOW) == text


def test_a_jobs_numbers() -> None:
    assert job_completions({"spec": {"completions": 3}, "status": {"succeeded": 1}}, NOW) == "1/3"
    assert job_completions({"spec": {"parallelism": 4}}, NOW) == "0/1 of 4"
    assert job_completions({}, NOW) == "0/1"
    started = {"startTime": "2026-01-01T00:55:00Z"}
    assert job_duration({"status": started}, NOW) == "5m"
    assert job_duration({"status": {**started, "completionTime": "2026-01-01T00:55:09Z"}}, NOW) == "9s"
    assert job_duration({}, NOW) == ""


def test_a_pods_numbers() -> None:
    statuses = [{"ready": True, "restartCount": 2}, {"ready": False, "restartCount": 1}]
    pod = {"spec": {"containers": [{}, {}]}, "status": {"containerStatuses": statuses}}
    assert (pod_ready(pod, NOW), pod_restarts(pod, NOW)) == ("1/2", 3)
    assert (pod_ready({}, NOW), pod_restarts({}, NOW)) == ("0/0", 0)
