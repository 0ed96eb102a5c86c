"""One replica of the service, life after life: the turns of production, on virtual time and a simulated database.

In: the stage's API servers and the database. Out: what the service does. A life is a `SimulatedProcess`: it is started
with nothing but the log, frozen and thawed in the middle of anything, killed without a word, or asked to stop.
`controlplane.app.leadership.Turn` is the real one; only how a worker is reached differs, and gauges that nobody reads
are not kept."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.app.leadership import ServiceTerm, Shared
from controlplane.app.measure import Measure
from controlplane.app.service import take_leave
from controlplane.clusters.connection_config import ConnectionConfig
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.multikueue.adapters import adapters_for
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.dst.engine.database import DatabaseLog, SimulatedDatabase
from controlplane.dst.engine.loop import SimulatedProcess, VirtualLoop
from controlplane.dst.engine.process import ProcessRuns
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.environment import led_to
from controlplane.log.event import Recorded
from controlplane.runtime.gate import Gate
from controlplane.runtime.leader import Leader
from controlplane.settings import Settings
from controlplane.settings.model import LeaderSettings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

OpenServer = Callable[[str, str, str], ApiServer]
"""`open_server(cluster, process, token)`: a connection to a cluster, `@management` included."""
OnFolded = Callable[[str, WorkloadIndex], None]
"""`folded(process, index)`: a process has folded a batch, and this is what it holds."""

POLICY = MultiKueuePolicy(
    adapters=adapters_for(["batch/job", "jobset.x-k8s.io/jobset"]),
    worker_lost_timeout=timedelta(minutes=3),
    refusal_pause=timedelta(minutes=1),
)
_JOBS_ONLY = msgspec.structs.replace(POLICY, adapters=adapters_for(["batch/job"]))
HOME_TOKEN = "0"  # noqa: S105 - of a cluster that does not exist
_LEASE, _RENEW = 12.0, 3.0
_POLL = 5.0  # the log's alarm clock is never lost here, and polling is most of what an idle hour costs


def policy_of(edition: int) -> MultiKueuePolicy:
    """Return the settings under which plans of an edition are played: the first one knows no JobSets."""
    return POLICY if edition > 1 else _JOBS_ONLY


@functools.cache
def _metrics() -> Metrics:
    return Metrics()


class SimulatedReplica(ProcessRuns):
    """One replica of the service."""

    def __init__(
        self,
        name: str,
        policy: MultiKueuePolicy,
        loop: VirtualLoop,
        seed: str,
        database: SimulatedDatabase,
        open_server: OpenServer,
        trace: Trace,
        folded: OnFolded,
    ) -> None:
        super().__init__(name, loop, seed, trace)
        self._policy, self._database = policy, database
        self._open_server, self._folded = open_server, folded
        self.turn: SimulatedServiceTerm | None = None

    @property
    def leading(self) -> SimulatedServiceTerm | None:
        """The turn of a living process that believes that it leads."""
        return self.turn if self.alive and self.turn is not None and self.turn.leads else None

    def _forget(self) -> None:
        self.turn = None

    async def _turn(self, process: SimulatedProcess, source: random.Random, stop: asyncio.Event) -> None:
        """Follow the log until the lead is ours, then lead until stopped or fenced: what `Service._turn` does."""
        shared, gate = self._shared(process, source), Gate()
        hosted = HostedControllers(shared.settings, self._policy)
        log = DatabaseLog(self._database, process, lambda ok, detail: gate.set("append", ok, detail))
        leader = Leader(log, process.name, self.clock, gate, lease=_LEASE, renew=_RENEW)
        turn = self.turn = SimulatedServiceTerm(shared, hosted, gate, log, leader, self._worker(process), self._folded)
        try:
            head = await turn.follow_until(stop)
            if head is None:
                return
            await turn.take_over(head, "simulated", hosted.fleet.index.watched)
            self._trace.note("process", process.name, f"leads epoch {head.epoch} from position {head.position}")
            await turn.lead(stop)
            await take_leave(log, leader, head.epoch, process.name)
        finally:
            await turn.close()
            await leader.release()
            await log.close()

    def _shared(self, process: SimulatedProcess, source: random.Random) -> Shared:
        async def open_management() -> ApiServer:
            return self._open_server(MANAGEMENT, process.name, HOME_TOKEN)

        settings = msgspec.structs.replace(Settings(), leader=LeaderSettings(identity=process.name))
        return Shared(settings, open_management, _metrics(), Health(), self.clock, source, self.replaced)

    def _worker(self, process: SimulatedProcess) -> Callable[[str, ClientConfig], ApiServer]:
        return lambda _, config: self._open_server(led_to(config.server), process.name, config.token)


class SimulatedServiceTerm(ServiceTerm):
    """A turn whose workers are reached through `open_worker`; `on_folded` hears of each batch that it has folded,
    leading or not.
    """

    def __init__(
        self,
        shared: Shared,
        hosted: HostedControllers,
        gate: Gate,
        log: Any,
        leader: Leader,
        open_worker: Callable[[str, ClientConfig], ApiServer],
        on_folded: OnFolded,
    ) -> None:
        self.fleet, self._open_worker, self._on_folded = hosted.fleet, open_worker, on_folded
        super().__init__(shared, hosted, Measure(shared.metrics, hosted.fleet), gate, log, leader)
        self.runner._poll = _POLL

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self._live

    def _surroundings(self, *arguments: Any) -> ConnectionConfig:
        return dataclasses.replace(super()._surroundings(*arguments), open_server=self._open_worker)

    def _folded(self, events: Sequence[Recorded]) -> None:
        super()._folded(events)
        self._on_folded(self.fleet.identity, self.fleet.index)

    async def _report(self) -> None:
        """Nobody looks at gauges here."""
        await asyncio.Event().wait()
