"""Says which event a decision about a PipelineRun or Tekton's ConfigMaps rests on: of all that had to be so, what came
last.

In: a decision, and positions (`controlplane.controllers.coscheduling.facets`). Out: a position in the log, for
`caused_by`. Pure: one table, and a rule for which streams may cause what."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.decide import CLAIM_FAILED, wanted_placeholders
from controlplane.controllers.coscheduling.names import pod_name
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.controllers.coscheduling.state import RunAttempt, RunState
from controlplane.runtime.facets import FacetPositions, Table, Words, cause_of

R = CoschedulingReason
# A run that nobody else manages, and that is the one of its name.
_OURS = ("{run}.managed", "current", "view")
_BEGINS = ("{run}.there", "{run}.waits", "{run}.done", "{run}.leaving", "{left}", "{parent}", *_OURS)
_PINNED = (*_BEGINS, "flags")
_SAID = ("{run}.said", "{target}.trouble")
_GOES_ON = ("{run}.pinned", "{run}.problems", "{run}.waits", "{target}.trouble", *_OURS)
_CLEANED = ("{run}.over", "{target}.trouble", "view")
_CLAIM_GOES = ("{run}.placeholders", "claim/{name}.there", *_CLEANED)
_MOVED = ("pod/{uid}.ready", "{run}.pinned", "{target}.trouble", "current", "view")
_NEVER = ("waits/{pod}", "{placed}.ready", "nodes", "volumes", "{run}.pinned", "{target}.trouble", "current", "view")
CAUSES: Table = {
    events.ClusterChosen: {R.SEEN_HERE: _PINNED},
    events.ModePinned: dict.fromkeys((R.RUN_STARTED, R.PARENT_IS_ISOLATED), _PINNED),
    events.RunCompleted: {
        R.RUN_FINISHED: ("{run}.done", "{run}.pinned", "{left}", *_OURS),
        R.RUN_DELETED: ("{run}.leaving", "{run}.gone", "{run}.pinned", "{left}", "view"),
    },
    events.AttemptFenced: {R.RECREATED: ("{run}.pinned", "current", "view")},
    events.RunRefused: {
        R.SEVERAL_CLAIMS: (*_GOES_ON, *_SAID),
        R.BAD_INPUT: (*_GOES_ON, *_SAID, "{failed}.trouble", "{wanted}.there"),
        R.VOLUMES_APART: (*_GOES_ON, *_SAID, "volumes"),
    },
    events.RefusalWithdrawn: {
        R.NOTHING_IN_THE_WAY: (*_GOES_ON, "{run}.shows", "{claims}.there", "{wanted}.there", "volumes")
    },
    events.ClaimCreationDecided: {R.CLAIM_FROM_TEMPLATE: ("claim/{name}.there", *_GOES_ON)},
    events.PlaceholderCreationDecided: dict.fromkeys(
        (R.ONE_PER_RUN, R.WORKSPACE_HAS_A_CLAIM), ("placeholder/{name}.there", *_GOES_ON)
    ),
    events.PlaceholderEvicted: {
        **dict.fromkeys((R.NODE_CORDONED, R.TAINT_NOT_TOLERATED), ("node/{node}.fit", *_MOVED)),
        R.TASK_EXCLUDED: ("tasks/{placeholder}.pods", "beside.pods", "nodes", "volumes", *_MOVED),
        R.POD_LIMIT: ("tasks/{placeholder}.pods", "beside.pods", *_MOVED),
    },
    events.UnfitTaskTold: {R.TASK_NEVER_FITS: (*_NEVER, *_SAID)},
    events.TaskEndDecided: {R.TASK_NEVER_FITS: _NEVER},
    events.PlaceholderRemovalDecided: {R.ATTEMPT_OVER: ("placeholder/{name}.there", "beside.over", *_CLEANED)},
    events.ClaimRemovalDecided: dict.fromkeys((R.TEMPLATE_CLAIM, R.AUTO_CLEANUP), _CLAIM_GOES),
    events.ClaimReleaseDecided: dict.fromkeys(
        (R.TEMPLATE_CLAIM, R.AUTO_CLEANUP), ("claim/{name}.leaving", "claim/{name}.finalizers", *_CLAIM_GOES)
    ),
    events.FlagsRefused: {R.BAD_FLAGS: ("refusal",)},
}
"""What each kind of decision may rest on, by its reason; the words in braces are those of `words_of`."""

MAY_CAUSE: Mapping[str, frozenset[str]] = {
    "pipelinerun": frozenset(("pipelinerun", "node", "volume", "cluster")),
    "coscheduling": frozenset(("coscheduling",)),
}
"""First words of the streams on which there is the cause of what is decided on a stream, by its first word."""


def may_cause(cause: str, stream: str) -> bool:
    """Whether an event on one stream can be what a decision on another rests on, by their names."""
    first, of = cause.partition("/")[0], stream.partition("/")[0]
    if first == of == "pipelinerun" and cause.rpartition("/")[0] == stream.rpartition("/")[0]:
        return True  # a run may be a task of another one of its namespace
    return first in MAY_CAUSE.get(of, frozenset()) and (first != of or cause == stream)


def cause(decision: events.CoschedulingDecision, state: RunState, positions: FacetPositions) -> int:
    """Return the position of the event that a decision about a run rests on; 0 if none is known."""
    return cause_of(CAUSES, decision, positions, words_of(decision, state))


def words_of(decision: events.CoschedulingDecision, state: RunState) -> Words:
    """Return what the words in the table stand for. `left` is what is there of a run that is over before it began here,
    `failed` the claims that an API server refused, where that is why a run is refused, `claims` those that are there,
    `wanted` the placeholders that it is to have, or those of them that are nobody's, where that may be why it is
    refused, `placed` the pod of the placeholder.
    """
    uid = str(getattr(decision, "attempt_uid", "") or getattr(decision, "uid", ""))
    attempt = state.attempts.get(uid) or RunAttempt(uid=uid)
    placeholder = str(getattr(decision, "placeholder", ""))
    return {
        "run": (uid,),
        "parent": ("parent.pinned",) if attempt.run is not None and attempt.run.parent else (),
        "left": (f"{uid}.placeholders",) if _begins_at_its_end(attempt) else (),
        "failed": _failed(decision, state),
        "wanted": [f"placeholder/{name}" for name in _wanted(decision, state, attempt)],
        "claims": [f"claim/{one.name}" for one in state.claims_of(attempt)],
        "placed": [f"pod/{key}" for key, pod in state.pods.items() if pod.name == pod_name(placeholder)],
        "target": (decision.target,) if isinstance(decision, events.CoschedulingWrite) else (),
        **{field: (str(getattr(decision, field, "")),) for field in ("name", "uid", "node", "placeholder", "pod")},
    }


def _failed(decision: events.CoschedulingDecision, state: RunState) -> list[str]:
    if not isinstance(decision, events.RunRefused) or decision.condition_reason != CLAIM_FAILED:
        return []
    return [target for target, one in state.trouble.items() if one.action == events.ClaimCreationDecided.__name__]


def _wanted(decision: events.CoschedulingDecision, state: RunState, attempt: RunAttempt) -> list[str]:
    names, nobodys = wanted_placeholders(attempt), state.attempts.get("")
    if not isinstance(decision, events.RunRefused):
        return names
    return [name for name in names if nobodys is not None and nobodys.placeholder(name) is not None]


def _begins_at_its_end(attempt: RunAttempt) -> bool:
    """Whether a run is over that was never placed here."""
    return attempt.run is not None and (attempt.run.done or attempt.run.deleting) and attempt.pinned is None
