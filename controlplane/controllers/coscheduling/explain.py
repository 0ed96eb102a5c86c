"""Why a PipelineRun's pods are where they are: its mode, its placeholders and what became of them, and what is left of
it.

In: the events of a run's stream. Out: an `Explanation`, of the fold by which the service decides. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.controllers.coscheduling.events import (
    ClaimRemovalDecided,
    CoschedulingFailed,
    ModePinned,
    PlaceholderEvicted,
    PlaceholderRemovalDecided,
    RunCompleted,
    RunRefused,
    named_in,
)
from controlplane.controllers.coscheduling.observations import PlaceholderReady, PlaceholderUnready
from controlplane.controllers.coscheduling.phrases import run_because
from controlplane.controllers.coscheduling.state import RunAttempt, RunState, fold
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import Explanation, Standing, answer, each, last
from controlplane.runtime.phrases import listed
from controlplane.runtime.stories import ObjectStories


def explain_run(stream: str, events: Sequence[Recorded]) -> Explanation:
    """Return where the pods of a run are kept, and why; of one that is over, what was cleaned up."""
    state = RunState.initial(stream)
    for recorded in events:
        state = fold(state, recorded)
    attempt = state.current or next(reversed(state.attempts.values()), None)
    pinned = last(events, ModePinned)
    mode = pinned.event.mode if pinned and isinstance(pinned.event, ModePinned) else ""
    if attempt is None or not attempt.live or attempt.over:
        return _over(state, attempt, mode, events)
    if attempt.refused:
        refused = last(events, RunRefused)
        sentence = f"It is not placed: {attempt.refused.rstrip('.')}."
        return answer(Standing("Rejected", "", "its spec to be mended"), sentence, refused)
    if attempt.run is not None and attempt.run.managed_by:
        sentence = f"It is managed by {attempt.run.managed_by}: nothing is made for it here."
        return answer(Standing("Pending"), sentence, pinned)
    if not mode:
        return answer(Standing("Pending", "", "its mode"), "It was seen, and its mode is not decided yet.", events[-1])
    return _kept_together(state, attempt, mode, pinned, events)


def _kept_together(
    state: RunState, attempt: RunAttempt, mode: str, pinned: Recorded | None, events: Sequence[Recorded]
) -> Explanation:
    kept = f"Its mode is {mode}, kept from its start."
    if mode == "disabled":
        return answer(Standing("Running"), f"{kept} Nothing keeps its pods together.", pinned)
    ready = any(isinstance(pod, PlaceholderReady) for pod in state.pods.values())
    stands = Standing("Running") if ready else Standing("Pending", "", "its placeholder")
    sentence = f"{kept} {_placeholders(state, attempt)} {_moved(events)} {_write_failures(state)}"
    rests = [
        pinned,
        last(events, PlaceholderReady, PlaceholderUnready),
        *each(events, PlaceholderEvicted),
        _failure(state, events),
    ]
    return answer(stands, sentence, *rests)


def _placeholders(state: RunState, attempt: RunAttempt) -> str:
    if not attempt.placeholders:
        return "It has no placeholder yet."
    parts = []
    for uid, made in sorted(attempt.placeholders.items(), key=lambda item: item[1].name):
        pod = next((one for one in state.pods.values() if one.owner == uid), None)
        beside = sum(task.placeholder == made.name for task in attempt.tasks.values())
        parts.append(f"placeholder {made.name} is {_where(pod)}, and {_followers(beside)}")
    return f"Its {listed(parts)}."


def _where(pod: PlaceholderReady | PlaceholderUnready | None) -> str:
    """Return where a placeholder is; of one without a node, what its scheduler says."""
    if isinstance(pod, PlaceholderReady):
        return f"on node {pod.node}"
    if pod is not None and pod.node:
        return f"not ready, on node {pod.node}"
    said = pod.complaint.rstrip(".") if pod is not None else ""
    return f"waiting for a node ({said})" if said else "waiting for a node"


def _followers(count: int) -> str:
    return {0: "no task follows it yet", 1: "1 task follows it"}.get(count, f"{count} tasks follow it")


def _moved(events: Sequence[Recorded]) -> str:
    moves = [one.event for one in each(events, PlaceholderEvicted) if isinstance(one.event, PlaceholderEvicted)]
    parts = [f"away from {move.node} because {run_because(move)}" for move in moves]
    return f"It was moved {listed(parts)}." if parts else ""


def _write_failures(state: RunState) -> str:
    refused = [f"{named_in(target)}: {one.message or one.error}" for target, one in sorted(state.trouble.items())]
    return f"The API server refuses {'; '.join(refused)}." if refused else ""


def _failure(state: RunState, events: Sequence[Recorded]) -> Recorded | None:
    return last(events, CoschedulingFailed) if state.trouble else None


def _over(state: RunState, attempt: RunAttempt | None, mode: str, events: Sequence[Recorded]) -> Explanation:
    completed = last(events, RunCompleted)
    gone = attempt is None or not attempt.live
    why = run_because(completed.event) if completed and isinstance(completed.event, RunCompleted) else "the run is gone"
    removed, left = _removed(events), sorted(_left(state))
    first = f"It is over, because {why}." if not gone else "It is gone."
    cleaned = f" Cleaned up: {listed(removed)}." if removed else ""
    rest = f" Still there: {listed(left)}." if left else " Nothing that was made for it is left."
    kept = f" Its mode was {mode}." if mode else ""
    stands = Standing("Deleted" if gone else "Finished", "", "what was made for it to go" if left and removed else "")
    rests = [completed, *each(events, PlaceholderEvicted, PlaceholderRemovalDecided, ClaimRemovalDecided)]
    return answer(stands, f"{first}{kept} {_moved(events)}{cleaned}{rest}", *(rests if any(rests) else [events[-1]]))


def _removed(events: Sequence[Recorded]) -> list[str]:
    """Return the names of what was made for a run and was removed, each once."""
    removals = (one.event for one in events)
    return list(
        dict.fromkeys(e.name for e in removals if isinstance(e, PlaceholderRemovalDecided | ClaimRemovalDecided))
    )


def _left(state: RunState) -> Iterator[str]:
    """Yield the names of what was made for a run and is still there."""
    yield from (one.name for one in state.claims.values())
    for attempt in state.attempts.values():
        yield from (made.name for made in attempt.placeholders.values())


STORIES = ObjectStories(
    words=dict.fromkeys(("pipelinerun", "pipelineruns", "pr"), "pipelinerun"),
    streams=lambda kind, namespace, name: [f"pipelinerun/{namespace}/{name}"] if kind == "pipelinerun" else [],
    explain={"pipelinerun": lambda found: explain_run(found.stream, found.events)},
    absent={"pipelinerun": "PipelineRuns are recorded while the controller coscheduling runs"},
)
