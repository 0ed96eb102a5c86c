"""What to do about one source pod now: elect it, ask all its targets, permit one, delete the others, show what became
of it.

In: the stream's state, the context, the time. Out: decisions, in order, and when to look again. Pure and
level-triggered: it looks at what is there, not at what happened, so a lost, doubled or late message changes when it
decides and never what."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from controlplane.controllers.candidates.objects import virtual_node
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import binding, gates, lost_log, permits, pod_status, scale_up
from controlplane.controllers.candidates.source.candidate import Candidate
from controlplane.controllers.candidates.source.decision_pass import PodContext, PodPass
from controlplane.controllers.candidates.source.delegate_status import rank
from controlplane.controllers.candidates.source.events import (
    CandidateAmended,
    CandidateDecision,
    CandidateRequested,
    CleanupDone,
    DelegateLost,
    Elected,
    ElectionRefused,
    EpochClosed,
)
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateRefused,
    CandidateSeen,
    DelegateMissing,
    DelegateStatus,
    SourcePodObserved,
)
from controlplane.controllers.candidates.source.observe import BOUND_HERE
from controlplane.controllers.candidates.source.state import SourceState, dropping
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.runtime.decision_pass import PassResult


def decide(state: SourceState, context: PodContext, now: datetime) -> PassResult[CandidateDecision]:
    """Return what follows from the state; nothing while the source cluster's pods are not in view."""
    pass_ = PodPass(state, context, now)
    if not context.ready:
        return pass_.plan
    pod = state.pod
    if pod is None or pod.deleting:
        _drop_all(pass_, CandidateReason.SOURCE_DELETED)
        if pod is not None:
            pod_status.show(pass_, pod)
            binding.end(pass_, pod)
        _cleaned(pass_)
    elif pod.phase in ENDED_PHASES or (state.shown is not None and state.shown.uid == pod.uid and state.shown.failed):
        _over(pass_, pod)
    else:
        _place(pass_, pod)
    return pass_.plan


def _drop_all(pass_: PodPass, reason: CandidateReason) -> None:
    """Delete every candidate, but those of a pod that is there and cannot be read."""
    unread = pass_.context.unread_pod
    for name, known in sorted(pass_.state.candidates.items()):
        if unread is not None and known.uid == unread.uid:
            continue
        pass_.drop(name, reason)
        pass_.wake_at(_owed(pass_, name))


def _owed(pass_: PodPass, name: str) -> datetime | None:
    """Return when to look again at a candidate whose deletion was refused."""
    failure = pass_.state.trouble.get(f"{pass_.state.candidates[name].cluster}/{name}")
    return failure.until if failure is not None and failure.until > pass_.now else None


def _cleaned(pass_: PodPass) -> None:
    state = pass_.state
    if state.pod is None and state.dirty and not state.candidates and not state.effects:
        pass_.say(CleanupDone(uid=state.uid, reason=CandidateReason.NOTHING_LEFT))


def _over(pass_: PodPass, pod: SourcePodObserved) -> None:
    """The pod has ended: a delegate that has ended too stays for its logs, as long as the pod object does; everything
    else goes. One that runs on is of a log that does not know how the pod ended, or of a pod that somebody else
    ended."""
    state = pass_.state
    ended_by_us = state.shown is not None and state.shown.failed
    for name, known in sorted(state.candidates.items()):
        if name != state.delegate or ended_by_us or not _has_ended(known.seen):
            pass_.drop(name, CandidateReason.SOURCE_TERMINAL)
    pod_status.show(pass_, pod)


def _has_ended(seen: CandidateSeen | None) -> bool:
    """Whether a delegate's pod runs no more, and will not run again."""
    return isinstance(seen, DelegateMissing) or (isinstance(seen, DelegateStatus) and rank(seen.pod_phase) == 2)


def _place(pass_: PodPass, pod: SourcePodObserved) -> None:
    state = pass_.state
    if lost_log.find(pass_, pod, _wanted(pass_, pod)):
        return  # what follows for the others is decided once it is in the log
    if state.electing and state.uid == pod.uid:
        if state.delegate:
            _delegated(pass_)
        else:
            permits.settle(pass_)
            _check_gang(pass_)
            _check_targets(pass_)
    elif binding.ended_by_loss(pass_, pod):
        pass_.closed = True
    elif _elect(pass_, pod):
        return  # the epoch is decided; its candidates follow once it is in the log
    _tidy(pass_)
    waits = None
    if not pass_.closed and not state.delegate:
        _request(pass_, pod)
        waits = permits.grant(pass_)
        scale_up.choose(pass_)
    if not pass_.closed and not pod.problem:
        _amend(pass_, pod)
        gates.tell(pass_, pod)
    pod_status.show(pass_, pod, waits)


def _elect(pass_: PodPass, pod: SourcePodObserved) -> bool:
    """Begin an epoch, or say why not; return whether one begins."""
    refusal = _refusal(pass_, pod)
    if refusal is not None:
        reason, message = refusal
        said = pass_.state.refused
        if said is None or (said.uid, said.reason, said.message) != (pod.uid, reason, message):
            pass_.say(
                ElectionRefused(uid=pod.uid, message=message, resource_version=pod.resource_version, reason=reason)
            )
        return False
    state = pass_.state
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
    pass_.say(
        Elected(
            uid=pod.uid,
            epoch=state.next_epoch(pod.uid),
            targets=_wanted(pass_, pod),
            reason=why if same and state.closed_by else CandidateReason.OPTED_IN,
        )
    )
    return True


def _wanted(pass_: PodPass, pod: SourcePodObserved) -> list[str]:
    """Return the targets that the namespace has, or those of them that the pod asks for; of a gang that runs, where it
    runs.
    """
    allowed, gang = [target.name for target in pass_.context.targets], pass_.context.gang
    if pod.node:
        return [name for name in allowed if virtual_node(name) == pod.node]
    if gang is None:
        return [name for name in allowed if not pod.options.targets or name in pod.options.targets]
    if gang.formed:
        return [name for name in allowed if name == gang.home]
    return [name for name in allowed if gang.targets is None or name in gang.targets]


def _refusal(pass_: PodPass, pod: SourcePodObserved) -> tuple[CandidateReason, str] | None:
    """Return why a pod cannot be elected, and what to do about it."""
    if pod.problem:
        return CandidateReason(pod.problem), pod.problem_message
    if binding.is_elsewhere(pass_, pod):
        return CandidateReason.BOUND_ELSEWHERE, BOUND_HERE
    if not pass_.context.policy.allows(pod.namespace):
        return (
            CandidateReason.NAMESPACE_NOT_ALLOWED,
            f'namespace "{pod.namespace}" may not send candidates: add it to candidates.namespaces in the settings',
        )
    if pod.gated:
        return CandidateReason.GATED, "waits until its scheduling gates are removed"
    known = {target.name for target in pass_.context.targets}
    if not known:
        return (
            CandidateReason.NO_TARGETS,
            f'namespace "{pod.namespace}" has no targets: create a CandidateTarget in it',
        )
    unknown = sorted(set(pod.options.targets) - known)
    if unknown:
        return (
            CandidateReason.UNKNOWN_TARGET,
            (
                f'namespace "{pod.namespace}" has no CandidateTarget "{unknown[0]}": its targets are'
                f" {', '.join(sorted(known))}"
            ),
        )
    return _held(pass_)


def _held(pass_: PodPass) -> tuple[CandidateReason, str] | None:
    """Return why a member of a gang is held before it is offered to anybody."""
    gang = pass_.context.gang
    if gang is None:
        return None
    if gang.rests_until is not None and pass_.now < gang.rests_until:
        pass_.wake_at(gang.rests_until)
        return CandidateReason.GANG_RESTS, f"PodGroup {gang.name} could not be placed as a whole and rests"
    return gang.held


def _check_gang(pass_: PodPass) -> None:
    """End the epoch of a gang's member that is to be placed with the others and cannot be now: what it holds is
    others'.
    """
    if pass_.context.gang is None or pass_.permit is not None or pass_.acked or pass_.closed or _held(pass_) is None:
        return
    pass_.say(EpochClosed(epoch=pass_.state.epoch, reason=CandidateReason.GANG_INCOMPLETE))
    pass_.closed = True


def _check_targets(pass_: PodPass) -> None:
    """Begin anew when the namespace got other targets, as long as nobody is permitted."""
    pod = pass_.state.pod
    if pass_.permit is not None or pass_.closed or pod is None or _refusal(pass_, pod) is not None:
        return
    gang = pass_.context.gang
    if gang is not None and gang.home in pass_.state.targets:
        return
    if sorted(_wanted(pass_, pod)) != sorted(pass_.state.targets):
        pass_.say(EpochClosed(epoch=pass_.state.epoch, reason=CandidateReason.TARGETS_CHANGED))
        pass_.closed = True


def _request(pass_: PodPass, pod: SourcePodObserved) -> None:
    """Ask every target that can be reached, all at once; one that cannot is asked when it is back."""
    state, current, unread = pass_.state, pass_.current(), lost_log.unread(pass_)
    for target in sorted(pass_.targets()):
        if _gang_is_elsewhere(pass_, target) or target in unread:
            continue
        known = current.get(target)
        if not pass_.context.in_view(target) or (known is not None and known[1].seen is not None):
            continue
        pass_.write(
            CandidateRequested(
                cluster=target,
                candidate=pass_.name_for(target),
                uid=pod.uid,
                epoch=state.epoch,
                template=pod.template,
                least=pass_.context.gang.least if pass_.context.gang is not None else 0,
                scale_up=False if pass_.context.policy.scale_up_wait else None,
                reason=CandidateReason.TARGET_OF_EPOCH,
            )
        )


def _amend(pass_: PodPass, pod: SourcePodObserved) -> None:
    """Give candidates the pod's template where it has changed since they were asked: labels, images, whatever may."""
    state = pass_.state
    for cluster, (name, known) in sorted(pass_.current().items()):
        seen = known.seen
        if seen is None or seen.deleting or seen.template in ("", pod.template) or dropping(state, name):
            continue
        if pass_.busy(cluster, name) or not pass_.context.in_view(cluster):
            continue
        pass_.write(
            CandidateAmended(
                cluster=cluster,
                candidate=name,
                uid=pod.uid,
                template=pod.template,
                before=seen.template,
                resource_version=seen.resource_version,
                reason=CandidateReason.SOURCE_CHANGED,
            )
        )


def _tidy(pass_: PodPass) -> None:
    """Delete whatever is not, or not any more, part of the choice."""
    targets = pass_.targets()
    for name, known in sorted(pass_.state.candidates.items()):
        reason = _not_wanted(pass_, name, known, targets)
        if reason is not None:
            pass_.drop(name, reason)


def _not_wanted(pass_: PodPass, name: str, known: Candidate, targets: Collection[str]) -> CandidateReason | None:
    """Return why a candidate is no part of the choice, None if it is."""
    state = pass_.state
    if (known.uid, known.epoch) != (state.uid, state.epoch) or pass_.closed:
        return CandidateReason.OLD_EPOCH
    if state.delegate:
        return CandidateReason.ANOTHER_TARGET_WON if name != state.delegate else _gang_elsewhere(pass_, name, known)
    if known.cluster not in targets and not _permitted(pass_, name):
        return CandidateReason.NOT_A_TARGET
    if isinstance(known.seen, CandidateBound):
        return _gang_elsewhere(pass_, name, known) or CandidateReason.BOUND_WITHOUT_PERMIT
    return _gang_elsewhere(pass_, name, known)


def _gang_elsewhere(pass_: PodPass, name: str, known: Candidate) -> CandidateReason | None:
    elsewhere = _gang_is_elsewhere(pass_, known.cluster) and not _permitted(pass_, name)
    return CandidateReason.ANOTHER_TARGET_WON if elsewhere else None


def _gang_is_elsewhere(pass_: PodPass, cluster: str) -> bool:
    gang = pass_.context.gang
    return gang is not None and gang.formed and cluster != gang.home


def _permitted(pass_: PodPass, name: str) -> bool:
    return pass_.permit is not None and pass_.permit.candidate == name


def _delegated(pass_: PodPass) -> None:
    """Look whether the delegate still is one."""
    known = pass_.state.chosen
    assert known is not None
    seen = known.seen
    context = pass_.context
    if context.gang is not None and context.gang.dissolves:
        pass_.say(EpochClosed(epoch=pass_.state.epoch, reason=CandidateReason.GANG_DISSOLVED))
        pass_.closed = True
    elif seen is None or isinstance(seen, (DelegateMissing, CandidateRefused)) or seen.uid != known.bound:
        message = seen.message if seen else "the candidate was deleted in its target"
        _lost(pass_, known, CandidateReason.POD_MISSING, message)
    elif not isinstance(seen, CandidateBound) and seen.reservation > known.bound_by > 0:
        # Its scheduler, whose log went back, found no Pod and began anew: a backup knows of no later reservation.
        _lost(pass_, known, CandidateReason.POD_MISSING, "its target knows nothing of it any more and tries it anew")
    elif isinstance(seen, DelegateStatus) and seen.rejected and not _started(pass_, seen):
        _lost(pass_, known, CandidateReason.POD_REJECTED, seen.rejected)
    # While the target is in view nothing follows from a Candidate that somebody deletes there, until its pod has
    # stopped; nor from one that a backup put back to what it said before it was bound: whether its pod runs, the
    # target's scheduler will say.
    elif context.forgotten(known.cluster):
        _lost(pass_, known, CandidateReason.TARGET_FORGOTTEN, "an operator gave the target up")
    elif not context.in_view(known.cluster):
        _out_of_view(pass_, known)


def _started(pass_: PodPass, seen: DelegateStatus) -> bool:
    """Whether a delegate was seen to run: a kubelet that was restarted may reject what it has started before."""
    shown = pass_.state.shown
    return shown is not None and shown.source == seen.name and rank(shown.phase) >= 1


def _out_of_view(pass_: PodPass, known: Candidate) -> None:
    """Give a delegate up whose target has shown nothing for as long as the policy allows."""
    until = pass_.context.lost_until(known.cluster)
    if until is not None and pass_.now >= until:
        why = pass_.context.unreadable(known.cluster)
        shows = f"showed no candidates ({why})" if why else "could not be reached"
        _lost(pass_, known, CandidateReason.TARGET_LOST, f"the target {shows} for too long")
    pass_.wake_at(until)


def _lost(pass_: PodPass, known: Candidate, reason: CandidateReason, message: str) -> None:
    state: SourceState = pass_.state
    pass_.say(DelegateLost(cluster=known.cluster, candidate=state.delegate, message=message, reason=reason))
    pass_.closed = True
