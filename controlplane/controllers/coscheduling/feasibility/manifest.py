"""What the judgement of where PipelineRuns fit says of itself."""

from __future__ import annotations

from controlplane.controllers.coscheduling.feasibility.events import JUDGING_EVENTS
from controlplane.controllers.coscheduling.feasibility.phrases import PHRASES
from controlplane.runtime.manifest import Deferred, Manifest

MANIFEST = Manifest(
    title="Where PipelineRuns fit",
    intro="The reasons of a judgement are those of the section before.",
    events=JUDGING_EVENTS,
    phrases=PHRASES,
    runs=lambda settings, policy: policy.dispatches and policy.judged,
    host=Deferred("controlplane.controllers.coscheduling.feasibility.hosting:host"),
    rights=Deferred("controlplane.controllers.coscheduling.feasibility.rights:RIGHTS"),
    streams={
        "fit/KIND/NS/NAME": "a PipelineRun that is to go to a worker, and the judgements on it",
        "worker/CLUSTER/…": "a node, storage class or placeholder of a worker, its Tekton's flags, or an object that was read there",
    },
)
