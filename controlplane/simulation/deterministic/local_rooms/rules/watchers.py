"""Everybody who watches a run of the scene: one place that hears of commits, writes, events and folds, and passes them on.

In: what the run hears. Out: violations, by the rules that are here together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from controlplane.app.rooms import Hosted
from controlplane.app.scheduling.rooms import SchedulerRooms
from controlplane.log.event import NewEvent, Recorded
from controlplane.simulation.deterministic.local_rooms.processes import ROOMS, SCHEDULER
from controlplane.simulation.deterministic.local_rooms.rules.events import Events
from controlplane.simulation.deterministic.local_rooms.rules.gangs import Gangs
from controlplane.simulation.deterministic.local_rooms.rules.groups import Groups
from controlplane.simulation.deterministic.local_rooms.rules.history import History
from controlplane.simulation.deterministic.local_rooms.rules.intime import InTime
from controlplane.simulation.deterministic.local_rooms.rules.placeholders import Placeholders
from controlplane.simulation.deterministic.local_rooms.rules.replay import Replay
from controlplane.simulation.deterministic.local_rooms.rules.writes import Ownership
from controlplane.simulation.deterministic.local_rooms.stage import Stage
from controlplane.simulation.deterministic.server import Written
from controlplane.simulation.deterministic.trace import Trace
from controlplane.simulation.history import Commit


class Watchers:
    """All rules of a run. `folded` is, by sort of process, what hears of its batches."""

    def __init__(self, trace: Trace, stage: Stage, shadow: Hosted, placed: SchedulerRooms) -> None:
        self.ownership = Ownership(trace)
        self.groups = Groups(trace, stage, shadow)
        self.placeholders = Placeholders(trace, stage)
        self._gangs = Gangs(trace, stage, placed)
        self._in_time = InTime(trace, stage, placed)
        self._history = History(trace, stage)
        self._events = {ROOMS: Events(trace, shadow.capability), SCHEDULER: Events(trace, placed.capability)}
        self._replay = Replay(trace, shadow, placed)
        self.folded = {sort: partial(self._replay.folded, sort) for sort in (ROOMS, SCHEDULER)}

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
        self._events[sort].before_fold(recorded, writer)
        self._history.before_fold(sort, recorded, new.source, new.mark)
        if sort == ROOMS:
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
