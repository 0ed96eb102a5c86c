"""The timeline of a source pod, and why it is where it is: one sentence and the events that it rests on.

In: a reader and a name. Out: an `Explanation` and moments, of the very folds that the service decides by. Nothing is
asked of any cluster."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from controlplane.audit.before_end import with_last_known
from controlplane.audit.explain import Explanation
from controlplane.audit.reads import Filter, LogReader
from controlplane.audit.standing import Standing
from controlplane.audit.timeline import TimelineEntry, entry_of
from controlplane.audit.words import reason_of, what
from controlplane.controllers.candidates.objects import CANDIDATES, PODS
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.candidate import Candidate, Permit
from controlplane.controllers.candidates.source.controller import watched_in
from controlplane.controllers.candidates.source.events import (
    CandidateDecision,
    CandidateWriteFailed,
    CandidateWriteUnneeded,
    DelegateLost,
    OnCandidate,
    PermitGranted,
    StatusShown,
)
from controlplane.controllers.candidates.source.gang_state import group_stream
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateObservationRefused,
    CandidateSeen,
    DelegateStatus,
    SourceDeleted,
    SourcePodObserved,
)
from controlplane.controllers.candidates.source.phrases import pod_because
from controlplane.controllers.candidates.source.state import STREAM as SOURCES
from controlplane.controllers.candidates.source.state import (
    SourceState,
    fold,
    source_stream,
)
from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.log.event import Recorded, Unknown
from controlplane.runtime.phrases import each_says, listed

_UNREAD, _OF_POD = CandidateObservationRefused, (SourcePodObserved, SourceDeleted)
_START = "its delegate to start"
_UNKNOWN = (CandidateReason.CANDIDATE_UNREAD, CandidateReason.DELEGATE_UNSEEN)


def pod_events(reader: LogReader, namespace: str, name: str) -> list[Recorded]:
    """Return the events of the source pods of a name, in order; none if there was none."""
    return list(reader.events(Filter(streams=[source_stream(namespace, name)])))


def unread_pod(reader: LogReader, events: Sequence[Recorded]) -> Recorded | None:
    """Return the refusal of the source pod of a stream that is there and cannot be read; None if it can be, or is gone."""
    _, namespace, name = events[0].stream.split("/")
    stream = f"refused/{MANAGEMENT}/{PODS.name}/{namespace}/{name}"
    refusals = [one for one in reader.events(Filter(streams=[stream])) if isinstance(one.event, _UNREAD)]
    last = refusals[-1] if refusals else None
    if last is None or any(one.position > last.position and isinstance(one.event, _OF_POD) for one in events):
        return None
    return last


def connections(reader: LogReader, clusters: Sequence[str]) -> dict[str, Connection]:
    """Return how some clusters are connected, by the log."""
    found = {name: Connection(name=name) for name in clusters}
    for recorded in reader.events(Filter(streams=[cluster_stream(name) for name in clusters])):
        name = recorded.stream.partition("/")[2]
        if not isinstance(recorded.event, Unknown):
            found[name] = fold_connection(found[name], recorded)
    return found


def folded(events: Sequence[Recorded]) -> SourceState:
    """Return the state of the source pod that these events are of."""
    state = SourceState.initial(events[0].stream)
    for recorded in events:
        state = fold(state, recorded)
    return state


def placed_on(reader: LogReader, cluster: str) -> list[str]:
    """Return the streams of the source pods that a target has bound, or that have its permit."""
    states: dict[str, SourceState] = {}
    for recorded in reader.events(Filter(streams=reader.streams(SOURCES))):
        states[recorded.stream] = fold(states.get(recorded.stream) or SourceState.initial(recorded.stream), recorded)
    return [
        stream
        for stream, state in sorted(states.items())
        if cluster in (there.cluster for there in (state.chosen, state.permit) if there is not None)
    ]


def explain_pod(
    events: Sequence[Recorded],
    connected: Mapping[str, Connection],
    gang: Sequence[Recorded] = (),
    unread: Recorded | None = None,
) -> Explanation:
    """Return why a source pod is where it is. `events` are those of its stream, at least one; `gang` those of its
    PodGroup; `unread` is what was wrong with it, if it cannot be read.
    """
    state = folded(events)
    pod = state.pod
    if pod is None and unread is not None:
        return _unreadable(state, unread)
    if pod is None or pod.deleting:
        told = _gone(state, events, deleting=pod is not None)
        # A link that is away says nothing of what was.
        return with_last_known(told, events, SourceDeleted, lambda before: explain_pod(before, {}))
    if state.shown is not None and state.shown.uid == pod.uid and state.shown.failed:
        return _answer("Finished", "", f"It is over: {state.shown.message}.", events, DelegateLost)
    return _there(state, pod, events, connected, gang)


def _there(
    state: SourceState,
    pod: SourcePodObserved,
    events: Sequence[Recorded],
    connected: Mapping[str, Connection],
    gang: Sequence[Recorded],
) -> Explanation:
    """Return why a pod that is there, and not over, is where it is."""
    if state.chosen is not None:
        return _placed(state, state.chosen, events, connected)
    if state.refused is not None and state.refused.uid == pod.uid and not state.electing:
        sentence = f"It is not placed, because {pod_because(state.refused)}."
        return _answer("Pending", "", sentence, events, type(state.refused))
    if state.permit is not None:
        return _permitted(state.permit, events)
    if state.shown is not None and state.shown.uid == pod.uid and state.shown.reason in _UNKNOWN:
        return _answer("Pending", "", f"Nobody may have it yet: {state.shown.message}.", events, StatusShown)
    together = _of_gang(pod.group, gang) if pod.group else ""
    sentence = f"No cluster has it yet: {of_targets(state, connected)}.{together}"
    return _answer("Pending", "", sentence, events, CandidateSeen)


def _unreadable(state: SourceState, unread: Recorded) -> Explanation:
    """Return that a pod is there and cannot be read; what runs of it goes on."""
    bound = sorted(known.cluster for known in state.candidates.values() if isinstance(known.seen, CandidateBound))
    error = unread.event.error if isinstance(unread.event, _UNREAD) else ""
    sentence = f"It is there and cannot be read ({error}): what there is of it is left as it is."
    standing = Standing("Running", bound[0], "") if bound else Standing("Pending", "", "it to be readable")
    return Explanation(standing, sentence, [unread])


def _permitted(permit: Permit, events: Sequence[Recorded]) -> Explanation:
    granted = _last(events, PermitGranted)
    why = pod_because(granted.event) if granted and isinstance(granted.event, CandidateDecision) else ""
    taking = " It is being taken back." if permit.revoking else ""
    sentence = f"{permit.cluster} has the permit until {permit.until:%H:%M:%S}, because {why}.{taking}"
    return _answer("Pending", permit.cluster, sentence, events, PermitGranted)


def _of_gang(group: str, gang: Sequence[Recorded]) -> str:
    """Return what was last decided about the PodGroup that the pod starts with."""
    decided = gang_decision(gang)
    if decided is None:
        return f" It starts with PodGroup {group}, in one cluster."
    return f" It starts with PodGroup {group}, in one cluster: {what(decided)}, because {pod_because(decided)}."


def gang_decision(gang: Sequence[Recorded]) -> CandidateDecision | None:
    """Return what was last decided about a PodGroup, None if nothing was."""
    decided = (recorded.event for recorded in reversed(gang) if isinstance(recorded.event, CandidateDecision))
    return next(decided, None)


def _placed(
    state: SourceState, chosen: Candidate, events: Sequence[Recorded], connected: Mapping[str, Connection]
) -> Explanation:
    node = chosen.seen.node if isinstance(chosen.seen, CandidateBound) else ""
    granted = _last(events, PermitGranted)
    why = pod_because(granted.event) if granted and isinstance(granted.event, CandidateDecision) else "it was permitted"
    link = connected.get(chosen.cluster)
    away = "" if link is None or link.connected else f" {chosen.cluster} cannot be reached now: {link.message}."
    others = [known.cluster for name, known in sorted(state.candidates.items()) if name != state.delegate]
    left = f" Candidates in {listed(others)} are still to be removed." if others else ""
    sentence = (
        f"It is on node {node or '?'} of cluster {chosen.cluster} as {state.delegate}, because {why}.{away}{left}"
    )
    phase = chosen.seen.pod_phase if isinstance(chosen.seen, DelegateStatus) else ""
    if phase in ("Succeeded", "Failed"):
        sentence += f" It has ended: {phase}."
        return _answer("Finished", chosen.cluster, sentence, events, PermitGranted, CandidateBound)
    told = _answer("Running", chosen.cluster, sentence, events, PermitGranted, CandidateBound)
    if phase in ("", "Pending"):  # bound is not started: its kubelet pulls images, mounts volumes, or said nothing yet
        return msgspec.structs.replace(told, standing=Standing("Pending", chosen.cluster, _START))
    return told


def _gone(state: SourceState, events: Sequence[Recorded], *, deleting: bool) -> Explanation:
    what_is = "It is being deleted" if deleting else "It is gone"
    where = sorted({known.cluster for known in state.candidates.values()})
    rest = f", and what it had in {listed(where)} is being removed" if where else ", and nothing is left of it anywhere"
    waits = f"its candidates in {listed(where)} to go" if where else ""
    return Explanation(Standing("Deleted", "", waits), f"{what_is}{rest}.", _tail(events))


def of_targets(state: SourceState, connected: Mapping[str, Connection]) -> str:
    """Return what the targets said of a pod, or why they said nothing."""
    if not state.targets:
        return "it has no targets"
    silent = {name: why for name in sorted(state.targets) if (why := _silence(state, name, connected))}
    said = {name: _heard(state, name).rstrip(".") for name in sorted(state.targets) if name not in silent}
    return "; ".join([*filter(None, [each_says(said)]), *(f"{name} {why}" for name, why in silent.items())])


def said_by_target(state: SourceState, name: str, connected: Mapping[str, Connection]) -> str:
    """Return the same without its name."""
    return _silence(state, name, connected) or _heard(state, name)


def _silence(state: SourceState, name: str, connected: Mapping[str, Connection]) -> str:
    """Return why nothing is known from a target, "" if it said something."""
    link = connected.get(name)
    if link is None or not link.connected:
        return "cannot be reached"
    if why := link.off.get(watched_in(state.namespace)) or link.off.get(CANDIDATES.name):
        return f"answers, but candidates of this namespace cannot be read there ({why})"
    if _asked(state, name) is None:
        return "has not been asked"
    return "" if _heard(state, name) else "has not answered"


def _asked(state: SourceState, name: str) -> tuple[str, Candidate] | None:
    """Return the candidate of the attempt under way in a target, with its name."""
    for candidate, known in state.candidates.items():
        if known.cluster == name and (known.uid, known.epoch) == (state.uid, state.epoch):
            return candidate, known
    return None


def _heard(state: SourceState, name: str) -> str:
    """Return what a target last said of the candidate, or its API server against it; "" if neither said anything."""
    asked = _asked(state, name)
    if asked is None:
        return ""
    candidate, known = asked
    if known.seen is not None:
        return what(known.seen)
    failure = state.trouble.get(f"{name}/{candidate}")
    return failure.message if failure is not None else ""


def _answer(
    state_word: str, cluster: str, sentence: str, events: Sequence[Recorded], *rests_on: type[object]
) -> Explanation:
    newest = [recorded for kind in rests_on if (recorded := _last(events, kind)) is not None]
    standing = Standing("Pending", cluster, "a cluster that takes it")
    if state_word in ("Running", "Finished"):
        standing = Standing("Running" if state_word == "Running" else "Finished", cluster, "")
    return Explanation(standing, _ended(" ".join(sentence.split())), sorted(newest, key=lambda one: one.position))


def _ended(sentence: str) -> str:
    """Return a sentence with one full stop; what an API server said may have had one already."""
    return sentence.rstrip(".") + "."


def _last(events: Sequence[Recorded], kind: type[object]) -> Recorded | None:
    return next((recorded for recorded in reversed(events) if isinstance(recorded.event, kind)), None)


def _tail(events: Sequence[Recorded]) -> list[Recorded]:
    return list(events[-1:])


def pod_moments(events: Sequence[Recorded]) -> list[TimelineEntry]:
    """Return the moment of each event of a source pod; what repeats itself is there, and not noteworthy."""
    entries: list[TimelineEntry] = []
    last: dict[Hashable, tuple[str, str]] = {}
    for recorded in events:
        event = recorded.event
        said = (what(event), reason_of(recorded))
        chain = _chain(recorded)
        new = last.get(chain) != said and not isinstance(event, CandidateWriteUnneeded)
        if isinstance(event, CandidateWriteFailed) and event.code == 409:
            new = False
        last[chain] = said
        why = pod_because(event) if isinstance(event, CandidateDecision) else ""
        if isinstance(event, StatusShown) and event.message:  # which is said already
            why = why.removesuffix(event.message).removesuffix(": ")
        if isinstance(event, CandidateWriteFailed):
            why = event.message
        entries.append(entry_of(recorded, said[0], why, said[1], noteworthy=new))
    return entries


def _chain(recorded: Recorded) -> Hashable:
    event = recorded.event
    if isinstance(event, (CandidateSeen, OnCandidate)):
        side = "seen" if isinstance(event, CandidateSeen) else "decided"
        return side, recorded.cluster, getattr(event, "candidate", "") or getattr(event, "name", "")
    return type(event).__name__, recorded.cluster


def gang_events(reader: LogReader, state: SourceState) -> list[Recorded]:
    """Return the events of the PodGroup that a source pod belongs to, in order; none if it is in none."""
    pod = state.pod
    if pod is None or not pod.group:
        return []
    return list(reader.events(Filter(streams=[group_stream(pod.namespace, pod.group)])))
