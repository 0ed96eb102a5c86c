"""Tells of a write that Kueue's core is about to make to a Workload of the management cluster, so that ours waits for
it.

In: what is seen of Workloads. Out: until when the write of one is waited for. Pure. Once a Workload has quota and its
checks, core says `Admitted=False` with the reason UnsatisfiedAdmissionChecks, some ten milliseconds later in a write of
its own if the scheduler had not seen the checks yet (`SyncAdmittedCondition` in kubernetes-sigs/kueue
pkg/workload/admissionchecks.go, and its callers, ff69552e). A nomination before that only meets a conflict. Not every
Kueue does so (gate UnadmittedWorkloadsObservability): it is waited for where that was seen of any Workload, and for a
moment at most."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.controllers.multikueue.observations import WorkloadGone, WorkloadObserved
from controlplane.log.event import Recorded

PATIENCE = timedelta(milliseconds=500)
_SAYS = "UnsatisfiedAdmissionChecks"


class CoreWrites:
    """What is known of the core's habits, and which of the Workloads still lack that write."""

    def __init__(self) -> None:
        self._says_so = False
        self._said_by = ""
        self._since: dict[str, datetime] = {}

    @property
    def said_by(self) -> str:
        """The stream that the core's habits are known by, "" if they are not."""
        return self._said_by

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a Workload's stream."""
        seen = recorded.event
        if isinstance(seen, WorkloadGone):
            self._since.pop(recorded.stream, None)
        elif isinstance(seen, WorkloadObserved):
            self._fold(recorded.stream, seen, recorded.recorded_at)

    def _fold(self, stream: str, seen: WorkloadObserved, at: datetime) -> None:
        admitted = seen.condition("Admitted")
        if admitted is not None and admitted.status == "False" and admitted.reason == _SAYS:
            self._says_so, self._said_by = True, stream
        elif seen.nominated and _lacks(seen):
            self._says_so, self._said_by = False, stream  # it was nominated before anything came
        if _lacks(seen):
            self._since.setdefault(stream, at)
        else:
            self._since.pop(stream, None)

    def waits_after(self, seen: WorkloadObserved) -> bool:
        """Whether a Workload that is seen like this now waits for the write."""
        return self._says_so and not seen.nominated and _lacks(seen)

    def until(self, stream: str) -> datetime | None:
        """Return until when the write to a Workload is waited for; None if none is."""
        since = self._since.get(stream)
        return since + PATIENCE if since is not None and self._says_so else None


def _lacks(seen: WorkloadObserved) -> bool:
    """Whether a Workload has quota and waits for its checks, and its condition Admitted says nothing of that."""
    admitted = seen.condition("Admitted")
    silent = admitted is None or (admitted.status == "False" and admitted.reason.startswith("NoReservation"))
    return silent and seen.is_true("QuotaReserved") and any(check.state != "Ready" for check in seen.checks)
