"""What became of a Workload that has ended: where it ran and why there, what was taken from it and when, how long it
waited and ran, and whether it was ever on two clusters at once. Each statement names the events that prove it.

In: a `Case`. Out: `Statement`s, in the order in which things happened; those about all of it come last. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from http import HTTPStatus

import msgspec

from controlplane.audit.case import STAMP, Answer, Case, refusal, restored, result_of, said_of_restore, taken_back
from controlplane.audit.runs_seen import JobRun, admitted_here, begin_of, bounds_of, overlaps, runs, times
from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterConnectFailed,
    ClusterDisconnected,
    ClusterLost,
    cluster_stream,
)
from controlplane.controllers.multikueue.events import (
    CheckStateDecided,
    ClusterRefused,
    CopyJudged,
    JobCreationDecided,
    NominationDecided,
    StatusRelayDecided,
    WinnerChosen,
    WinnerReleased,
)
from controlplane.controllers.multikueue.observations import (
    RemoteJobGone,
    RemoteJobObserved,
    WorkloadGone,
    WorkloadObserved,
)
from controlplane.controllers.multikueue.own_events import of_own_objects
from controlplane.controllers.multikueue.phrases import because
from controlplane.kube.durations import show
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import About, Statement
from controlplane.runtime.phrases import listed

_SECOND = timedelta(seconds=1)


def untold(case: Case) -> Answer:
    """Return why the job of a Workload that has finished does not say that it ended, and what shows it; "" if it does,
    or if nothing was refused."""
    failure, job = case.state.trouble.get(f"{MANAGEMENT}/Job"), case.context.job
    if failure is None or failure.action != StatusRelayDecided.__name__ or job is None or job.finished:
        return "", []
    again = failure.code == HTTPStatus.FORBIDDEN
    kept = [name for name, remote in sorted(case.state.remotes.items()) if remote.job is not None and again]
    ends = [", and is tried again" if again else "", f"; the copy stays on {listed(kept)} until then" if kept else ""]
    text = f" Its job does not say so: the last status was refused ({failure.message}){''.join(ends)}."
    return text, refusal(case, MANAGEMENT)


def statements(case: Case) -> list[Statement]:
    """Return what is to be said of a Workload that has ended."""
    begin = begin_of(case.events, case.stream)
    if begin is None:
        return []
    seen = begin.event
    assert isinstance(seen, WorkloadObserved)
    found = runs(case.context.policy, case.events, case.stream, seen.uid)
    case = msgspec.structs.replace(case, events=list(of_own_objects(case.events, case.stream)))
    end = _end(case, begin)
    here = [] if found else admitted_here(case.events, case.stream, begin.position, MANAGEMENT)
    told = *_attempts(case, begin), *_outages(case, begin, end), *_ran(case, found), *_here(here, end)
    found_statements = [*told, *_restore(case)]
    found_statements.sort(key=lambda statement: statement.events[0].position)
    if here:
        return [*found_statements, *_in_all_here(here, begin, end)]
    return [*found_statements, _times(found, begin, end), *_at_once(found, begin, end)]


def _end(case: Case, begin: Recorded) -> Recorded:
    """Return the event with which it had ended: the first that shows it finished, else that it is gone, else the last
    one seen.
    """
    after = [e for e in case.events if e.stream == case.stream and e.position >= begin.position]
    for recorded in after:
        event = recorded.event
        if isinstance(event, WorkloadGone) or (isinstance(event, WorkloadObserved) and event.is_true("Finished")):
            return recorded
    return after[-1]


def _attempts(case: Case, begin: Recorded) -> Iterator[Statement]:
    """Tell of the decisions that placed it, and of what undid them."""
    evicted, offered = False, 0
    for number, recorded in enumerate(case.events):
        event = recorded.event
        if recorded.stream != case.stream or recorded.position < begin.position:
            continue
        match event:
            case NominationDecided() if event.attempt != offered:
                offered = event.attempt
                text = f"attempt {event.attempt}: it was offered to {listed(event.clusters)} because {because(event)}"
                yield Statement(about="Offered", text=text, events=[recorded], attempt=event.attempt)
            case WinnerChosen():
                text = f"attempt {event.attempt}: {event.cluster} was chosen because {because(event)}"
                yield _about("Placed", text, recorded, event)
            case WinnerReleased():
                yield _about("GivenUp", f"{event.cluster} was given up because {because(event)}", recorded, event)
            case ClusterRefused():
                yield _about("LeftOut", f"{event.cluster} was left out because {because(event)}", recorded, event)
            case CopyJudged():
                text = (
                    f"{event.cluster} came back with a copy; the verdict on it was {event.verdict} because"
                    f" {because(event)}"
                )
                yield Statement(about="Judged", text=text, events=[recorded], cluster=event.cluster)
            case WorkloadObserved():
                if event.is_true("Evicted") and not evicted:
                    yield _taken_back(case, number, offered)
                evicted = event.is_true("Evicted")


def _about(
    about: About, text: str, recorded: Recorded, event: WinnerChosen | WinnerReleased | ClusterRefused
) -> Statement:
    return Statement(about=about, text=text, events=[recorded], cluster=event.cluster, attempt=event.attempt)


def _taken_back(case: Case, number: int, attempt: int) -> Statement:
    """Tell of an eviction: our own retry with its reason, or one by the management cluster."""
    until_then = msgspec.structs.replace(case, events=case.events[: number + 1])
    answer = taken_back(until_then)
    text, proof = answer if answer is not None else ("it was evicted", [])
    chosen = next((e for e in proof if e is not None and isinstance(e.event, WinnerChosen)), None)
    # What was decisive, the newest first: the decision or the observation is what is said, the rest led to it.
    own = [e for e in proof if e is not None and not isinstance(e.event, WinnerChosen)]
    decided = [e for e in own if isinstance(e.event, CheckStateDecided)]
    first = decided or [case.events[number]]
    rest = sorted((e for e in own if e not in first), key=lambda e: e.position)
    return Statement(
        about="TakenBack",
        text=f"attempt {attempt} ended: {text}" if attempt else text,
        events=[*first, *rest],
        cluster=chosen.cluster if chosen is not None else "",
        attempt=attempt,
    )


def _outages(case: Case, begin: Recorded, end: Recorded) -> Iterator[Statement]:
    """Say when a cluster could not be reached that had been chosen for it, and had not been left since."""
    placed = {e.cluster for e in case.events if isinstance(e.event, JobCreationDecided) and e.stream == case.stream}
    for cluster in sorted(placed):
        held = _held(case, cluster, begin)
        for lost, back in _absences(case.events, cluster):
            if back is None and lost.position >= end.position:
                continue
            if any((back is None or since <= back.position) and lost.position <= until for since, until in held):
                yield _away(cluster, lost, back)


def _restore(case: Case) -> Iterator[Statement]:
    """Tell of the last restore of the management cluster that concerned the Workload."""
    found = restored(case)
    if found is not None:
        text = said_of_restore(*found)
        yield Statement(about="Restored", text=text[:1].lower() + text[1:], events=list(found), cluster=MANAGEMENT)


def _absences(events: Sequence[Recorded], cluster: str) -> Iterator[tuple[Recorded, Recorded | None]]:
    """Yield each absence of a cluster: the event that began it, and the one that ended it, None while it lasts."""
    lost: Recorded | None = None
    for recorded in events:
        if recorded.stream != cluster_stream(cluster):
            continue
        if isinstance(recorded.event, ClusterLost | ClusterConnectFailed | ClusterDisconnected):
            lost = lost or recorded
        elif isinstance(recorded.event, ClusterConnected) and lost is not None:
            yield lost, recorded
            lost = None
    if lost is not None:
        yield lost, None


def _held(case: Case, cluster: str, begin: Recorded) -> list[tuple[int, int]]:
    """Return from where to where in the log a cluster had the job, or was to get it."""
    held: list[tuple[int, int]] = []
    for recorded in case.events:
        if recorded.stream != case.stream or recorded.cluster != cluster or recorded.position < begin.position:
            continue
        if isinstance(recorded.event, JobCreationDecided) and (not held or held[-1][1] < recorded.position):
            held.append((recorded.position, case.events[-1].position + 1))
        elif isinstance(recorded.event, RemoteJobGone) and held:
            held[-1] = (held[-1][0], min(held[-1][1], recorded.position))
    return held


def _away(cluster: str, lost: Recorded, back: Recorded | None) -> Statement:
    text = f"{cluster} could not be reached from {lost.recorded_at:{STAMP}}"
    if back is None:
        return Statement(about="Away", text=f"{text} on", events=[lost], cluster=cluster)
    lasted = back.recorded_at - lost.recorded_at
    text = f"{text} until {back.recorded_at:{STAMP}} ({_duration(lasted)})"
    return Statement(about="Away", text=text, events=[lost, back], cluster=cluster, seconds=lasted.total_seconds())


def _ran(case: Case, found: list[JobRun]) -> Iterator[Statement]:
    """Tell of each run, and what became of it."""
    source, _ = result_of(case)
    for run in found:
        lasted = run.until(case.now) - run.began.recorded_at
        verb = "its job ran on" if run.seen else "its job may have run unseen on"
        text = (
            f"{verb} {run.cluster} from {run.began.recorded_at:{STAMP}} for {_duration(lasted)}{_ending(run, source)}"
        )
        proof = [run.began, *([run.ended] if run.ended is not None else [])]
        yield Statement(about="Ran", text=text, events=proof, cluster=run.cluster, seconds=lasted.total_seconds())


def _here(times_here: list[JobRun], end: Recorded) -> Iterator[Statement]:
    """Tell of each time in which it was admitted without being dispatched."""
    for time in times_here:
        lasted = time.until(end.recorded_at) - time.began.recorded_at
        text = (
            f"it was admitted on the management cluster from {time.began.recorded_at:{STAMP}} for {_duration(lasted)}"
        )
        yield Statement(
            about="Ran", text=text, events=bounds_of([time]), cluster=MANAGEMENT, seconds=lasted.total_seconds()
        )


def _in_all_here(times_here: list[JobRun], begin: Recorded, end: Recorded) -> Iterator[Statement]:
    """Tell for how long it was queued and admitted in all; its pods are not recorded."""
    queued, admitted, _ = times(times_here, begin.recorded_at, end.recorded_at)
    text = (
        f"in all it was queued for {_duration(queued)} and admitted for {_duration(admitted)}, in which its job "
        "could run"
    )
    yield Statement(about="Times", text=text, events=bounds_of(times_here), seconds=(queued + admitted).total_seconds())
    yield Statement(about="AtOnce", text="it was never offered to a worker", events=[begin], seconds=0.0)


def _ending(run: JobRun, source: str) -> str:
    """Return how a run ended, and whether it is the one that counted."""
    event = run.ended.event if run.ended is not None else None
    if run.ended is None:
        return ", and was not seen to end"
    counted = run.cluster == source
    if isinstance(event, RemoteJobObserved) and event.finished:
        return ", and ended; it is the run that counted" if counted else ", and ended; another run counted"
    if isinstance(event, RemoteJobGone):
        return ", until it was seen to be gone: this run was lost"
    if isinstance(event, RemoteJobObserved) and event.suspended:
        return ", until it was stopped: this run was lost"
    return ""


def _times(found: list[JobRun], begin: Recorded, end: Recorded) -> Statement:
    queued, ran, perhaps = times(found, begin.recorded_at, end.recorded_at)
    unseen = f", and may have run unseen for {_duration(perhaps)} more" if perhaps else ""
    text = f"in all it was queued for {_duration(queued)}"
    if found:
        text += f" and ran for {_duration(ran)}{unseen}"
    proof = {e.position: e for run in found for e in (run.began, run.ended) if e is not None}
    proof |= {begin.position: begin} | ({} if found else {end.position: end})
    return Statement(
        about="Times", text=text, events=[proof[at] for at in sorted(proof)], seconds=(queued + ran).total_seconds()
    )


def _at_once(found: list[JobRun], begin: Recorded, end: Recorded) -> Iterator[Statement]:
    both = overlaps(found, end.recorded_at)
    for overlap in both:
        one, other = overlap.clusters
        where = f"{one} and {other} at once"
        lasted = _duration(overlap.lasted)
        text = (
            f"it ran on {where} for {lasted}" if overlap.seen else f"it may have run on {where}, for {lasted} at most"
        )
        proof = [overlap.began, *([overlap.ended] if overlap.ended is not None else [])]
        yield Statement(about="AtOnce", text=text, events=proof, seconds=overlap.lasted.total_seconds())
    if not both:
        proof = [e for run in found for e in (run.began, run.ended) if e is not None] or [begin]
        text = "it was never on two clusters at once" if found else "it never ran"
        unique = {e.position: e for e in proof}
        yield Statement(about="AtOnce", text=text, events=[unique[at] for at in sorted(unique)], seconds=0.0)


def _duration(lasted: timedelta) -> str:
    """Return a length of time for people, to the second."""
    return show(max(lasted, timedelta()) // _SECOND * _SECOND) if lasted >= _SECOND else "less than 1s"
