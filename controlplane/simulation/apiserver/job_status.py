"""What an API server takes as the next status of a Job: nothing that was told of its past is taken back.

In: the stored Job and the one whose status is to be stored. Out: nothing, or 422 `Invalid` with the fields. Rules:
`ValidateJobStatusUpdate` in `pkg/apis/batch/validation/validation.go`, where the gate JobManagedBy is on (1.36.2)."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import JOBS, Json, meta
from controlplane.simulation.apiserver.errors import Cause, invalid

_FOR_GOOD = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")


def check_job_status(old: Json, new: Json) -> None:
    """Refuse a status that takes something back."""
    causes = [Cause(f"status.{field}", "FieldValueInvalid", text) for field, text in _broken(old, new)]
    if causes:
        raise invalid(JOBS, meta(new).get("name", ""), causes)


def _broken(old: Json, new: Json) -> Iterator[tuple[str, str]]:
    """The fields that break a rule, with what is said of each."""
    for kind in _FOR_GOOD:
        if is_true(old, kind) and not is_true(new, kind):
            terminal = "" if kind == "SuccessCriteriaMet" else "terminal "
            yield "conditions", f"Invalid value: cannot disable the {terminal}{kind}=True condition"
    for counter in ("failed", "succeeded"):
        count = _count(new, counter)
        if count < _count(old, counter) and (counter == "failed" or not _shrinks(new)):
            yield counter, f"Invalid value: {count}: cannot decrease the {counter} counter"
    start = _start(new)
    if _start(old) not in ("null", start) and not _may_start_anew(old, new):
        yield "startTime", f"Invalid value: {start}: field is immutable for unsuspended job once set"


def _count(job: Json, counter: str) -> int:
    return int((job.get("status") or {}).get(counter) or 0)


def _start(job: Json) -> str:
    found = (job.get("status") or {}).get("startTime")
    return f'"{found}"' if found else "null"


def _may_start_anew(old: Json, new: Json) -> bool:
    """Whether the Job is suspended, or its status says for the first time that it is not any more."""
    resumed = (condition(new, "Suspended") or {}).get("status") == "False"
    return bool((new.get("spec") or {}).get("suspend")) or (is_true(old, "Suspended") and resumed)


def _shrinks(job: Json) -> bool:
    """Whether as many indexes run as complete, so that a Job may be scaled down."""
    spec = job.get("spec") or {}
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
