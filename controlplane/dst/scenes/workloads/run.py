"""One run: the environment set, the plan played, the rules watched, and the end waited for.

In: a plan. Out: an `Outcome`. While the plan plays, every commit, every write, every event and every batch that a
process folds is looked at as it happens; every few seconds all that the leader holds is compared with what the log
says. When the plan is over all trouble ends at once: within an hour of virtual time everything must have settled, and
then nothing may be written any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from controlplane.app.hosted import HostedControllers
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT as HOME
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.jobframework.names import WORD as JOB_FRAMEWORK
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import WorkloadDecision
from controlplane.controllers.multikueue.flavors import CLUSTER_QUEUE, LOCAL_QUEUE
from controlplane.controllers.multikueue.hosting import HOME_KINDS
from controlplane.controllers.quota.admission.observe import ADMISSION
from controlplane.controllers.quota.observe import QUOTA as QUOTA_STREAM
from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.process import ReplicaEnvironment
from controlplane.dst.engine.run import SceneRun
from controlplane.dst.engine.server import SimulatedServer, Written
from controlplane.dst.engine.steps import Step
from controlplane.dst.engine.trace_text import line_of, topic
from controlplane.dst.invariants.workloads.bodies import SpecHistory
from controlplane.dst.invariants.workloads.decisions import Decisions
from controlplane.dst.invariants.workloads.history import HistoryRules, is_news
from controlplane.dst.invariants.workloads.ownership import OwnershipRules
from controlplane.dst.invariants.workloads.quota import Accounts, QuotaAccounts
from controlplane.dst.invariants.workloads.refusals import RefusalRules
from controlplane.dst.invariants.workloads.replay import RULE as REPLAY
from controlplane.dst.invariants.workloads.replay import ReplayRules, difference, unlike
from controlplane.dst.invariants.workloads.runs import RunRules
from controlplane.dst.invariants.workloads.sizes import SizeRules
from controlplane.dst.scenes.processes import service
from controlplane.dst.scenes.workloads import acts, administrators, disruptions, gated, oddities, people
from controlplane.dst.scenes.workloads.ending import has_end, unfinished
from controlplane.dst.scenes.workloads.environment import Backup, JobWebhook, WorkloadEnvironment, in_use, place_of
from controlplane.dst.scenes.workloads.kinds import served_in
from controlplane.dst.scenes.workloads.operators import Operators
from controlplane.dst.scenes.workloads.processes import (
    BRIEF,
    GATES,
    KUEUES,
    QUOTA,
    SNAPSHOTS,
    WEBHOOK,
    ahead_of,
    policy_of,
    rolled_out,
    settings_of,
    types_of,
)
from controlplane.dst.scenes.workloads.unknown_ends import UnknownEnds
from controlplane.kube.kinds import WORKLOADS, Json, Kind
from controlplane.kube.kueue_names import ORIGIN_LABEL
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent, Recorded
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.world import MANAGEMENT

_UNCOUNTED = (f"{CLUSTER_QUEUE}/", f"{LOCAL_QUEUE}/")  # what workers have of queues is seen only where it counts
_OTHERS = tuple(f"{word}/" for word in (QUOTA_STREAM, ADMISSION, JOB_FRAMEWORK))


class WorkloadRun(SceneRun):
    """A run under way; it is what its acts act on."""

    most_events = 5000  # ten times what a plan of this size needs
    decisions: tuple[type, ...] = (WorkloadDecision,)  # what the story tells

    def __init__(self, plan: Plan) -> None:
        seed = str(plan.seed)
        super().__init__(plan, seed)
        self.policy, settings = policy_of(plan.edition, plan.traits), settings_of(plan.traits)
        automated = QUOTA in plan.traits
        jobs = [adapter.kind for adapter in self.policy.adapters.values()]
        self._kinds_at_home, self._kinds_on_workers = (*HOME_KINDS, *jobs), (WORKLOADS, *jobs)
        self.shadow = MultiKueueController(self.policy, "shadow")
        self.database = SimulatedDatabase(self.loop, seed, Codec(types_of(plan.traits)))
        self.database.on_append = self._on_append
        self.database.keeps_snapshots = SNAPSHOTS in plan.traits
        self.submitted: dict[str, Kind] = {}
        self.pods: dict[str, Json] = {}
        self.gates_pods = WEBHOOK not in plan.traits and KUEUES not in plan.traits
        self.made: dict[str, Json] = {}
        self.webhook = JobWebhook()
        self.deleted: set[str] = set()
        self.unknown_ends = UnknownEnds()
        self._runs = RunRules(
            self.trace,
            self.policy.worker_lost_timeout,
            self.database.clock.now,
            lambda cluster: in_use(self.shadow.index.connections.values(), cluster),
            place_of,
        )
        self._ownership = self._rules_of_ownership()
        self.planted = self._ownership.planted
        self._decisions = Decisions(self.trace, self.shadow, self.database.absences)
        self._history = HistoryRules(self.trace, place=place_of)
        self.replay = ReplayRules(self.trace, self.shadow.index)
        self._refusals = RefusalRules(self.trace)
        self._whole = SpecHistory(self.trace, HOME)
        self.sizes = SizeRules(self.trace, self.database.clock.now, lambda: self.environment.management.store)
        self._looked_at = 0
        self.environment = WorkloadEnvironment(
            self.loop,
            seed,
            plan.quotas,
            self._on_commit,
            gated.setup(plan.traits),
            gated.hook(plan.traits, self.policy, self.webhook),
        )
        self._accounts: dict[str, Accounts] = {}
        for name in self.environment.places:
            self._open_accounts(name)
        if plan.traits:
            administrators.label_clusters(self)
        if GATES in plan.traits:
            gated.define_urgent(self)
        if automated:
            administrators.automate_quota(self)
        self._note(MANAGEMENT, HOME)
        self.operators = Operators(self.loop, seed, self.policy, self.database, self.trace)
        at = ReplicaEnvironment(self.loop, seed, self.database, self.trace, self._on_folded, ahead_of(plan.traits))
        names = [f"replica-{number}" for number in range(1, plan.replicas + 1)]
        self.replicas = {name: service(name, settings, at, self._open_server, lambda: self.policy) for name in names}

    def _rules_of_ownership(self) -> OwnershipRules:
        return OwnershipRules(self.trace, self.policy.origin, HOME, quotas=QUOTA in self.plan.traits)

    # --- the run ---------------------------------------------------------------------------------------------------

    @property
    def events(self) -> int:
        """How many events the log has."""
        return len(self.database.store.rows)

    def perform(self, step: Step) -> None:
        """Carry a step out."""
        acts.perform(self, step)

    def close(self) -> None:
        """Let nothing of the run live on."""
        self.environment.close()
        for place in self.environment.places.values():
            place.network.refused = True
        self.loop.finish()

    def heal(self) -> None:
        """Let networks and the database be well again."""
        for place in self.environment.places.values():
            place.network.heal()
            place.off.clear()
        self.database.heal()

    def mend(self) -> None:
        """Put right what is wrong in the clusters."""
        self.sizes.calm()
        if self.plan.edition > 9 and not self.plan.scene:
            disruptions.put_right(self)
        people.list_clusters(self)
        people.open_queue(self)
        for name in self.environment.workers:
            people.define_cluster(self, name)
            self.environment.write_secret(name)
        if self.plan.edition > 6:
            administrators.make_namespaces(self)
        if self.plan.traits:
            administrators.only_own_names(self)
            administrators.label_clusters(self)
            people.take_back_endless(self)
            people.fit_elastic(self, min(self.plan.quotas[name] for name in self.environment.workers))
        if QUOTA in self.plan.traits:
            administrators.automate_quota(self)
        self.operators.bury(self.environment.rebuilt, lambda name: self.shadow.index.connections.get(name))
        again = [name for name in self.shadow.index.connections if place_of(name) != name]
        self.operators.bury(again, self._in_the_way)
        oddities.mend(self)

    def _in_the_way(self, name: str) -> Connection | None:
        """Return the connection of a second name that is gone, if its cluster is not used under its own."""
        connections = self.shadow.index.connections
        own = connections.get(place_of(name))
        return None if own is None or own.connected else connections.get(name)

    def left(self) -> str:
        """Return what is not settled yet."""
        if not any(replica.leading for replica in self.replicas.values()):
            return "nobody leads"
        expected = {name: kind for name, kind in self.submitted.items() if not self.unknown_ends.excuses(self, name)}
        return unfinished(self.environment, self.shadow.index, expected, self.deleted, self.planted, self.made)

    def at_the_end(self) -> None:
        """Compare the log with the clusters, and a fold of it with ours."""
        for place in self.environment.places.values():
            home = place.name == MANAGEMENT
            kinds = list(self._kinds_at_home if home else self._kinds_on_workers)
            for kind in kinds:
                self._refusals.finish(HOME if home else place.name, place.store.records(kind))
            wrong = unlike(self.shadow.index, HOME if home else place.name, place.store, kinds)
            if wrong:
                self.trace.violate("the log is like the clusters", wrong)
        self._history.finish()
        fresh = MultiKueueController(self.policy, "replay")
        for recorded in self._read():
            fresh.fold(recorded)
        wrong = difference(fresh.index, self.shadow.index)
        if wrong:
            self.trace.violate(REPLAY, wrong)
        for books in self._accounts.values():
            books.recount()

    def _read(self) -> Iterator[Recorded]:
        """Yield all that the dispatch of Workloads hears of the log."""
        for recorded in self.database.read(0, 10**9):
            if not of_others(recorded.stream):
                yield recorded

    def look(self) -> None:
        """Compare what cannot be looked at with every single change; all that the leader holds, if anything was
        appended since.
        """
        position = self.shadow.index.position
        for replica in self.replicas.values() if position != self._looked_at else ():
            if replica.leading and replica.hosted.fleet.index.position == position:
                self._looked_at = position
                wrong = difference(replica.hosted.fleet.index, self.shadow.index)
                if wrong:
                    self.trace.violate(REPLAY, f"{replica.name}: {wrong}")

    # --- what is heard ---------------------------------------------------------------------------------------------

    def restore(self, cluster: str, backup: Backup) -> None:
        """Put a worker's etcd back."""
        self._put_back(cluster, cluster, backup)
        store = self.environment.places[cluster].store
        self._runs.on_incarnation(cluster, [record for kind in served_in(store) for record in store.records(kind)])
        self._ownership.only_in([place.store for place in self.environment.workers.values()])

    def restore_home(self, backup: Backup) -> None:
        """Put the management cluster's etcd back: nobody expects any more what came since, and what was deleted since
        counts again.
        """
        self._put_back(MANAGEMENT, HOME, backup)
        store = self.environment.management.store
        there = {record.name for kind in served_in(store) for record in store.records(kind)}
        self.submitted = {name: kind for name, kind in self.submitted.items() if name in there}
        gated.complete_groups(self, there)
        gated.unheard_again(self, self.submitted)
        self.deleted -= there
        people.activate_all(self)

    def restore_log(self, put_back: Callable[[], None]) -> None:
        """Put the log back: what it told since is told by nobody, and may be told again."""
        before = len(self.database.store.rows)
        put_back()
        self.trace.note("log", "database", f"goes back from {before} to {len(self.database.store.rows)}")
        self._refold()
        self.unknown_ends.log_went_back(self, partial(has_end, self.shadow.index))
        self._refusals.forget_told()
        self._runs.log_went_back(len(self.database.store.rows))
        for new, *_ in self.database.store.rows:
            if not of_others(new.stream) and not new.stream.startswith(_UNCOUNTED):
                self._refusals.appended(new)
        for name in self.environment.places:
            cluster = HOME if name == MANAGEMENT else name
            self._history.new_era(cluster)
            self._note(name, cluster)
        self._looked_at = 0

    def roll_out(self, value: int) -> None:
        """Replace every process by one with other settings, as a number says."""
        for replica in self.replicas.values():
            replica.crash("is replaced")
        self.policy = rolled_out(self.policy, value)
        self._refold()
        self._looked_at = 0
        for replica in self.replicas.values():
            replica.start()

    def _refold(self) -> None:
        """Fold the log again, as it is now, for those who look on."""
        self.shadow = MultiKueueController(self.policy, "shadow")
        self._decisions = Decisions(self.trace, self.shadow, self.database.absences)
        self.replay = ReplayRules(self.trace, self.shadow.index)
        for recorded in self.database.read(0, 10**9):
            self._decisions.resume(recorded)
        for recorded in self._read():
            self.shadow.fold(recorded)

    def _on_folded(self, process: str, hosted: HostedControllers, position: int) -> None:
        self.replay.folded(process, hosted.fleet.index)

    def _put_back(self, name: str, cluster: str, backup: Backup) -> None:
        self._history.new_era(cluster)
        self.environment.restore(name, backup)
        self._open_accounts(name)
        self._note(name, cluster)

    def _open_accounts(self, name: str) -> None:
        """Look at a cluster's quota from now on. One that is automated may become less than is used."""
        shrinks = name == MANAGEMENT and QUOTA in self.plan.traits
        self._accounts[name] = QuotaAccounts(self.trace, self.environment.places[name], shrinks=shrinks)

    def _note(self, name: str, cluster: str) -> None:
        """Take what is there for committed."""
        kinds = self._kinds_at_home if name == MANAGEMENT else self._kinds_on_workers
        every = [one for kind in kinds for one in self.environment.places[name].store.records(kind)]
        for record in sorted(every, key=lambda record: record.version):
            if name == MANAGEMENT or ORIGIN_LABEL in record.labels:
                self._history.committed(cluster, record.kind, record.uid, record.version)
                self._refusals.committed(name, cluster, record)

    def rebuild(self, cluster: str) -> None:
        """Replace a cluster by an empty one."""
        self._history.new_era(cluster)
        self.environment.rebuild(cluster)
        self._open_accounts(cluster)
        self._runs.on_incarnation(cluster, [])
        self._ownership.only_in([place.store for place in self.environment.workers.values()])

    def _open_server(self, cluster: str, process: str, token: str) -> ApiServer:
        place = self.environment.management if cluster == HOME else self.environment.places[cluster]
        return SimulatedServer(
            cluster,
            process,
            place.network,
            place,
            token=token,
            written=self._on_written,
            asked=self.asked,
            listed=self._history.listed,
        )

    def _on_commit(self, cluster: str, commit: Commit) -> None:
        record = commit.record
        home = cluster == MANAGEMENT
        if record.kind in (self._kinds_at_home if home else self._kinds_on_workers):
            self.trace.note("store", cluster, f"{commit.type} {record.kind.kind} {record.name} {record.version}")
            if oddities.is_told(cluster, commit):
                where = HOME if home else cluster
                self._history.committed(where, record.kind, record.uid, record.version, news=is_news(commit))
                self._refusals.committed(cluster, where, record)
            if record.kind == WORKLOADS:
                self._accounts[cluster].on_commit(commit)
        if home:
            if record.kind == WORKLOADS:
                self._runs.on_workload(record.obj)
            self._whole.on_commit(commit)
            gated.on_commit(self, commit)
        else:
            self._runs.on_commit(cluster, commit)
            self.unknown_ends.on_commit(cluster, commit)
            self._ownership.on_commit(cluster, commit)
            self.sizes.on_commit(cluster, commit)
            if BRIEF in self.plan.traits:
                disruptions.on_commit(self, cluster, commit)

    def _on_written(self, write: Written) -> None:
        self.writes += 1
        where = f"/{write.subresource}" if write.subresource else ""
        self.trace.note(
            "request", write.process, f"{write.verb} {write.kind.plural}{where} {write.name} on {write.cluster}"
        )
        self._ownership.on_written(write)
        self.unknown_ends.on_written(write)
        self._whole.on_written(write)

    def _on_append(self, before: int, writer: str, events: Sequence[NewEvent]) -> None:
        for new, found in zip(events, self.database.read(before, len(events)), strict=True):
            line = line_of(found, self.decisions, f" ({found.cluster})")
            self.trace.note(topic(found.event, self.decisions), writer, line)
            self._whole.appended(new)
            self._decisions.before_fold(found, writer)
            self._heard(found, writer)
            if of_others(found.stream):
                continue
            if not found.stream.startswith(_UNCOUNTED):
                self._history.appended(new)
                self._refusals.appended(new)
            self._runs.before_fold(found)
            self.shadow.fold(found)
        if before > self.most_events:
            self.trace.violate("nothing is repeated for ever", f"{before} events at {self.loop.time():.0f} s")

    def _heard(self, recorded: Recorded, writer: str) -> None:
        """Hear of an event that a process appended, of whichever controller."""


def of_others(stream: str) -> bool:
    """Whether a stream is of a controller that sees objects for itself: quota, admission, the job framework."""
    return stream.startswith(_OTHERS)
