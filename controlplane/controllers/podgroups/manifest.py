"""What PodGroup ownership says of itself."""

from __future__ import annotations

from controlplane.controllers.podgroups import events
from controlplane.controllers.podgroups.phrases import PHRASES, REASONS
from controlplane.runtime.manifest import Manifest

MANIFEST = Manifest(
    title="PodGroups",
    events=events.EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.GroupDecision,
    write=events.GroupWrite,
    streams={
        "member/NS/NAME": "a pod as a member of a PodGroup",
        "podgroup/NS/NAME": "a PodGroup",
        "owner/NS/APIVERSION/KIND/NAME/UID": "an owner of pods, as one reference names it",
        "podgroup-rules": "the rules of ownership",
        "podgroup-room": "what the cluster has and what is used",
    },
)
