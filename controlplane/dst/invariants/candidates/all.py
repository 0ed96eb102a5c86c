"""All rules of the scene in one: who hears of which commit, write, event and batch, and what is looked at in the end.

In: whatever happens. Out: violations, by way of the trace. It owns the folds of the logs that the rules look at:
`source` and `targets`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.candidates.objects import (
    CANDIDATE_LABEL,
    CANDIDATE_SOURCES,
    CANDIDATE_TARGETS,
    CANDIDATES,
    SCHEDULER_NAME,
    TARGET_LABEL,
)
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.observations import SourceObjectGone
from controlplane.controllers.connectivity.events import MANAGEMENT as HOME
from controlplane.controllers.connectivity.events import KindSynced
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.server import Written
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.candidates.capacity import NodeCapacityRules
from controlplane.dst.invariants.candidates.gangs import CandidateGangRules
from controlplane.dst.invariants.candidates.logs import MEANINGS, CandidateLogRules, Invitations, Words
from controlplane.dst.invariants.candidates.ownership import CandidateOwnershipRules
from controlplane.dst.invariants.candidates.permits import Permits
from controlplane.dst.invariants.candidates.pod_status import PodStatuses
from controlplane.dst.invariants.candidates.replay import CandidateReplayRules, of_scheduler, of_source
from controlplane.dst.invariants.candidates.runs import DelegateRunRules
from controlplane.dst.invariants.candidates.virtual_nodes import VirtualNodeRules
from controlplane.dst.invariants.workloads.history import HistoryRules
from controlplane.dst.scenes.candidates.acts import PROFILE
from controlplane.dst.scenes.candidates.environment import CAMPUS, CandidateEnvironment
from controlplane.dst.scenes.candidates.plan import GANG_PLUGIN, SOURCE_LOG
from controlplane.dst.scenes.processes import named
from controlplane.kube.kinds import NODES, POD_GROUPS, PODS, Kind
from controlplane.log.event import NewEvent, Recorded
from controlplane.settings import Settings
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.world import MANAGEMENT


class Everything:
    """The rules, and the folds of the logs."""

    def __init__(
        self, trace: Trace, loop: VirtualLoop, environment: CandidateEnvironment, settings: Settings, plan: Plan
    ) -> None:
        self._trace, self._environment, self._settings = trace, environment, settings
        self._gang_plugin = GANG_PLUGIN in plan.traits
        self.source = HostedControllers(settings)
        self.targets = {name: self._rooms() for name in environment.nodes}
        assert self.source.sources is not None
        self.placing = self.source.sources
        self._positions = dict.fromkeys([SOURCE_LOG, *self.targets], 0)
        self._runs = DelegateRunRules(trace, environment, self.placing, self.targets)
        self._gangs = CandidateGangRules(
            trace, loop, environment, self.placing, lambda: self._runs.unanswered, plan.steps
        )
        self._permits = Permits(trace, environment, self.targets)
        self._statuses = PodStatuses(trace, self.placing)
        self._ownership = CandidateOwnershipRules(trace, self.targets, virtual=environment.virtual)
        self._virtual = VirtualNodeRules(trace, environment, self.forgotten)
        self._replay = CandidateReplayRules(trace)
        self._room = {
            n: NodeCapacityRules(trace, loop, environment.places[n], controllers)
            for n, controllers in self.targets.items()
        }
        self._invitations = {n: Invitations(trace, controllers.targets) for n, controllers in self.targets.items()}
        self._logs = {name: self._rules_of(name) for name in self._positions}
        self._words = Words(trace, self.source.fleet.index)
        self._histories = {name: HistoryRules(trace, SourceObjectGone) for name in self._positions}
        for name in environment.places:
            self._all_committed(name)

    # --- clusters that begin anew ------------------------------------------------------------------------------------

    def new_era(self, cluster: str) -> None:
        """Hear that a cluster is about to begin anew: its versions go back, and what it had not told is void."""
        home = cluster == MANAGEMENT
        self._histories[SOURCE_LOG].new_era(HOME if home else cluster)
        if not home:
            self._histories[cluster].new_era(HOME)

    def began_anew(self, cluster: str) -> None:
        """Take what is there now for committed, and what runs there for what runs."""
        self._all_committed(cluster)
        if cluster != MANAGEMENT:
            self._runs.began_anew(cluster, self._environment.places[cluster].store.records(PODS))
            self._room[cluster].began_anew()

    def _all_committed(self, cluster: str, log: str = "") -> None:
        """Take what is there now for committed: for all logs, or for one."""
        store = self._environment.places[cluster].store
        for kind in (
            PODS,
            CANDIDATES,
            CANDIDATE_TARGETS,
            CANDIDATE_SOURCES,
            *((POD_GROUPS, NODES) if cluster == MANAGEMENT else ()),
        ):
            for record in sorted(store.records(kind), key=lambda record: record.version):
                self._committed(cluster, record, log)

    # --- logs that go back -------------------------------------------------------------------------------------------

    def log_went_back(self, log: str, left: Sequence[Recorded], rows: Sequence[NewEvent]) -> None:
        """Hear that a log has no more than these events: what it told since may be told again, and is decided anew."""
        self._positions[log] = 0
        if log == SOURCE_LOG:
            self._source_went_back()
        else:
            self._target_went_back(log)
        self._logs[log] = self._rules_of(log)
        history = self._histories[log]
        for name in self._environment.places if log == SOURCE_LOG else [log]:
            history.new_era(HOME if name == MANAGEMENT or log != SOURCE_LOG else name)
            self._all_committed(name, log)
        for new, recorded in zip(rows, left, strict=True):
            self._told(log, new)
            self._logs[log].resume(recorded)
            (self.source if log == SOURCE_LOG else self.targets[log]).router.fold(recorded)
            self._positions[log] = recorded.position

    def _source_went_back(self) -> None:
        self.source = HostedControllers(self._settings)
        assert self.source.sources is not None
        self.placing = self.source.sources
        for rules in (self._runs, self._gangs, self._statuses):
            rules.follow(self.placing)
        self._permits.source_went_back()
        self._words = Words(self._trace, self.source.fleet.index)

    def _target_went_back(self, target: str) -> None:
        self._permits.target_went_back(target)
        controllers = self.targets[target] = self._rooms()
        self._room[target].follow(controllers)
        self._invitations[target] = Invitations(self._trace, controllers.targets)

    def _rules_of(self, log: str) -> CandidateLogRules:
        router = self.source.router if log == SOURCE_LOG else self.targets[log].router
        return CandidateLogRules(self._trace, MEANINGS, router.open_writes, log)

    def _rooms(self) -> SchedulerControllers:
        return SchedulerControllers(named(Settings(), "shadow"), [PROFILE], gangs=self._gang_plugin)

    def forgotten(self) -> frozenset[str]:
        """Return the targets that an operator has given up, and that have not come back."""
        return frozenset(name for name in self.targets if _forgotten(self.placing, name))

    # --- what is committed and written -------------------------------------------------------------------------------

    def on_commit(self, cluster: str, commit: Commit) -> None:
        """Look at a change that an API server has committed."""
        before = commit.previous if commit.previous is not None else commit.record
        self._committed(cluster, commit.record if commit.type != "DELETED" else _gone(before, commit.record))
        if cluster == MANAGEMENT:
            self._statuses.on_commit(commit)
            self._virtual.on_commit(commit)
        else:
            self._gangs.on_commit(cluster, commit)
            self._runs.on_commit(cluster, commit)
            self._permits.on_commit(cluster, commit)
            self._room[cluster].on_commit(commit)

    def _committed(self, cluster: str, record: Record, only: str = "") -> None:
        """Note what the logs of those who watch it have to tell, or one of them."""
        home, kind = cluster == MANAGEMENT, record.kind
        ours = self._concerns_the_source(record) if home else _of_campus(record)
        if ours and only in ("", SOURCE_LOG):
            self._histories[SOURCE_LOG].committed(HOME if home else cluster, kind, record.uid, record.version)
        near = kind in (CANDIDATES, CANDIDATE_SOURCES) or (kind == PODS and CANDIDATE_LABEL in record.labels)
        if near and not home and only in ("", cluster):
            self._histories[cluster].committed(HOME, kind, record.uid, record.version)

    def _concerns_the_source(self, record: Record) -> bool:
        """Whether an object of the source's own cluster is recorded there."""
        if record.kind == NODES:
            return self._environment.virtual and TARGET_LABEL in record.labels
        ours = record.kind == PODS and record.obj["spec"].get("schedulerName") == SCHEDULER_NAME
        return ours or record.kind in (CANDIDATE_TARGETS, POD_GROUPS)

    def on_listed(self, log: str, cluster: str, kind: Kind, version: int) -> None:
        """Note that a process of a log was given a list of a cluster."""
        self._histories[log].listed(cluster, kind, version)

    def on_written(self, write: Written) -> None:
        """Look at a write that an API server has carried out."""
        self._ownership.on_written(write)
        self._virtual.on_written(write)

    # --- what is recorded and folded ---------------------------------------------------------------------------------

    def appended(self, log: str, new: NewEvent, found: Recorded, writer: str) -> None:
        """Look at an event that has reached a log, and fold it."""
        self._told(log, new)
        self._logs[log].before_fold(found, writer)
        if log == SOURCE_LOG:
            self._words.before_fold(found)
            self._gangs.before_fold(found)
            self._runs.before_fold(found)
            self._permits.before_fold(found)
            self._statuses.before_fold(found)
            self.source.router.fold(found)
        else:
            self._invitations[log].before_fold(found)
            self.targets[log].router.fold(found)
            self._room[log].after_fold(found)
        self._positions[log] = found.position

    def batch(self, log: str, found: Sequence[Recorded]) -> None:
        """Look at all that has reached a log at once, before any of it is folded."""
        if log == SOURCE_LOG:
            self._gangs.appended(found)

    def _told(self, log: str, new: NewEvent) -> None:
        """Let the history of the candidates' own observations hear of an event, by the names that it has for things."""
        mark, _, source = new.source.rpartition(":")
        if isinstance(new.event, KindSynced):
            kind = new.event.kind.partition("/")[0]
            self._histories[log].appended(
                msgspec.structs.replace(new, event=msgspec.structs.replace(new.event, kind=kind))
            )
        elif mark in (("candidates", "virtualnodes") if log == SOURCE_LOG else ("candidate",)):
            self._histories[log].appended(msgspec.structs.replace(new, source=source))

    def source_folded(self, process: str, hosted: HostedControllers, position: int) -> None:
        """Look at what a process of the source holds, if it is up to date."""
        if hosted.fleet.index.position == self._positions[SOURCE_LOG]:
            self._replay.folded(process, of_source(hosted), of_source(self.source))

    def target_folded(self, target: str, process: str, controllers: SchedulerControllers, position: int) -> None:
        """The same of a scheduler."""
        if position == self._positions[target]:
            self._replay.folded(process, of_scheduler(controllers), of_scheduler(self.targets[target]))

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self, logs: dict[str, Sequence[Recorded]]) -> None:
        """Look at what can only be seen in the end: what was never told, and what the logs give from their
        beginnings.
        """
        for history in self._histories.values():
            history.finish()
        fresh = HostedControllers(self._settings)
        for recorded in logs[SOURCE_LOG]:
            fresh.router.fold(recorded)
        self._replay.afresh(SOURCE_LOG, of_source(fresh), of_source(self.source))
        for name, ours in self.targets.items():
            controllers = self._rooms()
            for recorded in logs[name]:
                controllers.router.fold(recorded)
            self._replay.afresh(name, of_scheduler(controllers), of_scheduler(ours))


def _forgotten(placing: SourceController, name: str) -> bool:
    known = placing.connections.get(name)
    return known is not None and known.forgotten


def _of_campus(record: Record) -> bool:
    return record.kind == CANDIDATES and bool(record.obj["spec"]["source"]["cluster"] == CAMPUS)


def _gone(before: Record, last: Record) -> Record:
    """Return the record of a deletion: its version is the deletion's."""
    return last if last.version != before.version else before
