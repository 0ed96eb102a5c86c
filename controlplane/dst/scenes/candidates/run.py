"""One run of the scene `candidates`: the stage set, the plan played, the rules watched, and the end waited for.

In: a plan. Out: a trace, with the first broken rule. Every commit, write, event and folded batch is looked at as it
happens. When the plan is over all trouble ends at once: within half an hour of virtual time every pod that nobody took
back runs exactly once, nothing else is left of any, and then nothing may be written any more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from controlplane.app.hosted import TYPES
from controlplane.app.policy import policy_of
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, NEVER_TWICE
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT as HOME
from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.loop import Stuck, VirtualLoop
from controlplane.dst.engine.network import NetworkRequest
from controlplane.dst.engine.process import SimulatedReplica
from controlplane.dst.engine.server import SimulatedServer, Written
from controlplane.dst.engine.steps import HORIZON, Step
from controlplane.dst.engine.trace import Topic, Trace
from controlplane.dst.invariants.candidates.all import Everything
from controlplane.dst.scenes.candidates import acts, idle
from controlplane.dst.scenes.candidates.ending import unfinished
from controlplane.dst.scenes.candidates.environment import NEAR, CandidateEnvironment
from controlplane.dst.scenes.candidates.plan import GANG_PLUGIN, NO_JOBS, SOURCE_LOG, process_names
from controlplane.dst.scenes.candidates.processes import scheduler, source_settings
from controlplane.dst.scenes.workloads.environment import Backup
from controlplane.dst.scenes.workloads.operators import Operators
from controlplane.dst.scenes.workloads.plan import Plan
from controlplane.dst.scenes.workloads.processes import HOME_TOKEN, service
from controlplane.kube.kinds import PODS
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent, Recorded, Unknown
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.world import MANAGEMENT

PATIENCE = 1800.0  # virtual seconds in which everything has to settle
REST = 130.0  # virtual seconds without an event, to call it settled: a watch that was asked for in a silence is given up by then
FLUSH = 330.0  # the same, while a pod waits that fits nowhere
QUIET = 120.0  # virtual seconds without a write, once it has
MOST_EVENTS = 6000  # of one log
APART = (
    2.0  # seconds by which the clocks of two clusters differ at most: less than the skew that the settings allow for
)
_LOOK = 5.0
SETTLES, FORGOTTEN = "everything settles", "a forgotten target holds nothing"
IDLE = "nobody waits for a target that does nothing"


class CandidateRun:
    """A run under way; it is the `Scene` of its acts."""

    def __init__(self, plan: Plan) -> None:
        seed = str(plan.seed)
        self.plan, self.loop = plan, VirtualLoop(seed)  # type: ignore[abstract]  # sockets and signals are not there
        self.trace = Trace(self.loop)
        self.submitted: dict[str, Step] = {}
        self.wanted: dict[str, Step] = {}
        self._writes, self._set = 0, False
        self._ends: list[tuple[asyncio.TimerHandle, Callable[..., object], tuple[object, ...]]] = []
        policy = NEVER_TWICE if NEVER_TWICE in plan.traits else AT_LEAST_ONCE
        self.settings = source_settings(policy, jobs=NO_JOBS not in plan.traits)
        self.stage = CandidateEnvironment(self.loop, seed, plan.quotas, self._on_commit)
        self.rules = Everything(self.trace, self.loop, self.stage, self.settings, plan)
        self.databases = {SOURCE_LOG: SimulatedDatabase(self.loop, seed, Codec(TYPES))}
        for name, rooms in self.rules.targets.items():
            self.databases[name] = SimulatedDatabase(self.loop, f"{name} {seed}", Codec(rooms.router.types))
        self.operators = Operators(self.loop, seed, policy_of(self.settings), self.databases[SOURCE_LOG], self.trace)
        clocks = random.Random(f"clocks {seed}")  # noqa: S311 - reproducible on purpose
        for name, database in self.databases.items():
            database.on_append = self._listener(name)
            database.clock.offset = clocks.uniform(-APART, APART) if name != SOURCE_LOG else 0.0
        self.processes: dict[str, SimulatedReplica] = {}
        for name in process_names(list(plan.quotas), plan.replicas, plan.traits):
            self.processes[name] = self._process(name, seed)
        self._set = True

    def _process(self, name: str, seed: str) -> SimulatedReplica:
        target, beside, _ = name.partition("-scheduler-")
        if not beside:
            log = self.databases[SOURCE_LOG]
            return service(
                name, self.settings, self.loop, seed, log, self._open_server, self.trace, self.rules.source_folded
            )
        return scheduler(
            name,
            self.loop,
            seed,
            self.databases[target],
            lambda process: self._open_near(target, process),
            self.trace,
            partial(self.rules.target_folded, target),
            gangs=GANG_PLUGIN in self.plan.traits,
        )

    @property
    def events(self) -> int:
        """How many events were recorded, in all logs."""
        return sum(len(database.store.rows) for database in self.databases.values())

    # --- the run ---------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Play the plan, end all trouble, wait for the end."""
        try:
            for process in self.processes.values():
                process.start()
            for step in self.plan.steps:
                self._advance(step.at)
                if self.trace.violation is not None:
                    return
                self.trace.note("plan", "plan", str(step))
                acts.perform(self, step)
            if self.plan.steps:
                self._advance(max(HORIZON * 0.5, self.plan.steps[-1].at + 1.0))
            self._calm()
            self._without_the_idle()
            self._without_the_forgotten()
            self._settle()
            self._rest()
        except Stuck as stuck:
            self.trace.violate("time moves on", str(stuck))

    def close(self) -> None:
        """Let nothing of the run live on."""
        self.stage.close()
        for way in self.stage.ways.values():
            way.refused = True
        self.loop.finish()

    def _advance(self, until: float) -> None:
        while self.loop.time() < until and self.trace.violation is None:
            self.loop.advance(min(until, self.loop.time() + _LOOK))
            self._look()

    def after(self, seconds: float, end: Callable[..., object], *arguments: object) -> None:
        """Do something later: when its time has come, or when all trouble ends."""
        timer = self.loop.world_later(seconds, self._end, end, arguments)
        self._ends.append((timer, end, arguments))

    def _end(self, end: Callable[..., object], arguments: tuple[object, ...]) -> None:
        with suppress(ApiError):
            end(*arguments)

    def _calm(self) -> None:
        self.trace.note("plan", "plan", "all trouble ends")
        for timer, end, arguments in list(self._ends):
            if timer.when() > self.loop.time():
                timer.cancel()
                self._end(end, arguments)
        self.stage.heal()
        for database in self.databases.values():
            database.away = False
        for process in self.processes.values():
            process.thaw()
            process.process.stop_at = -1
            if not process.alive:
                process.start()
        for name in self.plan.quotas:
            self.stage.furnish(name)
            self.stage.allow(name)
        self.operators.bury(self.stage.rebuilt, lambda name: self.rules.source.connections.get(name))
        acts.tidy(self)

    def _without_the_idle(self) -> None:
        """While targets that do nothing go on doing nothing, nobody waits for them whom they do not hold (L3). Then
        they are mended.
        """
        if not self.stage.idle:
            return
        idle.impose(self.stage)
        self.trace.note("plan", "plan", f"but {' and '.join(sorted(self.stage.idle))} do nothing")
        deadline, placing = self.loop.time() + PATIENCE, self.rules.source.sources
        assert placing is not None
        while self.trace.violation is None and (left := idle.waiting(self.stage, placing, self.wanted)):
            if self.loop.time() >= deadline:
                self.trace.violate(IDLE, left)
            self._advance(self.loop.time() + _LOOK)
        self.trace.note("plan", "plan", f"{' and '.join(sorted(self.stage.idle))} are mended")
        idle.mend(self.stage)

    def _without_the_forgotten(self) -> None:
        """While targets that were given up stay away, all else has to settle as if there were none (L4). Then they are
        back.
        """
        away = self.rules.forgotten()
        if not 0 < len(away) < len(self.plan.quotas):
            return
        self.trace.note("plan", "plan", f"but {' and '.join(sorted(away))} stay away")
        for name in away:
            self.stage.ways[name].silent = True
        self._settle(FORGOTTEN, away)
        self.trace.note("plan", "plan", f"{' and '.join(sorted(away))} are back")
        self.stage.heal()

    def _settle(self, rule: str = SETTLES, away: frozenset[str] = frozenset()) -> None:
        """Wait until nothing is left to do; of targets that are `away` only as long as all of them are given up."""
        deadline, events, since = self.loop.time() + PATIENCE, 0, self.loop.time()
        # What fits nowhere is looked at again after five minutes, and may then be said in other words.
        rest = FLUSH if any(name.startswith("huge") for name in self.wanted) else REST
        while self.trace.violation is None:
            if not away <= self.rules.forgotten():
                return
            left = self._left(away)
            if left or (self.events > events and not away):  # that a target is still away is recorded
                events, since = self.events, self.loop.time()
            if self.loop.time() - since >= rest:
                break
            if self.loop.time() >= deadline:
                self.trace.violate(rule, left or "a log grows and grows")
            self._advance(self.loop.time() + _LOOK)

    def _rest(self) -> None:
        """Let a while go by in which nothing may be done."""
        events, writes = self.events, self._writes
        self._advance(self.loop.time() + QUIET)
        if self.trace.violation is None:
            self._at_the_end(self.events - events, self._writes - writes)

    def _left(self, away: frozenset[str] = frozenset()) -> str:
        leading = {
            target if beside else SOURCE_LOG
            for target, beside, _ in (name.partition("-scheduler-") for name, p in self.processes.items() if p.leading)
        }
        for name in self.databases:
            if name not in leading:
                return f"nobody leads the log of {name}"
        return unfinished(self.stage, self.rules.source, self.rules.targets, self.wanted, away)

    def _at_the_end(self, events: int, writes: int) -> None:
        left = self._left()
        if left:
            self.trace.violate("what is settled stays settled", left)
        if events or writes:
            self.trace.violate("quiet when nothing changes", f"{events} events and {writes} writes in {QUIET:g} s")
        self.rules.finish({name: database.read(0, 10**9) for name, database in self.databases.items()})

    def _look(self) -> None:
        for failure in self.loop.failures:
            self.trace.violate("no part fails", failure)

    # --- clusters that begin anew ----------------------------------------------------------------------------------

    def restore(self, cluster: str, backup: Backup) -> None:
        """Put a cluster back. Of the source's, nobody expects any more what came since, and what was deleted since
        counts again.
        """
        self.rules.new_era(cluster)
        self.stage.restore(cluster, backup)
        self.rules.began_anew(cluster)
        if cluster == MANAGEMENT:
            there = sorted(record.name for record in self.stage.management.store.records(PODS))
            self.wanted = {name: self.submitted[name] for name in there}

    def rebuild(self, target: str) -> None:
        """Replace a target by an empty cluster of its name."""
        self.rules.new_era(target)
        self.stage.rebuild(target)
        self.rules.began_anew(target)

    # --- what is heard ---------------------------------------------------------------------------------------------

    def _open_server(self, cluster: str, process: str, token: str) -> ApiServer:
        name = MANAGEMENT if cluster == HOME else cluster
        return self._server(name, name, process, token, SOURCE_LOG, cluster)

    def _open_near(self, target: str, process: str) -> ApiServer:
        return self._server(target, f"{NEAR}{target}", process, HOME_TOKEN, target, HOME)

    def _server(self, cluster: str, way: str, process: str, token: str, log: str, called: str) -> ApiServer:
        """Return a process' connection to a cluster, which its log calls by another name."""
        return SimulatedServer(
            cluster,
            process,
            self.stage.ways[way],
            self.stage.places[cluster],
            token=token,
            written=self._on_written,
            asked=self._on_asked,
            listed=lambda _, kind, version: self.rules.on_listed(log, called, kind, version),
        )

    def _on_commit(self, cluster: str, commit: Commit) -> None:
        record = commit.record
        self.trace.note("store", cluster, f"{commit.type} {record.kind.kind} {record.name} {record.version}")
        if self._set:
            self.rules.on_commit(cluster, commit)

    def _on_written(self, write: Written) -> None:
        self._writes += 1
        where = f"/{write.subresource}" if write.subresource else ""
        what = f"{write.verb} {write.kind.plural}{where} {write.name} on {write.cluster}"
        self.trace.note("request", write.process, what)
        self.rules.on_written(write)

    def _on_asked(self, process: str, cluster: str, asked: NetworkRequest, outcome: str) -> None:
        if outcome != "done":
            self.trace.note("request", process, f"{asked.verb} {asked.resource} {asked.name} on {cluster}: {outcome}")

    def _listener(self, name: str) -> Callable[[int, str, Sequence[NewEvent]], None]:
        return lambda before, writer, events: self._on_append(name, before, writer, events)

    def _on_append(self, name: str, before: int, writer: str, events: Sequence[NewEvent]) -> None:
        batch = self.databases[name].read(before, len(events))
        self.rules.batch(name, batch)
        for new, found in zip(events, batch, strict=True):
            self.trace.note(topic(found), writer, words(found))
            self.rules.appended(name, new, found, writer)
        if before > MOST_EVENTS:
            self.trace.violate("nothing is repeated for ever", f"{before} events of {name} at {self.loop.time():.0f} s")

    def warned(self, level: str, text: str) -> None:
        """Take over what the processes say about themselves: errors are faults of ours."""
        self.trace.note("warning", level, text)
        if level in ("error", "critical", "exception"):
            self.trace.violate("no part fails", text)


def topic(recorded: Recorded) -> Topic:
    """Return what an event is about, for the story."""
    event = recorded.event
    if isinstance(event, (Unknown, connectivity.KindSynced)):
        return "log"
    if isinstance(event, connectivity.EVENTS):
        return "connection"
    return "decision" if hasattr(event, "reason") else "log"


def words(recorded: Recorded) -> str:
    """Return an event in a line."""
    event = recorded.event
    reason = getattr(event, "reason", "")
    message = str(getattr(event, "message", ""))
    told = f"{recorded.position} {type(event).__name__} on {recorded.stream} ({recorded.cluster})"
    return told + (f" because {reason}" if reason else "") + (f": {message}" if message else "")
