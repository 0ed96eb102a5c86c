"""What an API server takes as the next status of a Job: nothing that was told of its past is taken back.

In: the stored Job and the one whose status is to be stored. Out: nothing, or 422 `Invalid` with the fields. Rules:
`ValidateJobStatusUpdate` in `pkg/apis/batch/validation/validation.go`, where the gate JobManagedBy is on (1.36.2)."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import JOBS, Json, meta
from controlplane.simulation.apiserver.errors import Cause, invalid

_TERMINAL = ("Failed", "Complete", "FailureTarget")


def check_job_status(old: Json, new: Json) -> None:
    """Refuse a status that takes something back."""
    causes = [Cause(f"status.{field}", "FieldValueInvalid", text) for field, text in _broken(old, new)]
    if causes:
        raise invalid(JOBS, meta(new).get("name", ""), causes)


def _broken(old: Json, new: Json) -> Iterator[tuple[str, str]]:
    """The fields that break a rule, with what is said of each."""
    before, after = old.get("status") or {}, new.get("status") or {}
    for kind in _TERMINAL:
        if is_true(old, kind) and not is_true(new, kind):
            yield "conditions", f"Invalid value: cannot disable the terminal {kind}=True condition"
    for counter in ("failed", "succeeded"):
        count = after.get(counter) or 0
        if count < (before.get(counter) or 0) and not (counter == "succeeded" and _shrinks(new)):
            yield counter, f"Invalid value: {count}: cannot decrease the {counter} counter"
    start = after.get("startTime")
    if before.get("startTime") not in (None, start) and not (_suspended(new) or _resumes(old, new)):
        said = "null" if start is None else f'"{start}"'
        yield "startTime", f"Invalid value: {said}: field is immutable for unsuspended job once set"
    if is_true(old, "SuccessCriteriaMet") and not is_true(new, "SuccessCriteriaMet"):
        yield "conditions", "Invalid value: cannot disable the SuccessCriteriaMet=True condition"


def _suspended(job: Json) -> bool:
    return bool((job.get("spec") or {}).get("suspend"))


def _resumes(old: Json, new: Json) -> bool:
    """Whether the status says for the first time that the Job is not suspended any more."""
    return is_true(old, "Suspended") and (condition(new, "Suspended") or {}).get("status") == "False"


def _shrinks(job: Json) -> bool:
    """Whether as many indexes run as complete, so that a Job may be scaled down."""
    spec = job.get("spec") or {}
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
