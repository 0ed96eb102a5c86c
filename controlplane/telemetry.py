"""What the service says about itself: messages on stderr and numbers for Prometheus.

`configure` sets up structlog once, for our own messages and for those of libraries, with the context of the task at
hand (`structlog.contextvars`) and with secrets masked whoever wrote them. `metrics` holds all metrics; a room counts by
`metrics.events_appended.labels(type=…).inc()`. Names and labels are an interface (`docs/reference/metrics.md`)."""

from __future__ import annotations

import logging
import platform
import sys
from collections.abc import Mapping, MutableMapping
from datetime import datetime
from importlib import metadata
from typing import Any, TextIO, TypeVar

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics import MetricWrapperBase

from controlplane.candidate_metrics import CandidateMetrics
from controlplane.quota_metrics import GAUGE_ROWS, QuotaMetrics
from controlplane.settings.secret import MASK, mask_urls

_SECRET_WORDS = (
    "password",
    "passwd",
    "secret_data",
    "token",
    "authorization",
    "kubeconfig_data",
    "private_key",
    "client_key",
)
_CHATTY = {"aiohttp.access": logging.WARNING, "kubernetes_asyncio": logging.WARNING, "alembic": logging.WARNING}
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_WAITS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)
_BATCH = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)
_EARLIER = "The same under the name that it had here before; kept for queries of it."

M = TypeVar("M", bound=MetricWrapperBase)


def configure(level: str, format: str, stream: TextIO | None = None) -> None:  # noqa: A002
    """Send every message of this process to `stream` (stderr), as JSON lines or for people (coloured on a terminal
    only).

    May be called again; the last call holds.
    """
    target = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
    ]
    # Tracebacks become text before secrets are hidden, and never show local variables.
    render: list[structlog.typing.Processor] = [structlog.processors.format_exc_info, hide_secrets]
    if format == "console":
        plain = structlog.dev.plain_traceback
        render.append(structlog.dev.ConsoleRenderer(colors=target.isatty(), exception_formatter=plain))
    else:
        render.append(structlog.processors.JSONRenderer(default=str, ensure_ascii=False))
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render]
        )
    )
    logging.getLogger().handlers[:] = [handler]
    set_level(level)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared[:-1],
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    logging.captureWarnings(True)


LEVELS = ("debug", "info", "warning", "error")
"""What `log.level` may be."""


def set_level(level: str) -> None:
    """Write messages from this level on; of libraries that say much, no more than before."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for name, least in _CHATTY.items():
        logging.getLogger(name).setLevel(max(least, root.level))


def level_now() -> str:
    """Return the level from which on messages are written."""
    return logging.getLevelName(logging.getLogger().level).lower()


def _version() -> str:
    try:
        return metadata.version("controlplane")
    except metadata.PackageNotFoundError:  # a tree that is not installed
        return "unknown"


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a room (`controlplane.runtime`); `configure` decides later what becomes of its messages."""
    found: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return found


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask values under names that mean a secret, and the password of every URL in any text, at any depth."""
    return {key: _hidden(key, value) for key, value in event.items()}


def _hidden(key: str, value: Any) -> Any:
    if any(word in key.lower() for word in _SECRET_WORDS):
        return MASK
    if isinstance(value, str):
        return mask_urls(value) if "://" in value else value
    if isinstance(value, Mapping):
        return {inner: _hidden(str(inner), found) for inner, found in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(key, item) for item in value]
    return mask_urls(str(value)) if isinstance(value, BaseException) else value


class Metrics:
    """Every metric of the service, in a registry of its own. Tests make their own; the service uses `metrics` below."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.table: list[tuple[str, str, tuple[str, ...], str]] = []
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._of_cluster: list[MetricWrapperBase] = []
        build = self._new(Gauge, "build_info", "version python", "Always 1; which version of the program answers.")
        build.labels(_version(), platform.python_version()).set(1)
        self._make_clusters()
        self._make_outages()
        self._make_log()
        self._make_effects()
        self._make_dispatch()
        self.candidates = CandidateMetrics(self._new, _WAITS)
        self.quota = QuotaMetrics(self._new)
        self.table.extend(GAUGE_ROWS)
        self._make_scheduler()
        self._make_local()

    def request_ended(self, cluster: str, verb: str, resource: str, code: str, seconds: float) -> None:
        """Count a request to a cluster that has ended, and how long it took."""
        self.api_requests.labels(cluster, verb, resource, code).inc()
        self.api_request_seconds.labels(cluster, verb).observe(seconds)

    def effect_ended(self, cluster: str, action: str, outcome: str) -> None:
        """Count a write that was tried, and what came of it."""
        self.effects_executed.labels(cluster=cluster, action=action, outcome=outcome).inc()

    def kubeconfig_read(self, cluster: str, expires: datetime | None) -> None:
        """Show when the token with which a cluster is reached ends; nothing if it does not say."""
        if expires is None:
            self.kubeconfig_expires.remove_by_labels({"cluster": cluster})
        else:
            self.kubeconfig_expires.labels(cluster).set(expires.timestamp())

    def _make_clusters(self) -> None:
        """Requests to API servers, and what is seen there."""
        new = self._new
        self.api_requests = new(Counter, "api_requests_total", "cluster verb resource code", "Requests, by HTTP code.")
        self.api_request_seconds = new(
            Histogram, "api_request_seconds", "cluster verb", "How long they took.", _SECONDS
        )
        self.cluster_connected = new(Gauge, "cluster_connected", "cluster", "1 while the cluster answers, otherwise 0.")
        self.kubeconfig_expires = new(
            Gauge,
            "kubeconfig_expires_timestamp_seconds",
            "cluster",
            "When the token or the client certificate of the cluster's kubeconfig ends, whichever is first, in "
            "seconds since 1970.",
        )
        self.relists = new(Counter, "reflector_relists_total", "cluster kind reason", "Lists of a kind, and why.")
        self.observations_refused = new(
            Counter, "observations_refused_total", "cluster kind", "Objects that are not what they claim to be."
        )

    def _make_outages(self) -> None:
        """Clusters that are away, and what bounds the consequences."""
        new = self._new
        self.cluster_phase = new(
            Gauge, "cluster_phase", "cluster phase", "1 for the phase of the connection to the cluster, otherwise 0."
        )
        self.cluster_lost_seconds = new(
            Gauge, "cluster_lost_seconds", "cluster", "For how long the cluster has been away; 0 while it answers."
        )
        self.cluster_suspected = new(
            Counter, "cluster_suspected_total", "cluster", "How often a heartbeat of the cluster was overdue."
        )
        self.removals_owed = new(
            Gauge, "removals_owed", "cluster", "Copies on a cluster that is away which are not wanted there any more."
        )
        self.unknown_copies = new(
            Gauge, "unknown_copies", "cluster", "Copies that are left alone, since nobody here knows whose they are."
        )
        self.mass_outage = new(
            Gauge, "mass_outage", "", "1 while a mass outage holds back what lost clusters set in motion, otherwise 0."
        )
        self.requeues = new(
            Counter, "requeues_from_lost_clusters_total", "cluster", "Workloads taken from a cluster that was lost."
        )
        self.requeue_budget = new(
            Gauge, "requeue_budget_left", "", "Workloads that may still be taken from lost clusters within this minute."
        )

    def _make_log(self) -> None:
        """The log, and who leads it."""
        new = self._new
        self.leader = new(Gauge, "leader", "", "1 while this process leads the log, otherwise 0.")
        self.leader_sure = new(
            Gauge, "leader_sure", "", "1 while nobody else can have taken the lead from this process, otherwise 0."
        )
        self.leader_epoch = new(Gauge, "leader_epoch", "", "The epoch in which this process leads, or led last.")
        self.log_reachable = new(Gauge, "log_reachable", "", "1 while the database of the log answers, otherwise 0.")
        self.events_appended = new(Counter, "log_events_appended_total", "type", "Events appended.")
        self.append_batch_size = new(Histogram, "log_append_batch_size", "", "Events in one append.", _BATCH)
        self.append_seconds = new(
            Histogram, "log_append_seconds", "", "How long an append took, with commit.", _SECONDS
        )
        self.log_position = new(Gauge, "log_position", "", "The position up to which this process has read.")
        self.unknown_events = new(
            Counter, "log_unknown_event_types_total", "type", "Events of a type unknown to this version: kept, skipped."
        )
        self.streams_left_alone = new(
            Gauge,
            "log_streams_left_alone",
            "",
            "Streams with an event that cannot be folded: nothing more is decided about them.",
        )
        self.events_refused = new(
            Counter, "log_events_refused_total", "type", "Events that the database refused for what is in them."
        )

    def _make_effects(self) -> None:
        """Decisions and what came of them."""
        new = self._new
        self.decisions = new(Counter, "decisions_total", "type reason", "Decisions taken.")
        self.decisions_failed = new(Counter, "decisions_failed_total", "kind", "Faults in deciding, by kind of stream.")
        self.loop_lag_seconds = new(Histogram, "loop_lag_seconds", "", "From observation to decision.", _SECONDS)
        self.effects_open = new(Gauge, "effects_open", "cluster", "Effects that wait, or are under way.")
        self.effects_oldest_seconds = new(
            Gauge,
            "effects_oldest_seconds",
            "cluster",
            "For how long the oldest effect of a cluster has not been settled.",
        )
        self.effects_executed = new(
            Counter, "effects_executed_total", "cluster action outcome", "Effects carried out, and what came of them."
        )

    def _make_dispatch(self) -> None:
        """What becomes of Workloads, as Kueue counts it, and what Kueue does not count."""
        new = self._new
        self.workloads_dispatched = new(
            Counter, "workloads_dispatched_total", "cluster_queue cluster", "Clones of workloads created on a cluster."
        )
        self.workloads_admitted = new(
            Counter, "workloads_admitted_total", "cluster_queue cluster", "Workloads that a cluster won."
        )
        as_kueue = "cluster_queue cluster replica_role"
        # Kueue's names for the same, and `kueue_multikueue_…`, which earlier versions took for them.
        self.kueue_dispatched, self.kueue_admitted = (
            [
                new(Counter, f"multikueue_workloads_{what}_total", as_kueue, doc, prefix=prefix)
                for prefix, doc in (("", f"{told}, under Kueue's name."), ("kueue", _EARLIER))
            ]
            for what, told in (
                ("dispatched", "Copies of Workloads created on a cluster"),
                ("admitted", "Workloads that a cluster won"),
            )
        )
        self.dispatch_seconds = new(
            Histogram, "dispatch_seconds", "cluster_queue", "From quota seen to the nomination of clusters.", _WAITS
        )
        self.admission_seconds = new(
            Histogram,
            "admission_seconds",
            "cluster_queue cluster",
            "From the nomination of clusters to the admission check Ready, by the cluster that won.",
            _WAITS,
        )
        self.copies_removed = new(
            Counter, "copies_removed_total", "cluster reason", "Copies whose removal was decided, and why."
        )
        self.retries = new(
            Counter, "retries_total", "cluster reason", "Workloads that were taken back from a cluster, and why."
        )

    def _make_scheduler(self) -> None:
        """The scheduler beside a target cluster."""
        new = self._new
        self.schedule_attempts = new(
            Counter, "scheduler_attempts_total", "result", "Cycles: `scheduled`, `unschedulable` or `error`."
        )
        self.cycle_seconds = new(Histogram, "scheduler_cycle_seconds", "", "How long a cycle took.", _SECONDS)
        self.pending_pods = new(
            Gauge, "scheduler_pending_pods", "queue", "Pods that wait, by their place in the queue."
        )
        self.scheduler_nodes = new(Gauge, "scheduler_nodes", "", "Nodes in the snapshot.")
        self.takes_candidates = new(Gauge, "scheduler_takes_candidates", "", "1 if it takes Candidates, else 0.")

    def _make_local(self) -> None:
        """PodGroups and PipelineRuns of one's own cluster."""
        new = self._new
        self.pod_groups = new(Gauge, "podgroups", "phase", "PodGroups, by phase.")
        self.ungrouped_pods = new(
            Gauge, "podgroups_unresolved_pods", "", "Pods whose PodGroup's owner is not known yet."
        )
        self.coscheduled_runs = new(Gauge, "coscheduled_pipelineruns", "mode", "PipelineRuns under way, by mode.")
        self.admission_reviews = new(
            Counter,
            "admission_reviews_total",
            "result",
            "AdmissionReviews answered: patched, unchanged, or unknown (let through with a warning).",
        )

    def forget_clusters(self) -> None:
        """Drop the gauges of all clusters: whoever does not lead any more knows nothing of them."""
        for metric in self._of_cluster:
            if isinstance(metric, Gauge):
                metric.clear()

    def forget_cluster(self, cluster: str) -> None:
        """Drop what is labelled with a cluster that was removed, so that its last state is not reported for ever."""
        for metric in self._of_cluster:
            metric.remove_by_labels({"cluster": cluster})

    def _new(
        self,
        kind: type[M],
        name: str,
        label_names: str,
        doc: str,
        buckets: tuple[float, ...] = (),
        *,
        prefix: str = "controlplane",
    ) -> M:
        full, labels = f"{prefix}_{name}".removeprefix("_"), tuple(label_names.split())
        self.table.append((full, kind.__name__.lower(), labels, doc))
        options: dict[str, Any] = {"buckets": buckets} if buckets else {}
        metric = kind(full, doc, labels, registry=self.registry, **options)
        if "cluster" in labels:
            self._of_cluster.append(metric)
        return metric


# No series `x_created` beside each counter and histogram: a third more of them, which no query here needs.
disable_created_metrics()  # type: ignore[no-untyped-call]
metrics = Metrics()

_HEAD = """# Metrics

<!-- Written by `python -m controlplane.telemetry`. Change controlplane/telemetry.py instead. -->

Served at `/metrics` (`http.port`), in Prometheus's or OpenMetrics' text format, whichever the reader asks for. Times are seconds. A
histogram `x` has the series `x_bucket`, `x_sum` and `x_count`. In OpenMetrics' format those of `loop_lag`, `dispatch` and `admission`
have exemplars: the newest measured value of a bucket with its `trace_id`, which leads to [its trace](../howto/production/traces.md).
The usual `process_*` and `python_*` metrics are there as well. What begins with `kueue_` or `multikueue_` has the names, labels and buckets
that it has in Kueue: the process that leads reports it, and what is about quota where `quota.mode` is `builtin`, with
`quota.metrics.customLabels`.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def reference() -> str:
    """Return the reference page of the metrics (`docs/reference/metrics.md`), in Markdown."""
    rows = ""
    for name, kind, labels, doc in metrics.table:
        shown = ", ".join(f"`{label}`" for label in labels) or "–"
        rows += f"| `{name}` | {kind} | {shown} | {doc} |\n"
    return _HEAD + rows


if __name__ == "__main__":
    sys.stdout.write(reference())
