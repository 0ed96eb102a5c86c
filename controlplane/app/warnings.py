"""Says on objects of the management cluster what their owners would not learn otherwise: that one cannot be understood,
that a cluster has another name already, that what a configuration asks for is off.

In: events as they are folded by a process that leads. Out: a line in its log and a Warning Event, once for each version
of what is wrong. Best effort: the log of the service has what they say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from controlplane.app.measure import REFUSED
from controlplane.clock import Clock
from controlplane.clusters.protocol import ClusterError, Executes
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterStandby
from controlplane.controllers.connectivity.state import STANDBY
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.observations import MultiKueueConfigObserved
from controlplane.kube.kinds import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, Kind, ObjectRef
from controlplane.kube.requests import event_about
from controlplane.log.event import Recorded
from controlplane.tasks import end

_log = structlog.get_logger(__name__)


class Warnings:
    """See the module. `home` are the kinds that are watched on the management cluster; `automates`: whether quota is
    automated where a MultiKueueConfig asks for it."""

    def __init__(
        self,
        fleet: MultiKueueController,
        executor: Callable[[], Executes | None],
        home: Sequence[Kind],
        identity: str,
        clock: Clock,
        *,
        automates: bool,
    ) -> None:
        self._fleet, self._executor, self._home = fleet, executor, home
        self._identity, self._clock, self._automates = identity, clock, automates
        self._telling: set[asyncio.Task[None]] = set()

    def heard(self, recorded: Recorded) -> None:
        """Take one more event."""
        event: Any = recorded.event
        if isinstance(event, REFUSED):
            self._refused(recorded.cluster, event)
        elif isinstance(event, ClusterStandby):
            self._stands_by(recorded.cluster, event)
        elif isinstance(event, MultiKueueConfigObserved) and not self._automates:
            self._not_automated(event)

    async def close(self) -> None:
        """Let go of what is on its way."""
        await end(*self._telling)

    def _refused(self, cluster: str, refused: Any) -> None:
        _log.warning("object refused", cluster=cluster, kind=refused.kind, name=refused.name, error=refused.error)
        kind = next((kind for kind in self._home if kind.name == refused.kind), None)
        if cluster != MANAGEMENT or kind is None:
            return
        note = f"Controlplane cannot read this {kind.kind} and leaves it alone: {refused.error}"
        about = ObjectRef(kind, refused.namespace, refused.name)
        self._send(about, refused.uid, "Refused", note, refused.resource_version)

    def _stands_by(self, cluster: str, standby: ClusterStandby) -> None:
        seen = self._fleet.index.clusters.get(cluster)
        if seen is not None:
            about = ObjectRef(MULTIKUEUE_CLUSTERS, "", cluster)
            self._send(about, seen.uid, STANDBY, standby.message, f"{standby.behind} {standby.incarnation}")

    def _not_automated(self, config: MultiKueueConfigObserved) -> None:
        if config.quota_management in ("", "Manual"):
            return
        note = (
            f"spec.quotaManagement is {config.quota_management}, and multikueue.quotaAutomation is off: no quota is set"
        )
        _log.warning("quota is not automated", config=config.name, detail=note)
        about = ObjectRef(MULTIKUEUE_CONFIGS, "", config.name)
        self._send(about, config.uid, "QuotaAutomationOff", note, config.resource_version)

    def _send(self, about: ObjectRef, uid: str, reason: str, note: str, suffix: str) -> None:
        executor = self._executor()
        if executor is None:
            return
        event = event_about(about, uid, "Warning", reason, note, suffix, self._identity, self._clock.now())
        task = asyncio.create_task(_quietly(executor.execute(event)))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


async def _quietly(work: Awaitable[Any]) -> None:
    """Best effort: an Event that cannot be sent is not worth a failure; the log has what it would say."""
    with contextlib.suppress(ClusterError):
        await work
