"""Keeps since when in the log a run, what was made for it, and what it waits for are as they are.

In: states of a run before and after an event. Out: positions (`controlplane.runtime.facets`). The names are the UID of
an attempt, `placeholder/NAME`, `claim/NAME`, `pod/UID` for a placeholder's pod, `tasks/NAME` for the pods that follow a
placeholder, `waits/NAME` for a pod that waits for a node, and the target of a write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from controlplane.controllers.coscheduling.observations import ClaimObserved, CoschedulingObservation, PlaceholderReady
from controlplane.controllers.coscheduling.state import RunAttempt, RunState, said_on
from controlplane.runtime.facets import Facets, changes

K = TypeVar("K")
ATTEMPT: Facets[RunAttempt] = {
    "there": lambda attempt: attempt.live or None,
    "gone": lambda attempt: attempt.gone or None,
    "waits": lambda attempt: (attempt.run.waits or None) if attempt.run else None,
    "managed": lambda attempt: (attempt.run.managed_by or None) if attempt.run else None,
    "done": lambda attempt: (attempt.run.done or None) if attempt.run else None,
    "leaving": lambda attempt: (attempt.run.deleting or None) if attempt.run else None,
    "problems": lambda attempt: (attempt.run.problems or None) if attempt.run else None,
    "shows": lambda attempt: said_on(attempt.run) if attempt.run else None,
    "said": lambda attempt: (
        (attempt.refused, attempt.unfit, attempt.unsaid) if attempt.refused or attempt.unfit else None
    ),
    "pinned": lambda attempt: attempt.pinned.mode if attempt.pinned else None,
    "over": lambda attempt: attempt.over or None,
    "placeholders": lambda attempt: attempt.placeholders.keys() or None,
}
CLAIM: Facets[ClaimObserved] = {
    "there": lambda claim: claim.uid,
    "leaving": lambda claim: claim.deleting or None,
    "finalizers": lambda claim: claim.finalizers or None,
}
POD: Facets[CoschedulingObservation] = {
    "ready": lambda pod: (
        (pod.node, pod.tolerations) if isinstance(pod, PlaceholderReady) and not pod.deleting else None
    ),
}


class RunFacets:
    """The positions of all runs."""

    def __init__(self) -> None:
        self._positions: dict[str, dict[str, int]] = {}

    def note(self, stream: str, before: RunState, after: RunState, position: int) -> None:
        """Take note of a run as it was before an event of its stream and is after it."""
        positions = self._positions.setdefault(stream, {})
        for uid in _changed(before.attempts, after.attempts):
            one, other = before.attempts.get(uid), after.attempts.get(uid)
            positions |= changes(uid, ATTEMPT, one, other, position)
            positions |= {f"placeholder/{name}.there": position for name in _placeholders_of_one(one, other)}
        for uid in _changed(before.claims, after.claims):
            claims = before.claims.get(uid), after.claims.get(uid)
            name = next(claim.name for claim in claims if claim is not None)
            positions |= changes(f"claim/{name}", CLAIM, *claims, position)
        for uid in _changed(before.pods, after.pods):
            positions |= changes(f"pod/{uid}", POD, before.pods.get(uid), after.pods.get(uid), position)
        for uid in _changed(before.task_pods, after.task_pods):
            one_pod, other_pod = before.task_pods.get(uid), after.task_pods.get(uid)
            positions |= {f"tasks/{pod.placeholder}.pods": position for pod in (one_pod, other_pod) if pod is not None}
        for uid in before.waiting.keys() ^ after.waiting.keys():
            positions[f"waits/{(before.task_pods.get(uid) or after.task_pods[uid]).name}"] = position
        positions |= {f"{target}.trouble": position for target in _changed(before.trouble, after.trouble)}
        if _current(before) != _current(after):
            positions["current"] = position

    def of(self, stream: str) -> dict[str, int]:
        """Return the positions of a run."""
        return self._positions.get(stream, {})

    def forget(self, stream: str) -> None:
        """Drop the positions of a run of which nothing is left."""
        self._positions.pop(stream, None)


def _placeholders_of_one(before: RunAttempt | None, after: RunAttempt | None) -> list[str]:
    """Return the names of the placeholders that only one of two states of an attempt has."""
    was, now = (one.placeholders if one is not None else {} for one in (before, after))
    return [(was | now)[key].name for key in was.keys() ^ now.keys()]


def _current(state: RunState) -> str:
    return state.current.uid if state.current is not None else ""


def _changed(before: Mapping[K, object], after: Mapping[K, object]) -> set[K]:
    """Return the keys under which there is something else than before."""
    if before is after:
        return set()
    return {key for key in before.keys() | after.keys() if before.get(key) is not after.get(key)}
