"""What the target's side of candidate pods says of itself."""

from __future__ import annotations

from controlplane.controllers.candidates.target.events import TARGET_EVENTS
from controlplane.controllers.candidates.target.phrases import PHRASES, REASONS
from controlplane.runtime.manifest import Manifest

MANIFEST = Manifest(
    title="Candidates in a target",
    intro="In the log of the scheduler beside the target.",
    events=TARGET_EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    streams={
        "candidate/NS/NAME": "a candidate, and the pod that is made for it",
        "invitation/NAME": "a CandidateSource",
    },
)
