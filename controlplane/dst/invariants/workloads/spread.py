"""Where Workloads of a queue must be spread, none is sent where its bound would be exceeded.

In: the choices of clusters as they reach the log, and the states that the log gives. Out: what is wrong, in words. The
Workloads are counted anew each time, from their states, and not from what the scored dispatcher keeps. Choices that are
appended together may have been taken in any order: there has to be one in which each of them fits. So they are judged
when the next append comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.events import WinnerChosen, WinnerReleased
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import WorkloadGone, WorkloadObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.selectors import parse_selector
from controlplane.log.event import Recorded
from controlplane.values import Value

RULE = "what must be spread is spread"


class _Choice(Value):
    """A choice of a cluster that has to fit: for a Workload of which `queue`, the `domain` chosen, None without one,
    and the `domains` that the Workload could be sent to."""

    cluster: str
    queue: str
    domain: str | None
    domains: list[str]


class SpreadRule:
    """Looks at choices, those that are appended together as such."""

    def __init__(self) -> None:
        self._at: datetime | None = None
        self._choices: dict[str, _Choice] = {}
        self._released: dict[str, str] = {}

    def released(self, recorded: Recorded, event: WinnerReleased) -> None:
        """Take note of a release: what is chosen in the same append may have been decided before it."""
        self._released[recorded.stream] = event.cluster

    def moved(self, recorded: Recorded, state: WorkloadState | None) -> None:
        """Take note of a Workload that is seen to change: what is chosen in the same append was decided before that was
        known."""
        if (
            state is not None
            and state.local is not None
            and isinstance(recorded.event, WorkloadObserved | WorkloadGone)
            and (cluster := _cluster_of(state, state.local.cluster_queue))
        ):
            self._released.setdefault(recorded.stream, cluster)

    def chosen(self, index: WorkloadIndex, recorded: Recorded, event: WinnerChosen) -> None:
        """Take the choice of a cluster, before it is folded."""
        rules, state = index.policy.scoring, index.workloads.get(recorded.stream)
        if rules is None or not rules.spread_required or state is None or state.local is None:
            return
        if state.remote(event.cluster).job is not None:
            return  # it is there already, perhaps since an attempt before
        labels = _labels(index)
        self._choices[recorded.stream] = _Choice(
            cluster=event.cluster,
            queue=state.local.cluster_queue,
            domain=labels.get(event.cluster, {}).get(rules.spread_label),
            domains=_domains(index.context(state), labels, rules.spread_label),
        )

    def wrong(self, index: WorkloadIndex, recorded: Recorded) -> str:
        """Return what is wrong with the choices of the append that ended before this event, which is not folded yet;
        "" if nothing is, or if it goes on."""
        if self._at == recorded.recorded_at:
            return ""
        together = _Together(index, self._choices, self._released)
        self._at, self._choices, self._released = recorded.recorded_at, {}, {}
        return together.fit_in_no_order(frozenset(together.choices))


class _Together:
    """The choices of one append, and where Workloads that left in it had been."""

    def __init__(self, index: WorkloadIndex, choices: Mapping[str, _Choice], released: Mapping[str, str]) -> None:
        self._index, self.choices, self._released = index, choices, released
        self._failed: set[frozenset[str]] = set()

    def fit_in_no_order(self, streams: frozenset[str]) -> str:
        """Return why some of the choices fit in no order; "" if they do in one: the one that was taken last fits beside
        all others, and these fit without it."""
        why = ""
        for last in reversed([one for one in self.choices if one in streams]):
            others = streams - {last}
            if found := self._too_many(last, others):
                why = why or f"{last} in {self.choices[last].cluster}: {found}"
            elif others not in self._failed and not self.fit_in_no_order(others):
                return ""
            else:
                self._failed.add(others)
        return why or (f"{', '.join(sorted(streams))} fit in no order" if streams else "")

    def _too_many(self, stream: str, others: frozenset[str]) -> str:
        """Return why a cluster must not have been chosen after some other choices; "" if it may have been."""
        rules, choice = self._index.policy.scoring, self.choices[stream]
        if rules is None:
            return ""
        if choice.domain is None:
            return f"it has no label {rules.spread_label}"
        why = ""
        for released in ({}, self._released):
            placed = self._placed(choice.queue, rules.spread_label, others, released)
            least = min(placed[one] for one in [*choice.domains, choice.domain])
            if placed[choice.domain] + 1 - least <= rules.spread_max_skew:
                return ""
            why = why or f"{placed[choice.domain]} are in {choice.domain} already, and {least} in another"
        return why

    def _placed(self, queue: str, label: str, others: frozenset[str], released: Mapping[str, str]) -> Counter[str]:
        """Return how many Workloads of a queue are in each domain of the clusters there are; of the choices some."""
        found, labels = Counter[str](), _labels(self._index)
        for stream, state in self._index.workloads.items():
            if stream in self.choices:
                choice = self.choices[stream]
                cluster = choice.cluster if stream in others and choice.queue == queue else ""
            else:
                cluster = released.get(stream) or _cluster_of(state, queue)
            if cluster and label in labels.get(cluster, {}):
                found[labels[cluster][label]] += 1
        return found


def _labels(index: WorkloadIndex) -> dict[str, dict[str, str]]:
    return {name: {"metadata.name": name, **seen.labels} for name, seen in index.clusters.items()}


def _cluster_of(state: WorkloadState, queue: str) -> str:
    local = state.local
    if local is None or local.cluster_queue != queue or local.is_true("Finished"):
        return ""
    return local.cluster_name or state.winner


def _domains(context: WorkloadContext, labels: Mapping[str, Mapping[str, str]], label: str) -> list[str]:
    """Return the domains of the clusters that the Workload could be sent to."""
    rules = context.policy.scoring
    selectors = [rules.cluster_selector if rules else "", context.job.cluster_selector if context.job else ""]
    return [
        labels[one][label]
        for one in (context.route.clusters if context.route is not None else ())
        if context.available(one)
        and label in labels.get(one, {})
        and all(parse_selector(text).matches(labels[one]) for text in selectors)
    ]
