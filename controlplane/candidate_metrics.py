"""The metrics of candidate pods, as the source side counts them: each by the target cluster that it is about.

In: what makes a metric (`controlplane.telemetry.Metrics`). Out: the metrics, as fields. They are a family of their own,
so that the list of all metrics stays one that can be read."""

from __future__ import annotations

from typing import Protocol, TypeVar

from prometheus_client import Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

M = TypeVar("M", bound=MetricWrapperBase)
_REASONS = "a reason of its scheduler ([the list](scheduler-events.md))"


class NewMetric(Protocol):
    """What makes a metric."""

    def __call__(
        self,
        kind: type[M],
        name: str,
        label_names: str,
        doc: str,
        buckets: tuple[float, ...] = (),
        *,
        prefix: str = "controlplane",
    ) -> M:
        """Return a metric of a kind; `label_names` are separated by spaces, `buckets` are a histogram's bounds in
        seconds, and its name begins with `prefix`.
        """


class CandidateMetrics:
    """See the module. `waits` are the bounds of the histogram, in seconds."""

    def __init__(self, new: NewMetric, waits: tuple[float, ...]) -> None:
        self.offered = new(
            Counter, "candidates_offered_total", "cluster", "Candidates of source pods that were to be created."
        )
        self.reserved = new(
            Counter, "candidates_reserved_total", "cluster", "Nodes that a target was seen to hold for a candidate."
        )
        self.permitted = new(
            Counter,
            "candidates_permitted_total",
            "cluster kind",
            "Permits: `Bind`, to bind under a reservation, or `Preempt`, to make room.",
        )
        self.bound = new(
            Counter, "candidates_bound_total", "cluster", "Source pods that were bound to a node of a target."
        )
        self.refused = new(
            Counter,
            "candidates_refused_total",
            "cluster reason",
            f"Candidates to which a target said no: {_REASONS}, `NotCreated` where its API server did not take the"
            " candidate, or `Other`.",
        )
        self.unreserved = new(
            Counter,
            "candidates_unreserved_total",
            "cluster reason",
            f"Reservations that a target was seen to give up: {_REASONS}, or `Other`.",
        )
        self.lost = new(
            Counter,
            "candidates_lost_total",
            "cluster reason",
            "Source pods that were bound in a target, or had its permit to bind, and are placed anew.",
        )
        self.placement_seconds = new(
            Histogram,
            "candidates_placement_seconds",
            "cluster",
            "From the election of a source pod's targets until it was seen bound, by the cluster that got it.",
            waits,
        )
