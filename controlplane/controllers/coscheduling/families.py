"""Keeps which runs are tasks of others: children of an isolated run share its placeholder, and its pod limit.

In: states of runs, as they are folded. Out: for a run, the attempt whose task it is, the pods of its descendants, and
which other runs an event concerns. A parent is told by name and UID, so a run of the same name that came later is
none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controlplane.controllers.coscheduling import observations
from controlplane.controllers.coscheduling.events import ModePinned
from controlplane.controllers.coscheduling.facets import RunFacets
from controlplane.controllers.coscheduling.observe import run_stream
from controlplane.controllers.coscheduling.state import RunAttempt, RunState
from controlplane.log.event import Event, Unknown

_OF_PODS = (observations.TaskPodObserved, observations.TaskPodGone)
_OF_PARENTS = (observations.WorkerRunObserved, observations.WorkerRunGone, ModePinned)


def parent_in(runs: Mapping[str, RunState], state: RunState) -> RunAttempt | None:
    """Return the attempt whose task the current attempt of a run is; None if it is nobody's, or that is gone."""
    current = state.current
    if current is None or current.run is None or not current.run.parent:
        return None
    found = runs.get(run_stream(state.namespace, current.run.parent))
    return found.attempts.get(current.run.parent_uid) if found is not None else None


class Families:
    """The parents and children of runs, by stream."""

    def __init__(self) -> None:
        self._parent: dict[str, tuple[str, str]] = {}  # by stream: the parent's stream and UID
        self._children: dict[str, dict[str, None]] = {}

    def note(self, stream: str, state: RunState) -> None:
        """Take a run as it is now."""
        current = state.current
        run = current.run if current is not None else None
        found = (run_stream(state.namespace, run.parent), run.parent_uid) if run is not None and run.parent else None
        if self._parent.get(stream) == found:
            return
        self.forget(stream)
        if found is not None:
            self._parent[stream] = found
            self._children.setdefault(found[0], {})[stream] = None

    def forget(self, stream: str) -> None:
        """Drop a run of which nothing is left."""
        before = self._parent.pop(stream, None)
        if before is not None:
            children = self._children.get(before[0], {})
            children.pop(stream, None)
            if not children:
                self._children.pop(before[0], None)

    def concerned(self, stream: str, event: Event | Unknown) -> Iterator[str]:
        """Yield the other runs that an event of a run concerns: children wait for its mode, and its pods count for
        whose placeholder they follow.
        """
        if isinstance(event, _OF_PARENTS):
            yield from self._children.get(stream, ())
        if isinstance(event, (*_OF_PODS, *_OF_PARENTS)):
            yield from self._ancestors(stream)

    def beside(self, stream: str, runs: Mapping[str, RunState]) -> Sequence[observations.TaskPodObserved]:
        """Return the pods of a run's descendants."""
        found = (runs[one] for one in self._descendants(stream) if one in runs)
        return [pod for state in found for pod in state.task_pods.values()]

    def followed(self, stream: str, runs: Mapping[str, RunState]) -> frozenset[str]:
        """Return the placeholders that a run's descendants still follow: they stay until those are over, too."""
        attempts = (one for name in self._descendants(stream) if name in runs for one in runs[name].attempts.values())
        return frozenset(one.pinned.follows for one in attempts if one.pinned is not None and one.live and not one.over)

    def positions(self, stream: str, of: RunFacets) -> dict[str, int]:
        """Return since when the parent of a run, and the pods of its descendants, are as they are."""
        found: dict[str, int] = {}
        if (parent := self._parent.get(stream)) is not None:
            positions = of.of(parent[0])
            found["parent.pinned"] = positions.get(f"{parent[1]}.pinned", 0)
        for child in self._descendants(stream):
            for name, position in of.of(child).items():
                if name.startswith("tasks/"):
                    found["beside.pods"] = max(found.get("beside.pods", 0), position)
                elif name.endswith((".over", ".gone")):
                    found["beside.over"] = max(found.get("beside.over", 0), position)
        return found

    def _ancestors(self, stream: str) -> Iterator[str]:
        seen = {stream}
        while (found := self._parent.get(stream)) is not None and found[0] not in seen:
            stream = found[0]
            seen.add(stream)
            yield stream

    def _descendants(self, stream: str) -> list[str]:
        found: dict[str, None] = {}
        ahead = list(self._children.get(stream, ()))
        while ahead:
            one = ahead.pop()
            if one not in found and one != stream:
                found[one] = None
                ahead += self._children.get(one, ())
        return list(found)
