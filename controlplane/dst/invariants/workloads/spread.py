"""Where Workloads of a queue must be spread, none is sent where its bound would be exceeded.

In: the choice of a cluster as it reaches the log, and the state that the log gave before it. Out: what is wrong, in
words. The Workloads are counted anew each time, from their states, and not from what the scored dispatcher keeps.
Choices that are appended together may have been taken in any order: one of them has to fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from controlplane.controllers.multikueue.context import WorkloadContext
from controlplane.controllers.multikueue.events import WinnerChosen, WinnerReleased
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import WorkloadGone, WorkloadObserved
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.kube.selectors import parse_selector
from controlplane.log.event import Recorded

RULE = "what must be spread is spread"


class SpreadRule:
    """Looks at choices, those that are appended together as such."""

    def __init__(self) -> None:
        self._together: dict[str, WinnerChosen] = {}
        self._at: datetime | None = None
        self._open: dict[str, str] = {}
        self._released: dict[str, str] = {}

    def released(self, recorded: Recorded, event: WinnerReleased) -> None:
        """Take note of a release: what is chosen in the same append may have been decided before it."""
        self._begin(recorded)
        self._released[recorded.stream] = event.cluster

    def moved(self, recorded: Recorded, state: WorkloadState | None) -> None:
        """Take note of a Workload that is seen to change: what is chosen in the same append was decided before that was
        known."""
        if (
            state is not None
            and state.local is not None
            and isinstance(recorded.event, WorkloadObserved | WorkloadGone)
        ):
            self._begin(recorded)
            if cluster := _cluster_of(state, state.local.cluster_queue):
                self._released.setdefault(recorded.stream, cluster)

    def _begin(self, recorded: Recorded) -> None:
        if self._at != recorded.recorded_at:
            self._together, self._released, self._at = {}, {}, recorded.recorded_at

    def wrong(self, index: WorkloadIndex, recorded: Recorded, event: WinnerChosen) -> str:
        """Return why a cluster must not have been chosen; "" if it may have been, or may turn out to with those that
        are appended with it.
        """
        stream, chosen = recorded.stream, {recorded.stream: event.cluster}
        self._begin(recorded)
        for one in list(self._open):
            if not too_many(index, one, self._together[one], {one: "", **chosen}):
                del self._open[one]
        wrong = too_many(index, stream, event) and too_many(index, stream, event, self._released)
        if wrong and self._together and not too_many(index, stream, event, dict.fromkeys(self._together, "")):
            # It fits if it came first; then the others have to fit after it.
            after = (too_many(index, one, each, {one: "", **chosen}) for one, each in self._together.items())
            wrong = next(filter(None, after), "")
        elif wrong:
            self._open[stream], wrong = wrong, ""  # it fits if one comes yet that was decided first
        self._together[stream] = event
        return wrong

    def left(self, recorded: Recorded) -> str:
        """Return what is wrong with a choice that none of those made right that were appended with it, all of which
        came before this event.
        """
        if not self._open or self._at == recorded.recorded_at:
            return ""
        stream, wrong = self._open.popitem()
        return f"{stream}: {wrong}"


def too_many(
    index: WorkloadIndex, stream: str, event: WinnerChosen, instead: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return why a cluster must not have been chosen; "" if it may have been, or if nothing has to be spread. `instead`
    says of some Workloads where they are, "" for nowhere.
    """
    rules, state = index.policy.scoring, index.workloads.get(stream)
    if rules is None or not rules.spread_required or state is None or state.local is None:
        return ""
    if state.remote(event.cluster).job is not None:
        return ""  # it is there already, perhaps since an attempt before
    context = index.context(state)
    labels = {name: {"metadata.name": name, **seen.labels} for name, seen in index.clusters.items()}
    domain = labels.get(event.cluster, {}).get(rules.spread_label)
    if domain is None:
        return f"{event.cluster} has no label {rules.spread_label}"
    placed = _placed(index, state.local.cluster_queue, labels, rules.spread_label, instead)
    least = min(placed[one] for one in [*_domains(context, labels, rules.spread_label), domain])
    if placed[domain] + 1 - least > rules.spread_max_skew:
        return f"{placed[domain]} are in {domain} already, and {least} in another"
    return ""


def _placed(
    index: WorkloadIndex,
    queue: str,
    labels: Mapping[str, Mapping[str, str]],
    label: str,
    instead: Mapping[str, str],
) -> Counter[str]:
    """Return how many Workloads of a queue are in each domain of the clusters there are."""
    found: Counter[str] = Counter()
    for stream, state in index.workloads.items():
        cluster = instead[stream] if stream in instead else _cluster_of(state, queue)
        if cluster and label in labels.get(cluster, {}):
            found[labels[cluster][label]] += 1
    return found


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
