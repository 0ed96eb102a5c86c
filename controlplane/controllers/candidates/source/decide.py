"""What to do about one source pod now: elect it, ask all its targets, permit one, delete the others, show what became
of it.

In: the stream's state, the context, the time. Out: decisions, in order, and when to look again. Pure and
level-triggered: it looks at what is there, not at what happened, so a lost, doubled or late message changes when it
decides and never what."""

from __future__ import annotations

from datetime import datetime

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import permits, pod_status
from controlplane.controllers.candidates.source.decision_pass import TERMINAL, PodContext, PodPass
from controlplane.controllers.candidates.source.events import (
    CandidateBound,
    CandidateDecision,
    CandidateRefused,
    CandidateRequested,
    CleanupDone,
    DelegateLost,
    DelegateMissing,
    Elected,
    ElectionRefused,
    EpochClosed,
    SourcePodObserved,
)
from controlplane.controllers.candidates.source.state import Candidate, SourceState
from controlplane.runtime.decision_pass import PassResult


def decide(state: SourceState, context: PodContext, now: datetime) -> PassResult[CandidateDecision]:
    """Return what follows from the state; nothing while the source cluster's pods are not in view."""
    turn = PodPass(state, context, now)
    if not context.ready:
        return turn.plan
    pod = state.pod
    if pod is None or pod.deleting:
        _drop_all(turn, CandidateReason.SOURCE_DELETED)
        _cleaned(turn)
    elif pod.phase in TERMINAL or (state.shown is not None and state.shown.uid == pod.uid and state.shown.failed):
        _over(turn, pod)
    else:
        _place(turn, pod)
    return turn.plan


def _drop_all(turn: PodPass, reason: CandidateReason) -> None:
    for name in sorted(turn.state.candidates):
        turn.drop(name, reason)
        turn.wake_at(_owed(turn, name))


def _owed(turn: PodPass, name: str) -> datetime | None:
    """Return when to look again at a candidate whose deletion was refused."""
    trouble = turn.state.trouble.get(f"{turn.state.candidates[name].cluster}/{name}")
    return trouble.until if trouble is not None and trouble.until > turn.now else None


def _cleaned(turn: PodPass) -> None:
    state = turn.state
    if state.pod is None and state.dirty and not state.candidates and not state.effects:
        turn.say(CleanupDone(uid=state.uid, reason=CandidateReason.NOTHING_LEFT))


def _over(turn: PodPass, pod: SourcePodObserved) -> None:
    """The pod has ended: its delegate stays for its logs, as long as the pod object does; everything else goes."""
    state = turn.state
    ended_by_us = state.shown is not None and state.shown.failed
    for name in sorted(state.candidates):
        if name != state.delegate or ended_by_us:
            turn.drop(name, CandidateReason.SOURCE_TERMINAL)
    pod_status.show(turn, pod)


def _place(turn: PodPass, pod: SourcePodObserved) -> None:
    state = turn.state
    if state.electing and state.uid == pod.uid:
        if state.delegate:
            _delegated(turn)
        else:
            permits.settle(turn)
            _check_gang(turn)
            _check_targets(turn)
    elif pod_status.ended_by_loss(turn, pod):
        turn.closed = True
    elif _elect(turn, pod):
        return  # the epoch is decided; its candidates follow once it is in the log
    _tidy(turn)
    waits = None
    if not turn.closed and not state.delegate:
        _request(turn, pod)
        waits = permits.grant(turn)
    pod_status.show(turn, pod, waits)


def _elect(turn: PodPass, pod: SourcePodObserved) -> bool:
    """Begin an epoch, or say why not; return whether one begins."""
    refusal = _refusal(turn, pod)
    if refusal is not None:
        reason, message = refusal
        said = turn.state.refused
        if said is None or (said.uid, said.reason, said.message) != (pod.uid, reason, message):
            turn.say(
                ElectionRefused(uid=pod.uid, message=message, resource_version=pod.resource_version, reason=reason)
            )
        return False
    state = turn.state
    same = state.uid == pod.uid
    why = {
        CandidateReason.PERMIT_WAS_OUTLIVED: CandidateReason.PERMIT_WAS_OUTLIVED,
        CandidateReason.TARGET_FORGOTTEN: CandidateReason.TARGET_FORGOTTEN,
        CandidateReason.TARGETS_CHANGED: CandidateReason.TARGETS_CHANGED,
        CandidateReason.GANG_INCOMPLETE: CandidateReason.GANG_INCOMPLETE,
        CandidateReason.GANG_DISSOLVED: CandidateReason.GANG_DISSOLVED,
    }.get(
        CandidateReason(state.closed_by) if state.closed_by and same else CandidateReason.OPTED_IN,
        CandidateReason.DELEGATE_WAS_LOST,
    )
    turn.say(
        Elected(
            uid=pod.uid,
            epoch=state.epoch + 1,
            targets=_wanted(turn, pod),
            reason=why if same and state.closed_by else CandidateReason.OPTED_IN,
        )
    )
    return True


def _wanted(turn: PodPass, pod: SourcePodObserved) -> list[str]:
    """Return the targets that the namespace has, or those of them that the pod asks for; of a gang that runs, where it
    runs.
    """
    allowed, gang = [target.name for target in turn.context.targets], turn.context.gang
    if gang is None:
        return [name for name in allowed if not pod.options.targets or name in pod.options.targets]
    if gang.formed:
        return [name for name in allowed if name == gang.home]
    return [name for name in allowed if gang.targets is None or name in gang.targets]


def _refusal(turn: PodPass, pod: SourcePodObserved) -> tuple[CandidateReason, str] | None:
    """Return why a pod cannot be elected, and what to do about it."""
    if pod.problem:
        return CandidateReason(pod.problem), pod.problem_message
    if not turn.context.policy.allows(pod.namespace):
        return (
            CandidateReason.NAMESPACE_NOT_ALLOWED,
            f'namespace "{pod.namespace}" may not send candidates: add it to candidates.namespaces in the settings',
        )
    if pod.gated:
        return CandidateReason.GATED, "waits until its scheduling gates are removed"
    known = {target.name for target in turn.context.targets}
    if not known:
        return (
            CandidateReason.NO_TARGETS,
            f'namespace "{pod.namespace}" has no targets: create a CandidateTarget in it',
        )
    unknown = sorted(set(pod.options.targets) - known)
    if unknown:
        return (
            CandidateReason.UNKNOWN_TARGET,
            f'namespace "{pod.namespace}" has no CandidateTarget "{unknown[0]}": its targets are {", ".join(sorted(known))}',
        )
    return _held(turn)


def _held(turn: PodPass) -> tuple[CandidateReason, str] | None:
    """Return why a member of a gang is held before it is offered to anybody (specs/podgroups.md 3.1, 3.11)."""
    gang = turn.context.gang
    if gang is None:
        return None
    if gang.rests_until is not None and turn.now < gang.rests_until:
        turn.wake_at(gang.rests_until)
        return CandidateReason.GANG_RESTS, f"PodGroup {gang.name} could not be placed as a whole and rests"
    return gang.held


def _check_gang(turn: PodPass) -> None:
    """End the epoch of a gang's member that is to be placed with the others and cannot be now: what it holds is
    others'.
    """
    if turn.context.gang is None or turn.permit is not None or turn.acked or turn.closed or _held(turn) is None:
        return
    turn.say(EpochClosed(epoch=turn.state.epoch, reason=CandidateReason.GANG_INCOMPLETE))
    turn.closed = True


def _check_targets(turn: PodPass) -> None:
    """Begin anew when the namespace got other targets, as long as nobody is permitted."""
    pod = turn.state.pod
    if turn.permit is not None or turn.closed or pod is None or _refusal(turn, pod) is not None:
        return
    gang = turn.context.gang
    if gang is not None and gang.home in turn.state.targets:
        return
    if sorted(_wanted(turn, pod)) != sorted(turn.state.targets):
        turn.say(EpochClosed(epoch=turn.state.epoch, reason=CandidateReason.TARGETS_CHANGED))
        turn.closed = True


def _request(turn: PodPass, pod: SourcePodObserved) -> None:
    """Ask every target that can be reached, all at once; one that cannot is asked when it is back."""
    state, current = turn.state, turn.current()
    for target in sorted(turn.targets()):
        if _gang_is_elsewhere(turn, target):
            continue
        known = current.get(target)
        if not turn.context.in_view(target) or (known is not None and known[1].seen is not None):
            continue
        turn.write(
            CandidateRequested(
                cluster=target,
                candidate=turn.name_for(target),
                uid=pod.uid,
                epoch=state.epoch,
                template=pod.template,
                least=turn.context.gang.least if turn.context.gang is not None else 0,
                reason=CandidateReason.TARGET_OF_EPOCH,
            )
        )


def _tidy(turn: PodPass) -> None:
    """Delete whatever is not, or not any more, part of the choice."""
    state = turn.state
    targets = turn.targets()
    for name, known in sorted(state.candidates.items()):
        if (known.uid, known.epoch) != (state.uid, state.epoch) or turn.closed:
            turn.drop(name, CandidateReason.OLD_EPOCH)
        elif state.delegate and name != state.delegate:
            turn.drop(name, CandidateReason.ANOTHER_TARGET_WON)
        elif known.cluster not in targets and not state.delegate and not _permitted(turn, name):
            turn.drop(name, CandidateReason.NOT_A_TARGET)
        elif _gang_is_elsewhere(turn, known.cluster) and not _permitted(turn, name):
            turn.drop(name, CandidateReason.ANOTHER_TARGET_WON)
        elif isinstance(known.seen, CandidateBound) and name != state.delegate:
            turn.drop(name, CandidateReason.BOUND_WITHOUT_PERMIT)


def _gang_is_elsewhere(turn: PodPass, cluster: str) -> bool:
    gang = turn.context.gang
    return gang is not None and gang.formed and cluster != gang.home


def _permitted(turn: PodPass, name: str) -> bool:
    return turn.permit is not None and turn.permit.candidate == name


def _delegated(turn: PodPass) -> None:
    """Look whether the delegate still is one."""
    known = turn.state.chosen
    assert known is not None
    seen = known.seen
    context = turn.context
    if context.gang is not None and context.gang.dissolves:
        turn.say(EpochClosed(epoch=turn.state.epoch, reason=CandidateReason.GANG_DISSOLVED))
        turn.closed = True
    elif seen is None or isinstance(seen, (DelegateMissing, CandidateRefused)) or seen.uid != known.bound:
        _lost(
            turn,
            known,
            CandidateReason.POD_MISSING,
            seen.message if seen else "the candidate was deleted in its target",
        )
    # While the target is in view nothing follows from a Candidate that somebody deletes there, until its pod has stopped; nor from one that
    # a backup put back to what it said before it was bound: whether its pod runs, the target's scheduler will say.
    elif context.forgotten(known.cluster):
        _lost(turn, known, CandidateReason.TARGET_FORGOTTEN, "an operator gave the target up")
    elif not context.in_view(known.cluster):
        until = context.lost_until(known.cluster)
        if until is not None and turn.now >= until:
            why = context.unreadable(known.cluster)
            shows = f"showed no candidates ({why})" if why else "could not be reached"
            _lost(turn, known, CandidateReason.TARGET_LOST, f"the target {shows} for too long")
        turn.wake_at(until)


def _lost(turn: PodPass, known: Candidate, reason: CandidateReason, message: str) -> None:
    state: SourceState = turn.state
    turn.say(DelegateLost(cluster=known.cluster, candidate=state.delegate, message=message, reason=reason))
    turn.closed = True
