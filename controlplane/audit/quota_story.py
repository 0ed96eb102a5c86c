"""Which events of admission and of the job framework tell the story of a Workload, and what they add to it.

In: the events of a Workload, of its job, and of what this service decided about both where `quota.mode` is `builtin`.
Out: which of them are about this Workload, why each was, which of them another stream tells already, and how far the
Workload is by admission alone. Pure.

Three controllers may record the same Workload and the same job. What was seen of them is told once: by MultiKueue's
stream where there is one, since its story has the copies too; else by the job framework's, else by admission's. What
was decided is told by whoever decided it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from controlplane.audit.standing import check_to_change, quota_of
from controlplane.controllers.jobframework import events as jobs
from controlplane.controllers.jobframework import pod_events as pods
from controlplane.controllers.jobframework.names import WORD as JOB_FRAMEWORK
from controlplane.controllers.jobframework.reasons import REASONS as JOB_REASONS
from controlplane.controllers.multikueue.observations import JobObserved, WorkloadObserved
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.admission.observe import ADMISSION
from controlplane.controllers.quota.admission.reasons import REASONS as ADMISSION_REASONS
from controlplane.kube.kinds import Json
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.explanation import Explanation, Standing, last_seen

OF_WORKLOAD, OF_JOB = f"{ADMISSION}/workload/", f"{JOB_FRAMEWORK}/job/"
"""How the streams begin that tell of a Workload, and of a job with its Workloads."""

_WORKLOAD_SEEN: tuple[type[Event], ...] = (admission.AdmissionWorkloadObserved, admission.AdmissionWorkloadGone)
_WORKLOAD_OF_JOB_SEEN: tuple[type[Event], ...] = (jobs.JobWorkloadObserved, jobs.JobWorkloadGone)
_JOB_SEEN: tuple[type[Event], ...] = (
    jobs.QueuedJobObserved,
    jobs.QueuedJobGone,
    pods.QueuedPodObserved,
    pods.QueuedPodGone,
)
_OF_THE_JOB = (
    *(jobs.QueuedJobObserved, jobs.QueuedJobGone, jobs.JobStopDecided, jobs.JobNoticeDecided),
    *(pods.QueuedPodObserved, pods.QueuedPodGone, pods.PodWrite),
)
# A decision of one of these is news again once one of another has come between.
_TURNS: dict[type[Event], str] = {
    admission.WorkloadInadmissible: "waits",
    admission.QuotaReservationDecided: "has quota",
    admission.WorkloadPreemptionDecided: "is preempted",
    jobs.JobStartDecided: "is started",
    jobs.JobStopDecided: "is stopped",
    pods.PodStartDecided: "is started",
    pods.PodDeletionDecided: "is stopped",
    jobs.JobQuotaReleaseDecided: "is released",
}


def is_quota(stream: str) -> bool:
    """Whether a stream is one of admission or of the job framework."""
    return stream.startswith((f"{ADMISSION}/", f"{JOB_FRAMEWORK}/"))


def about(events: Iterable[Recorded], name: str) -> list[Recorded]:
    """Return those events that are about the Workload of this name, and the job that owns it: not about another
    Workload of the job, nor another job that had its name before or after. Without a name all are.
    """
    found = list(events)
    if not name:
        return found
    owner = next((uid for one in reversed(found) if (uid := _owner(one.event, name))), "")
    return [one for one in found if not is_quota(one.stream) or _is_about(one.event, name, owner)]


def _owner(event: Event | Unknown, name: str) -> str:
    match event:
        case WorkloadObserved() | jobs.JobWorkloadObserved() if event.name == name:
            return event.owner.uid if event.owner is not None else ""
        case admission.AdmissionWorkloadObserved():
            return event.job_uid
    return ""


def _is_about(event: Event | Unknown, name: str, owner: str) -> bool:
    match event:
        case jobs.JobWorkloadObserved() | jobs.JobWorkloadGone() | jobs.WorkloadOfJobWrite():
            return event.name == name
        case jobs.JobStartDecided() | pods.PodStartDecided():
            return event.workload == name
        case jobs.JobWriteFailed() | jobs.JobWriteUnneeded() if event.target.startswith("Workload/"):
            return event.target == f"Workload/{name}"
    return not (isinstance(event, _OF_THE_JOB) and owner and event.uid not in ("", owner))


def told_elsewhere(events: Iterable[Recorded]) -> tuple[type[Event], ...]:
    """Return the types of events that another stream among these tells already."""
    kinds = {type(one.event) for one in events}
    found: list[type[Event]] = []
    if WorkloadObserved in kinds or jobs.JobWorkloadObserved in kinds:
        found += _WORKLOAD_SEEN
    if WorkloadObserved in kinds:
        found += _WORKLOAD_OF_JOB_SEEN
    if JobObserved in kinds:
        found += _JOB_SEEN
    return tuple(found)


def because(event: Event | Unknown) -> str:
    """Return why something happened, in words; "" where nothing more is known than that it did."""
    match event:
        case admission.WorkloadPreemptionDecided():
            return event.message or ADMISSION_REASONS[event.reason].clause
        case admission.AdmissionDecision():
            return ADMISSION_REASONS[event.reason].clause
        case jobs.JobDecision():
            return JOB_REASONS[event.reason].clause
        case admission.AdmissionWriteFailed() | jobs.JobWriteFailed():
            return event.message
    return ""


def said(event: Event | Unknown, phrase: str) -> str:
    """Return what is compared of an event with the one before: of a wait its message, else its phrase."""
    return f"{event.why} {event.message}" if isinstance(event, admission.WorkloadInadmissible) else phrase


def turn(event: Event | Unknown) -> str:
    """Return in which state a decision puts a Workload or its job, "" if in none."""
    if isinstance(event, admission.WorkloadStatusDecided) and event.evicted:
        return "is evicted"
    return _TURNS.get(type(event), "") if not isinstance(event, Unknown) else ""


def chain(recorded: Recorded, turns: int) -> Hashable | None:
    """Return the object and the turn within which an event may repeat the one before; None for one of other
    controllers."""
    event = recorded.event
    if isinstance(event, _WORKLOAD_SEEN + _WORKLOAD_OF_JOB_SEEN):
        return "seen by quota", "Workload", isinstance(event, _WORKLOAD_SEEN)
    if isinstance(event, _JOB_SEEN):
        return "seen by quota", "job"
    if isinstance(event, admission.AdmissionWriteFailed | jobs.JobWriteFailed):
        return "failed", event.target, event.action, turns
    if isinstance(event, admission.QuotaPosted):
        return recorded.position
    if isinstance(event, admission.AdmissionDecision | jobs.JobDecision):
        return recorded.stream, type(event).__name__, turns
    return None


def explain_admission(events: Sequence[Recorded]) -> Explanation | None:
    """Return how far a Workload is by what admission saw and decided of it last; None if it never saw it. For a
    Workload of which MultiKueue has no stream.
    """
    kept = [one for one in events if one.stream.startswith(OF_WORKLOAD)]
    last = last_seen(kept, (admission.AdmissionWorkloadObserved,), (admission.AdmissionWorkloadGone,))
    if last is None:
        return None
    seen = last.event
    if not isinstance(seen, admission.AdmissionWorkloadObserved):
        return Explanation(Standing("Deleted"), "It is gone.", [last])
    stands, sentence = _standing(seen)
    begun = next(one.position for one in kept if getattr(one.event, "uid", "") == seen.uid)
    decided = next((one for one in reversed(kept) if turn(one.event) and one.position > begun), None)
    proof = {one.position: one for one in (last, decided) if one is not None}
    return Explanation(stands, sentence, [proof[position] for position in sorted(proof)])


def _standing(seen: admission.AdmissionWorkloadObserved) -> tuple[Standing, str]:
    found: dict[str, Json] = {str(one.get("type")): one for one in seen.status.get("conditions") or ()}
    true = {type_ for type_, one in found.items() if one.get("status") == "True"}
    if "Finished" in true:
        return Standing("Finished"), _sentence("It has finished", found["Finished"])
    if seen.deleting:
        return Standing("Deleting"), "It is being deleted."
    if "Evicted" in true and "QuotaReserved" in true:
        return Standing("Evicted", "", "its quota to be given back"), _sentence("It is evicted", found["Evicted"])
    if not seen.active:
        return Standing("Inactive", "", "somebody to activate it"), "It is deactivated."
    if "Admitted" in true:
        return Standing("Admitted"), f"It is admitted by ClusterQueue {_queue_of(seen)}."
    if "QuotaReserved" in true:
        return _reserved(seen, _queue_of(seen))
    return _pending(seen, found.get("QuotaReserved", {}))


def _pending(seen: admission.AdmissionWorkloadObserved, said: Json) -> tuple[Standing, str]:
    checks = seen.status.get("admissionChecks") or ()
    refused = check_to_change([str(one.get("name")) for one in checks if one.get("state") == "Rejected"])
    if not refused:
        place = quota_of(seen.queue, str(said.get("message") or ""))
        return Standing("Pending", "", place), _sentence("It waits for quota", said)
    first = f"It has no quota, and is not tried for any: it waits for {refused}"
    return Standing("Pending", "", refused), _sentence(first, said)


def _queue_of(seen: admission.AdmissionWorkloadObserved) -> str:
    return str((seen.status.get("admission") or {}).get("clusterQueue") or "")


def _reserved(seen: admission.AdmissionWorkloadObserved, queue: str) -> tuple[Standing, str]:
    names = [str(one.get("name")) for one in seen.status.get("admissionChecks") or () if one.get("state") != "Ready"]
    if not names:
        return Standing("Reserved"), f"It has quota in {queue}."
    waits = f"admission check {', '.join(names)}"
    return Standing("Reserved", "", waits), f"It has quota in {queue} and waits for {waits}."


def _sentence(first: str, condition: Json) -> str:
    message = str(condition.get("message") or "").rstrip(".")
    return f"{first}: {message}." if message else f"{first}."
