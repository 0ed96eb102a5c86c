"""Why a source pod is where it is: one sentence and the events that it rests on.

In: a reader and a name. Out: an `Explanation`, of the very folds that the service decides by. Nothing is asked of any
cluster."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec

from controlplane.controllers.candidates.objects import CANDIDATES, PODS
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.candidate import Candidate, Permit
from controlplane.controllers.candidates.source.controller import watched_in
from controlplane.controllers.candidates.source.events import (
    CandidateDecision,
    DelegateLost,
    OnCandidate,
    PermitGranted,
    StatusShown,
)
from controlplane.controllers.candidates.source.gang_events import GROUP
from controlplane.controllers.candidates.source.gang_state import group_stream
from controlplane.controllers.candidates.source.observations import (
    CandidateBound,
    CandidateObservationRefused,
    CandidateSeen,
    DelegateStatus,
    SourceDeleted,
    SourcePodObserved,
)
from controlplane.controllers.candidates.source.phrases import PHRASES, pod_because
from controlplane.controllers.candidates.source.state import (
    SourceState,
    fold,
    source_stream,
)
from controlplane.controllers.connectivity.events import MANAGEMENT, cluster_stream
from controlplane.controllers.connectivity.state import Connection
from controlplane.controllers.connectivity.state import fold as fold_connection
from controlplane.log.event import Recorded, Unknown
from controlplane.runtime.explanation import Explanation, Standing, answer, last, with_last_known
from controlplane.runtime.phrases import each_says, listed
from controlplane.runtime.stories import HistoryReader, ObjectHistory, ObjectStories

_UNREAD, _OF_POD = CandidateObservationRefused, (SourcePodObserved, SourceDeleted)
_START = "its delegate to start"
_UNKNOWN = (CandidateReason.CANDIDATE_UNREAD, CandidateReason.DELEGATE_UNSEEN)


def find(reader: HistoryReader, kind: str, namespace: str, name: str) -> ObjectHistory | None:
    """Return the history of the source pods of a name, with how their clusters are connected, what was decided about
    their PodGroup, and that they cannot be read.
    """
    events = reader.of(*_streams(kind, namespace, name)) if kind == "pod" else []
    if not events:
        return None
    state = folded(events)
    group = [group_stream(namespace, state.pod.group)] if state.pod is not None and state.pod.group else []
    around = [f"refused/{MANAGEMENT}/{PODS.name}/{namespace}/{name}", *map(cluster_stream, clusters_of(state)), *group]
    return ObjectHistory("sourcepod", events[0].stream, events, reader.of(*around))


def explained(found: ObjectHistory) -> Explanation:
    """Return where a source pod is, and why, by its history."""
    clusters = clusters_of(folded(found.events))
    return explain_pod(found.events, connections(clusters, found.around), gang_of(found), _refusal(found))


def gang_of(found: ObjectHistory) -> list[Recorded]:
    """Return what was decided about the PodGroup of a source pod."""
    return [recorded for recorded in found.around if recorded.stream.startswith(f"{GROUP}/")]


def _refusal(found: ObjectHistory) -> Recorded | None:
    """Return the refusal of a source pod that is there and cannot be read; None if it can be, or is gone."""
    refused = last(found.around, _UNREAD)
    seen = last(found.events, *_OF_POD)
    return refused if refused is None or seen is None or seen.position < refused.position else None


def clusters_of(state: SourceState) -> list[str]:
    """Return the clusters that a source pod may be in, by name."""
    return sorted({*state.targets, *(known.cluster for known in state.candidates.values())})


def connections(clusters: Sequence[str], events: Iterable[Recorded]) -> dict[str, Connection]:
    """Return how some clusters are connected, by the events of theirs."""
    found = {name: Connection(name=name) for name in clusters}
    for recorded in events:
        word, _, name = recorded.stream.partition("/")
        if word == "cluster" and name in found and not isinstance(recorded.event, Unknown):
            found[name] = fold_connection(found[name], recorded)
    return found


def folded(events: Sequence[Recorded]) -> SourceState:
    """Return the state of the source pod that these events are of."""
    state = SourceState.initial(events[0].stream)
    for recorded in events:
        state = fold(state, recorded)
    return state


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
    granted = last(events, PermitGranted)
    why = pod_because(granted.event) if granted and isinstance(granted.event, CandidateDecision) else ""
    taking = " It is being taken back." if permit.revoking else ""
    sentence = f"{permit.cluster} has the permit until {permit.until:%H:%M:%S}, because {why}.{taking}"
    return _answer("Pending", permit.cluster, sentence, events, PermitGranted)


def _of_gang(group: str, gang: Sequence[Recorded]) -> str:
    """Return what was last decided about the PodGroup that the pod starts with."""
    decided = gang_decision(gang)
    if decided is None:
        return f" It starts with PodGroup {group}, in one cluster."
    return (
        f" It starts with PodGroup {group}, in one cluster: {PHRASES[type(decided)](decided)}, because "
        f"{pod_because(decided)}."
    )


def gang_decision(gang: Sequence[Recorded]) -> CandidateDecision | None:
    """Return what was last decided about a PodGroup, None if nothing was."""
    decided = (recorded.event for recorded in reversed(gang) if isinstance(recorded.event, CandidateDecision))
    return next(decided, None)


def _placed(
    state: SourceState, chosen: Candidate, events: Sequence[Recorded], connected: Mapping[str, Connection]
) -> Explanation:
    node = chosen.seen.node if isinstance(chosen.seen, CandidateBound) else ""
    granted = last(events, PermitGranted)
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
    return Explanation(Standing("Deleted", "", waits), f"{what_is}{rest}.", list(events[-1:]))


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
        return PHRASES[type(known.seen)](known.seen)
    failure = state.trouble.get(f"{name}/{candidate}")
    return failure.message if failure is not None else ""


def _answer(
    state_word: str, cluster: str, sentence: str, events: Sequence[Recorded], *rests_on: type[object]
) -> Explanation:
    standing = Standing("Pending", cluster, "a cluster that takes it")
    if state_word in ("Running", "Finished"):
        standing = Standing("Running" if state_word == "Running" else "Finished", cluster, "")
    return answer(standing, sentence, *(last(events, kind) for kind in rests_on))


def _chain(recorded: Recorded) -> Hashable:
    """Return the candidate, or what else, within whose events one may repeat the one before."""
    event = recorded.event
    if isinstance(event, (CandidateSeen, OnCandidate)):
        side = "seen" if isinstance(event, CandidateSeen) else "decided"
        return side, recorded.cluster, getattr(event, "candidate", "") or getattr(event, "name", "")
    return type(event).__name__, recorded.cluster


def _streams(kind: str, namespace: str, name: str) -> list[str]:
    return [source_stream(namespace, name)] if kind == "pod" else []


STORIES = ObjectStories(
    words=dict.fromkeys(("pod", "pods", "po"), "pod"),
    streams=_streams,
    find=find,
    explain={"sourcepod": explained},
    chain={"sourcepod": _chain},
)
