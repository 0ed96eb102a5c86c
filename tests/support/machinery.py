"""Everybody who acts on pods inside one simulated cluster: the owners' controllers, a scheduler with kubelets, claims,
and Tekton.

In: a cluster's store. Out: behaviours that run beside those of its world, for as long as `running` lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from controlplane.clock import Clock
from controlplane.kube.kinds import NODES, PIPELINE_RUNS, PODS
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import Behaviour, View
from controlplane.simulation.controllers.claims import Claims
from controlplane.simulation.controllers.nodes import Nodes
from controlplane.simulation.controllers.tekton import Tekton
from controlplane.simulation.controllers.workload_owners import Owners
from controlplane.simulation.kinds import own_cluster as kinds
from controlplane.simulation.kinds.base import CONFIG_MAPS

_KINDS = (
    NODES,
    CONFIG_MAPS,
    kinds.CLAIMS,
    kinds.POD_GROUPS,
    kinds.DEPLOYMENTS,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    PIPELINE_RUNS,
    kinds.TASK_RUNS,
    PODS,
)


class Machinery:
    """The behaviours of one cluster that serves `kinds.own_cluster.LOCAL_KINDS`."""

    def __init__(self, name: str, store: Store, clock: Clock) -> None:
        self.view = View(store, _KINDS)
        self.owners = Owners(f"owners of {name}", self.view, clock)
        self.nodes = Nodes(f"nodes of {name}", self.view, clock)
        self.claims = Claims(f"claims of {name}", self.view, clock)
        self.tekton = Tekton(f"tekton of {name}", self.view, clock)

    @property
    def behaviours(self) -> tuple[Behaviour, ...]:
        """Everybody who acts."""
        return self.owners, self.nodes, self.claims, self.tekton

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let everybody act until the block ends; raises what one of them died of."""
        self.view.start()
        tasks = [asyncio.create_task(one.run(), name=one.name) for one in self.behaviours]
        try:
            yield
        finally:
            self.view.stop()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        died = [one for one in ended if isinstance(one, Exception)]
        if died:
            raise died[0]
