"""What a source pod shows of itself: its delegate's status, where the delegate is, or why it has none.

In: a pass. Out: `StatusShown` and `DelegateHinted`, when the pod does not say it yet. Whether a write arrived is read
off the pod itself, by `mark` in the message of our own condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import binding, gates, lost_log
from controlplane.controllers.candidates.source.candidate import Candidate
from controlplane.controllers.candidates.source.decision_pass import PodPass
from controlplane.controllers.candidates.source.delegate_status import DELEGATED, FOLLOWED, later, rank
from controlplane.controllers.candidates.source.events import TO_POD, StatusShown, amendment_of
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateRefused,
    CandidateSeen,
    CandidateUnschedulable,
    CandidateWaiting,
    DelegateMissing,
    DelegateStatus,
    SourcePodObserved,
)
from controlplane.controllers.candidates.source.permits import silent_from
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.runtime.phrases import each_says
from controlplane.values import Value

_SAID = 900  # characters of what the targets say
_ALL_ANSWERED = (
    CandidateReason.UNSCHEDULABLE_EVERYWHERE,
    CandidateReason.SKEW_TOO_LARGE,
    CandidateReason.PREDECESSOR_STOPS,
)


def show(pass_: PodPass, pod: SourcePodObserved, waits: CandidateReason | None = None) -> None:
    """Bring what the pod shows in line with what is known; never back in its phases, and never after its end."""
    known, shown = pass_.state.chosen, _shown(pass_, pod)
    if _is_left_alone(pod, known):
        return
    if shown is not None and (shown.failed or rank(shown.phase) == 2):
        _write(pass_, pod, shown)  # what ended it is said until it is there
    elif binding.ended_by_loss(pass_, pod):
        _fail(pass_, pod, shown or StatusShown(uid=pod.uid, reason=CandidateReason.NOT_PLACED))
    elif known is not None and isinstance(known.seen, CandidateBound) and not pass_.closed:
        if not binding.bind(pass_, pod, known.cluster, known.seen):
            _delegate(pass_, pod, known.cluster, known.seen, shown)
    else:
        _waiting(pass_, pod, waits, shown)


def _is_left_alone(pod: SourcePodObserved, known: Candidate | None) -> bool:
    """Whether nothing is shown any more: the pod has ended, or is being deleted. A bound one that waits for its kubelet
    still shows how its delegate has ended by itself."""
    if pod.phase in ENDED_PHASES or not pod.deleting:
        return pod.phase in ENDED_PHASES
    seen = known.seen if known is not None else None
    return not (pod.stopping and isinstance(seen, DelegateStatus) and rank(seen.pod_phase) == 2)


def _say(pass_: PodPass, pod: SourcePodObserved, again: bool = False, /, **said: Any) -> None:
    """Show a status of this pod in the epoch under way; `again`: also if the pod says already that it shows it."""
    _write(pass_, pod, StatusShown(uid=pod.uid, epoch=pass_.state.epoch, **said), again=again)


def _shown(pass_: PodPass, pod: SourcePodObserved) -> StatusShown | None:
    """Return what this pod was last to show, None if nothing, or if that was one that had its name before."""
    shown = pass_.state.shown
    return shown if shown is not None and shown.uid == pod.uid else None


def _delegate(
    pass_: PodPass, pod: SourcePodObserved, cluster: str, seen: CandidateBound, shown: StatusShown | None
) -> None:
    reported = _reported(seen)
    if shown is not None and shown.source == seen.name and shown.sequence > reported.sequence:
        return
    base = _no_fewer(pod, _restarts_before(pod, seen.name, shown), reported.restarts)
    message = f"bound on node {seen.node} of cluster {cluster}"
    announced = any(entry.type == "PodScheduled" and entry.message == message for entry in pod.conditions)
    final = rank(reported.phase) == 2
    # Of a container that an earlier delegate had ended nothing is said first, and then what this one says.
    unsaid = any(name in pod.containers and name not in pod.restarts for name in reported.restarts)
    _say(
        pass_,
        pod,
        unsaid,
        source=seen.name,
        sequence=reported.sequence,
        status=reported.status,
        phase=later(_phase_before(pod, shown), reported.phase),
        mark=f"{cluster}/{seen.name} status {reported.sequence}",
        message=message,
        restarts=base,
        totals={name: base.get(name, 0) + reported.restarts.get(name, 0) for name in {*base, *reported.restarts}},
        # Once it is said that it is bound, so that each of the two is an Event of its own.
        obstacles=_obstacles(pass_, pod, cluster, seen)[:_SAID] if announced else "",
        reason=CandidateReason.STATUS_FINAL if final else CandidateReason.STATUS_CHANGED,
    )


def _obstacles(pass_: PodPass, pod: SourcePodObserved, cluster: str, seen: CandidateBound) -> str:
    """Return what cannot follow the pod, and why: objects that it names, and changes of itself."""
    failure = pass_.state.trouble.get(amendment_of(cluster, seen.name))
    said = seen.message if seen.why and not isinstance(seen, DelegateMissing) else ""
    if not said and failure is not None:
        said = failure.message or failure.error
    changes = f"its last change: {said}" if said else ""
    # A claim or an account may be there by itself; a Service is asked for as a copy.
    asked = [need.name for need in pod.needs if need.kind == "Service" and need.kind not in seen.follows]
    services = f"Service {', '.join(asked)}: the CandidateSource there lets none follow: add Service to spec.follow"
    bound = binding.obstacle(pass_, pod)
    untold = gates.untold(pod, cluster, seen)
    return "; ".join(filter(None, (pass_.context.obstacles, services if asked else "", changes, bound, untold)))


class _Reported(Value):
    """What a delegate's target reports of its status; the defaults are of one that reports none yet."""

    sequence: int = 0
    status: str = ""
    phase: str = "Pending"
    restarts: Mapping[str, int] = {}


def _reported(seen: CandidateBound) -> _Reported:
    if not isinstance(seen, DelegateStatus):
        return _Reported()
    return _Reported(sequence=seen.sequence, status=seen.pod_status, phase=seen.pod_phase, restarts=seen.restarts)


def _restarts_before(pod: SourcePodObserved, delegate: str, shown: StatusShown | None) -> dict[str, int]:
    """Return how often each container was restarted before this delegate."""
    if shown is None:
        return {}
    if shown.source not in ("", delegate):
        return {name: count + 1 for name, count in shown.totals.items()}
    return shown.restarts


def _no_fewer(pod: SourcePodObserved, before: Mapping[str, int], reported: Mapping[str, int]) -> dict[str, int]:
    """Return the restarts before a delegate's own, so many that the pod shows no fewer than it does: one that a backup
    brought back, or of a log that was lost, has shown more than anybody remembers."""
    more = {name: count - reported.get(name, 0) for name, count in pod.restarts.items()}
    return {**before, **{name: least for name, least in more.items() if least > before.get(name, 0)}}


def _counted(pod: SourcePodObserved, shown: StatusShown | None) -> dict[str, dict[str, int]]:
    """Return how often containers were restarted while the pod has no delegate: what it was last to show, and no
    fewer."""
    if shown is None:
        return {"restarts": pod.restarts, "totals": pod.restarts}
    own = {name: count - shown.restarts.get(name, 0) for name, count in shown.totals.items()}
    before = _no_fewer(pod, shown.restarts, own)
    return {
        "restarts": before,
        "totals": {**before, **{name: before.get(name, 0) + more for name, more in own.items()}},
    }


def _phase_before(pod: SourcePodObserved, shown: StatusShown | None) -> str:
    return later(shown.phase if shown is not None else "Pending", pod.phase)


def _fail(pass_: PodPass, pod: SourcePodObserved, shown: StatusShown) -> None:
    lost = pass_.state.closed_by
    why = "a pod that is bound to a node goes to no other" if pass_.state.stays else "restartPolicy is Never"
    after = " after it had started" if rank(shown.phase) >= 1 else ""
    _say(
        pass_,
        pod,
        source=shown.source,
        sequence=shown.sequence,
        status=shown.status,
        phase="Failed",
        mark=f"{shown.source} lost",
        message=f"its delegate was lost ({lost}){after}, and {why}",
        failed=True,
        **_counted(pod, shown),
        reason=CandidateReason(lost),
    )


def _waiting(pass_: PodPass, pod: SourcePodObserved, waits: CandidateReason | None, shown: StatusShown | None) -> None:
    """Say why nobody has it yet, once there is something to say: everybody has answered, or it cannot be elected."""
    reason, message = _why_waiting(pass_, pod, waits, shown)
    if not message:
        return
    if reason == CandidateReason.UNSCHEDULABLE_EVERYWHERE and pass_.unreadable():
        reason = CandidateReason.CANDIDATES_UNREADABLE
    _say(
        pass_,
        pod,
        source=shown.source if shown is not None else "",
        sequence=shown.sequence if shown is not None else 0,
        phase=_phase_before(pod, shown),
        mark=f"{reason}: {message}"[:_SAID],
        message=message,
        **_counted(pod, shown),
        reason=reason,
    )


def _why_waiting(
    pass_: PodPass, pod: SourcePodObserved, waits: CandidateReason | None, shown: StatusShown | None
) -> tuple[CandidateReason, str]:
    """Return why nobody has it, with no message while there is nothing to say."""
    refused = pass_.state.refused
    if refused is not None and refused.uid == pod.uid and not pass_.state.electing:
        return refused.reason, refused.message
    if waits in _ALL_ANSWERED:
        return waits, _everybody(pass_)
    if waits in (CandidateReason.CANDIDATE_UNREAD, CandidateReason.DELEGATE_UNSEEN):
        return waits, lost_log.said(pass_)[:_SAID]
    if waits == CandidateReason.AWAITS_GANG and (said := _of_gang(pass_)):
        return waits, said
    if waits == CandidateReason.PERMIT_OPEN and (said := _unanswered(pass_)):
        return CandidateReason.AWAITS_ANSWER, said
    if _delegate_was_lost(pass_.state, shown):
        return CandidateReason.DELEGATE_WAS_LOST, "its delegate was lost; another cluster is looked for"
    return CandidateReason.NOT_PLACED, ""


def _delegate_was_lost(state: SourceState, shown: StatusShown | None) -> bool:
    """Whether the pod shows a delegate that it does not have any more, and another one is looked for."""
    return shown is not None and bool(shown.source) and not state.delegate and state.electing


def _of_gang(pass_: PodPass) -> str:
    """Return why a gang's member waits: for all of it, what was decided about it; for one that follows, what the gang's
    target says.
    """
    gang = pass_.context.gang
    if gang is None or not gang.follows:
        return gang.message if gang is not None else ""
    known = pass_.current().get(gang.home)
    seen = known[1].seen if known is not None else None
    if gang.home not in pass_.targets():
        said = "its namespace may not use it any more"
    elif not pass_.context.in_view(gang.home):
        said = "it cannot be reached"
    elif isinstance(seen, (CandidateRefused, CandidateUnschedulable)):
        said = seen.message or seen.why or "no node"
    else:
        return ""
    return f"the other pods of PodGroup {gang.name} are in {gang.home}, and it goes nowhere else: {said}"[:_SAID]


def _unanswered(pass_: PodPass) -> str:
    """Return that a target has not said what became of its permit, "" while it need not have: only never-twice waits
    on.
    """
    permit = pass_.permit
    if permit is None or permit.kind != "Bind" or pass_.now < silent_from(pass_, permit):
        return ""
    where = "does not say" if pass_.context.in_view(permit.cluster) else "cannot be reached to say"
    return (
        f"{permit.cluster} was permitted to run it and {where} whether it does: nobody else is before that is"
        " known, or the target is given up (controlplane clusters forget)"
    )


def silence(pass_: PodPass) -> str:
    """Return what is said of a target that answers nothing. Its scheduler leaves a pod without a PodGroup untried, and
    says nothing of it, where the profile is in `waitForGroup` of the plugin Gang: that is not known here.
    """
    said = f"no answer within {pass_.context.policy.answer_timeout.total_seconds():g} s: is its scheduler running?"
    pod = pass_.state.pod
    if pod is None or pod.group:
        return said
    return f"{said} If it is, its profile may be in waitForGroup of the plugin Gang, and the pod names no PodGroup"


def _everybody(pass_: PodPass) -> str:
    """Return what each target says, as kube-scheduler does of nodes."""
    targets, current = pass_.targets(), pass_.current()
    answers = {
        name: _answer(pass_, name, current[name][1].seen if name in current else None) for name in sorted(targets)
    }
    said = each_says({name: answer for name, answer in answers.items() if answer is not None})
    return f"0/{len(targets)} clusters have it: {said}"[:_SAID]


def _answer(pass_: PodPass, name: str, seen: CandidateSeen | None) -> str | None:
    """Return what a target says about the pod, None if it is not known yet."""
    if not pass_.context.in_view(name):
        return _out_of_view(pass_.context.unreadable(name))
    if isinstance(seen, (CandidateRefused, CandidateUnschedulable)):
        return seen.message or seen.why or "no node"
    failure = pass_.state.trouble.get(f"{name}/{pass_.name_for(name)}") if seen is None else None
    if failure is not None:
        return failure.message or failure.error
    if pass_.silent(name):
        return (seen.message if isinstance(seen, CandidateWaiting) else "") or silence(pass_)
    return type(seen).__name__.removeprefix("Candidate").lower() if seen is not None else None


def _out_of_view(unreadable: str) -> str:
    if unreadable:
        return f"it answers, but candidates of this namespace cannot be read there ({unreadable})"
    return "cannot be reached"


def _write(pass_: PodPass, pod: SourcePodObserved, wanted: StatusShown, *, again: bool = False) -> None:
    said = {entry.type: entry for entry in pod.conditions}
    there, followed = said.get(DELEGATED), said.get(FOLLOWED)
    obstacles = followed.message if followed is not None and followed.status == "False" else ""
    # A readiness that a node controller took away while the target was out of view is given back.
    again |= pod.unready and bool(wanted.source) and pass_.context.in_view(wanted.mark.partition("/")[0])
    if there is not None and there.message == wanted.mark and obstacles == wanted.obstacles and not again:
        return
    # All are writes to the same object: the second would only meet a conflict.
    if any(key in pass_.state.effects for key in TO_POD):
        return
    pass_.write(msgspec.structs.replace(wanted, resource_version=pod.resource_version))
