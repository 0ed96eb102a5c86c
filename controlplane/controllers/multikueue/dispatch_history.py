"""Keeps what the log says of the clusters' recent answers, and where the Workloads of each queue are.

In: the events of Workloads, and their states before and after. Out: `ScoringFacts` for `controlplane.controllers.
multikueue.scoring`. A replay gives the same, since only the times of the log count."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

import msgspec

from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.context import MultiKueuePolicy, Route
from controlplane.controllers.multikueue.flavors import NEUTRAL, WorkerQueues
from controlplane.controllers.multikueue.scoring import ScoringFacts, WorkloadScoring
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.log.event import Recorded

_REMEMBERED = 100
"""How many answers of a cluster are remembered at most."""


class AdmissionAnswer(NamedTuple):
    """A cluster's answer to a copy: when, and after how many seconds it admitted it; None if it refused."""

    at: datetime
    seconds: float | None


class RecentAnswers:
    """How long the clusters took to admit what they were asked, and what they refused."""

    GIVEN = ("_window",)

    def __init__(self, window: timedelta) -> None:
        self._window = window
        self._asked: dict[str, dict[str, datetime]] = {}
        self._answers: dict[str, deque[AdmissionAnswer]] = {}
        self._now: datetime | None = None

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a Workload's stream."""
        event, at, stream, cluster = recorded.event, recorded.recorded_at, recorded.stream, recorded.cluster
        self._now = at
        match event:
            case events.CloneDecided():
                self._asked.setdefault(stream, {})[event.cluster] = at
            case observations.CloneObserved() if event.is_true("Admitted"):
                self._admitted(stream, cluster, at)
            case events.ClusterRefused():
                # Also after the choice of a cluster: it may refuse the job when it has admitted the copy.
                self._asked.get(stream, {}).pop(event.cluster, None)
                self._keep(event.cluster, AdmissionAnswer(at, None))
            case events.WinnerChosen() | events.NamesClearDecided() | observations.WorkloadGone():
                # Whoever has not answered by now is asked no more, and that says nothing about him.
                self._asked.pop(stream, None)

    def of(self, cluster: str) -> tuple[float | None, int, int]:
        """Return the median of the recent admissions in seconds, how many there are, and how many refusals."""
        answers = self._answers.get(cluster, ())
        since = self._now - self._window if self._now is not None else None
        recent = [one for one in answers if since is None or one.at >= since]
        seconds = [one.seconds for one in recent if one.seconds is not None]
        return (median(seconds) if seconds else None), len(seconds), len(recent) - len(seconds)

    def _admitted(self, stream: str, cluster: str, at: datetime) -> None:
        asked = self._asked.get(stream, {}).pop(cluster, None)
        if asked is not None:
            self._keep(cluster, AdmissionAnswer(at, max((at - asked).total_seconds(), 0.0)))

    def _keep(self, cluster: str, answer: AdmissionAnswer) -> None:
        self._answers.setdefault(cluster, deque(maxlen=_REMEMBERED)).append(answer)


class Placements:
    """On which cluster the Workloads of each ClusterQueue are, from the choice of a cluster until the Workload ends or
    loses its place."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def of(self, queue: str, cluster: str) -> int:
        """Return how many Workloads of a queue are on a cluster."""
        return self._counts.get(queue, _NONE)[cluster]

    def moved(self, before: WorkloadState | None, after: WorkloadState) -> str:
        """Take the next state of a Workload; return its queue if the Workload came or went somewhere, "" otherwise."""
        old, new = _place(before), _place(after)
        if old == new:
            return ""
        if old is not None:
            self._counts[old[0]][old[1]] -= 1
        if new is not None:
            self._counts.setdefault(new[0], Counter())[new[1]] += 1
        return (new or old or ("", ""))[0]


class DispatchHistory:
    """What clusters are scored by, of all Workloads; nothing is kept where they are not scored."""

    GIVEN = ("_rules",)

    def __init__(self, policy: MultiKueuePolicy) -> None:
        self._rules = policy.scoring
        self._answers = RecentAnswers(policy.scoring_window)
        self.placements = Placements()
        self.queues = WorkerQueues()
        self._waiting: dict[str, dict[str, None]] = {}  # the streams of Workloads without a cluster, by queue

    def fold(self, recorded: Recorded, before: WorkloadState | None, after: WorkloadState) -> list[str]:
        """Take one more event of a Workload; return the streams of those that may go now where they might not, or no
        more."""
        if self._rules is None:
            return []
        self._answers.fold(recorded)
        self._wait(recorded.stream, _waits_in(before), _waits_in(after))
        queue = self.placements.moved(before, after)
        if not queue or not self._rules.spread_required:
            return []
        return list(self._waiting.get(queue, ()))

    def _wait(self, stream: str, before: str, after: str) -> None:
        if before == after:
            return
        if (waiting := self._waiting.get(before)) is not None:
            waiting.pop(stream, None)
            if not waiting:
                del self._waiting[before]
        if after:
            self._waiting.setdefault(after, {})[stream] = None

    def scoring(
        self,
        local: observations.WorkloadObserved | None,
        route: Route | None,
        clusters: Mapping[str, observations.MultiKueueClusterObserved],
        connections: Mapping[str, Connection],
    ) -> WorkloadScoring | None:
        """Return what the clusters of a Workload that waits for one are scored by."""
        if self._rules is None or local is None or route is None or local.cluster_name:
            return None
        facts = {
            name: msgspec.structs.replace(
                self._facts(name, clusters.get(name), local.cluster_queue),
                flavors=self.queues.fit(name, local, connections.get(name)) if self._rules.flavors_weight else NEUTRAL,
            )
            for name in route.clusters
        }
        return WorkloadScoring(rules=self._rules, facts=facts)

    def _facts(self, cluster: str, seen: observations.MultiKueueClusterObserved | None, queue: str) -> ScoringFacts:
        seconds, admissions, refusals = self._answers.of(cluster)
        return ScoringFacts(
            labels=seen.labels if seen is not None else {},
            admission_seconds=seconds,
            admissions=admissions,
            refusals=refusals,
            placed=self.placements.of(queue, cluster),
        )


def _waits_in(state: WorkloadState | None) -> str:
    """Return the queue in which a Workload waits for a cluster, "" if it does not."""
    local = state.local if state is not None else None
    return local.cluster_queue if local is not None and not local.cluster_name else ""


_NONE: Counter[str] = Counter()


def _place(state: WorkloadState | None) -> tuple[str, str] | None:
    local = state.local if state is not None else None
    if state is None or local is None or local.is_true("Finished"):
        return None
    cluster = local.cluster_name or state.winner
    return (local.cluster_queue, cluster) if cluster else None
