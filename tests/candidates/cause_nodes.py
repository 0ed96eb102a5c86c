"""Which event each decision rests on that binds a pod to a virtual Node, or ends it there."""

from __future__ import annotations

from controlplane.controllers.candidates.nodes.events import VirtualNodeObserved, VirtualNodeStatus
from controlplane.controllers.candidates.objects import HINT_CLUSTER, HINT_NAMESPACE, HINT_POD
from controlplane.controllers.candidates.source import events
from controlplane.controllers.candidates.source.observations import DelegateMissing
from tests.candidates.cause_stories import R, Row, shown
from tests.candidates.stage import NS
from tests.candidates.told import Told

HINTS = {HINT_CLUSTER: "a", HINT_NAMESPACE: NS, HINT_POD: "p"}


def noded(told: Told) -> Told:
    """The Node that stands for a target is seen."""
    head = {"name": "candidates-a", "uid": "n-a", "resource_version": "1"}
    return told.put("virtualnode/a", VirtualNodeObserved(**head, target="a", status=VirtualNodeStatus(ready="True")))


def hinted() -> Told:
    """A pod whose delegate runs, with a Node to be bound to: it says where that is."""
    told = noded(Told("a", "b", virtual_nodes=True)).bound("a").status("a").settle()
    return told.pod(hints=HINTS, tolerates=True)


def on_node() -> Told:
    told = hinted().settle().pod(node="candidates-a").settle()
    return shown(told)


def deleted() -> Told:
    """A bound pod is being deleted, and its delegate has stopped."""
    told = on_node().pod(deleting=True, stopping=True).settle()
    return told.candidate_gone("a")


NODES: list[Row] = [
    (events.SourceBound, R.DELEGATE_ACCEPTED, lambda: hinted().cause()),
    (
        events.SourceBound,
        R.DELEGATE_ACCEPTED,
        lambda: noded(Told("a", virtual_nodes=True)).bound("a").pod(hints=HINTS, tolerates=True).status("a").cause(),
    ),
    (
        events.DelegateHinted,
        R.DELEGATE_FOUND,
        lambda: noded(Told("a", virtual_nodes=True).bound("a").status("a").pod(hints=HINTS).settle()).cause(),
    ),
    (events.StatusShown, R.STATUS_CHANGED, lambda: hinted().settle().pod(node="candidates-a").cause()),
    (
        events.StatusShown,
        R.STATUS_CHANGED,
        lambda: on_node().pod(unready=True).cause(),
    ),
    (
        events.StatusShown,
        R.POD_REJECTED,
        lambda: hinted().settle().pod(node="candidates-a").rejected("a").settle().cause(events.DelegateLost),
    ),
    (
        events.StatusShown,
        R.POD_MISSING,
        lambda: on_node().says(DelegateMissing, "a").settle().cause(events.DelegateLost),
    ),
    (events.StatusShown, R.DELEGATE_STOPPED, lambda: deleted().cause()),
    (events.SourceRemoved, R.DELEGATE_STOPPED, lambda: deleted().settle().pod(phase="Failed").cause()),
]
