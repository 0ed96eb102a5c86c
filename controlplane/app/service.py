"""The service: one process that follows a log and, when it leads, keeps it and acts on it.

In: settings, a way to the log and one to the management cluster. Out: everything that `controlplane run` does. A term
(`controlplane.app.leadership`) ends with a fence or a fault; the process then starts over as a follower, with nothing
but what the log says."""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING, TypeVar

import structlog

from controlplane.app.hosted import TYPES, HostedControllers
from controlplane.app.leadership import ServiceTerm
from controlplane.app.measure import Measure
from controlplane.app.quota_measure import QuotaReport
from controlplane.clock import Clock, SystemClock
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.log.codec import Codec
from controlplane.log.event import LogHead
from controlplane.runtime.lifecycle import OpenManagement, Ports, Process, ProcessContext
from controlplane.runtime.spans import Spans
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

if TYPE_CHECKING:
    from controlplane.controllers.candidates.source.controller import SourceController
    from controlplane.controllers.jobframework.controller import JobFrameworkController
    from controlplane.controllers.quota.admission.controller import AdmissionController

C = TypeVar("C")
_log = structlog.get_logger(__name__)

# What a page of a list is decoded into is kept for milliseconds, and is more than the collector's own first thresholds
# many times over: it would look at each page several times while it is made. `python -m benchmarks failover` shows it.
# A page of the log is no other, and a replay is some 5 percent shorter so.
_COLLECT = (50_000, 20, 50)

CHECKS = ("schema", "database", "leader", "caches", "clusters")


class Service(Process):
    """One replica of the service; `policy` takes the place of what the settings say of Workloads."""

    def __init__(
        self,
        settings: Settings,
        ports: Ports,
        open_management: OpenManagement,
        *,
        metrics: Metrics,
        health: Health,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        spans: Spans | None = None,
        policy: MultiKueuePolicy | None = None,
    ) -> None:
        source = rng or random.Random()  # noqa: S311 - jitter
        context = ProcessContext(
            settings, ports, open_management, metrics, health, clock or SystemClock(), source, spans
        )
        super().__init__(context, settings.database.log)
        self._policy = policy
        self.fleet: MultiKueueController | None = None
        self.sources: SourceController | None = None
        self.jobs: JobFrameworkController | None = None
        self.admission: AdmissionController | None = None
        self._hosted: HostedControllers | None = None
        self._present: ServiceTerm | None = None

    @property
    def current(self) -> bool:
        """Whether what the controllers have folded is what the log says."""
        return self._present is not None and self._present.current

    @property
    def leads(self) -> bool:
        """Whether this process keeps the log, and is connected to the clusters."""
        return self._present is not None and self._present.leads

    def find(self, kind: type[C], /) -> C | None:
        """Return the controller of a type of the present term; None if none is on, or before the first term."""
        return self._hosted.find(kind) if self._hosted is not None else None

    def server(self, cluster: str) -> ApiServer | None:
        """Return the API server of a cluster that this process is connected to, None otherwise."""
        return self._present.server(cluster) if self._present is not None else None

    def _term(self) -> ServiceTerm:
        if self._context.ports.tunes_collector:
            gc.unfreeze()  # what the term before has left
            gc.set_threshold(*_COLLECT)
        hosted = HostedControllers(self._context.settings, self._policy)
        fleet = self.fleet = hosted.fleet
        self.sources, self.jobs, self._hosted = hosted.sources, hosted.jobs, hosted
        self.admission = hosted.admission
        gate, log, leader = self._open(Codec(TYPES))
        metrics, admission = self._context.metrics, hosted.admission
        settings = self._context.settings.quota.metrics
        quota = QuotaReport(metrics, admission, settings) if admission is not None else None
        measure = Measure(metrics, fleet, self._context.spans, hosted.sources, quota)
        self._present = ServiceTerm(self._context, hosted, measure, gate, log, leader)
        return self._present

    def _leads(self, head: LogHead) -> None:
        if self._context.ports.tunes_collector:
            # What was folded stays. The collector need not look through it again and again while the clusters are
            # listed, which is when most is made and a takeover waits: half of the processor time of that.
            gc.freeze()
        assert self.fleet is not None
        workloads = len(self.fleet.index.workloads)
        _log.info("leading", epoch=head.epoch, position=head.position, workloads=workloads)
