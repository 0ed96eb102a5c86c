"""What the judgement of where PipelineRuns fit says of itself."""

from __future__ import annotations

from controlplane.controllers.coscheduling.feasibility.events import JUDGING_EVENTS
from controlplane.controllers.coscheduling.feasibility.phrases import PHRASES
from controlplane.runtime.hosting import GrantedRights
from controlplane.runtime.manifest import Deferred, Manifest
from controlplane.settings.model import Settings


def _judges(settings: Settings) -> bool:
    chosen = settings.multikueue
    dispatched = "multikueue" in settings.run.controllers and "tekton.dev/pipelinerun" in chosen.kinds
    return dispatched and chosen.pipeline_run_filter == "facts"


MANIFEST = Manifest(
    title="Where PipelineRuns fit",
    intro="The reasons of a judgement are those of the section before.",
    events=JUDGING_EVENTS,
    phrases=PHRASES,
    runs=lambda settings, policy: policy.dispatches and policy.judged,
    host=Deferred("controlplane.controllers.coscheduling.feasibility.hosting:host"),
    rights=(
        GrantedRights(manifest="pipelineruns/worker/clusterrole.yaml", when=_judges, place="worker", needed=False),
        GrantedRights(manifest="pipelineruns/worker/role.yaml", when=_judges, place="worker", needed=False),
    ),
    streams={
        "fit/KIND/NS/NAME": "a PipelineRun that is to go to a worker, and the judgements on it",
        "worker/CLUSTER/…": "a node, storage class or placeholder of a worker, its Tekton's flags, or an object that "
        "was read there",
    },
)
