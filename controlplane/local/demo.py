"""The demo's script: twenty jobs, a service that is killed while they run, and the evidence of what came of them.

In: a running place with an empty log, and a screen. Out: an `Evidence` for `judge`. The service is a process of its
own and gets SIGKILL in the middle. It is away for a while, during which jobs go on and end on the workers; then another
process goes on with what the log says and the clusters show."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from controlplane.kube.kinds import JOBS, Json, meta
from controlplane.local.check import Evidence
from controlplane.local.environment import LocalEnvironment
from controlplane.local.folder import LocalError
from controlplane.local.history import LogHistory
from controlplane.local.progress import ENDS, JobProgress, rows
from controlplane.local.replica import LocalReplica
from controlplane.local.witness import Witness, ending
from controlplane.simulation.controllers.jobs import OUTCOME
from controlplane.tasks import end

READY_WITHIN = 30.0  # seconds
DONE_WITHIN = 60.0  # seconds, from the first job to the last
KILL_AFTER = 4  # jobs that have finished
AWAY = 2.0  # seconds without a service
_LOOK = 0.1  # seconds between two looks


class Screen(Protocol):
    """Where the demo is watched."""

    def say(self, text: str) -> None:
        """Tell that something happened."""

    def show(self, jobs: Sequence[JobProgress], running: dict[str, str], service: str) -> None:
        """Show how far the jobs are, which run on the workers, and how the service is."""


class DemoResult(msgspec.Struct, frozen=True):
    """What came of it: the evidence, the job whose story is worth telling, and how long it took in seconds."""

    evidence: Evidence
    told: str
    seconds: float


class Demo:
    """One performance. `play` raises `LocalError` if it cannot even begin, or the service does not come back."""

    def __init__(
        self, place: LocalEnvironment, replica: LocalReplica, history: LogHistory, jobs: Sequence[Json], screen: Screen
    ) -> None:
        self._place, self._replica, self._history = place, replica, history
        self._jobs, self._screen = jobs, screen
        self._witness = Witness(place.world)
        self._clock = asyncio.get_running_loop().time
        self._service = "starts"
        self._told = ""

    async def play(self) -> DemoResult:
        """Run it from the first start of the service to its last end."""
        try:
            await self._start("The service runs")
            began = self._clock()
            await self._submit()
            await self._watch(began + DONE_WITHIN)
            seconds = self._clock() - began
            exit_code = await self._replica.stop()
        except BaseException:
            await self._replica.kill()
            raise
        return DemoResult(await self._evidence(exit_code), self._told, seconds)

    async def _start(self, words: str) -> None:
        began = self._clock()
        await self._replica.start()
        try:
            await self._replica.ready(READY_WITHIN)
        except TimeoutError:
            raise LocalError(
                f"the service was not ready within {READY_WITHIN:.0f} s: {self._replica.last_words()}"
            ) from None
        self._service = f"runs (process {self._replica.pid})"
        self._screen.say(f"{words}: process {self._replica.pid}, ready after {self._clock() - began:.1f} s.")

    async def _submit(self) -> None:
        server = await self._place.open_management()
        try:
            for job in self._jobs:
                await server.create(JOBS, meta(job)["namespace"], job, field_manager="controlplane-demo")
        finally:
            await server.close()
        self._screen.say(f"{len(self._jobs)} jobs are submitted to the management cluster.")

    async def _watch(self, until: float) -> None:
        """Show how it goes until all is done, or time is up; in the middle, let the service be killed."""
        killing: asyncio.Task[None] | None = None
        try:
            while self._clock() < until:
                jobs = rows(self._place.world.management.store)
                self._screen.show(jobs, self._witness.running, self._service)
                ended = sum(row.word in ENDS for row in jobs)
                if killing is None and ended >= KILL_AFTER and self._witness.running:
                    killing = asyncio.create_task(self._kill_and_replace())
                if killing is None or killing.done():
                    self._check(killing)
                    if ended == len(self._jobs) == len(jobs) and not self._witness.left():
                        return
                await asyncio.sleep(_LOOK)
        finally:
            if killing is not None:
                await end(killing)
        self._screen.say(f"Time is up: not everything is done after {DONE_WITHIN:.0f} s.")

    def _check(self, killing: asyncio.Task[None] | None) -> None:
        """Raise what went wrong with the service."""
        if killing is not None:
            killing.result()
        if not self._replica.running:
            raise LocalError(f"the service ended by itself: {self._replica.last_words()}")

    async def _kill_and_replace(self) -> None:
        before = self._witness.running
        self._service = "is dead"
        pid = self._replica.pid
        await self._replica.kill()
        self._screen.say(f"The service is killed (SIGKILL, process {pid}) while {len(before)} jobs run.")
        await asyncio.sleep(AWAY)
        ended = sorted(before.keys() - self._witness.running.keys())
        self._told = (ended or sorted(before))[0]
        self._screen.say(f"Without it, {len(ended)} of them have ended, and nobody has taken note.")
        self._service = "starts again"
        await self._start("Another process goes on with the log")

    async def _evidence(self, exit_code: int) -> Evidence:
        jobs = rows(self._place.world.management.store)
        placements = await asyncio.to_thread(self._history.placements)
        services = await asyncio.to_thread(self._history.services)
        records = self._place.world.management.store.records(JOBS)
        finished = {row.job for row in jobs if row.word in ENDS}
        return Evidence(
            asked={meta(job)["name"]: _wanted(job) for job in self._jobs},
            ended={record.name: ending(record.obj) if record.name in finished else "" for record in records},
            starts=self._witness.starts,
            left=self._witness.left(),
            workloads={row.job: row.workload for row in jobs},
            placements=placements,
            services=services,
            exit_code=exit_code,
        )


def _wanted(job: Json) -> str:
    return "Failed" if (meta(job).get("annotations") or {}).get(OUTCOME) == "fail" else "Complete"
