"""Connections over a small API server, with a recorder behind them and Secrets in a dict."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from controlplane.clusters.connection_config import ConnectionConfig, ConnectionTiming
from controlplane.clusters.connection_reports import Connected
from controlplane.clusters.connections import Connections
from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.pace import Pace
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.sources import SecretSource
from controlplane.clusters.transport import Timeouts, Transport
from controlplane.kube.kinds import JOBS, WORKLOADS
from controlplane.kube.watches import WatchSpec
from tests.clusters.miniapi import (
    MiniApi,
    Recorder,
    kubeconfig,
    until,
)

QUICK = ConnectionTiming(
    backoff_base=0.02,
    backoff_cap=0.1,
    heartbeat=0.05,
    heartbeat_timeout=0.3,
    suspect_grace=0.0,
    suspect_heartbeat=0.02,
    file_poll=0.02,
)
PACE = Pace(ahead=4, off_retry=0.05, backoff_base=0.01, backoff_cap=0.05)


class Fleet:
    """Connections with a recorder behind them and Secrets in a dict."""

    def __init__(self, **changes: Any) -> None:
        self.log = Recorder()
        self.secrets: dict[str, Any] = {}
        self.opened: list[Transport] = []
        around = ConnectionConfig(
            specs=[WatchSpec(WORKLOADS), WatchSpec(JOBS)],
            sink=self.log.sink,
            facts=self.log.fact,
            read_secret=self.read_secret,
            open_server=self.open_server,
            pace=PACE,
            timing=QUICK,
            random=random.Random(3).random,
        )
        self.connections = Connections(replace(around, **changes))

    async def read_secret(self, name: str) -> bytes:
        found = self.secrets.get(name, ApiError(404, "NotFound", ""))
        if isinstance(found, Exception):
            raise found
        return bytes(found)

    def open_server(self, name: str, config: ClientConfig) -> Transport:
        self.opened.append(Transport(name, config, timeouts=Timeouts(connect=1.0, request=1.0, list_page=2.0)))
        return self.opened[-1]

    def kinds(self) -> list[str]:
        return [type(fact).__name__ for _, fact in self.log.facts]

    async def connected(self, times: int = 1) -> None:
        await until(lambda: len(self.log.of(Connected)) >= times)


@asynccontextmanager
async def fleet(**changes: Any) -> AsyncIterator[Fleet]:
    before = asyncio.all_tasks()
    found = Fleet(**changes)
    try:
        yield found
    finally:
        await found.connections.close()
        left = {task for task in asyncio.all_tasks() - before if "clusters" in str(task.get_coro())}
        assert not left
        assert all(transport._session is None or transport._session.closed for transport in found.opened)


def of_secret(found: Fleet, api: MiniApi, name: str = "w") -> None:
    found.secrets[f"secret-{name}"] = kubeconfig(api.url)
    found.connections.set(name, SecretSource(f"secret-{name}"))
