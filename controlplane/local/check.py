"""Was what the demo showed right? Pure: what was asked for and what three witnesses say, in; what is wrong, out.

The witnesses do not know of each other: the management cluster (what a user sees), the workers' own stores (what ran),
and the log, asked in SQL (what the service says that it did)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from controlplane.values import Value


class RecordedPlacement(msgspec.Struct, frozen=True):
    """One row of `audit.placements`: a Workload, the number of the attempt, and the cluster that was chosen ("" for
    none).
    """

    workload: str
    attempt: int
    cluster: str
    finished: bool


class Evidence(Value):
    """What is known when everything is over.

    `asked`: how each job has to end, `Complete` or `Failed`. `ended`: how the management cluster says it did, "" if it
    did not. `starts`: the workers on which each started, once for each start. `left`: what is left on the workers.
    `workloads`: the Workload of each job. `services`: who has led the log, in order. `exit_code`: of the last process
    of the service, after it was asked to end."""

    asked: Mapping[str, str]
    ended: Mapping[str, str]
    starts: Mapping[str, Sequence[str]]
    left: Sequence[str]
    workloads: Mapping[str, str]
    placements: Sequence[RecordedPlacement]
    services: Sequence[str]
    exit_code: int = 0


def judge(evidence: Evidence) -> list[str]:
    """Return what is wrong, a sentence each; nothing if everything is as it should be."""
    return [*_endings(evidence), *_runs(evidence), *_leftovers(evidence), *_log(evidence), *_service(evidence)]


def _endings(evidence: Evidence) -> Iterator[str]:
    for job, wanted in evidence.asked.items():
        found = evidence.ended.get(job)
        if found is None:
            yield f"{job} is not on the management cluster"
        elif found != wanted:
            yield f"{job} should be {wanted} and is {found or 'not finished'}"
    for job in sorted(evidence.ended.keys() - evidence.asked.keys()):
        yield f"{job} is on the management cluster, and nobody asked for it"


def _runs(evidence: Evidence) -> Iterator[str]:
    for job in evidence.asked:
        starts = evidence.starts.get(job, ())
        if not starts:
            yield f"{job} never ran on a worker"
        elif len(starts) > 1:
            yield f"{job} ran {len(starts)} times: on {', '.join(starts)}"
    for job in sorted(evidence.starts.keys() - evidence.asked.keys()):
        yield f"{job} ran on {', '.join(evidence.starts[job])}, and nobody asked for it"


def _leftovers(evidence: Evidence) -> Iterator[str]:
    for thing in evidence.left:
        yield f"left behind on {thing}"


def _log(evidence: Evidence) -> Iterator[str]:
    """Compare what the log says of placements with what the workers saw."""
    by_workload: dict[str, list[RecordedPlacement]] = {}
    for placement in evidence.placements:
        by_workload.setdefault(placement.workload, []).append(placement)
    for job in evidence.asked:
        said = by_workload.pop(evidence.workloads.get(job, ""), [])
        saw = list(evidence.starts.get(job, ()))
        if [placement.cluster for placement in said] != saw:
            chosen = ", ".join(placement.cluster or "no cluster" for placement in said) or "no placement"
            yield f"the log has {chosen} for {job}, and it ran on {', '.join(saw) or 'none'}"
        elif not all(placement.finished for placement in said):
            yield f"the log does not say that {job} finished"
    for workload in by_workload:
        yield f"the log has a placement of {workload}, which belongs to none of the jobs"


def _service(evidence: Evidence) -> Iterator[str]:
    holders = evidence.services
    if len(holders) != 2:
        yield f"the log should tell of 2 starts of the service and tells of {len(holders)}"
    elif holders[0] == holders[1]:
        yield f"both starts in the log are of the same process, {holders[0]}"
    if evidence.exit_code:
        yield f"the service was asked to end and left with code {evidence.exit_code}"
