"""One run: the stage set, the plan played, the rules watched, and the end waited for.

In: a plan. Out: an `Outcome`. While the plan plays, every commit, every write, every event and every batch that a
process folds is looked at as it happens; every few seconds all that the leader holds is compared with what the log
says. When the plan is over all trouble ends at once: within an hour of virtual time everything must have settled, and
then nothing may be written any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from controlplane.app.hosted import HOME_KINDS, HostedControllers
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT as HOME
from controlplane.controllers.multikueue.adapters.base import ORIGIN_LABEL
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.loop import Stuck, VirtualLoop
from controlplane.dst.engine.network import NetworkRequest
from controlplane.dst.engine.quiet import hushed, without_collector
from controlplane.dst.engine.server import SimulatedServer, Written
from controlplane.dst.engine.steps import HORIZON
from controlplane.dst.engine.trace import Line, Trace, Violation
from controlplane.dst.invariants.workloads.bodies import Whole
from controlplane.dst.invariants.workloads.decisions import Decisions
from controlplane.dst.invariants.workloads.history import HistoryRules, is_news
from controlplane.dst.invariants.workloads.ownership import OwnershipRules
from controlplane.dst.invariants.workloads.quota import Books
from controlplane.dst.invariants.workloads.refusals import RefusalRules
from controlplane.dst.invariants.workloads.replay import RULE as REPLAY
from controlplane.dst.invariants.workloads.replay import ReplayRules, difference, unlike
from controlplane.dst.invariants.workloads.runs import RunRules
from controlplane.dst.scene import SceneRun
from controlplane.dst.scenes.workloads import acts, oddities, people
from controlplane.dst.scenes.workloads.ending import unfinished
from controlplane.dst.scenes.workloads.environment import Backup, WorkloadEnvironment
from controlplane.dst.scenes.workloads.operators import Operators
from controlplane.dst.scenes.workloads.plan import Plan
from controlplane.dst.scenes.workloads.processes import policy_of, service
from controlplane.dst.scenes.workloads.trace_text import topic, words
from controlplane.kube.kinds import WORKLOADS, Kind
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent
from controlplane.settings import Settings
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.kueue.podsets import INTEGRATIONS
from controlplane.simulation.world import MANAGEMENT

PATIENCE = 3600.0  # virtual seconds in which everything has to settle
REST = 40.0  # virtual seconds without an event, to call it settled
QUIET = 120.0  # virtual seconds without a write, once it has
MOST_EVENTS = 5000  # ten times what a plan of this size needs
_LOOK = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the first violation or None, the digest of its trace, the lines, and some figures."""

    plan: Plan
    violation: Violation | None
    digest: str
    lines: Sequence[Line]
    seconds: float
    events: int
    steps: int

    def brief(self) -> Outcome:
        """Return the outcome without its lines."""
        return replace(self, lines=())


def simulate(plan: Plan, make: Callable[[Plan], SceneRun] | None = None) -> Outcome:
    """Play a plan, as `make` has it played. The same plan gives the same outcome, to the byte."""
    with hushed() as warnings, without_collector():
        run = (make or WorkloadRun)(plan)
        warnings.listener = run.warned
        try:
            run.play()
        finally:
            seconds, steps = run.loop.time(), run.loop.steps
            digest, violation, lines = run.trace.digest(), run.trace.violation, run.trace.lines
            warnings.listener = None
            run.close()
    return Outcome(plan, violation, digest, lines, seconds, run.events, steps)


class WorkloadRun:
    """A run under way; it is the `Theatre` of its acts."""

    def __init__(self, plan: Plan) -> None:
        seed = str(plan.seed)
        self.plan = plan
        self.loop = VirtualLoop(seed)  # type: ignore[abstract]  # sockets, signals and the like are not there
        self.trace = Trace(self.loop)
        self.policy = policy_of(plan.edition)
        jobs = [adapter.kind for adapter in self.policy.adapters.values()]
        self._kinds_at_home, self._kinds_on_workers = (*HOME_KINDS, *jobs), (WORKLOADS, *jobs)
        self.shadow = MultiKueueController(self.policy, "shadow")
        self.database = SimulatedDatabase(self.loop, seed, Codec(MultiKueueController.types))
        self.database.on_append = self._on_append
        self.submitted: dict[str, Kind] = {}
        self.deleted: set[str] = set()
        self._runs = RunRules(
            self.trace,
            self.policy.worker_lost_timeout,
            self.database.clock.now,
            lambda name: self.shadow.index.connections.get(name),
        )
        self._ownership = OwnershipRules(self.trace, self.policy.origin, HOME)
        self.planted = self._ownership.planted
        self._decisions = Decisions(self.trace, self.shadow.index, self.database.absences)
        self._history = HistoryRules(self.trace)
        self.replay = ReplayRules(self.trace, self.shadow.index)
        self._refusals = RefusalRules(self.trace)
        self._whole = Whole(self.trace, HOME)
        self._writes = self._looked_at = 0
        self._ends: list[tuple[asyncio.TimerHandle, Callable[..., object], tuple[object, ...]]] = []
        self.stage = WorkloadEnvironment(self.loop, seed, plan.quotas, self._on_commit)
        self._books = {name: Books(self.trace, place) for name, place in self.stage.places.items()}
        for kind in self._kinds_at_home:
            self._note(MANAGEMENT, HOME, kind)
        self.operators = Operators(self.loop, seed, self.policy, self.database, self.trace)
        names = [f"replica-{number}" for number in range(1, plan.replicas + 1)]
        self.replicas = {
            name: service(
                name,
                Settings(),
                self.loop,
                seed,
                self.database,
                self._open_server,
                self.trace,
                self._on_folded,
                self.policy,
            )
            for name in names
        }

    # --- the run ---------------------------------------------------------------------------------------------------

    @property
    def events(self) -> int:
        """How many events the log has."""
        return len(self.database.store.rows)

    def play(self) -> None:
        """Play the plan, end all trouble, wait for the end."""
        try:
            for replica in self.replicas.values():
                replica.start()
            for step in self.plan.steps:
                self._advance(step.at)
                if self.trace.violation is not None:
                    return
                self.trace.note("plan", "plan", str(step))
                acts.perform(self, step)
            if self.plan.steps:
                self._advance(max(HORIZON * 0.5, self.plan.steps[-1].at + 1.0))
            self._calm()
            self._settle()
        except Stuck as stuck:
            self.trace.violate("time moves on", str(stuck))

    def close(self) -> None:
        """Let nothing of the run live on."""
        self.stage.close()
        for place in self.stage.places.values():
            place.network.refused = True
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
        for timer, end, arguments in self._ends:
            if timer.when() > self.loop.time():
                timer.cancel()
                self._end(end, arguments)
        for place in self.stage.places.values():
            place.network.heal()
            place.off.clear()
        self.database.away = self.database.refuses = False
        for replica in self.replicas.values():
            replica.thaw()
            replica.process.stop_at = -1
            if not replica.alive:
                replica.start()
        people.list_clusters(self)
        people.open_queue(self)
        for name in self.stage.workers:
            people.define_cluster(self, name)
            self.stage.write_secret(name)
        self.operators.bury(self.stage.rebuilt, lambda name: self.shadow.index.connections.get(name))
        oddities.mend(self)

    def _settle(self) -> None:
        """Wait until nothing is left to do; then for a while in which nothing may be done."""
        deadline, events, since = self.loop.time() + PATIENCE, 0, self.loop.time()
        while self.trace.violation is None:
            left = self._left()
            if left or len(self.database.store.rows) > events:
                events, since = len(self.database.store.rows), self.loop.time()
            if self.loop.time() - since >= REST:
                break
            if self.loop.time() >= deadline:
                self.trace.violate("everything settles", left or "the log grows and grows")
            self._advance(self.loop.time() + _LOOK)
        events, writes = len(self.database.store.rows), self._writes
        self._advance(self.loop.time() + QUIET)
        if self.trace.violation is None:
            self._at_the_end(len(self.database.store.rows) - events, self._writes - writes)

    def _left(self) -> str:
        if not any(replica.leading for replica in self.replicas.values()):
            return "nobody leads"
        return unfinished(self.stage, self.shadow.index, self.submitted, self.deleted, self.planted)

    def _at_the_end(self, events: int, writes: int) -> None:
        left = self._left()
        if left:
            self.trace.violate("what is settled stays settled", left)
        if events or writes:
            self.trace.violate("quiet when nothing changes", f"{events} events and {writes} writes in {QUIET:g} s")
        for place in self.stage.places.values():
            home = place.name == MANAGEMENT
            kinds = list(self._kinds_at_home if home else self._kinds_on_workers)
            for kind in kinds:
                self._refusals.finish(HOME if home else place.name, place.store.records(kind))
            wrong = unlike(self.shadow.index, HOME if home else place.name, place.store, kinds)
            if wrong:
                self.trace.violate("the log is like the clusters", wrong)
        self._history.finish()
        fresh = MultiKueueController(self.policy, "replay")
        for recorded in self.database.read(0, 10**9):
            fresh.fold(recorded)
        wrong = difference(fresh.index, self.shadow.index)
        if wrong:
            self.trace.violate(REPLAY, wrong)
        for books in self._books.values():
            books.recount()

    def _look(self) -> None:
        """Compare what cannot be looked at with every single change; all that the leader holds, if anything was
        appended since.
        """
        position = self.shadow.index.position
        for replica in self.replicas.values() if position != self._looked_at else ():
            if replica.leading and replica.position == position:
                self._looked_at = position
                wrong = difference(replica.hosted.fleet.index, self.shadow.index)
                if wrong:
                    self.trace.violate(REPLAY, f"{replica.name}: {wrong}")
        for failure in self.loop.failures:
            self.trace.violate("no part fails", failure)

    # --- what is heard ---------------------------------------------------------------------------------------------

    def restore(self, cluster: str, backup: Backup) -> None:
        """Put a worker's etcd back."""
        self._put_back(cluster, cluster, backup)
        store = self.stage.places[cluster].store
        self._runs.on_life(cluster, [record for kind in INTEGRATIONS for record in store.records(kind)])
        self.planted_only_there()

    def restore_home(self, backup: Backup) -> None:
        """Put the management cluster's etcd back: nobody expects any more what came since, and what was deleted since
        counts again.
        """
        self._put_back(MANAGEMENT, HOME, backup)
        store = self.stage.management.store
        there = {record.name for kind in INTEGRATIONS for record in store.records(kind)}
        self.submitted = {name: kind for name, kind in self.submitted.items() if name in there}
        self.deleted -= there
        people.activate_all(self)

    def restore_log(self, put_back: Callable[[], None]) -> None:
        """Put the log back: what it told since is told by nobody, and may be told again."""
        before = len(self.database.store.rows)
        put_back()
        self.trace.note("log", "database", f"goes back from {before} to {len(self.database.store.rows)}")
        self.shadow = MultiKueueController(self.policy, "shadow")
        self._decisions = Decisions(self.trace, self.shadow.index, self.database.absences)
        self.replay = ReplayRules(self.trace, self.shadow.index)
        self._refusals.forget_told()
        self._runs.log_went_back(len(self.database.store.rows))
        for recorded in self.database.read(0, 10**9):
            self._decisions.resume(recorded)
            self.shadow.fold(recorded)
        for new, *_ in self.database.store.rows:
            self._refusals.appended(new)
        for name in self.stage.places:
            cluster = HOME if name == MANAGEMENT else name
            self._history.new_era(cluster)
            for kind in self._kinds_at_home if name == MANAGEMENT else self._kinds_on_workers:
                self._note(name, cluster, kind)
        self._looked_at = 0

    def _on_folded(self, process: str, hosted: HostedControllers, position: int) -> None:
        self.replay.folded(process, hosted.fleet.index)

    def _put_back(self, name: str, cluster: str, backup: Backup) -> None:
        self._history.new_era(cluster)
        self.stage.restore(name, backup)
        self._books[name] = Books(self.trace, self.stage.places[name])
        for kind in self._kinds_at_home if name == MANAGEMENT else self._kinds_on_workers:
            self._note(name, cluster, kind)

    def _note(self, name: str, cluster: str, kind: Kind) -> None:
        """Take what is there for committed."""
        for record in sorted(self.stage.places[name].store.records(kind), key=lambda record: record.version):
            if name == MANAGEMENT or ORIGIN_LABEL in record.labels:
                self._history.committed(cluster, kind, record.uid, record.version)
                self._refusals.committed(name, cluster, record)

    def rebuild(self, cluster: str) -> None:
        """Replace a cluster by an empty one."""
        self._history.new_era(cluster)
        self.stage.rebuild(cluster)
        self._books[cluster] = Books(self.trace, self.stage.places[cluster])
        self._runs.on_life(cluster, [])
        self.planted_only_there()

    def planted_only_there(self) -> None:
        """Forget what was planted and went with its cluster."""
        stores = [place.store for place in self.stage.workers.values()]
        uids = {record.uid for store in stores for kind in INTEGRATIONS for record in store.records(kind)}
        for uid in [uid for uid in self.planted if uid not in uids]:
            del self.planted[uid]

    def _open_server(self, cluster: str, process: str, token: str) -> ApiServer:
        place = self.stage.management if cluster == HOME else self.stage.places[cluster]
        return SimulatedServer(
            cluster,
            process,
            place.network,
            place,
            token=token,
            written=self._on_written,
            asked=self._on_asked,
            listed=self._history.listed,
        )

    def _on_commit(self, cluster: str, commit: Commit) -> None:
        record = commit.record
        home = cluster == MANAGEMENT
        if record.kind in (self._kinds_at_home if home else self._kinds_on_workers):
            self.trace.note("store", cluster, f"{commit.type} {record.kind.kind} {record.name} {record.version}")
            before = commit.previous is not None and ORIGIN_LABEL in commit.previous.labels
            ended = commit.type == "DELETED" and oddities.untold(cluster, record)
            if (home or ORIGIN_LABEL in record.labels or before) and not ended:
                where = HOME if home else cluster
                self._history.committed(where, record.kind, record.uid, record.version, news=is_news(commit))
                self._refusals.committed(cluster, HOME if home else cluster, record)
            if record.kind == WORKLOADS:
                self._books[cluster].on_commit(commit)
        if home:
            self._whole.on_commit(commit)
        else:
            self._runs.on_commit(cluster, commit)
            self._ownership.on_commit(cluster, commit)

    def _on_written(self, write: Written) -> None:
        self._writes += 1
        where = f"/{write.subresource}" if write.subresource else ""
        self.trace.note(
            "request", write.process, f"{write.verb} {write.kind.plural}{where} {write.name} on {write.cluster}"
        )
        self._ownership.on_written(write)
        self._whole.on_written(write)

    def _on_asked(self, process: str, cluster: str, asked: NetworkRequest, outcome: str) -> None:
        if outcome != "done":
            self.trace.note("request", process, f"{asked.verb} {asked.resource} {asked.name} on {cluster}: {outcome}")

    def _on_append(self, before: int, writer: str, events: Sequence[NewEvent]) -> None:
        for new, found in zip(events, self.database.read(before, len(events)), strict=True):
            self.trace.note(topic(found.event), writer, words(found))
            self._history.appended(new)
            self._refusals.appended(new)
            self._whole.appended(new)
            self._decisions.before_fold(found, writer)
            self._runs.before_fold(found)
            self.shadow.fold(found)
        if before > MOST_EVENTS:
            self.trace.violate("nothing is repeated for ever", f"{before} events at {self.loop.time():.0f} s")

    def warned(self, level: str, text: str) -> None:
        """Take over what the service says about itself: errors are faults of ours."""
        self.trace.note("warning", level, text)
        if level in ("error", "critical", "exception"):
            self.trace.violate("no part fails", text)
