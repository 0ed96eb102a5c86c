"""What PodGroup ownership says of itself."""

from __future__ import annotations

from controlplane.controllers.podgroups import events
from controlplane.controllers.podgroups.phrases import PHRASES, REASONS, group_because
from controlplane.runtime.hosting import GrantedRights, named
from controlplane.runtime.manifest import Deferred, Manifest

_ON = named("podgroups")
MANIFEST = Manifest(
    title="PodGroups",
    events=events.EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.GroupDecision,
    write=events.GroupWrite,
    because=group_because,
    refused=events.MemberRefused,
    counted=True,
    runs=_ON,
    host=Deferred("controlplane.controllers.podgroups.hosting:host"),
    causes=Deferred("controlplane.controllers.podgroups.causes"),
    folds=Deferred("controlplane.controllers.podgroups.state:FOLDS"),
    rights=(GrantedRights(manifest="podgroups/clusterrole.yaml", when=_ON),),
    stories=Deferred("controlplane.controllers.podgroups.explain:STORIES"),
    streams={
        "member/NS/NAME": "a pod as a member of a PodGroup",
        "podgroup/NS/NAME": "a PodGroup",
        "owner/NS/APIVERSION/KIND/NAME/UID": "an owner of pods, as one reference names it",
        "podgroup-rules": "the rules of ownership",
        "podgroup-room": "what the cluster has and what is used",
    },
)
