"""The ledger of quota is right: whoever gets quota had none, nobody gives back more than he has, and what is left at
the end is what the cluster's objects say.

In: the entries of `audit.quota_ledger` as they reach the log (`QuotaReservationDecided`, `QuotaPosted`), one Workload's
after the other. Out: a violation."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.quota.admission.events import QuotaPosted, QuotaReservationDecided
from controlplane.dst.engine.trace import Trace
from controlplane.log.event import Recorded

TWICE, LESS, BALANCE = (
    "nothing is charged twice",
    "nobody gives back what he has not",
    "the ledger agrees with the cluster",
)
_STREAM = "admission/workload/"
_Place = tuple[str, str, str]


class LedgerRules:
    """The sums of each Workload's entries, by ClusterQueue, flavor and resource. `entries` counts them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._sums: dict[str, dict[_Place, int]] = {}
        self.entries = 0

    def appended(self, recorded: Recorded) -> None:
        """Look at an event that reached the log."""
        event = recorded.event
        if not isinstance(event, (QuotaReservationDecided, QuotaPosted)):
            return
        self.entries += 1
        name = recorded.stream.removeprefix(_STREAM)
        sums = self._sums.setdefault(name, {})
        if isinstance(event, QuotaReservationDecided) and sums:
            self._trace.violate(TWICE, f"{name} at {recorded.position} has {sums} already")
        for flavor, of in event.amounts.items():
            for resource, amount in of.items():
                place = (event.cluster_queue, flavor, resource)
                sums[place] = sums.get(place, 0) + amount
                if sums[place] < 0:
                    self._trace.violate(LESS, f"{name} at {recorded.position}: {sums[place]} of {place}")
                if not sums[place]:
                    del sums[place]
        if not sums:
            del self._sums[name]

    def finish(self, held: Mapping[str, int]) -> None:
        """Compare the sums with what Workloads hold by the cluster's objects, in thousandths of a CPU."""
        sums = {
            name: sum(amount for (_, _, resource), amount in of.items() if resource == "cpu")
            for name, of in self._sums.items()
        }
        if sums != held:
            self._trace.violate(BALANCE, f"the ledger says {sums}, the Workloads {dict(held)}")
