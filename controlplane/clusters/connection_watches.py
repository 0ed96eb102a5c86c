"""Runs the reflectors of one cluster's connection: those of the kinds that are watched everywhere, and those that are
wanted besides.

In: the connection's `ConnectionConfig`, and a server each time the cluster is reached. Out: deltas, into the sinks. The
reflectors outlive a lost connection and keep their positions over it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from controlplane.clusters.budget import RequestBudget
from controlplane.clusters.connection_config import ConnectionConfig
from controlplane.clusters.connection_reports import StoreRestored
from controlplane.clusters.protocol import Sink
from controlplane.clusters.reflector import Reflector
from controlplane.clusters.reflector_hooks import always
from controlplane.clusters.streams import ApiServer
from controlplane.kube.kinds import Kind, ObjectRef
from controlplane.kube.watches import WatchSpec
from controlplane.tasks import end


class ConnectionWatches:
    """The reflectors of the cluster `name`; `identify` raises if another cluster answers than the one that was reached
    (`incarnation`)."""

    def __init__(
        self,
        name: str,
        around: ConnectionConfig,
        budget: RequestBudget,
        identify: Callable[[ApiServer], Awaitable[None]],
    ) -> None:
        self.name = name
        self.incarnation = ""
        self._server_url = ""
        self._around, self._budget, self._identify = around, budget, identify
        self._reflectors: list[Reflector] = []
        self._extra: dict[WatchSpec, Reflector] = {}
        self._let_go = 0
        self._wanted: Mapping[WatchSpec, Sink] = {}
        self._rewanted = asyncio.Event()
        self._begun = always()  # cleared while a new incarnation is recorded
        self._restores = 0

    @property
    def reopened(self) -> int:
        """How many watches were opened after another one of what they follow, those that were let go included."""
        return self._let_go + sum(reflector.reopened for reflector in self._all())

    def absent(self, ref: ObjectRef) -> None:
        """Take note that the cluster says of an object that it is not there."""
        for reflector in self._all():
            if reflector.spec.kind == ref.kind:
                reflector.absent(ref.namespace, ref.name)

    def list_again(self, kinds: Collection[Kind]) -> None:
        """Have kinds listed anew, so that the sinks are shown once more what they have seen."""
        for reflector in self._all():
            if reflector.spec.kind in kinds:
                reflector.list_again()

    def want(self, wanted: Mapping[WatchSpec, Sink]) -> None:
        """Follow these besides what every cluster is watched for; what is no longer wanted is let go."""
        self._wanted = dict(wanted)
        self._rewanted.set()

    def place(self, incarnation: str, server_url: str) -> None:
        """Make the reflectors, or let those of the last connection go on; on another cluster none may resume."""
        if not (self._reflectors or self._extra):
            self._reflectors = [self._reflector(spec, self._around.sink) for spec in self._around.specs]
        elif incarnation == self.incarnation if incarnation and self.incarnation else server_url == self._server_url:
            for reflector in self._all():
                reflector.doubt_position()
        else:
            for reflector in self._all():
                reflector.forget_position()
        self.incarnation, self._server_url = incarnation, server_url

    def follow(self, server: ApiServer) -> list[Coroutine[Any, Any, None]]:
        """Return what follows the kinds that are watched everywhere; each ends only by raising."""
        return [reflector.run(server) for reflector in self._reflectors]

    async def settled(self) -> tuple[str, ...]:
        """Wait until each of these kinds is listed or known not to be had; return those that are not to be had."""
        while unsettled := next((r for r in self._reflectors if not r.settled.is_set()), None):
            await unsettled.settled.wait()  # the others may have to list again meanwhile: another history was found
        return tuple(r.spec.kind.name for r in self._reflectors if not r.available)

    async def follow_wanted(self, server: ApiServer) -> None:
        """Keep a reflector running for each thing that is wanted; ends only by raising."""
        tasks: dict[WatchSpec, asyncio.Task[None]] = {}
        try:
            while True:
                self._rewanted.clear()
                unwanted = [tasks[spec] for spec in tasks if spec not in self._wanted]
                await end(*unwanted)
                tasks = {spec: task for spec, task in tasks.items() if spec in self._wanted}
                _raise_failures(unwanted)
                for spec in [spec for spec in self._extra if spec not in self._wanted]:
                    self._let_go += self._extra.pop(spec).reopened
                for spec, sink in self._wanted.items():
                    if spec not in tasks:
                        reflector = self._extra.setdefault(spec, self._reflector(spec, sink))
                        tasks[spec] = asyncio.create_task(reflector.run(server))
                changed = asyncio.create_task(self._rewanted.wait())
                try:
                    await asyncio.wait([changed, *tasks.values()], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await end(changed)
                _raise_failures(tasks.values())
        finally:
            await end(*tasks.values())

    def _all(self) -> list[Reflector]:
        return [*self._reflectors, *self._extra.values()]

    def _reflector(self, spec: WatchSpec, sink: Sink) -> Reflector:
        around = self._around
        # Only the sink that all others share is known to take twice what it may have taken.
        pace = around.pace if sink is around.sink else dataclasses.replace(around.pace, ahead=1)
        return Reflector(
            self.name,
            spec,
            sink,
            self._budget,
            known={uid: at for uid, at in around.known(self.name, spec).items() if spec.namespace in ("", at[0])},
            newest=around.newest(self.name, spec.kind),
            is_gone=partial(around.is_gone, self.name),
            pace=pace,
            on_poison=around.on_poison,
            on_restored=self._restored,
            identify=self._identify,
            patient=around.patient,
            begun=self._begun,
        )

    async def _restored(self, message: str) -> None:
        """Begin a new incarnation, in which every kind is listed anew: one reflector found that the history went back.

        What any of them was shown before belongs to the one before, and what is shown from now on waits until the new
        one is recorded, however long that takes."""
        restores = self._restores
        while not self._begun.is_set():
            await self._begun.wait()
        if restores != self._restores:
            return  # another kind has told of it
        self._begun.clear()
        try:
            for reflector in self._all():
                reflector.pause()
            await self._around.facts(self.name, StoreRestored(message))
            self._restores += 1
            for reflector in self._all():
                reflector.forget_position()
        finally:
            self._begun.set()


def _raise_failures(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise what a reflector's task has raised."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
