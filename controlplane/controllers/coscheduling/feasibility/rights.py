"""The rights that the judgement of where PipelineRuns fit needs on workers. Without them a worker is not known to fit.

In: settings. Out: the manifests of `deploy` that grant them."""

from __future__ import annotations

from controlplane.runtime.rights import GrantedRights
from controlplane.settings.model import Settings


def _on(settings: Settings) -> bool:
    chosen = settings.multikueue
    dispatched = "multikueue" in settings.run.controllers and "tekton.dev/pipelinerun" in chosen.kinds
    return dispatched and chosen.pipeline_run_filter == "facts"


RIGHTS = tuple(
    GrantedRights(manifest=f"pipelineruns/worker/{name}.yaml", when=_on, place="worker", needed=False)
    for name in ("clusterrole", "role")
)
