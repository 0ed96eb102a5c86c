"""Who may run for so long and no longer is deactivated then, and not before.

In: the commits of Workloads on the management cluster, and virtual time. Out: a violation when a Workload is
deactivated for its maximum execution time though it was not admitted for as long in all; or runs on for much longer
once all trouble has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from controlplane.dst.engine.trace import Trace
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import Json
from controlplane.kube.workload_status import EXECUTION_TIME_EXCEEDED
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.kueue.common import parse_timestamp

TOO_SOON, TOO_LATE = "nobody is stopped before his time", "who runs for too long is stopped"
_CLOCKS = 32.0  # seconds by which the clocks of the processes are wrong at most, and one more for whole seconds
PATIENCE = 120.0


@dataclass(slots=True)
class _Hours:
    """For how long a Workload was admitted before it was last, since when it is, how often that changed."""

    name: str
    limit: float
    past: float = 0.0
    since: float | None = None
    changes: int = 0

    def total(self, now: float) -> float:
        return self.past + (now - self.since if self.since is not None else 0.0)


class ExecutionTimeRules:
    """Who was admitted for how long, in one incarnation of the management cluster. `stopped` counts who was
    deactivated."""

    def __init__(self, trace: Trace, now: Callable[[], float]) -> None:
        self._trace, self._now = trace, now
        self._hours: dict[str, _Hours] = {}
        self.stopped = 0

    def on_commit(self, commit: Commit) -> None:
        """Look at a change of a Workload."""
        record = commit.record
        limit = record.obj["spec"].get("maximumExecutionTimeSeconds")
        if commit.type == "DELETED" or not isinstance(limit, int):
            self._hours.pop(record.uid, None)
            return
        found = self._hours.setdefault(record.uid, _Hours(record.name, limit))
        found.limit = float(limit)
        self._count(found, record.obj)
        before = commit.previous.obj if commit.previous is not None else {}
        if _targeted(record.obj) and not _targeted(before):
            self.stopped += 1
            if found.total(self._now()) < found.limit - _CLOCKS * (found.changes + 1):
                text = f"{record.name} ran for {found.total(self._now()):.0f} s of {found.limit:.0f}"
                self._trace.violate(TOO_SOON, text)

    def noted(self, record: Record, clock: datetime) -> None:
        """Take what a backup has brought back for as old as it says."""
        self.on_commit(Commit("ADDED", record, None))
        found, admitted = self._hours.get(record.uid), condition(record.obj, "Admitted")
        if found is not None and found.since is not None and admitted is not None:
            found.since -= (clock - parse_timestamp(admitted["lastTransitionTime"])).total_seconds()

    def _count(self, found: _Hours, obj: Json) -> None:
        admitted = is_true(obj, "Admitted") and not is_true(obj, "Finished") and not is_true(obj, "Evicted")
        if admitted and found.since is None:
            found.since, found.changes = self._now(), found.changes + 1
        elif not admitted and found.since is not None:
            found.past, found.since = found.total(self._now()), None

    def look(self, calm_since: float) -> None:
        """Look who runs on, when nothing was wrong any more since a moment."""
        now = self._now()
        for late in self._late(now, calm_since):
            self._trace.violate(TOO_LATE, f"{late.name} may run for {late.limit:.0f} s and runs since {late.since:.0f}")

    def _late(self, now: float, calm_since: float) -> Iterator[_Hours]:
        for one in self._hours.values():
            if one.since is not None and now > max(one.since + one.limit + _CLOCKS, calm_since) + PATIENCE:
                yield one


def _targeted(obj: Json) -> bool:
    found = condition(obj, "DeactivationTarget")
    return found is not None and found["status"] == "True" and found["reason"] == EXECUTION_TIME_EXCEEDED
