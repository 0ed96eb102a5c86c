"""What a target does about one candidate now: take it or refuse it, make its Pod, keep to permits and withdrawals,
report.

In: the stream's state, the context, the time. Out: decisions, in order, and when to look again. Pure. Finding a node is
the scheduler's part (`controlplane.controllers.candidates.target.controller` has its calls); everything that makes two
of a pod impossible is decided here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from controlplane.controllers.candidates.objects import FINALIZER, PermitSpec
from controlplane.controllers.candidates.reasons import TargetReason
from controlplane.controllers.candidates.target import events
from controlplane.controllers.candidates.target.changes import amended, gates
from controlplane.controllers.candidates.target.permissions import (
    lends_token,
    not_invited,
    pod_not_made,
    unfit_class,
    unfit_for,
)
from controlplane.controllers.candidates.target.report import report_of
from controlplane.controllers.candidates.target.state import AMENDMENT, POD, TargetState
from controlplane.runtime.decision_pass import DecisionPass, PassResult
from controlplane.runtime.writes import WriteFailure
from controlplane.values import Value


class TargetPolicy(Value):
    """The settings of the target side.

    `scheduler_name` goes into the Pods; `reservation_ttl` is how long a node is held without a permit; `skew` keeps off
    the end of a lease: by how much two clusters' clocks may differ, plus the time that a binding may be on its way."""

    scheduler_name: str = "controlplane"
    reservation_ttl: timedelta = timedelta(seconds=30)
    skew: timedelta = timedelta(seconds=5)


class TargetContext(Value):
    """The rest of the cluster, as one candidate sees it.

    `ready`: Candidates, Pods and invitations are in view. `invitations` are those of the namespace, `before` how many
    admitted candidates of its source are there that come before this one, `priority_classes` those that exist (None:
    they cannot be read). `unread_candidate` and `unread_pod`: what is wrong with the Candidate, or the Pod, of this
    name that is there and was never read; `unread_invitations`: with CandidateSources of the namespace."""

    policy: TargetPolicy
    ready: bool = True
    invitations: Sequence[events.InvitationObserved] = ()
    before: int = 0
    priority_classes: frozenset[str] | None = None
    unread_candidate: events.TargetObservationRefused | None = None
    unread_pod: events.TargetObservationRefused | None = None
    unread_invitations: Sequence[events.TargetObservationRefused] = ()


def usable_until(state: TargetState, policy: TargetPolicy) -> datetime | None:
    """Return until when the source's permit lets a binding begin; None if there is no permit for what is held.

    A permit is for one reservation: one for an older reservation, or one that was withdrawn, is void.
    """
    seen = state.seen
    permit = seen.permit if seen is not None else None
    if seen is None or permit is None or state.held is None or permit.kind != "Bind" or seen.deleting:
        return None
    if permit.reservation != state.held.number or permit.number <= max(state.withdrawn, seen.withdrawn):
        return None
    return permit.until - policy.skew


def may_preempt(state: TargetState, policy: TargetPolicy, now: datetime) -> int:
    """Return the number of the permit by which pods may be preempted for the candidate now; 0 if none allows it."""
    seen = state.seen
    permit = seen.permit if seen is not None else None
    if seen is None or permit is None or permit.kind != "Preempt" or seen.deleting or state.held is not None:
        return 0
    if permit.number <= max(state.withdrawn, seen.withdrawn, state.tried) or now >= permit.until - policy.skew:
        return 0
    return permit.number


def bind_order(state: TargetState, policy: TargetPolicy, now: datetime) -> events.BindStarted | None:
    """Return the binding that may begin now, None if none may: permitted, durable, unexpired, for the reservation that
    is held.
    """
    until = usable_until(state, policy)
    pod, held, permit = state.pod, state.held, state.permit
    if until is None or held is None or permit is None or pod is None or now >= until:
        return None
    if (
        permit.reservation != held.number
        or state.binding is not None
        or state.bound is not None
        or POD in state.effects
        or AMENDMENT in state.effects  # it would move on the version that the binding names
    ):
        return None
    if pod.deleting or pod.node:
        return None
    return events.BindStarted(
        number=permit.number,
        node=held.node,
        uid=pod.uid,
        resource_version=pod.resource_version,
        before=until,
        reason=TargetReason.PERMITTED,
    )


class _Pass(DecisionPass[TargetState, events.TargetDecision | events.Unreserved, events.TargetWrite]):
    """The decisions of one pass, under construction."""

    def _overrides(self, decision: events.TargetWrite, opened: events.TargetWrite) -> bool:
        """Whether a decision takes the place of an open one: a removal of all, a fence of a binding, a newer change."""
        if isinstance(decision, events.PodAmended) and isinstance(opened, events.PodAmended):
            asked = [(one.template, one.scale_up, one.source, one.source_uid) for one in (decision, opened)]
            return asked[0] != asked[1]
        if isinstance(decision, events.PodRemoved):
            return not isinstance(opened, events.PodRemoved)
        if isinstance(decision, events.FinalizerReleased):
            return not isinstance(opened, events.FinalizerReleased)
        return isinstance(decision, events.PodFenced) and isinstance(opened, events.BindStarted)


def target_decide(
    state: TargetState, context: TargetContext, now: datetime
) -> PassResult[events.TargetDecision | events.Unreserved]:
    """Return what follows from the state; nothing while this cluster's objects are not in view."""
    pass_ = _Pass(state, now)
    if not context.ready:
        return pass_.plan
    seen = state.seen
    if seen is None:
        if state.leaving is not None:
            _let_go(pass_, state.leaving, context)
        elif not _has_unread_owner(state, context):
            _remove_pod(pass_, TargetReason.DELETED)
    elif seen.deleting:
        _let_go(pass_, seen, context)
    elif context.unread_pod is not None:
        return pass_.plan  # whether it runs is unknown
    elif _admit(pass_, seen, context):
        _keep(pass_, seen, context)
    return pass_.plan


def _has_unread_owner(state: TargetState, context: TargetContext) -> bool:
    unread = context.unread_candidate
    return unread is not None and state.pod is not None and state.pod.owner == unread.uid


def _remove_pod(pass_: _Pass, reason: TargetReason) -> None:
    pod = pass_.state.pod
    if pod is not None and not pod.deleting:
        pass_.write(events.PodRemoved(uid=pod.uid, reason=reason))


def _let_go(
    pass_: _Pass, seen: events.CandidateObserved | events.UnreadCandidateDeleted, context: TargetContext
) -> None:
    """The Candidate is being deleted: its Pod first, and the object only when the Pod has stopped."""
    state = pass_.state
    if state.held is not None and state.binding is None:
        pass_.say(events.Unreserved(number=state.held.number, reason=TargetReason.DELETED))
    foreign = _is_foreign(state.trouble.get(POD))
    if state.pod is not None and (state.pod.owner == seen.uid or not foreign):
        _remove_pod(pass_, TargetReason.DELETED)
    elif state.pod is None and context.unread_pod is not None and not foreign:
        pass_.write(events.PodRemoved(uid=context.unread_pod.uid, reason=TargetReason.DELETED))
    elif FINALIZER in seen.finalizers:
        pass_.write(
            events.FinalizerReleased(
                uid=seen.uid,
                finalizers=[name for name in seen.finalizers if name != FINALIZER],
                resource_version=seen.resource_version,
                reason=TargetReason.POD_STOPPED,
            )
        )


def _is_foreign(failure: WriteFailure | None) -> bool:
    """Whether what could not be read has turned out to be somebody else's."""
    return failure is not None and failure.action == events.PodRemoved.__name__ and failure.error == "Foreign"


def _admit(pass_: _Pass, seen: events.CandidateObserved, context: TargetContext) -> bool:
    """Take the candidate or refuse it; return whether it was taken before. What is bound is not refused any more."""
    state = pass_.state
    _allow(pass_, seen, context)
    if state.bound is not None:
        return True
    reason, message = judge(seen, context, state.trouble.get(POD), state.refused)
    if not reason:
        if state.admitted:
            return True
        pass_.say(events.Admitted(reason=TargetReason.INVITED))
        return False
    if state.binding is not None or _runs_unrefused(state, seen):
        return True  # too late to say no before it is known whether it was bound
    if state.refused is None or (state.refused.reason, state.refused.message) != (reason, message):
        pass_.say(events.Refused(reason=TargetReason(reason), message=message))
        if state.held is not None:
            pass_.say(events.Unreserved(number=state.held.number, reason=TargetReason.DELETED))
        return False
    _remove_pod(pass_, state.refused.reason)
    _withdraw(pass_, seen)
    if reason == TargetReason.POD_NOT_CREATED:
        # Somebody may have mended it: a quota, an account, a policy. It is taken again once its Pod is there.
        _make(pass_, seen, context)
    _report(pass_, seen)
    return False


def _runs_unrefused(state: TargetState, seen: events.CandidateObserved) -> bool:
    """Whether the Pod is on a node, and the log never refused its Candidate: it was lost, or put back to before the
    binding. Its source would place the pod elsewhere on a refusal, while it runs here."""
    pod = state.pod
    return pod is not None and bool(pod.node) and pod.owner == seen.uid and state.refused is None


def _allow(pass_: _Pass, seen: events.CandidateObserved, context: TargetContext) -> None:
    """Say which kinds of objects may come with the candidate, when that is news: they may be what its Pod waits for."""
    unknown = seen.reported.follows if context.unread_invitations else []
    kinds = next((one.follow for one in context.invitations if one.cluster == seen.origin.cluster), unknown)
    if kinds != pass_.state.follows:
        pass_.say(events.FollowingAllowed(kinds=kinds, reason=TargetReason.INVITED))


def judge(
    seen: events.CandidateObserved, context: TargetContext, failure: WriteFailure | None, refused: events.Refused | None
) -> tuple[str, str]:
    """Return why a candidate is refused and what to do about it; two empty strings if it is not."""
    cluster = seen.origin.cluster
    if seen.problem:
        return seen.problem, seen.problem_message
    invitation = next((one for one in context.invitations if one.cluster == cluster), None)
    if invitation is None:
        return TargetReason.NOT_INVITED, not_invited(seen, context.unread_invitations)
    if invitation.most and context.before >= invitation.most:
        return (
            TargetReason.TOO_MANY_CANDIDATES,
            f'CandidateSource "{invitation.name}" allows {invitation.most} candidates of cluster "{cluster}" at a time',
        )
    unfit = unfit_for(seen, invitation) or unfit_class(seen, invitation, context.priority_classes)
    if unfit is not None:
        return unfit
    if refused is not None and refused.reason in (TargetReason.POD_NAME_TAKEN, TargetReason.POD_REFUSED):
        return refused.reason, refused.message
    if failure is not None and failure.action == events.PodMade.__name__:
        return pod_not_made(seen, failure)
    return "", ""


def _keep(pass_: _Pass, seen: events.CandidateObserved, context: TargetContext) -> None:
    state = pass_.state
    if state.pod is not None and state.pod.owner != seen.uid:
        # The Pod of a Candidate of this name before: it has to go before ours can be made.
        _remove_pod(pass_, TargetReason.DELETED)
        return
    if state.bound is None:
        _unbound(pass_, seen, context)
    _amend(pass_, seen, context)
    _report(pass_, seen)


def _amend(pass_: _Pass, seen: events.CandidateObserved, context: TargetContext) -> None:
    found = amended(pass_.state, seen, context.invitations)
    if isinstance(found, events.AmendmentRefused):
        pass_.say(found)
    elif found is not None and not pass_.plan.decisions:
        pass_.write(found)
    elif (said := gates(pass_.state, seen)) is not None and not pass_.plan.decisions:
        pass_.write(said)


def _make(pass_: _Pass, seen: events.CandidateObserved, context: TargetContext) -> None:
    pass_.write(
        events.PodMade(
            template=seen.template, token=lends_token(seen, context.invitations), reason=TargetReason.TO_BE_SCHEDULED
        )
    )


def _unbound(pass_: _Pass, seen: events.CandidateObserved, context: TargetContext) -> None:
    state, pod, policy = pass_.state, pass_.state.pod, context.policy
    if pod is not None and pod.node:
        _found_bound(pass_, pod.uid, pod.node)
        return
    if pod is None:
        if state.held is not None:
            pass_.say(events.Unreserved(number=state.held.number, reason=TargetReason.POD_GONE))
        _withdraw(pass_, seen)
        _make(pass_, seen, context)
        return
    if _may_be_binding(pass_, pod, seen) or _withdraw(pass_, seen) or state.held is None:
        return
    until = usable_until(state, policy)
    ends = state.held.expires if until is None else until
    if pass_.now >= ends:
        pass_.say(events.Unreserved(number=state.held.number, reason=TargetReason.TIMEOUT))
        return
    pass_.wake_at(ends)
    if until is not None and seen.permit is not None:
        _take_note(pass_, seen.permit)


def _may_be_binding(pass_: _Pass, pod: events.CandidatePodObserved, seen: events.CandidateObserved) -> bool:
    """See to a binding that may be on its way, also to one that a log which was lost does not know; return whether
    there is one."""
    state = pass_.state
    if state.binding is not None:
        _settle_binding(pass_, state.binding, seen)
        return True
    if state.unfenced and seen.permit is not None:
        _fence(pass_, pod, seen.permit.number)
        return True
    return False


def _take_note(pass_: _Pass, permit: PermitSpec) -> None:
    """Record a permit that may be used, once: nothing is bound under one that is not in the log. After bindings that
    were refused not before a pause is over."""
    after = pass_.state.bind_after
    if after is not None and pass_.now < after:
        pass_.wake_at(after)
        return
    known = pass_.state.permit
    if permit.number > (known.number if known is not None else 0):
        pass_.say(
            events.PermitSeen(
                number=permit.number, reservation=permit.reservation, until=permit.until, reason=TargetReason.PERMITTED
            )
        )


def _found_bound(pass_: _Pass, uid: str, node: str) -> None:
    """The Pod is on a node: by our binding, or by somebody else's, which is reported as number 0 and so allowed by
    nothing.
    """
    binding = pass_.state.binding
    number = binding.number if binding is not None and binding.uid == uid else _reported_binding(pass_.state)
    pass_.say(events.Bound(number=number, node=node, uid=uid, reason=TargetReason.PERMITTED))


def _reported_binding(state: TargetState) -> int:
    """Return the permit by which the Candidate says that its Pod was bound, which a log that was lost does not know;
    else 0."""
    reported = state.seen.reported if state.seen is not None else events.Reported()
    return reported.bound_by if reported.phase == "Bound" else 0


def _settle_binding(pass_: _Pass, binding: events.BindStarted, seen: events.CandidateObserved) -> None:
    """A binding may be on its way. Wait for it; when it is not to be any more, fence it, and know for sure."""
    revoked = seen.withdrawn >= binding.number
    if revoked or pass_.state.bind_failed or pass_.now >= binding.before:
        pod = pass_.state.pod
        assert pod is not None
        _fence(pass_, msgspec.structs.replace(pod, resource_version=binding.resource_version), binding.number)
    else:
        pass_.wake_at(binding.before)


def _fence(pass_: _Pass, pod: events.CandidatePodObserved, number: int) -> None:
    """Touch the Pod, as it was when a binding was begun, so that this cannot be made any more."""
    version = pod.resource_version
    pass_.write(events.PodFenced(uid=pod.uid, number=number, resource_version=version, reason=TargetReason.FENCED))


def _withdraw(pass_: _Pass, seen: events.CandidateObserved) -> bool:
    """Keep to a withdrawal: what is held under it is given up, and only then is it acknowledged. Return whether there
    was one.
    """
    state = pass_.state
    if seen.withdrawn <= state.withdrawn:
        return False
    if state.held is not None and state.pod is not None:
        pass_.say(events.Unreserved(number=state.held.number, reason=TargetReason.REVOKED))
    pass_.say(events.Withdrawn(number=seen.withdrawn, reason=TargetReason.WITHDRAWN))
    return True


def _report(pass_: _Pass, seen: events.CandidateObserved) -> None:
    wanted = report_of(pass_.state)
    if wanted == seen.reported or pass_.plan.decisions:
        return  # what was decided just now is reported when it is in the log
    if wanted == events.Reported(phase="Pending") and not seen.reported.phase:
        return  # that it was taken is no news: the source hears of it when there is a node, or none
    pass_.write(
        events.StatusReported(
            reported=wanted,
            status=pass_.state.pod_status if wanted.sequence else "",
            resource_version=seen.resource_version,
            reason=TargetReason.REPORT,
        )
    )
