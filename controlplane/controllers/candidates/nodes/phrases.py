"""What each event about a virtual Node says, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.candidates.nodes import events
from controlplane.log.event import Event
from controlplane.runtime.phrases import Phrase, told


def _counted(event: events.TargetNodesCounted) -> str:
    return event.problem or f"the target has {event.nodes} schedulable node{'' if event.nodes == 1 else 's'}"


PHRASES: Mapping[type[Event], Phrase] = told(
    {
        events.TargetNodesCounted: _counted,
        events.VirtualNodeObserved: lambda e: (
            f"Node {e.name} is {'ready' if e.status.ready == 'True' else 'not ready'}"
        ),
        events.VirtualNodeGone: "Node {e.name} is gone",
        events.VirtualNodeMade: "Node {e.name} is to be created",
        events.VirtualNodeShown: lambda e: f"Node {e.name} is to say: {e.status.message}",
        events.VirtualNodeRemoved: "Node {e.name} is to be removed",
    }
)
