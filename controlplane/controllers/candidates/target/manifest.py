"""What the target's side of candidate pods says of itself."""

from __future__ import annotations

from controlplane.controllers.candidates.target.events import TARGET_EVENTS
from controlplane.controllers.candidates.target.phrases import PHRASES, REASONS, target_because
from controlplane.runtime.manifest import Deferred, Manifest

MANIFEST = Manifest(
    title="Candidates in a target",
    intro="In the log of the scheduler beside the target.",
    events=TARGET_EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    because=target_because,
    folds=Deferred("controlplane.controllers.candidates.target.state:FOLDS"),
    streams={
        "candidate/NS/NAME": "a candidate, and the pod that is made for it",
        "invitation/NAME": "a CandidateSource",
    },
)
