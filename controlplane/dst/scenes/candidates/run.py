"""One run of the scene `candidates`: the environment set, the plan played, the rules watched, and the end waited for.

In: a plan. Out: a trace, with the first broken rule. Every commit, write, event and folded batch is looked at as it
happens. When the plan is over all trouble ends at once: within half an hour of virtual time every pod that nobody took
back runs exactly once, nothing else is left of any, and then nothing may be written any more."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from controlplane.app.hosted import TYPES
from controlplane.clusters.pace import Pace
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.candidates.source.policy import AT_LEAST_ONCE, NEVER_TWICE
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT as HOME
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.process import ReplicaEnvironment, SimulatedReplica
from controlplane.dst.engine.run import LOOK, SETTLES, SceneRun
from controlplane.dst.engine.server import SimulatedServer, Written
from controlplane.dst.engine.steps import Step
from controlplane.dst.engine.trace import Topic
from controlplane.dst.invariants.candidates.all import Everything
from controlplane.dst.scenes.candidates import acts, disruptions, idle, oddities
from controlplane.dst.scenes.candidates.ending import unfinished
from controlplane.dst.scenes.candidates.environment import NEAR, CandidateEnvironment
from controlplane.dst.scenes.candidates.plan import GANG_PLUGIN, NO_JOBS, SOURCE_LOG, VIRTUAL_NODES, process_names
from controlplane.dst.scenes.candidates.processes import drawn_time, scheduler_settings, setup, source_settings
from controlplane.dst.scenes.processes import HOME_TOKEN, scheduler, service
from controlplane.dst.scenes.workloads.environment import Backup
from controlplane.dst.scenes.workloads.operators import Operators
from controlplane.dst.scenes.workloads.processes import SNAPSHOTS, ahead_of
from controlplane.kube.kinds import PODS, meta
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent, Recorded, Unknown
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.world import MANAGEMENT

FLUSH = 330.0  # the same, while a pod waits that fits nowhere
MOST_EVENTS = 6000  # of one log
APART = (
    2.0  # seconds by which the clocks of two clusters differ at most: less than the skew that the settings allow for
)
FORGOTTEN = "a forgotten target holds nothing"
IDLE = "nobody waits for a target that does nothing"


class CandidateRun(SceneRun):
    """A run under way; it is what its acts act on."""

    # A watch that was asked for in a silence is given up within the rest.
    patience, rest = 1800.0, 130.0

    def __init__(self, plan: Plan) -> None:
        seed = str(plan.seed)
        super().__init__(plan, seed)
        if any(step.kind == "mute" for step in plan.steps):
            self.rest = Pace().idle_timeout + 40.0  # a watch whose lines were lost is opened anew so late
        self.submitted: dict[str, Step] = {}
        self.wanted: dict[str, Step] = {}
        self._set, self._ahead = False, ahead_of(plan.traits)
        policy = NEVER_TWICE if NEVER_TWICE in plan.traits else AT_LEAST_ONCE
        virtual = VIRTUAL_NODES in plan.traits
        snapshots = SNAPSHOTS in plan.traits
        self.settings = source_settings(
            policy, jobs=NO_JOBS not in plan.traits, virtual_nodes=virtual, snapshots=snapshots
        )
        needy = any(step.where.startswith("conf-") for step in plan.steps if step.kind == "submit-pod")
        self.environment = CandidateEnvironment(self.loop, seed, plan.quotas, self._on_commit, follows=needy)
        self.environment.bind_at_home(virtual)
        self.rules = Everything(self.trace, self.loop, self.environment, self.settings, plan)
        self.databases = {SOURCE_LOG: SimulatedDatabase(self.loop, seed, Codec(TYPES))}
        for name, controllers in self.rules.targets.items():
            self.databases[name] = SimulatedDatabase(self.loop, f"{name} {seed}", Codec(controllers.router.types))
        self.operators = Operators(self.loop, seed, policy_of(self.settings), self.databases[SOURCE_LOG], self.trace)
        clocks = random.Random(f"clocks {seed}")  # noqa: S311 - reproducible on purpose
        for name, database in self.databases.items():
            database.on_append = self._listener(name)
            database.keeps_snapshots = snapshots
            database.clock.offset = clocks.uniform(-APART, APART) if name != SOURCE_LOG else 0.0
        self.replicas: dict[str, SimulatedReplica] = {}
        for name in process_names(list(plan.quotas), plan.replicas, plan.traits):
            self.replicas[name] = self._process(name, seed)
        self._set = True

    def _process(self, name: str, seed: str) -> SimulatedReplica:
        target, beside, _ = name.partition("-scheduler-")
        if not beside:
            place = ReplicaEnvironment(
                self.loop, seed, self.databases[SOURCE_LOG], self.trace, self.rules.source_folded, self._ahead
            )
            return service(name, self.settings, place, self._open_server)
        place = ReplicaEnvironment(
            self.loop, seed, self.databases[target], self.trace, partial(self.rules.target_folded, target), self._ahead
        )
        profiles, opened = setup(gangs=GANG_PLUGIN in self.plan.traits), partial(self._open_near, target)
        settings = scheduler_settings(snapshots=SNAPSHOTS in self.plan.traits)
        return scheduler(name, settings, profiles, place, opened, drawn_time)

    @property
    def events(self) -> int:
        """How many events were recorded, in all logs."""
        return sum(len(database.store.rows) for database in self.databases.values())

    # --- the run ---------------------------------------------------------------------------------------------------

    def perform(self, step: Step) -> None:
        """Carry a step out."""
        acts.perform(self, step)

    def finish(self) -> None:
        """Wait until everything has settled: first while targets do nothing or stay away, then without any of that."""
        self._without_the_idle()
        self._without_the_forgotten()
        self._settle()
        self.pause()

    def close(self) -> None:
        """Let nothing of the run live on."""
        self.environment.close()
        for way in self.environment.ways.values():
            way.refused = True
        self.loop.finish()

    def heal(self) -> None:
        """Let networks and databases be well again."""
        self.environment.heal()
        for database in self.databases.values():
            database.heal()

    def mend(self) -> None:
        """Put right what is wrong in the clusters."""
        if self.plan.edition > 9:
            disruptions.mend(self)
        for name in self.plan.quotas:
            with suppress(ApiError):  # its namespace is still being deleted, and is made again
                self.environment.furnish(name)
            self.environment.allow(name)
        self.operators.bury(self.environment.rebuilt, lambda name: self.rules.source.connections.get(name))
        acts.tidy(self)
        oddities.mend(self.environment)

    def _without_the_idle(self) -> None:
        """While targets that do nothing go on doing nothing, nobody waits for them whom they do not hold (L3). Then
        they are mended.
        """
        if not self.environment.idle:
            return
        idle.impose(self.environment)
        self.trace.note("plan", "plan", f"but {' and '.join(sorted(self.environment.idle))} do nothing")
        deadline, placing = self.loop.time() + self.patience, self.rules.source.sources
        assert placing is not None
        while self.trace.violation is None and (left := idle.waiting(self.environment, placing, self.wanted)):
            if self.loop.time() >= deadline:
                self.trace.violate(IDLE, left)
            self.advance(self.loop.time() + LOOK)
        self.trace.note("plan", "plan", f"{' and '.join(sorted(self.environment.idle))} are mended")
        idle.mend(self.environment)

    def _without_the_forgotten(self) -> None:
        """While targets that were given up stay away, all else has to settle as if there were none (L4). Then they are
        back.
        """
        away = self.rules.forgotten()
        if not 0 < len(away) < len(self.plan.quotas):
            return
        self.trace.note("plan", "plan", f"but {' and '.join(sorted(away))} stay away")
        for name in away:
            self.environment.ways[name].silent = True
        self._settle(FORGOTTEN, away)
        self.trace.note("plan", "plan", f"{' and '.join(sorted(away))} are back")
        self.environment.heal()

    def _settle(self, rule: str = SETTLES, away: frozenset[str] = frozenset()) -> None:
        """Wait until nothing is left to do; of targets that are `away` only as long as all of them are given up."""
        # What fits nowhere is looked at again after five minutes, and may then be said in other words.
        rest = FLUSH if any(name.startswith("huge") for name in self.wanted) else self.rest
        self.settle(
            lambda: self.left(away),
            rule,
            rest,
            holds=lambda: away <= self.rules.forgotten(),
            events_count=not away,  # that a target is still away is recorded
        )

    def left(self, away: frozenset[str] = frozenset()) -> str:
        """Return what is not settled yet; of targets that are `away` nothing is expected."""
        leading = {
            target if beside else SOURCE_LOG
            for target, beside, _ in (name.partition("-scheduler-") for name, p in self.replicas.items() if p.leading)
        }
        for name in self.databases:
            if name not in leading:
                return f"nobody leads the log of {name}"
        return unfinished(self.environment, self.rules.source, self.rules.targets, self.wanted, away)

    def at_the_end(self) -> None:
        """Compare what is in the logs with what was seen."""
        self.rules.finish({name: database.read(0, 10**9) for name, database in self.databases.items()})

    def look(self) -> None:
        """Nothing has to be looked at now and then."""

    # --- clusters that begin anew ----------------------------------------------------------------------------------

    def restore(self, cluster: str, backup: Backup) -> None:
        """Put a cluster back. Of the source's, nobody expects any more what came since, and what was deleted since
        counts again.
        """
        self.rules.new_era(cluster)
        self.environment.restore(cluster, backup)
        self.rules.began_anew(cluster)
        if cluster == MANAGEMENT:
            records = self.environment.management.store.records(PODS)
            there = sorted(record.name for record in records if "deletionTimestamp" not in meta(record.obj))
            self.wanted = {name: self.submitted[name] for name in there}

    def rebuild(self, target: str) -> None:
        """Replace a target by an empty cluster of its name."""
        self.rules.new_era(target)
        self.environment.rebuild(target)
        self.rules.began_anew(target)

    def restore_log(self, log: str, put_back: Callable[[], None]) -> None:
        """Put a log back: what it told since is told by nobody, and may be told again."""
        store = self.databases[log].store
        before = len(store.rows)
        put_back()
        self.trace.note("log", log, f"goes back from {before} to {len(store.rows)}")
        self.rules.log_went_back(log, self.databases[log].read(0, 10**9), [row[0] for row in store.rows])

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
            self.environment.ways[way],
            self.environment.places[cluster],
            token=token,
            written=self._on_written,
            asked=self.asked,
            listed=lambda _, kind, version: self.rules.on_listed(log, called, kind, version),
        )

    def _on_commit(self, cluster: str, commit: Commit) -> None:
        record = commit.record
        self.trace.note("store", cluster, f"{commit.type} {record.kind.kind} {record.name} {record.version}")
        if self._set:
            self.rules.on_commit(cluster, commit)

    def _on_written(self, write: Written) -> None:
        self.writes += 1
        where = f"/{write.subresource}" if write.subresource else ""
        what = f"{write.verb} {write.kind.plural}{where} {write.name} on {write.cluster}"
        self.trace.note("request", write.process, what)
        self.rules.on_written(write)

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
