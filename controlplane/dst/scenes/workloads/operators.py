"""An operator at the command line: gives a lost cluster up, accepts a mass outage, as soon as he is allowed to.

In: the log, as anybody meets it who is not the leader; a verb; until when he keeps trying. Out: one event, through the
same code as `controlplane clusters forget NAME --i-know`. What he says may be wrong: he does not know whether anything
runs there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable

from controlplane.app import operate
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.dst.engine.database import DatabaseLog, SimulatedDatabase
from controlplane.dst.engine.loop import SimulatedProcess, VirtualLoop
from controlplane.dst.engine.trace import Trace
from controlplane.log.event import LogError

OPERATOR = "operator"
_PAUSE = 8.0  # virtual seconds between two tries, about
_BURIED = 400.0  # virtual seconds in which every grace ends


class Operators:
    """Starts operators, one for each step of a plan."""

    def __init__(
        self, loop: VirtualLoop, seed: str, policy: MultiKueuePolicy, database: SimulatedDatabase, trace: Trace
    ) -> None:
        self._loop, self._policy, self._database, self._trace = loop, policy, database, trace
        self._random = random.Random(f"operators {seed}")  # noqa: S311 - reproducible on purpose

    def forget(self, cluster: str) -> Callable[[], None]:
        """Give a cluster up once it is lost; return how to stop trying."""
        return self._start(lambda log: operate.forget_in(log, self._policy, cluster, OPERATOR))

    def bury(self, rebuilt: Iterable[str], connection: Callable[[str], Connection | None]) -> None:
        """Give clusters up that were built anew, or names that are gone, if they are still not used when every grace is
        over: what must not run twice waits for those that were there before, which will not come back."""
        for cluster in sorted(rebuilt):
            self._loop.world_later(_BURIED, self._bury, cluster, connection)

    def _bury(self, cluster: str, connection: Callable[[str], Connection | None]) -> None:
        known = connection(cluster)
        if known is not None and not known.connected:
            self._loop.world_later(_BURIED, self.forget(cluster))

    def accept_outage(self) -> Callable[[], None]:
        """Say of the next mass outage that it is real; return how to stop trying."""
        return self._start(lambda log: operate.accept_outage_in(log, self._policy, OPERATOR))

    def _start(self, say: Callable[[DatabaseLog], Awaitable[int]]) -> Callable[[], None]:
        process, stop = SimulatedProcess(OPERATOR), asyncio.Event()

        def launch() -> None:
            self._loop.create_task(self._try(process, stop, say), name=OPERATOR, context=process.context())

        self._loop.world_later(0.0, launch)
        return stop.set

    async def _try(
        self, process: SimulatedProcess, stop: asyncio.Event, say: Callable[[DatabaseLog], Awaitable[int]]
    ) -> None:
        while not stop.is_set():
            log = DatabaseLog(self._database, process, lambda ok, detail: None)
            try:
                count = await say(log)
            except (operate.NotAllowed, LogError) as why:
                self._trace.note("process", OPERATOR, f"is told: {why}")
            else:
                self._trace.note("process", OPERATOR, f"is heard: {count}")
                return
            finally:
                await log.close()
            await asyncio.sleep(_PAUSE * (0.5 + self._random.random()))
