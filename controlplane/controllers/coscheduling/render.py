"""From an open write to the request that carries it out, and to the Kubernetes Event that tells the user.

In: the decision, the attempt's run as it was recorded, the defaults it was pinned with. Out:
`controlplane.kube.kinds.Request`. Objects are built by the same functions as in the dry run. Deletions carry the UID
that was decided on; creations the label by which a lost answer's object is known again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.flags import Flags, Mode
from controlplane.controllers.coscheduling.objects import CLAIMS, PODS, RUN_LABEL, STATEFUL_SETS, TASK_RUNS, read_run
from controlplane.controllers.coscheduling.placement.placeholders import Style, claims, stateful_sets
from controlplane.controllers.coscheduling.placement.templates import Defaults, read_defaults, with_defaults
from controlplane.controllers.coscheduling.state import CONDITION, RunAttempt
from controlplane.kube.kinds import PIPELINE_RUNS, ObjectRef, Request, meta
from controlplane.kube.requests import Obsolete, body_in, event_about, timestamp

_DELETES = {
    events.PlaceholderEvicted: PODS,
    events.PlaceholderRemovalDecided: STATEFUL_SETS,
    events.ClaimRemovalDecided: CLAIMS,
}


def bodies_needed(decision: events.CoschedulingWrite, attempt: RunAttempt) -> list[str]:
    """Return the refs of the bodies that rendering a write needs."""
    if not isinstance(decision, events.PlaceholderCreationDecided | events.ClaimCreationDecided) or attempt.run is None:
        return []
    defaults = attempt.pinned.defaults if attempt.pinned is not None else ""
    return [attempt.run.run, *([defaults] if defaults else [])]


def render(
    decision: events.CoschedulingWrite,
    attempt: RunAttempt,
    namespace: str,
    bodies: Mapping[str, bytes],
    style: Style,
    now: datetime,
) -> Request:
    """Return the request of a write; `Obsolete` if its object is gone. `style` is the cluster's; the flags are the
    attempt's.
    """
    match decision:
        case events.PlaceholderCreationDecided() | events.ClaimCreationDecided():
            return _creation(decision, attempt, namespace, bodies, style)
        case events.PlaceholderEvicted() | events.PlaceholderRemovalDecided() | events.ClaimRemovalDecided():
            return Request("delete", ObjectRef(_DELETES[type(decision)], namespace, decision.name), uid=decision.uid)
        case events.ClaimReleaseDecided():
            return Request(
                "patch",
                ObjectRef(CLAIMS, namespace, decision.name),
                {"metadata": {"finalizers": decision.finalizers or None}},
                uid=decision.uid,
                resource_version=decision.resource_version,
            )
        case events.RunRefused() | events.UnfitTaskTold() | events.RefusalWithdrawn():
            return _refusal(decision, attempt, namespace, now)
        case events.TaskEndDecided():
            ended = {"status": "TaskRunCancelled", "statusMessage": decision.message}
            return Request("patch", ObjectRef(TASK_RUNS, namespace, decision.name), {"spec": ended}, uid=decision.uid)
        case _:
            raise Obsolete(f"no request is known for {type(decision).__name__}")


def _creation(
    decision: events.PlaceholderCreationDecided | events.ClaimCreationDecided,
    attempt: RunAttempt,
    namespace: str,
    bodies: Mapping[str, bytes],
    style: Style,
) -> Request:
    if attempt.run is None or attempt.pinned is None or attempt.gone:
        raise Obsolete("the run is gone")
    mode = Mode(attempt.pinned.mode)
    style = msgspec.structs.replace(style, flags=_flags(attempt.pinned), defaults=_defaults(attempt.pinned, bodies))
    run = with_defaults(read_run(body_in(bodies, attempt.run.run)), style.defaults)
    run = msgspec.structs.replace(run, follows=attempt.pinned.follows)
    is_claim = isinstance(decision, events.ClaimCreationDecided)
    wanted = claims(run, mode) if is_claim else stateful_sets(run, mode, style)
    body = next((obj for obj in wanted if meta(obj)["name"] == decision.name), None)
    if body is None:
        raise Obsolete(f"the run has no use for {decision.name} any more")
    ref = ObjectRef(CLAIMS if is_claim else STATEFUL_SETS, namespace, decision.name)
    # A claim carries the labels of its template alone; its name, made of the run's UID, is mark enough.
    return Request("create", ref, body, owner_label=None if is_claim else (RUN_LABEL, run.name))


def _flags(pinned: events.ModePinned) -> Flags:
    return Flags(
        mode=Mode(pinned.mode), set_security_context=pinned.set_security_context, read_only_root=pinned.read_only_root
    )


def _defaults(pinned: events.ModePinned, bodies: Mapping[str, bytes]) -> Defaults:
    return read_defaults(body_in(bodies, pinned.defaults)) if pinned.defaults else Defaults()


def _refusal(
    decision: events.RunRefused | events.UnfitTaskTold | events.RefusalWithdrawn,
    attempt: RunAttempt,
    namespace: str,
    now: datetime,
) -> Request:
    """Return the patch of a run's conditions: ours is the one that the decision says, or none; others' stay."""
    if attempt.run is None or attempt.gone:
        raise Obsolete("the run is gone")
    conditions = [one for one in attempt.run.conditions if one.get("type") != CONDITION]
    if not isinstance(decision, events.RefusalWithdrawn):
        entry = {
            "type": CONDITION,
            "status": "False",
            "reason": decision.condition_reason,
            "message": decision.message,
            "lastTransitionTime": timestamp(now),
        }
        conditions.append(entry)
    return Request(
        "patch",
        ObjectRef(PIPELINE_RUNS, namespace, decision.name),
        {"status": {"conditions": conditions}},
        subresource="status",
        resource_version=decision.resource_version,
        uid=attempt.uid,
    )


def announcement(
    decision: events.CoschedulingWrite, namespace: str, run: str, position: int, identity: str, now: datetime
) -> Request | None:
    """Return the Kubernetes Event that tells of a refusal or a move; None for a write that tells nobody.

    The name is made of the decision's position, so an Event that is sent twice is refused the second time.
    """
    match decision:
        case events.RunRefused() | events.UnfitTaskTold():
            kind, reason, note = "Warning", decision.condition_reason, decision.message
        case events.PlaceholderEvicted():
            kind, reason, note = "Normal", "PlaceholderEvicted", f"pod {decision.name} is moved: {decision.detail}"
        case _:
            return None
    ref, suffix = ObjectRef(PIPELINE_RUNS, namespace, run), f"{position:x}"
    return event_about(ref, decision.attempt_uid, kind, reason, note, suffix, identity, now)
