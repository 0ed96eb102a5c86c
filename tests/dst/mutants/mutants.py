"""Deliberate bugs in the service: each a patch, and the rule that has to find it.

They show that the simulation bites. A mutant is found if, within its seeds, a run breaks a rule that the same seed
keeps without it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import pytest

from controlplane.clusters import listing, reflector, verbs
from controlplane.clusters.protocol import ApiError, Change, Delta
from controlplane.controllers.connectivity import outage, watched
from controlplane.controllers.connectivity import state as connection
from controlplane.controllers.multikueue import (
    context,
    controller,
    decide,
    decision_pass,
    dispatch,
    observe,
    render,
    running,
)
from controlplane.controllers.multikueue import state as states
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    JobCreationDecided,
    RemovalDecided,
    WorkloadWrite,
)
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.dst.engine.run import Outcome
from controlplane.dst.scenes.workloads.plan import plan_of
from controlplane.kube.kinds import Json, Request
from controlplane.log.event import Append, Recorded
from controlplane.log.memory import MemoryLog
from controlplane.runtime import effects, recorder
from tests.dst.mutants.hunt import Mutant, first_of, the_epoch_is_not_checked
from tests.dst.mutants.later_bugs import LATER


def find(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, Outcome] | None:
    """Return the first seed that the mutant breaks and that holds without it; 0 if its scene is such a one."""
    if (scene := mutant.scene) is not None:
        return first_of(mutant.patch, [0], lambda _: scene)
    return first_of(mutant.patch, seeds, partial(plan_of, edition=mutant.edition))


# --- whether anybody looked ------------------------------------------------------------------------------------------


def our_absence_counts(patch: pytest.MonkeyPatch) -> None:
    for module in (connection, outage, watched):
        patch.setattr(module, "resumed", lambda clock, recorded: clock)


def a_rejection_needs_quota(patch: pytest.MonkeyPatch) -> None:
    original = decide._rejected

    def rejected(turn: Any, local: Any, check: Any) -> bool:
        return local.is_true("QuotaReserved") and original(turn, local, check)

    patch.setattr(decide, "_rejected", rejected)


# --- dispatch --------------------------------------------------------------------------------------------------------


def job_before_the_winner(patch: pytest.MonkeyPatch) -> None:
    original = dispatch._offer

    def offer(turn: Any, local: Any, check: Any, eligible: list[str]) -> None:
        original(turn, local, check, eligible)
        for cluster in eligible[:1]:
            if turn.state.remote(cluster).clone is not None and turn.state.remote(cluster).job is None:
                job = turn.context.job
                reason = WorkloadReason.ADMITTED_ON_WORKER
                turn.write(
                    JobCreationDecided(
                        cluster=cluster, attempt=turn.state.attempt, kind=job.kind, template=job.template, reason=reason
                    )
                )

    patch.setattr(dispatch, "_offer", offer)


def the_winner_is_not_pinned(patch: pytest.MonkeyPatch) -> None:
    original = states.fold

    def fold(state: Any, recorded: Recorded) -> Any:
        return msgspec.structs.replace(original(state, recorded), winner="")

    patch.setattr("controlplane.controllers.multikueue.index.fold", fold)


def ready_before_the_job(patch: pytest.MonkeyPatch) -> None:
    original = dispatch._install

    def install(turn: Any, local: Any, check: Any, job: Any, winner: str) -> None:
        original(turn, local, check, job, winner)
        turn.write(
            CheckStateDecided(
                resource_version=local.resource_version,
                check=check.name,
                state="Ready",
                message="",
                winner=winner,
                reason=WorkloadReason.ADMITTED_ON_WORKER,
            )
        )

    patch.setattr(dispatch, "_install", install)


def an_evicted_workload_is_offered(patch: pytest.MonkeyPatch) -> None:
    original = decide.drain

    def drain(turn: Any, local: Any, check: Any, job: Any) -> None:
        if check.state == "Pending" and turn.context.route is not None:
            decide.dispatch(turn, local, check, turn.context.route, job)
        else:
            original(turn, local, check, job)

    patch.setattr(decide, "drain", drain)


def no_grace_for_a_lost_winner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        context.WorkloadContext,
        "lost_until",
        lambda self, cluster, default: datetime(2020, 1, 1, tzinfo=default.tzinfo),
    )


def never_twice_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(context.WorkloadContext, "execution_policy", context.AT_LEAST_ONCE)


def the_winner_goes_with_the_losers(patch: pytest.MonkeyPatch) -> None:
    original = decision_pass.WorkloadPass.remove_everywhere
    patch.setattr(decision_pass.WorkloadPass, "remove_everywhere", lambda self, reason, keep="": original(self, reason))


def finished_before_the_status(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(running, "final_status_waits", lambda *_: False)
    patch.setattr(decide, "late_status", lambda *_: "")


def a_busy_target_is_written_to(patch: pytest.MonkeyPatch) -> None:
    def write(self: decision_pass.WorkloadPass, decision: WorkloadWrite) -> bool:
        self.plan.decisions.append(decision)
        return True

    patch.setattr(decision_pass.WorkloadPass, "write", write)


def deciding_remembers(patch: pytest.MonkeyPatch) -> None:
    original = controller.MultiKueueController._decide_workload

    def decide_workload(self: Any, stream: str, *more: Any) -> Any:
        answer = original(self, stream, *more)
        state = self.index.workloads.get(stream)
        if state is not None and answer.events:
            self.index.workloads[stream] = msgspec.structs.replace(state, attempt=state.attempt + 1)
        return answer

    patch.setattr(controller.MultiKueueController, "_decide_workload", decide_workload)


def an_outage_is_each_clusters_own(patch: pytest.MonkeyPatch) -> None:
    original = context.WorkloadContext.lost_until

    def lost_until(self: Any, *arguments: Any) -> Any:
        return original(msgspec.structs.replace(self, mass_outage=False), *arguments)

    patch.setattr(context.WorkloadContext, "lost_until", lost_until)


# --- effects ---------------------------------------------------------------------------------------------------------


def deletes_without_uid(patch: pytest.MonkeyPatch) -> None:
    original = render._removal

    def removal(state: Any, decision: RemovalDecided, policy: Any) -> Request:
        return replace(original(state, decision, policy), uid="", resource_version="", owner_label=None)

    patch.setattr(render, "_removal", removal)


def whatever_is_there_is_adopted(patch: pytest.MonkeyPatch) -> None:
    async def get(self: verbs.Executor, request: Request, **_: object) -> Json | None:
        with contextlib.suppress(ApiError):
            return await self._port.get(request.ref.kind, request.ref.namespace, request.ref.name)
        return None

    patch.setattr(verbs.Executor, "_get", get)


def a_refused_write_is_repeated_at_once(patch: pytest.MonkeyPatch) -> None:
    original = controller.MultiKueueController.failed

    def failed(self: Any, write: Any, failure: Any, now: datetime) -> Any:
        new = original(self, write, failure, now)
        return msgspec.structs.replace(new, event=msgspec.structs.replace(new.event, retry_at=now))

    patch.setattr(controller.MultiKueueController, "failed", failed)


def parked_writes_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects.Effects, "cluster_back", lambda self, cluster: None)


def a_lost_answer_counts_as_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects.Effects, "_again", lambda self, write, delay: None)


# --- observation and log ---------------------------------------------------------------------------------------------


def vanished_objects_stay_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listing.Listing, "gone", lambda self, version: [])


def what_cannot_be_read_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(observe, "_refused", lambda *arguments: None)


def only_the_newest_of_a_batch_is_recorded(patch: pytest.MonkeyPatch) -> None:
    original = recorder.Recorder.__call__

    async def record(self: recorder.Recorder, cluster: str, deltas: Sequence[Delta]) -> None:
        newest = {d.object["metadata"]["uid"] if isinstance(d, Change) else id(d): d for d in deltas}
        await original(self, cluster, list(newest.values()))

    patch.setattr(recorder.Recorder, "__call__", record)


def a_410_goes_on_from_now(patch: pytest.MonkeyPatch) -> None:
    original = reflector.Reflector._refused

    async def refused(self: Any, error: ApiError) -> float:
        if error.status == 410:
            self._position = str(int(self._position or 0) + 1)
            return 0.05
        wait: float = await original(self, error)
        return wait

    patch.setattr(reflector.Reflector, "_refused", refused)


def a_cut_watch_is_resumed(patch: pytest.MonkeyPatch) -> None:
    never = property(lambda self: False, lambda self, value: None)
    patch.setattr(reflector.Reflector, "_doubtful", never, raising=False)


def what_was_told_is_told_again(patch: pytest.MonkeyPatch) -> None:
    original = MemoryLog.append

    async def append(self: MemoryLog, request: Append) -> int:
        self._store.marks.clear()
        return await original(self, request)

    patch.setattr(MemoryLog, "append", append)


MUTANTS: dict[str, Mutant] = {
    "job-before-winner": Mutant(
        "the job is created before a winner is chosen", job_before_the_winner, 1, "steps are taken in their order"
    ),
    "unpinned-winner": Mutant(
        "the winner is not remembered", the_winner_is_not_pinned, 1, "steps are taken in their order"
    ),
    "ready-before-job": Mutant(
        "the check is Ready before the job is there", ready_before_the_job, 1, "steps are taken in their order"
    ),
    "offer-while-draining": Mutant(
        "an evicted Workload is offered", an_evicted_workload_is_offered, 1, "steps are taken in their order"
    ),
    "no-grace": Mutant(
        "a lost winner is released at once", no_grace_for_a_lost_winner, 2, "one cluster runs a workload"
    ),
    "twice-after-all": Mutant(
        "never-twice is treated as at-least-once", never_twice_is_forgotten, 105, "a lost cluster is waited for"
    ),
    "winner-among-losers": Mutant(
        "the winner's copy is removed with the losers'",
        the_winner_goes_with_the_losers,
        1,
        "nothing is repeated for ever",
    ),
    "finish-before-status": Mutant(
        "a Workload is finished before its job's status", finished_before_the_status, 1, "everything settles"
    ),
    "busy-target": Mutant(
        "a second write to a target is decided", a_busy_target_is_written_to, 1, "one open write to a target"
    ),
    "memory": Mutant("deciding changes the state beside the log", deciding_remembers, 1, "the log gives the state"),
    "delete-without-uid": Mutant(
        "deletes carry no preconditions", deletes_without_uid, 1, "only what is ours is written"
    ),
    "adopt-anything": Mutant(
        "409 on create counts as success, whosever it is", whatever_is_there_is_adopted, 78, "everything settles"
    ),
    "no-pause": Mutant("a refused write is repeated at once", a_refused_write_is_repeated_at_once, 2, "no part fails"),
    "parked-for-ever": Mutant(
        "writes for a cluster that was away are forgotten", parked_writes_are_forgotten, 8, "everything settles"
    ),
    "lost-answer": Mutant(
        "a write whose answer was lost is not repeated", a_lost_answer_counts_as_done, 2, "everything settles"
    ),
    "no-tombstones": Mutant(
        "a relist does not tell what vanished", vanished_objects_stay_known, 2, "everything settles"
    ),
    "newest-only": Mutant(
        "of several changes in a batch only the newest is recorded",
        only_the_newest_of_a_batch_is_recorded,
        1,
        "the log holds what was committed",
    ),
    "410-from-now": Mutant(
        "after 410 the watch goes on without a list", a_410_goes_on_from_now, 57, "the log holds what was committed"
    ),
    "outage-ignored": Mutant(
        "a mass outage holds nothing back", an_outage_is_each_clusters_own, 56, "a lost cluster is waited for"
    ),
    "refused-unsaid": Mutant(
        "what cannot be read is passed over",
        what_cannot_be_read_is_passed_over,
        1,
        "the log holds what was committed",
    ),
    "resumed-after-cut": Mutant(
        "a watch that was cut goes on without a list", a_cut_watch_is_resumed, 1, "everything settles"
    ),
    "absence-counts": Mutant(
        "time in which no process ran counts", our_absence_counts, 70, "a lost cluster is waited for", edition=3
    ),
    "rejected-once": Mutant(
        "nothing without quota is rejected", a_rejection_needs_quota, 1, "everything settles", edition=3
    ),
    "no-fence": Mutant("the log does not check the epoch", the_epoch_is_not_checked, 9, "one process writes"),
    "told-twice": Mutant(
        "the log does not drop what it has", what_was_told_is_told_again, 1, "the log holds what was committed"
    ),
    **LATER,
}


def table(seeds: Sequence[int]) -> Iterator[str]:
    """Yield the rows of the table in docs/explanation/simulation.md."""
    for name, mutant in MUTANTS.items():
        found = find(mutant, seeds)
        if found is None:
            yield f"| `{name}` | {mutant.what} | not found | |"
        else:
            seed, outcome = found
            assert outcome.violation is not None
            yield f"| `{name}` | {mutant.what} | {outcome.violation.rule} | {seed or mutant.where} |"


if __name__ == "__main__":
    for row in table(range(1, 200)):
        print(row, flush=True)
