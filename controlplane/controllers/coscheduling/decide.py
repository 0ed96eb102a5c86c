"""Decides what follows for one run: pin its mode, create what it lacks, move a placeholder off an unfit node, and take
everything away at the end.

In: the state of a run, its surroundings, the time. Out: decisions. An attempt that is over (done, deleted, or overtaken
by another of its name) is cleaned up by one rule: whatever was made for it and is still there goes, by UID. A pass that
finds nothing to do says nothing."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.moving import move
from controlplane.controllers.coscheduling.names import claim_name, placeholder_name
from controlplane.controllers.coscheduling.objects import STATEFUL_SETS, Binding, PipelineRun
from controlplane.controllers.coscheduling.observations import WorkerRunObserved
from controlplane.controllers.coscheduling.placement.cleanup import claims_go
from controlplane.controllers.coscheduling.placement.existing import name_taken
from controlplane.controllers.coscheduling.placement.placeholders import placeholder_of_claims
from controlplane.controllers.coscheduling.reasons import CoschedulingReason
from controlplane.controllers.coscheduling.run_pass import RunContext, RunPass
from controlplane.controllers.coscheduling.state import RunAttempt, RunState, said_on
from controlplane.controllers.coscheduling.validation import volumes_problem
from controlplane.kube.well_known import PVC_PROTECTION
from controlplane.runtime.decision_pass import PassResult
from controlplane.runtime.writes import WriteFailure

REFUSED, CLAIM_FAILED = "CoschedulingRefused", "CouldntCreateWorkspacePVC"
_QUOTA = "exceeded quota"


def decide(state: RunState, around: RunContext, now: datetime) -> PassResult[events.CoschedulingDecision]:
    """Return what follows for a run."""
    pass_ = RunPass(state, around, now)
    if not around.ready:
        return pass_.plan
    current = state.current
    for attempt in state.attempts.values():
        if attempt.over:
            _clean(pass_, attempt)
        elif attempt.pinned is not None and attempt is not current:
            _end(pass_, attempt, overtaken=current is not None)
    if current is not None and not current.over:
        _advance(pass_, current)
    return pass_.plan


def _end(pass_: RunPass, attempt: RunAttempt, *, overtaken: bool) -> None:
    if overtaken:
        pass_.say(events.AttemptFenced(uid=attempt.uid, cluster=attempt.cluster, reason=CoschedulingReason.RECREATED))
    else:
        pass_.say(events.RunCompleted(uid=attempt.uid, reason=CoschedulingReason.RUN_DELETED))


def _advance(pass_: RunPass, attempt: RunAttempt) -> None:
    run = attempt.run
    assert run is not None
    if run.managed_by:
        return
    if run.done or run.deleting:
        _finish(pass_, attempt, run)
    elif attempt.pinned is not None:
        _go_on(pass_, attempt, run, Mode(attempt.pinned.mode))
    elif not run.waits and pass_.around.sees_flags and not _parent_comes_first(pass_.around.parent):
        _pin(pass_, attempt)


def _finish(pass_: RunPass, attempt: RunAttempt, run: WorkerRunObserved) -> None:
    """Say that a run is over, if anything may have been made for it."""
    if attempt.pinned is not None or attempt.placeholders:
        reason = CoschedulingReason.RUN_FINISHED if run.done else CoschedulingReason.RUN_DELETED
        _pin(pass_, attempt)
        pass_.say(events.RunCompleted(uid=attempt.uid, reason=reason))


def _go_on(pass_: RunPass, attempt: RunAttempt, run: WorkerRunObserved, mode: Mode) -> None:
    """Refuse a run that cannot be placed; else create what it lacks, and move its placeholders off unfit nodes."""
    if run.waits:
        return
    if _refuse(pass_, attempt, run, mode) or _volumes_part(pass_, attempt, run, mode) or _taken(pass_, attempt, run):
        return
    _withdraw(pass_, run)
    if mode is not Mode.DISABLED or any(one.template for one in run.workspaces):
        _create(pass_, attempt, run, mode)
    for placeholder in attempt.placeholders.values():
        move(pass_, attempt, placeholder.name, placeholder.uid)


def _pin(pass_: RunPass, attempt: RunAttempt) -> None:
    if attempt.pinned is not None:
        return
    flags = pass_.around.flags
    number = 1 + max((one.number for one in pass_.state.attempts.values()), default=0)
    pass_.say(
        events.ClusterChosen(
            cluster=pass_.around.cluster, uid=attempt.uid, attempt=number, reason=CoschedulingReason.SEEN_HERE
        )
    )
    began = _began_in(attempt, flags.mode)
    shared = _shared(pass_.around.parent) if began is None else ""
    pass_.say(
        events.ModePinned(
            uid=attempt.uid,
            mode=(Mode.ISOLATE if shared else began or flags.mode).value,
            set_security_context=flags.set_security_context,
            read_only_root=flags.read_only_root,
            defaults=pass_.around.defaults,
            follows=shared,
            reason=CoschedulingReason.PARENT_IS_ISOLATED if shared else CoschedulingReason.RUN_STARTED,
        )
    )


def _parent_comes_first(parent: RunAttempt | None) -> bool:
    """Whether the mode of a run whose task this is will be decided, and is not yet: this one may have to share its
    placeholder.
    """
    if parent is None or parent.pinned is not None or not parent.live or parent.over:
        return False
    run = parent.run
    return run is not None and not (run.managed_by or run.waits or run.done or run.deleting)


def _shared(parent: RunAttempt | None) -> str:
    """Return the placeholder of the isolated run whose task a run is; "" if there is none.

    Both would avoid each other's node, and their tasks use the same claims."""
    if parent is None or parent.pinned is None or not parent.live or parent.over or parent.run is None:
        return ""
    if Mode(parent.pinned.mode) is not Mode.ISOLATE:
        return ""
    return parent.pinned.follows or placeholder_name("", parent.run.name)


def _began_in(attempt: RunAttempt, flag: Mode) -> Mode | None:
    """Return the mode that a run shows that began before it was seen here; None if it has just begun."""
    assert attempt.run is not None
    single = placeholder_name("", attempt.run.name)
    for placeholder in attempt.placeholders.values():
        if placeholder.name != single:
            return Mode.WORKSPACES
        return Mode.ISOLATE if placeholder.isolates else Mode.PIPELINERUNS
    followed = {task.placeholder for task in attempt.tasks.values()} - {""}
    if followed:
        return (flag if flag.per_run else Mode.PIPELINERUNS) if single in followed else Mode.WORKSPACES
    return None


# --- creation --------------------------------------------------------------------------------------------------------


def _refuse(pass_: RunPass, attempt: RunAttempt, run: WorkerRunObserved, mode: Mode) -> bool:
    """Say once on the run why it cannot be placed; return whether it cannot."""
    problems = run.problems.get(mode.value) or []
    if problems:
        message = "\n".join(f"{one.object}: {one.field}: {one.what}; {one.todo}" for one in problems)
        several = any("more than one PersistentVolumeClaim" in one.what for one in problems)
        reason = CoschedulingReason.SEVERAL_CLAIMS if several else CoschedulingReason.BAD_INPUT
        _say_refused(pass_, attempt, run, REFUSED, message, reason)
        return True
    for target, trouble in _claim_trouble(pass_, run).items():
        if _is_final(trouble.code, trouble.message):
            message = (
                f"Failed to create PVC for PipelineRun {run.namespace}/{run.name}: {events.named_in(target)}: "
                f"{trouble.message}"
            )
            _say_refused(pass_, attempt, run, CLAIM_FAILED, message, CoschedulingReason.BAD_INPUT)
            pass_.wake_at(trouble.until)
            return pass_.now < trouble.until
    return False


def _taken(pass_: RunPass, attempt: RunAttempt, run: WorkerRunObserved) -> bool:
    """Say once on the run that a placeholder of its name is nobody's; return whether one is: it is neither used nor
    deleted."""
    left = pass_.state.attempts.get("")
    names = wanted_placeholders(attempt) if left is not None else []
    found = next((one for name in names if left is not None and (one := left.placeholder(name)) is not None), None)
    if found is None:
        return False
    problem = name_taken({"kind": STATEFUL_SETS.kind, "metadata": {"name": found.name}}, outline(run))
    _say_refused(pass_, attempt, run, REFUSED, str(problem), CoschedulingReason.BAD_INPUT)
    return True


def wanted_placeholders(attempt: RunAttempt) -> list[str]:
    """Return the names of the placeholders that an attempt is to have, none before its mode is decided."""
    run, pinned = attempt.run, attempt.pinned
    if run is None or pinned is None or pinned.follows or Mode(pinned.mode) is Mode.DISABLED:
        return []
    if Mode(pinned.mode).per_run:
        return [placeholder_name("", run.name)]
    return list(dict.fromkeys(placeholder_of_claims(outline(run), Mode(pinned.mode)).values()))


def _claim_trouble(pass_: RunPass, run: WorkerRunObserved) -> dict[str, WriteFailure]:
    """Return what was said against creating claims for a run, by target; not what was said against those of an earlier
    one of its name.
    """
    made = [claim_name(one.base, one.name, run.uid) for one in run.workspaces if one.template]
    targets = [events.target_of(pass_.around.cluster, "PersistentVolumeClaim", name) for name in made]
    found = {target: pass_.state.trouble[target] for target in targets if target in pass_.state.trouble}
    return {target: one for target, one in found.items() if one.action == events.ClaimCreationDecided.__name__}


def _withdraw(pass_: RunPass, run: WorkerRunObserved) -> None:
    """Take back what was said on a run, once nothing of it holds."""
    told = said_on(run)
    if told is None or told.get("reason") not in (REFUSED, CLAIM_FAILED) or _claim_trouble(pass_, run):
        return
    pass_.write(events.RefusalWithdrawn(**_on_run(pass_, run), reason=CoschedulingReason.NOTHING_IN_THE_WAY))


def _volumes_part(pass_: RunPass, attempt: RunAttempt, run: WorkerRunObserved, mode: Mode) -> bool:
    """Say once on a run that has not begun that no node reaches all of its claims' volumes; return whether it has to
    wait for that, or to know it.
    """
    named = list(dict.fromkeys(one.claim for one in run.workspaces if one.claim))
    assert attempt.pinned is not None
    if not mode.per_run or attempt.pinned.follows or attempt.placeholders or len(named) < 2:
        return False
    volumes = pass_.around.volumes
    if volumes is None:
        return True
    problem = volumes_problem(outline(run), [volumes[name] for name in named if name in volumes])
    if problem is not None:
        _say_refused(pass_, attempt, run, REFUSED, str(problem), CoschedulingReason.VOLUMES_APART)
    return problem is not None


def _is_final(code: int, message: str) -> bool:
    """Whether an API server's no to a claim stays a no: neither quota, nor a conflict, nor a bad moment."""
    return 400 <= code < 500 and code not in (408, 409, 429) and not (code == 403 and _QUOTA in message)


def _say_refused(
    pass_: RunPass, attempt: RunAttempt, run: WorkerRunObserved, why: str, message: str, reason: CoschedulingReason
) -> None:
    if pass_.is_news(attempt, attempt.refused, message):
        where = _on_run(pass_, run)
        pass_.write(events.RunRefused(**where, condition_reason=why, message=message, reason=reason))


def _on_run(pass_: RunPass, run: WorkerRunObserved) -> dict[str, str]:
    """Return what a write to a run rests on."""
    version = run.resource_version
    return {"cluster": pass_.around.cluster, "attempt_uid": run.uid, "name": run.name, "resource_version": version}


def outline(run: WorkerRunObserved, follows: str = "") -> PipelineRun:
    """Return as much of a run as names of placeholders and claims follow from; `follows` as in its `ModePinned`."""
    bindings = []
    for number, one in enumerate(run.workspaces):
        source = (
            {"volumeClaimTemplate": {"metadata": {"name": one.base}}}
            if one.template
            else {"persistentVolumeClaim": {"claimName": one.claim}}
        )
        bindings.append(Binding(number, one.name, {"name": one.name, **source}, tuple(source)))
    return PipelineRun(
        namespace=run.namespace,
        name=run.name,
        uid=run.uid,
        labels={},
        annotations={"tekton.dev/auto-cleanup-pvc": "true"} if run.auto_cleanup else {},
        bindings=tuple(bindings),
        pod_template=None,
        service_account="",
        task_specs={},
        params=[],
        pipeline_name="",
        pipeline_spec=None,
        stored_spec=None,
        status="",
        managed_by=run.managed_by,
        done=run.done,
        deleting=run.deleting,
        follows=follows,
    )


def _create(pass_: RunPass, attempt: RunAttempt, run: WorkerRunObserved, mode: Mode) -> None:
    follows = attempt.pinned.follows if attempt.pinned is not None else ""
    where = {"cluster": pass_.around.cluster, "attempt_uid": attempt.uid}
    if not mode.per_run or follows:
        _create_claims(pass_, run, where)
    reason = CoschedulingReason.ONE_PER_RUN if mode.per_run else CoschedulingReason.WORKSPACE_HAS_A_CLAIM
    for name in wanted_placeholders(attempt):
        # One of an earlier attempt under this name has to go first; its removal is under way.
        if not any(one.placeholder(name) for one in pass_.state.attempts.values()):
            pass_.write(events.PlaceholderCreationDecided(**where, name=name, reason=reason))


def _create_claims(pass_: RunPass, run: WorkerRunObserved, where: dict[str, str]) -> None:
    """Create the claims of a run's workspaces that have a template."""
    present = {claim.name for claim in pass_.state.claims.values()}
    reason = CoschedulingReason.CLAIM_FROM_TEMPLATE
    for one in run.workspaces:
        name = claim_name(one.base, one.name, run.uid)
        if one.template and name not in present:
            pass_.write(events.ClaimCreationDecided(**where, name=name, workspace=one.name, reason=reason))


# --- cleanup ---------------------------------------------------------------------------------------------------------


def _clean(pass_: RunPass, attempt: RunAttempt) -> None:
    """Remove what was made for an attempt and is still there: created minus deleted."""
    where = {"cluster": attempt.cluster or pass_.around.cluster, "attempt_uid": attempt.uid}
    for placeholder in attempt.placeholders.values():
        if not placeholder.deleting and placeholder.name not in pass_.around.followed:
            pass_.write(
                events.PlaceholderRemovalDecided(
                    **where, name=placeholder.name, uid=placeholder.uid, reason=CoschedulingReason.ATTEMPT_OVER
                )
            )
    if attempt.run is None or attempt.pinned is None or attempt.placeholders:
        return  # as long as a StatefulSet is there, its controller would make the claims again
    reason = claims_go(outline(attempt.run), Mode(attempt.pinned.mode))
    if reason is None:
        return
    _clean_claims(pass_, attempt, where, reason)


def _clean_claims(pass_: RunPass, attempt: RunAttempt, where: dict[str, str], reason: CoschedulingReason) -> None:
    """Delete the claims of an attempt, and release those that only their protection keeps."""
    for claim in pass_.state.claims_of(attempt):
        rest = [name for name in claim.finalizers if name != PVC_PROTECTION]
        named = {"name": claim.name, "uid": claim.uid, "resource_version": claim.resource_version}
        if not claim.deleting:
            pass_.write(events.ClaimRemovalDecided(**where, **named, reason=reason))
        elif len(rest) != len(claim.finalizers):
            # Only now: a claim that is not being deleted gets the finalizer back at once.
            pass_.write(events.ClaimReleaseDecided(**where, **named, finalizers=rest, reason=reason))
