"""Deliberate bugs in quota of our own and in the job framework: each a patch, and the rule that has to find it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from controlplane.controllers.jobframework import decide as jobs
from controlplane.controllers.jobframework.events import JobQuotaReleaseDecided
from controlplane.controllers.jobframework.writes import JobPass
from controlplane.controllers.multikueue import decide
from controlplane.controllers.quota.admission import cycles, facts, ledger
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.engine.snapshot import QuotaSnapshot
from controlplane.controllers.quota.engine.state import State
from controlplane.dst.engine.run import Outcome
from controlplane.dst.scenes.admission.plan import plan_of
from tests.dst.mutants.hunt import Mutant, first_of


def find(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, Outcome] | None:
    """Return the first seed that the mutant breaks and that holds without it."""
    return first_of(mutant.patch, seeds, partial(plan_of, edition=7))


def reservations_do_not_count_before_they_are_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "_admit", lambda self, info, decision, now: self.queues.drop(info.key))


def quota_is_never_free_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuotaSnapshot, "drop_workload", lambda self, key: None)


def jobs_do_not_give_their_quota_back(patch: pytest.MonkeyPatch) -> None:
    write = JobPass.write

    def without(self: JobPass, decision: Any) -> None:
        if not isinstance(decision, JobQuotaReleaseDecided):
            write(self, decision)

    patch.setattr(JobPass, "write", without)


def the_ledger_is_told_of_reservations_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "entry", lambda engine, key, state: None)


def a_refused_condition_is_written_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cycles, "rests", lambda state, now: False)


def who_is_deleted_runs_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "rest_of_deleted", lambda pass_: None)


def the_rejected_are_tried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(facts, "_rejected", lambda seen: False)


def an_evicted_job_keeps_running(patch: pytest.MonkeyPatch) -> None:
    stop = jobs.stop

    def kept(step: Any, job: Any, workload: Any, reason: Any, message: str, **more: Any) -> bool:
        return str(reason) == "WorkloadEvicted" or stop(step, job, workload, reason, message, **more)

    patch.setattr(jobs, "stop", kept)


def an_overtaken_reservation_stays(patch: pytest.MonkeyPatch) -> None:
    put = AdmissionIndex.put

    def kept(self: AdmissionIndex, recorded: Any, state: Any) -> None:
        key = recorded.stream.removeprefix("admission/workload/")
        seen = state.observed.status if state.observed is not None else {}
        if key not in self.engine.snapshot.workloads or "admission" in seen:
            put(self, recorded, state)

    patch.setattr(AdmissionIndex, "put", kept)


MUTANTS: dict[str, Mutant] = {
    "uncounted": Mutant(
        "a reservation does not count before it is seen",
        reservations_do_not_count_before_they_are_seen,
        1,
        "reservations are within quota",
    ),
    "never-free": Mutant("quota that is released still counts", quota_is_never_free_again, 1, "everything settles"),
    "not-given-back": Mutant(
        "an evicted job's quota is not released", jobs_do_not_give_their_quota_back, 1, "everything settles"
    ),
    "half-a-ledger": Mutant(
        "releases are not in the ledger", the_ledger_is_told_of_reservations_alone, 1, "everything settles"
    ),
    "said-at-once": Mutant(
        "why a Workload waits is written again at once after a refusal",
        a_refused_condition_is_written_at_once,
        147,
        "a refused write waits",
    ),
    "deleted-runs": Mutant(
        "a job whose Workload is deleted does not come to rest", who_is_deleted_runs_for_ever, 20, "everything settles"
    ),
    "rejected-first": Mutant(
        "who is rejected is tried again and again", the_rejected_are_tried, 39, "everything settles"
    ),
    "evicted-runs": Mutant("an evicted job is not stopped", an_evicted_job_keeps_running, 2, "everything settles"),
    "overtaken-kept": Mutant(
        "quota of an overtaken reservation still counts", an_overtaken_reservation_stays, 1, "everything settles"
    ),
}


def table(names: Sequence[str], seeds: Sequence[int]) -> Iterator[str]:
    """Yield the rows of the table in docs/explanation/simulation.md."""
    for name in names or list(MUTANTS):
        mutant = MUTANTS[name]
        found = find(mutant, [mutant.seed, *seeds])
        if found is None:
            yield f"| `{name}` | {mutant.what} | not found | |"
        else:
            seed, outcome = found
            assert outcome.violation is not None
            yield f"| `{name}` | {mutant.what} | {outcome.violation.rule} | admission {seed} |"


if __name__ == "__main__":
    import sys

    for row in table(sys.argv[1:], range(1, 61)):
        print(row, flush=True)
