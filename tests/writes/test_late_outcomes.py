"""The outcome of a write that is recorded behind what closed it and led to another one says nothing of that one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controlplane.controllers.candidates.references.target_namespace import TargetNamespace
from controlplane.controllers.candidates.references.target_namespace import fold as fold_copies
from controlplane.controllers.candidates.source import events as source_events
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.controllers.candidates.source.state import fold as fold_source
from controlplane.controllers.coscheduling.events import CoschedulingFailed, CoschedulingUnneeded
from controlplane.controllers.coscheduling.state import RunState
from controlplane.controllers.coscheduling.state import fold as fold_run
from controlplane.controllers.jobframework import events as job_events
from controlplane.controllers.jobframework.state import QueuedJobState
from controlplane.controllers.jobframework.state import fold as fold_job
from controlplane.controllers.multikueue import events as workload_events
from controlplane.controllers.multikueue.state import fold as fold_workload
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.controllers.quota.admission import events as quota_events
from controlplane.controllers.quota.admission.state import ObjectState, folded_write
from controlplane.log.event import Recorded
from controlplane.runtime.writes import Effect, WriteFailed, WriteUnneeded
from tests.support.rows import each

NOW = datetime(2026, 11, 29, tzinfo=UTC)
OPEN_AT, BEFORE = 7, 3
SOURCE, RUN, WORKLOAD = "source/default/x", "run/default/x", "workload/default/x"
ROWS = [
    ("jobs", QueuedJobState(), fold_job, job_events.JobWriteFailed, job_events.JobWriteUnneeded),
    ("quota", ObjectState(), folded_write, quota_events.AdmissionWriteFailed, quota_events.AdmissionWriteUnneeded),
    (
        "candidates",
        SourceState.initial(SOURCE),
        fold_source,
        source_events.CandidateWriteFailed,
        source_events.CandidateWriteUnneeded,
    ),
    (
        "references",
        TargetNamespace(),
        fold_copies,
        source_events.CandidateWriteFailed,
        source_events.CandidateWriteUnneeded,
    ),
    ("coscheduling", RunState.initial(RUN), fold_run, CoschedulingFailed, CoschedulingUnneeded),
    (
        "multikueue",
        WorkloadState.initial(WORKLOAD),
        fold_workload,
        workload_events.EffectFailed,
        workload_events.EffectUnneeded,
    ),
]


def outcome(kind: type[WriteFailed] | type[WriteUnneeded], caused_by: int) -> Recorded:
    said: dict[str, Any] = {"target": "east/Thing", "action": "Written"}
    if issubclass(kind, WriteFailed):
        said |= {"code": 403, "error": "Forbidden", "message": "no", "failures": 1, "retry_at": NOW}
    else:
        said |= {"resource_version": "5"}
    return Recorded(
        position=9, stream=WORKLOAD, version=4, event=kind(**said), cluster="east", caused_by=caused_by, recorded_at=NOW
    )


@each(("name", "state", "fold", "failed", "unneeded"), ROWS)
@pytest.mark.parametrize("kind", ["failed", "unneeded"])
def test_it_closes_the_write_that_it_is_of_alone(
    name: str,
    state: Any,
    fold: Callable[[Any, Recorded], Any],
    failed: type[WriteFailed],
    unneeded: type[WriteUnneeded],
    kind: str,
) -> None:
    said = failed if kind == "failed" else unneeded
    decision = workload_events.RemovalDecided(
        cluster="east", of="Workload", uid="u", resource_version="", reason=workload_events.WorkloadReason.FINISHED
    )
    effect = Effect(position=OPEN_AT, decision=decision, decided_at=NOW)
    begun = msgspec.structs.replace(state, effects={"east/Thing": effect})
    after = fold(begun, outcome(said, OPEN_AT))
    assert "east/Thing" not in after.effects, name
    late = fold(begun, outcome(said, BEFORE))
    assert late.effects == begun.effects, name
    assert not late.trouble, name
    assert late.version == after.version
