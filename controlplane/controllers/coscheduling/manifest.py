"""What the coscheduling of a PipelineRun's pods says of itself."""

from __future__ import annotations

from controlplane.controllers.coscheduling import events
from controlplane.controllers.coscheduling.phrases import PHRASES, REASONS
from controlplane.runtime.manifest import Manifest

MANIFEST = Manifest(
    title="Pods of PipelineRuns",
    events=events.EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.CoschedulingDecision,
    write=events.CoschedulingWrite,
    streams={
        "pipelinerun/NS/NAME": "a PipelineRun where it runs, and everything that was made for it",
        "node/NAME": "a node, as far as placeholders care",
        "volume/NAME": "a volume that is not reached from every node, and whose claim has it",
        "coscheduling/flags, coscheduling/defaults": "Tekton's ConfigMaps",
    },
)
