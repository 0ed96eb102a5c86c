"""All gangs of a source cluster, and the pods that name them.

In: events of groups, and source pods as they are folded. Out: which groups and which pods are to be decided about, and
what a pod looks at of its gang. A change of a member of which nothing can follow costs no look at the others."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controlplane.controllers.candidates.source import gang_state
from controlplane.controllers.candidates.source.gang_counts import GangCounts, standing_of
from controlplane.controllers.candidates.source.gang_spared import Outlook, spares_free, spares_placed, spares_short
from controlplane.controllers.candidates.source.gang_state import (
    GangView,
    SourceGangState,
    fold_group,
    group_of,
    group_stream,
)
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.log.event import Recorded

_replace = msgspec.structs.replace


class SourceGangs:
    """The groups of a source cluster and the pods that name them, as they are folded. `unseen`: why PodGroups cannot be
    seen.
    """

    GIVEN = ("_views", "_counts", "outlooks")

    def __init__(self) -> None:
        self.groups: dict[str, SourceGangState] = {}
        self.unseen = ""
        self._members: dict[str, dict[str, SourceState]] = {}
        self._of: dict[str, str] = {}
        self._views: dict[str, GangView] = {}
        self._told: dict[str, GangView] = {}
        self._stale: dict[str, None] = {}
        self._counts: dict[str, GangCounts] = {}
        self.outlooks: dict[str, Outlook] = {}

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a group."""
        stream = recorded.stream
        after = fold_group(self.groups.get(stream) or SourceGangState.initial(stream), recorded)
        self.groups[stream] = after
        self._tidy(stream)
        self._changed(stream)

    def member(self, stream: str, state: SourceState | None) -> None:
        """Take note of a pod as it is after a fold; None once nothing is left of it."""
        pod = state.pod if state is not None else None
        group = group_stream(pod.namespace, pod.group) if pod is not None and pod.group else ""
        before = self._of.get(stream, "")
        if before and before != group:
            left = self._members[before].pop(stream)
            if before in self._counts:
                self._counts[before].change(standing_of(left), None)
            del self._of[stream]
            self._changed(before)
            self._tidy(before)
        if group and state is not None:
            known = self._members.setdefault(group, {}).get(stream)
            counts = self.counts(group)
            counts.change(standing_of(known) if known is not None else None, standing_of(state))
            self._of[stream] = group
            self._members[group][stream] = state
            if not self._spares(group, counts, known, state):
                self._changed(group)

    def look(self, stream: str) -> None:
        """Look again at the group of a pod, of which something has changed that is not its own."""
        if (group := self._of.get(stream)) is not None:
            self._changed(group)

    def _spares(self, stream: str, counts: GangCounts, before: SourceState | None, after: SourceState) -> bool:
        """Whether nothing follows for a group from a change of a member."""
        group, now = self.state(stream), standing_of(after)
        was, placed = standing_of(before) if before is not None else None, group.placed
        if stream in self._stale:
            return False
        if placed is not None:
            if was is None or not placed.stands:
                return False
            return spares_placed(placed.cluster, placed.least, counts, was, now, formed=placed.formed)
        if group_of(group) is not None and spares_short(group.least, counts, was, now):
            return True
        outlook, says = self.outlooks.get(stream), group.waits is not None
        if outlook is None or before is None:
            return False
        return spares_free(group.least, says, outlook, counts, before, after)

    def _changed(self, stream: str) -> None:
        self._stale[stream] = None
        self._views.pop(stream, None)
        self.outlooks.pop(stream, None)

    def _tidy(self, stream: str) -> None:
        """Forget a group that is gone and has no pods, unless it has to be said yet that nobody runs."""
        if not self._members.get(stream):
            self._members.pop(stream, None)
            self._counts.pop(stream, None)
            known = self.groups.get(stream)
            if known is not None and known.seen is None and known.placed is None:
                del self.groups[stream]
                self._told.pop(stream, None)

    def touch_all(self) -> None:
        """Look at every group again."""
        for stream in {**self.groups, **self._members}:
            self._changed(stream)

    def take_changed(self) -> tuple[list[str], list[str]]:
        """Return the groups to decide about since the last call, and the pods for which something has changed by it."""
        stale, self._stale = list(self._stale), {}
        pods: dict[str, None] = {}
        for stream in stale:
            if not self._members.get(stream):
                self._told.pop(stream, None)
                continue
            view = _replace(self._look(stream), version=0)
            if self._told.get(stream) != view:
                self._told[stream] = view
                pods.update(dict.fromkeys(self._members[stream]))
        return [stream for stream in stale if stream in self.groups], list(pods)

    def _look(self, stream: str) -> GangView:
        view = self._views.get(stream)
        if view is None:
            # Named by its module, since a test takes another in its place.
            view = gang_state.view_of(stream, self.state(stream), self.counts(stream), self.unseen)
            self._views[stream] = view
        return view

    def counts(self, stream: str) -> GangCounts:
        """Return how the pods of a group stand."""
        found = self._counts.get(stream)
        if found is None:
            found = self._counts[stream] = GangCounts(self.members(stream).values())
        return found

    def state(self, stream: str) -> SourceGangState:
        """Return a group as it is folded."""
        return self.groups.get(stream) or SourceGangState.initial(stream)

    def members(self, stream: str) -> Mapping[str, SourceState]:
        """Return the pods of a group, by stream."""
        return self._members.get(stream, {})

    def view(self, pod_stream: str) -> GangView | None:
        """Return what a pod's decision looks at of its gang; None if it is in none."""
        stream = self._of.get(pod_stream)
        return self._look(stream) if stream is not None else None
