"""What the source's side of candidate pods says of itself, and what follows the pods."""

from __future__ import annotations

from controlplane.controllers.candidates.source import events
from controlplane.controllers.candidates.source.observations import CandidateObservationRefused
from controlplane.controllers.candidates.source.phrases import PHRASES, POD_EVENTS, REASONS, told_because
from controlplane.controllers.candidates.source.rights import RIGHTS
from controlplane.runtime.hosting import named
from controlplane.runtime.manifest import Deferred, Manifest

MANIFEST = Manifest(
    title="Candidate pods",
    intro="What is seen of a source pod, of its candidates in other clusters, and around them.",
    events=POD_EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.CandidateDecision,
    write=events.CandidateWrite,
    because=told_because,
    stories=Deferred("controlplane.controllers.candidates.source.explain:STORIES"),
    refused=CandidateObservationRefused,
    counted=True,
    runs=named("candidates"),
    host=Deferred("controlplane.controllers.candidates.source.hosting:host"),
    hook=Deferred("controlplane.controllers.candidates.source.hook:hook"),
    folds=Deferred("controlplane.controllers.candidates.source.gang_state:FOLDS"),
    rights=RIGHTS,
    streams={
        "sourcepod/NS/NAME": "the pods of a name that are placed on other clusters, and all their candidates",
        "sourcegroup/NS/NAME": "a PodGroup whose pods are placed on other clusters, and where it may be as a whole",
        "candidatetarget/NS/NAME": "a CandidateTarget",
        "named/KIND/NS/NAME": "a ConfigMap or Secret that a placed pod names",
        "copies/CLUSTER/NS": "our copies of those in a namespace of a target",
        "virtualnode/CLUSTER": "the Node of the source that stands for a target",
        "sourcenamespace/NAME": "a namespace that may send pods by its label",
    },
)
