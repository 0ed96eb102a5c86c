"""Why a pod is where it is, by the log of the scheduler that places it: one sentence or a few, and the events they rest
on.

In: the events of `pod/NS/NAME`, and those around it: of the pod itself as a victim, and of the victims that make room
for it. Out: an `Explanation`, of the folds by which the scheduler decides. Pure. What a Candidate's source decides
about is `controlplane.audit.offered`'s."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.controllers.scheduling.events import (
    BindingDecided,
    GangGone,
    GangJudged,
    GangObserved,
    NodeReserved,
    PendingPodGone,
    PendingPodObserved,
    PreBindDecided,
    ReservationDropped,
    SchedulingFailed,
    SchedulingWriteFailed,
    VictimChosen,
    VictimGone,
)
from controlplane.controllers.scheduling.gangs.conditions import GangState, gang_fold
from controlplane.controllers.scheduling.helps import helped_by
from controlplane.controllers.scheduling.phrases import WRITES, call_words, scheduling_because, try_words
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.refusals import refusing_nodes
from controlplane.controllers.scheduling.state import (
    BINDING,
    GANG_STREAM,
    POD_STREAM,
    PRE_BIND,
    STATUS,
    VICTIM_STREAM,
    PodState,
    VictimState,
    pod_fold,
    victim_fold,
    victim_stream,
)
from controlplane.log.event import Recorded
from controlplane.runtime.explanation import LAST_KNOWN, Explanation, Standing, Word, answer, last, with_last_known
from controlplane.runtime.phrases import listed
from controlplane.runtime.stories import LostNode
from controlplane.runtime.streams import Folded, StreamFolds, replayed

FOLDS: StreamFolds = {
    POD_STREAM: Folded(PodState.initial, pod_fold),
    VICTIM_STREAM: Folded(VictimState.initial, victim_fold),
    GANG_STREAM: Folded(GangState.initial, gang_fold),
}
UNTRIED = "If that stays so, its profile may be in waitForGroup of the plugin Gang, and it names no PodGroup."
AFTER = "What becomes of a pod on its node, and of the node, is not recorded here."
_STAMP = "%Y-%m-%d %H:%M:%S UTC"
Said = tuple[Word, str, str, Sequence[type[object]]]
"""A standing, what it waits for, the sentence, and the types of the events it rests on."""


def pod_state(stream: str, events: Sequence[Recorded]) -> PodState:
    """Return the state of a pod's stream."""
    return replayed(PodState, pod_fold, stream, events)


def victims(events: Sequence[Recorded]) -> dict[str, VictimState]:
    """Return how far the eviction of each victim is, by stream."""
    found: dict[str, VictimState] = {}
    for recorded in events:
        if recorded.stream.startswith("victim/"):
            before = found.get(recorded.stream) or VictimState.initial(recorded.stream)
            found[recorded.stream] = victim_fold(before, recorded)
    return found


def explain_scheduled(
    stream: str, events: Sequence[Recorded], around: Sequence[Recorded], lost: LostNode | None = None
) -> Explanation:
    """Return why a plain pod is where it is; `lost`: its node is gone."""
    state = pod_state(stream, events)
    own = victim_stream(state.namespace, state.name)
    state_word, waits_for, sentence, rests_on = _said(state, events, around)
    if lost is not None and state_word == "Running":
        state_word, waits_for, sentence = _on_lost_node(lost, sentence)
    newest = [last(events, kind) for kind in rests_on]
    as_victim = [recorded for recorded in around if recorded.stream == own]
    chosen = last(as_victim, VictimChosen)
    if chosen is not None and isinstance(chosen.event, VictimChosen) and _is_of(chosen.event, state, events):
        gone = _gone_after(chosen, as_victim)
        deleted = gone is not None or state.pod is None
        state_word, waits_for = ("Deleted", "") if deleted else ("Evicted", "its containers to stop")
        sentence = _evicted(chosen.event, deleted=deleted)
        newest += [chosen, gone]
    made = [e for e in around if isinstance(e.event, VictimChosen) and e.stream != own]
    standing = Standing(state_word, "", waits_for)
    told = answer(standing, sentence, *newest, *(made if state_word == "Pending" else []))
    if state.pod is not None or chosen is not None:
        return told
    return with_last_known(told, events, PendingPodGone, lambda before: explain_scheduled(stream, before, ()))


def _on_lost_node(lost: LostNode, sentence: str) -> tuple[Word, str, str]:
    """Return what is said of a pod whose node is gone: a pod that nobody sees may still run."""
    seen = f"by position {lost.position} of the log {lost.log}"
    text = f"Its node {lost.node} is gone since {lost.since:{_STAMP}} ({seen}), and the pod was not seen to go."
    return "Lost", "the pod to be seen to go", f"{text} Whether it still runs is not known. {LAST_KNOWN} {sentence}"


def _gone_after(chosen: Recorded, as_victim: Sequence[Recorded]) -> Recorded | None:
    gone = last(as_victim, VictimGone)
    return gone if gone is not None and gone.position >= chosen.position else None


def _evicted(chosen: VictimChosen, *, deleted: bool) -> str:
    why = f"pod {chosen.preemptor} has a higher priority and needs its place"
    return f"It {'is gone: it was' if deleted else 'is being'} evicted from node {chosen.node}, because {why}"


def _is_of(chosen: VictimChosen, state: PodState, events: Sequence[Recorded]) -> bool:
    """Whether an eviction was of the pod that is asked about, and not of one that had its name before."""
    known = [e.event.uid for e in events if isinstance(e.event, PendingPodObserved)]
    return not known or chosen.uid == (state.pod.uid if state.pod is not None else known[-1])


def _said(state: PodState, events: Sequence[Recorded], around: Sequence[Recorded]) -> Said:
    pod = state.pod
    if pod is None:
        bound = last(events, BindingDecided)
        where = f"; its last node was {bound.event.node}" if bound and isinstance(bound.event, BindingDecided) else ""
        return "Deleted", "", f"It is gone{where}.", (BindingDecided, PendingPodGone)
    if pod.over:
        return "Finished", "", "It has ended.", (PendingPodObserved,)
    if pod.node:
        return _placed(state, pod, events)
    if pod.deleting:
        return "Deleting", "", "It is being deleted, and no node is looked for any more.", (PendingPodObserved,)
    if pod.problem:
        return "Pending", "somebody to correct it", f"It cannot be scheduled: {pod.problem}.", (PendingPodObserved,)
    if state.held is not None:
        return _held(state, state.held, events)
    return _tried(state, pod, events, around)


def _tried(state: PodState, pod: PendingPodObserved, events: Sequence[Recorded], around: Sequence[Recorded]) -> Said:
    """Return what is said of a pod that a node is looked for."""
    if pod.gates:
        gates = listed(pod.gates)
        text = f"It is not tried, because it has scheduling gates: {gates}. Whoever set them takes them away."
        return "Pending", f"its scheduling gates to go ({gates})", text, (PendingPodObserved,)
    if state.told is not None:
        found = last(events, SchedulingFailed)
        newest = found.event if found is not None and isinstance(found.event, SchedulingFailed) else state.told
        return _refused(state, newest, around)
    if state.dropped is not None:
        why = scheduling_because(state.dropped)
        text = f"Its node was given back, because {why}. It is tried again after its back-off."
        return "Pending", "its back-off to end", text, (NodeReserved, ReservationDropped)
    text = f"It waits for its turn: no cycle has looked for a node for it yet. {UNTRIED}"
    return "Pending", "its turn", text, (PendingPodObserved,)


def _placed(state: PodState, pod: PendingPodObserved, events: Sequence[Recorded]) -> Said:
    reserved, bound = last(events, NodeReserved), last(events, BindingDecided)
    if reserved is None or not isinstance(reserved.event, NodeReserved) or reserved.event.node != pod.node:
        text = f"It is on node {pod.node}. This scheduler did not put it there. {AFTER}"
        return "Running", "", text, (PendingPodObserved,)
    if bound is None:
        return "Running", "", f"It is on node {pod.node}, {_chosen(reserved.event, events)}. {AFTER}", (NodeReserved,)
    kinds = (SchedulingFailed, NodeReserved, PreBindDecided, BindingDecided, PendingPodObserved)
    return "Running", "", f"It is on node {pod.node}, {_chosen(reserved.event, events)}. {AFTER}", kinds


def _chosen(reserved: NodeReserved, events: Sequence[Recorded]) -> str:
    """Return why a node was taken, and at which try, as a clause that follows the node. What was nominated by
    preemption comes first.
    """
    tried, before = try_words(reserved), last(events, SchedulingFailed)
    nominated = (
        before is not None and isinstance(before.event, SchedulingFailed) and before.event.nominated == reserved.node
    )
    why = "room had been made for it there, by preemption" if nominated else scheduling_because(reserved)
    return f"because {why}{f'; it was found at {tried}' if tried else ''}"


def _held(state: PodState, held: NodeReserved, events: Sequence[Recorded]) -> Said:
    first = f"Node {held.node} is held for it, {_chosen(held, events)}"
    waiting = {plugin: until for plugin, until in held.waits.items() if plugin not in state.allowed}
    if waiting:
        each = [f"{_permit(plugin)} until {until:%H:%M:%S}" for plugin, until in sorted(waiting.items())]
        text = f"{first}. It waits for {listed(each)}; if that does not come, the node is given back."
        return "Chosen", listed([_permit(plugin) for plugin in sorted(waiting)]), text, (NodeReserved,)
    if state.pre_bind is not None and state.binding is None:
        calls = state.pre_bind.calls
        if state.pre_bound < len(calls):
            what = call_words(calls[state.pre_bound])
            text = f"{first}. Before the binding {state.pre_bound} of {len(calls)} writes are there; awaited: {what}."
            return "Chosen", what, text, (NodeReserved, PreBindDecided, SchedulingWriteFailed)
    failure = state.trouble.get(BINDING) or state.trouble.get(PRE_BIND)
    if failure is not None:
        refused = f"{failure.code} {failure.error}: {failure.message.rstrip('.')}"
        text = (
            f"{first}. The API server did not confirm the binding ({refused}); the node stays held, and what became "
            f"of the binding is found out, not before {failure.until:%H:%M:%S}."
        )
        return "Chosen", "the API server", text, (NodeReserved, BindingDecided, SchedulingWriteFailed)
    return "Chosen", "its binding", f"{first}. It is being bound.", (NodeReserved, BindingDecided)


def _permit(plugin: str) -> str:
    return "the others of its gang" if plugin == "Gang" else f"the plugin {plugin}"


def _refused(state: PodState, failed: SchedulingFailed, around: Sequence[Recorded]) -> Said:
    rests_on = (SchedulingFailed, SchedulingWriteFailed) if state.trouble else (SchedulingFailed,)
    unsaid = state.trouble.get(STATUS)
    mute = f" The pod does not say so: {WRITES['PodStatusDecided']} was refused ({unsaid.message})." if unsaid else ""
    message = failed.message.rstrip(".")
    if failed.reason is SchedulingReason.SCHEDULER_ERROR:
        text = f"It met an error: {message}. It is tried again after its back-off.{mute}"
        return "Pending", "its back-off to end", text, rests_on
    if failed.reason is SchedulingReason.SCHEDULING_GATED:
        text = f"It is kept outside: {message}. It is tried as soon as that has changed.{mute}"
        return "Pending", "what keeps it outside to change", text, rests_on
    again = f"It is tried again when {helped_by(failed.plugins)}; and after five minutes in any case."
    since = f" The cycle that said so first was {try_words(failed)}." if failed.attempt > 1 else ""
    which = nodes_sentence(failed)
    text = f"No node: {message}.{which}{_preemption(failed, around)}{since} {again}{mute}"
    waits_for = f"its victims on node {failed.nominated} to go" if failed.nominated else "a node that fits it"
    return "Pending", waits_for, text, rests_on


def nodes_sentence(failed: SchedulingFailed) -> str:
    """Return the nodes that refused, by reason, as a sentence that follows another; "" if none were recorded."""
    which = refusing_nodes(failed.message, failed.nodes, failed.NAMED)
    return f" The nodes: {which}." if which else ""


def _preemption(failed: SchedulingFailed, around: Sequence[Recorded]) -> str:
    """Return who goes for the pod, and how far that is."""
    if not failed.nominated:
        return ""
    each = []
    for stream, victim in sorted(victims(around).items()):
        name = stream.partition("/")[2]
        if victim.chosen is None:
            each.append(f"pod {name} (on its way out)")
        else:
            failure = next(iter(victim.trouble.values()), None)
            refused = f", refused: {failure.message}" if failure is not None else ""
            each.append(f"pod {name} (priority is lower; {'told so' if victim.marked else 'chosen'}{refused})")
    goes = f" For it {'goes' if len(each) == 1 else 'go'} {listed(each)}." if each else ""
    return f" Room is made for it on node {failed.nominated}, by preemption.{goes}"


def explain_gang(stream: str, events: Sequence[Recorded]) -> Explanation:
    """Return how a PodGroup stands with the scheduler that places its pods."""
    state = GangState.initial(stream)
    for recorded in events:
        state = gang_fold(state, recorded)
    evidence = [last(events, kind) for kind in (GangObserved, GangJudged, GangGone)]
    if state.seen is None and state.judged is None:
        told = answer(Standing("Deleted"), "It is gone.", *evidence)
        return with_last_known(told, events, GangGone, lambda before: explain_gang(stream, before))
    judged = state.judged
    if judged is None:
        return answer(Standing("Pending", "", "its members"), "None of its members was tried yet.", *evidence)
    failure = next(iter(state.trouble.values()), None)
    mute = ""
    if failure is not None:
        mute = f" The PodGroup does not say so: the write was refused ({failure.message})."
        evidence.append(last(events, SchedulingWriteFailed))
    scheduled = judged.condition == "Scheduled"
    shown = (
        listed([str(one.get("type")) for one in state.seen.conditions if one.get("status") == "True"])
        if state.seen
        else ""
    )
    says = f" It shows {shown}." if shown else ""
    sentence = f"It is {judged.condition}: {judged.message.rstrip('.')}.{says}{mute}"
    waits = "" if scheduled else "room for enough of its pods together"
    return answer(Standing("Running" if scheduled else "Pending", "", waits), sentence, *evidence)
