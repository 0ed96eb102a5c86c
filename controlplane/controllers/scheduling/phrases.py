"""The words of a scheduler's own log: what each event about a pod, a victim or a group says, and why each decision was
taken.

In: an event of `controlplane.controllers.scheduling`. Out: one short line, as `controlplane.audit.words` has them, and
a clause that completes "because …". A test sees to it that no event and no reason is missing."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.scheduling import events
from controlplane.controllers.scheduling.reasons import SchedulingReason
from controlplane.controllers.scheduling.refusals import refusing_nodes
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, Sentence, choice, listed, refused_write, told

SCHEDULER_EVENTS: tuple[type[Event], ...] = events.SCHEDULING_EVENTS
WRITES: Mapping[str, str] = {
    events.PreBindDecided.__name__: "what has to be written before the binding",
    events.BindingDecided.__name__: "the binding",
    events.PodStatusDecided.__name__: "the pod's condition",
    events.VictimMarkDecided.__name__: "the victim's condition",
    events.VictimRemovalDecided.__name__: "the victim's deletion",
    events.GangConditionDecided.__name__: "the PodGroup's condition",
}
"""What each write of a scheduler is, in words, by the decision that asks for it."""


def _pod(event: events.PendingPodObserved) -> str:
    if event.over:
        return "pod has ended"
    if event.deleting:
        return "pod is being deleted"
    if event.problem:
        return f"pod cannot be read: {event.problem}"
    if event.node:
        return f"pod is on node {event.node}"
    if event.gates:
        return f"pod has scheduling gates: {listed(event.gates)}"
    known = event.scheduled
    shown = f", and says {known.reason}" if known is not None and known.status == "False" and known.reason else ""
    nominated = f", nominated for node {event.nominated}" if event.nominated else ""
    return f"pod waits for a node{nominated}{shown}"


_HAPPENED = {
    "Add": "came", "Update": "changed", "Delete": "went",
    "AssignedAdd": "got a node", "AssignedUpdate": "changed", "AssignedDelete": "left its node",
}  # fmt: skip
_TIME = {
    "Flush": "five minutes were over",
    "Backoff": "its back-off was over",
    "Activate": "it was called: by its gang, its source, or a place that had changed",
    "PodChanged": "it was changed itself",
}


def woken_words(woken: events.Woken) -> str:
    """Return what gave a pod another try, to follow "after": `node n3 came`."""
    if woken.resource == "Queue":
        return _TIME.get(woken.action, woken.action)
    kind = woken.resource.lower() if woken.resource in ("Node", "Pod") else woken.resource
    return " ".join(
        filter(None, ["a" if not woken.name else "", kind, woken.name, _HAPPENED.get(woken.action, woken.action)])
    )


def try_words(event: events.NodeReserved | events.SchedulingFailed) -> str:
    """Return which try it was and after what, as `attempt 3, after node n3 came`; "" of a first one, or one that the
    log does not count.
    """
    if event.attempt <= 1:
        return ""
    return f"attempt {event.attempt}" + (f", after {woken_words(event.woken)}" if event.woken is not None else "")


IN_A_LINE = 5
"""How many nodes of a reason a line names."""


def _reserved(event: events.NodeReserved) -> str:
    waits = [f"{plugin} until {until:%H:%M:%S}" for plugin, until in sorted(event.waits.items())]
    tried = try_words(event)
    return (
        f"node {event.node} is held, score {event.score}"
        + (f"; {tried}" if tried else "")
        + (f"; waits for {listed(waits)}" if waits else "")
    )


def _failed(event: events.SchedulingFailed) -> str:
    said, tried = event.message.rstrip(".") or "no node", try_words(event)
    which = refusing_nodes(event.message, event.nodes, IN_A_LINE)
    return (
        f"no node: {said}"
        + (f" ({which})" if which else "")
        + (f"; room is made on node {event.nominated}" if event.nominated else "")
        + (f" ({tried})" if tried else "")
    )


def _victim(event: events.VictimSeen) -> str:
    if event.terminating:
        return "victim is being deleted"
    return "victim says why it goes" if event.marked else "victim is still there"


def _start(event: events.GangStart) -> str:
    if event.together:
        return "group has started: enough of its pods are on nodes"
    if event.until is None:
        return "group may start"
    times = f" (failed {event.failures} times)" if event.failures > 1 else ""
    return f"group was turned back and rests until {event.until:%H:%M:%S}{times}"


def _group(event: events.GangObserved) -> str:
    ours = [f"{one.get('type')} {one.get('reason') or ''}".rstrip() for one in event.conditions if one.get("type")]
    return f"PodGroup says {listed(ours)}" if ours else "PodGroup says nothing of its pods yet"


def call_words(call: events.PluginRequest) -> str:
    """Return one request in words: `patch PersistentVolumeClaim default/data`."""
    where = f"{call.namespace}/{call.name}" if call.namespace else call.name
    return f"{call.verb} {call.kind} {where}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        events.PendingPodObserved: _pod,
        events.PendingPodGone: "pod is gone",
        events.PreBindSeen: lambda e: f"write {e.index + 1} before the binding is there",
        events.VictimSeen: _victim,
        events.VictimGone: "victim is gone",
        events.GangObserved: _group,
        events.GangGone: "PodGroup is gone",
        events.NodeReserved: _reserved,
        events.PermitGiven: "{e.plugin} lets the pod go on",
        events.ReservationDropped: lambda e: "the node is given back" + (f" ({e.plugin})" if e.plugin else ""),
        events.PreBindDecided: lambda e: (
            f"before the binding: {listed([call_words(call) for call in e.calls]) or 'nothing'}"
        ),
        events.BindingDecided: "pod is to be bound to node {e.node}",
        events.SchedulingFailed: _failed,
        events.PodStatusDecided: lambda e: (
            f"pod is to say {e.said}" + (f", nominated for node {e.nominated}" if e.nominated else "")
        ),
        events.VictimChosen: "pod is to go from node {e.node}, for pod {e.preemptor}",
        events.VictimMarkDecided: "victim is to say why it goes",
        events.VictimRemovalDecided: "victim is to be deleted, within its grace period",
        events.GangJudged: "group is {e.condition}: {e.message}",
        events.GangStart: _start,
        events.GangConditionDecided: "PodGroup is to say {e.condition}: {e.message}",
        events.SchedulingWriteFailed: lambda e: refused_write(e, WRITES),
        events.SchedulingWriteUnneeded: "write changed nothing",
    }
)

R = SchedulingReason
REASONS: Mapping[SchedulingReason, Sentence] = {
    R.NODE_FOUND: Sentence("a cycle found a node", "no other feasible node had a higher score"),
    R.PERMITTED: Sentence("a Permit plugin, or the source, lets it go on", "what {plugin} waited for has come"),
    R.PRE_BIND: Sentence("a plugin writes something first", "a plugin writes something first"),
    R.BIND: Sentence("everyone permits", "everyone permits"),
    R.BIND_AGAIN: Sentence(
        "the API server answered the last try with an error of its own",
        "the API server answered the last try with an error of its own",
    ),
    R.UNSCHEDULABLE: Sentence("no node fits, or a Permit plugin refused", "{plugins} refused it"),
    R.SCHEDULER_ERROR: Sentence(
        "the pod cannot be read, a plugin failed, or the API server refused",
        "the pod cannot be read, a plugin failed, or the API server refused",
    ),
    R.NOT_PLACED: Sentence(
        "no node, and another cluster's autoscaler adds some", "another cluster's autoscaler adds nodes for it"
    ),
    R.SCHEDULING_GATED: Sentence("the pod has scheduling gates", "something has to be done about it first"),
    R.PERMIT_REFUSED: Sentence("a Permit plugin refused after it had waited", "{plugin} refused: {message}"),
    R.PERMIT_TIMEOUT: Sentence("a Permit plugin did not answer in time", "{plugin} did not answer in time"),
    R.BIND_FAILED: Sentence(
        "the API server refused the binding, or nothing came of it", "the binding was refused: {message}"
    ),
    R.PRE_BIND_FAILED: Sentence(
        "what was to be written first was refused", "what was to be written first was refused: {message}"
    ),
    R.PRE_BIND_TIMEOUT: Sentence(
        "what has to be so before the binding was not so in time",
        "what has to be so first was not so in time: {message}",
    ),
    R.CAME_TOGETHER: Sentence("`minMember` pods of the group are on nodes at once", "enough of its pods are on nodes"),
    R.TURNED_BACK: Sentence(
        "fewer than `minMember` pods got on nodes: the rest is given back",
        "not enough of its pods got on nodes: {message}",
    ),
    R.BEGINS_ANEW: Sentence("none of the group's pods runs any more", "none of its pods runs any more"),
    R.NODE_GONE: Sentence("the node was deleted", "the node was deleted"),
    R.POD_GONE: Sentence("the pod is being deleted or has ended", "the pod is being deleted or has ended"),
    R.PREEMPTED: Sentence("a pod of higher priority needs the node", "a pod of higher priority needs it: {message}"),
    R.CONDITION_CHANGED: Sentence("it is not said there yet", "it does not say so yet"),
    R.LOWER_PRIORITY: Sentence(
        "a pod of higher priority gets its place", "{preemptor} has a higher priority and needs its place"
    ),
}


def scheduling_because(decision: events.SchedulingDecision) -> str:
    """Return why a scheduler decided something, to follow "because"."""
    preemptor = str(getattr(decision, "preemptor", ""))
    if isinstance(decision, events.NodeReserved):
        return choice(decision.score, decision.scores, decision.feasible)
    clause = REASONS[decision.reason].clause.format_map(
        {
            "message": str(getattr(decision, "message", "")).rstrip("."),
            "plugin": str(getattr(decision, "plugin", "")) or "a plugin",
            "plugins": listed(list(getattr(decision, "plugins", []))) or "something",
            "preemptor": f"pod {preemptor}" if preemptor else "another pod",
        }
    )
    return clause.removesuffix(": ")
