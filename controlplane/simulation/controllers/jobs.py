"""The controllers that run jobs, without pods.

In: jobs that are neither suspended nor managed by somebody else. Out: their statuses, in the transitions and words of
the real controllers, as `controlplane.job_kinds` has them: started, ready, finished after a while, or suspended again.
How long a job runs and how it ends is said by its annotations, otherwise by the cluster's `JobPace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from controlplane.clock import Clock
from controlplane.job_kinds import SIMULATED
from controlplane.job_kinds.base import SimulatedKind
from controlplane.kube import durations
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.kube.requests import merge_diff
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View
from controlplane.simulation.kueue.common import parse_timestamp, timestamp

DURATION: Final = "simulation.controlplane/duration"
OUTCOME: Final = "simulation.controlplane/outcome"

_BY_NAME: Mapping[str, SimulatedKind] = {kind.name: one for kind, one in SIMULATED.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPace:
    """How jobs run where their annotations do not say: `duration` from start to end, `startup` until pods are ready,
    and the outcome.

    `brief` leaves out the intermediate states of the real controllers (pods not ready yet, criteria met but not
    complete), which halves the writes.
    """

    duration: timedelta = timedelta(seconds=5)
    startup: timedelta = timedelta(0)
    outcome: Literal["succeed", "fail"] = "succeed"
    brief: bool = False


class JobController(Behaviour):
    """Runs the jobs of one cluster."""

    def __init__(self, name: str, view: View, clock: Clock, pace: JobPace) -> None:
        super().__init__(name, clock)
        self._view, self._pace = view, pace
        self._started: dict[str, float] = {}
        view.listen(self._on_change)

    def reconcile(self, key: Key) -> float | None:
        """Take a job one step on; return after how many seconds the next is due."""
        kind = _BY_NAME[key[0]]
        job = self._view.get(kind.kind, key[1], key[2])
        if job is None or meta(job).get("deletionTimestamp") or kind.outcome(job.get("status") or {}) is not None:
            return None
        if kind.managed_by(job) not in ("", kind.own_controller):
            return None
        status = dict(job.get("status") or {})
        if kind.suspended(job):
            self._started.pop(meta(job)["uid"], None)
            kind.show_suspended(job, status, self._stamp())
            self._write(kind, job, status)
            return None
        return self._run(kind, job, status)

    def _run(self, kind: SimulatedKind, job: Json, status: Json) -> float | None:
        if not kind.runs(job):
            self._started[meta(job)["uid"]] = self.clock.monotonic()
            kind.show_started(job, status, self._stamp(), ready=not self._pace.startup)
            self._write(kind, job, status)
            return self._left(kind, job)
        left = self._left(kind, job)
        if left > 0:
            if self._elapsed(kind, job) >= self._pace.startup.total_seconds():
                kind.show_ready(job, status)
                self._write(kind, job, status)
            return left
        kind.show_ended(job, status, self._stamp(), success=self._outcome(job) == "succeed", brief=self._pace.brief)
        self._write(kind, job, status)
        return None

    def _left(self, kind: SimulatedKind, job: Json) -> float:
        """Seconds until the next thing happens: ready, or the end."""
        elapsed, startup = self._elapsed(kind, job), self._pace.startup.total_seconds()
        left = self._duration(job) - elapsed
        return min(left, startup - elapsed) if 0 <= elapsed < startup < left + elapsed else left

    def _elapsed(self, kind: SimulatedKind, job: Json) -> float:
        began = self._started.get(meta(job)["uid"])
        if began is not None:
            return self.clock.monotonic() - began
        since = kind.since(job)
        past = (self.clock.now() - parse_timestamp(since)).total_seconds() if since else 0.0
        self._started[meta(job)["uid"]] = self.clock.monotonic() - past
        return past

    def _duration(self, job: Json) -> float:
        said = (meta(job).get("annotations") or {}).get(DURATION)
        try:
            return (durations.parse(said) if said else self._pace.duration).total_seconds()
        except ValueError:
            return self._pace.duration.total_seconds()

    def _outcome(self, job: Json) -> str:
        return str((meta(job).get("annotations") or {}).get(OUTCOME) or self._pace.outcome)

    def _stamp(self) -> str:
        return timestamp(self.clock.now())

    def _write(self, kind: SimulatedKind, job: Json, status: Json) -> None:
        old = job.get("status") or {}
        if status == old:
            return
        metadata = meta(job)
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": merge_diff(old, status)}
        self._view.store.patch(
            kind.kind,
            metadata["namespace"],
            metadata["name"],
            patch,
            subresource="status",
            field_manager=kind.status_manager,
        )

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if kind not in SIMULATED:
            return
        metadata = meta(new or old or {})
        if new is None:
            self._started.pop(metadata["uid"], None)
        else:
            self.enqueue((kind.name, metadata["namespace"], metadata["name"]))
