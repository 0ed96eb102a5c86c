"""Everybody who watches a run of the scene: one place that hears of commits, writes, events and folds, and passes them
on.

In: what the run hears. Out: violations, by the rules that are here together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.manifests import OWN_CLUSTER
from controlplane.controllers.scheduling.events import GangConditionDecided, PodStatusDecided
from controlplane.dst.engine.server import Written
from controlplane.dst.engine.trace import Trace
from controlplane.dst.invariants.local.deadlines import InTime
from controlplane.dst.invariants.local.gangs import GangRules
from controlplane.dst.invariants.local.groups import GroupRules
from controlplane.dst.invariants.local.history import LocalHistoryRules
from controlplane.dst.invariants.local.placeholders import Placeholders
from controlplane.dst.invariants.local.replay import LocalReplayRules
from controlplane.dst.invariants.local.writes import LocalOwnershipRules
from controlplane.dst.invariants.log_rules import LogRules, meanings_of
from controlplane.dst.scenes.local.environment import OwnClusterEnvironment
from controlplane.dst.scenes.local.processes import CONTROLLERS, SCHEDULER
from controlplane.log.event import NewEvent, Recorded
from controlplane.simulation.apiserver.history import Commit

# What is to be said now takes the place of what was to be said.
MEANINGS = meanings_of(OWN_CLUSTER, replaces=(GangConditionDecided, PodStatusDecided))


class Watchers:
    """All rules of a run. `folded` is, by sort of process, what hears of its batches."""

    def __init__(
        self, trace: Trace, environment: OwnClusterEnvironment, shadow: HostedControllers, placed: SchedulerControllers
    ) -> None:
        self.ownership = LocalOwnershipRules(trace)
        self.groups = GroupRules(trace, environment, shadow)
        self.placeholders = Placeholders(trace, environment)
        self._gangs = GangRules(trace, environment, placed)
        self._in_time = InTime(trace, environment, placed)
        self._history = LocalHistoryRules(trace, environment)
        self._logs = {
            sort: LogRules(trace, MEANINGS, router.open_writes)
            for sort, router in ((CONTROLLERS, shadow.router), (SCHEDULER, placed.router))
        }
        self._replay = LocalReplayRules(trace, shadow, placed)
        self.folded = {sort: partial(self._replay.folded, sort) for sort in (CONTROLLERS, SCHEDULER)}

    def on_commit(self, commit: Commit) -> None:
        """Look at a change of the cluster."""
        self._history.on_commit(commit)
        self._gangs.on_commit(commit)
        self._in_time.on_commit(commit)
        self.groups.on_commit(commit)
        self.placeholders.on_commit(commit)

    def on_written(self, write: Written) -> None:
        """Look at a write of ours."""
        self.ownership.on_written(write)

    def before_fold(self, sort: str, recorded: Recorded, new: NewEvent, writer: str) -> None:
        """Look at an event before it is folded beside its log."""
        self._replay.positions[sort] = recorded.position
        self._logs[sort].before_fold(recorded, writer)
        self._history.before_fold(sort, recorded, new.source, new.mark)
        if sort == CONTROLLERS:
            self.groups.before_fold(recorded)
            self.placeholders.before_fold(recorded)
        else:
            self._gangs.before_fold(recorded)
            self.placeholders.before_bind(recorded)

    def unlike(self) -> str:
        """Return what the logs believe of the cluster that is not so."""
        return self._history.unlike(self._replay.shadow, self._replay.placed)

    def look(self, clear_for: float) -> None:
        """Look at what cannot be judged at once; `clear_for`: for how many seconds nothing has been wrong."""
        self.placeholders.look()
        self._in_time.look(clear_for)

    def finish(self, logs: Mapping[str, Sequence[Recorded]]) -> None:
        """Look at everything once more, when nothing moves any more. `logs`: all events by log."""
        self.groups.finish()
        self._replay.finish(logs)
