"""One replica of the service, life after life: the turns of production, on virtual time and a simulated database.

In: the stage's API servers and the database. Out: what the service does. A life is a `Process`: it is started with nothing but the log,
frozen and thawed in the middle of anything, killed without a word, or asked to stop. `controlplane.app.turn.Turn` is the real one; only
how a worker is reached differs, and gauges that nobody reads are not kept.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.app.measure import Measure
from controlplane.app.rooms import Hosted
from controlplane.app.service import take_leave
from controlplane.app.turn import Shared, Turn
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.streams import ApiServer
from controlplane.clusters.surroundings import Surroundings
from controlplane.connectivity.events import MANAGEMENT
from controlplane.log.event import Recorded
from controlplane.multikueue.adapters import adapters_for
from controlplane.multikueue.context import Policy
from controlplane.multikueue.index import Index
from controlplane.reconcile.gate import Gate
from controlplane.reconcile.leader import Leader
from controlplane.settings import Settings
from controlplane.settings.model import Leader as LeaderSettings
from controlplane.simulation.deterministic.database import Database, DatabaseLog
from controlplane.simulation.deterministic.life import Living
from controlplane.simulation.deterministic.loop import Process, VirtualLoop
from controlplane.simulation.deterministic.stage import led_to
from controlplane.simulation.deterministic.trace import Trace
from controlplane.telemetry import Metrics
from controlplane.web.health import Health

OpenServer = Callable[[str, str, str], ApiServer]
"""`open_server(cluster, process, token)`: a connection to a cluster, `@management` included."""
OnFolded = Callable[[str, Index], None]
"""`folded(process, index)`: a process has folded a batch, and this is what it holds."""

POLICY = Policy(
    adapters=adapters_for(["batch/job", "jobset.x-k8s.io/jobset"]),
    worker_lost_timeout=timedelta(minutes=3),
    refusal_pause=timedelta(minutes=1),
)
_JOBS_ONLY = msgspec.structs.replace(POLICY, adapters=adapters_for(["batch/job"]))
HOME_TOKEN = "0"  # noqa: S105 - of a cluster that does not exist
_LEASE, _RENEW = 12.0, 3.0
_POLL = 5.0  # the log's alarm clock is never lost here, and polling is most of what an idle hour costs


def policy_of(edition: int) -> Policy:
    """Return the settings under which plans of an edition are played: the first one knows no JobSets."""
    return POLICY if edition > 1 else _JOBS_ONLY


@functools.cache
def _metrics() -> Metrics:
    return Metrics()


class Replica(Living):
    """One replica of the service."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        loop: VirtualLoop,
        seed: str,
        database: Database,
        open_server: OpenServer,
        trace: Trace,
        folded: OnFolded,
    ) -> None:
        super().__init__(name, loop, seed, trace)
        self._policy, self._database = policy, database
        self._open_server, self._folded = open_server, folded
        self.turn: SimulatedTurn | None = None

    @property
    def leading(self) -> SimulatedTurn | None:
        """The turn of a living process that believes that it leads."""
        return self.turn if self.alive and self.turn is not None and self.turn.leads else None

    def _forget(self) -> None:
        self.turn = None

    async def _turn(self, process: Process, source: random.Random, stop: asyncio.Event) -> None:
        """Follow the log until the lead is ours, then lead until stopped or fenced: what `Service._turn` does."""
        shared, gate = self._shared(process, source), Gate()
        hosted = Hosted(shared.settings, self._policy)
        log = DatabaseLog(self._database, process, lambda ok, detail: gate.set("append", ok, detail))
        leader = Leader(log, process.name, self.clock, gate, lease=_LEASE, renew=_RENEW)
        turn = self.turn = SimulatedTurn(shared, hosted, gate, log, leader, self._worker(process), self._folded)
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

    def _shared(self, process: Process, source: random.Random) -> Shared:
        async def open_management() -> ApiServer:
            return self._open_server(MANAGEMENT, process.name, HOME_TOKEN)

        settings = msgspec.structs.replace(Settings(), leader=LeaderSettings(identity=process.name))
        return Shared(settings, open_management, _metrics(), Health(), self.clock, source, self.replaced)

    def _worker(self, process: Process) -> Callable[[str, ClientConfig], ApiServer]:
        return lambda _, config: self._open_server(led_to(config.server), process.name, config.token)


class SimulatedTurn(Turn):
    """A turn whose workers are reached through `open_worker`; `on_folded` hears of each batch that it has folded, leading or not."""

    def __init__(
        self,
        shared: Shared,
        hosted: Hosted,
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

    def _surroundings(self, *arguments: Any) -> Surroundings:
        return dataclasses.replace(super()._surroundings(*arguments), open_server=self._open_worker)

    def _folded(self, events: Sequence[Recorded]) -> None:
        super()._folded(events)
        self._on_folded(self.fleet.identity, self.fleet.index)

    async def _report(self) -> None:
        """Nobody looks at gauges here."""
        await asyncio.Event().wait()
